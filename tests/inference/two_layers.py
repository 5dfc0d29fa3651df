"""Two layers of width 1 over one input under each posterior, drawn in NumPy from its definition."""

import numpy as np
from inference_tools import JITTER, gaussian_kl, rbf


def drawn(method, values, rng):
    """One draw: inducing inputs (M, 1) and outputs u (M,) of the first layer, inputs of the second, mean
    (P, M) and covariance (P, M, M) of its u, and the KL of both."""
    Z, eye = values["layer0/Z"], np.eye(len(values["layer0/Z"]))
    K = rbf(values, Z, Z) + (JITTER + float(values["layer0/kernel/white/variance"])) * eye
    m = values["layer0/q_mu"][0]
    if method in ("joint", "star"):
        L, (root,) = np.linalg.cholesky(K), values["hidden/q_root"]
        e = rng.randn(len(m))
        L2 = np.linalg.cholesky(_upper_gram(values, values["layer1/Z"]))
        C, R2, m2 = values["layer1/q_cross"], values["layer1/q_sqrt"], values["layer1/q_mu"]
        kl = gaussian_kl(m, root @ root.T, eye)
        kl += sum(gaussian_kl(a, r @ r.T, eye) for a, r in zip(m2, R2, strict=True)) + 0.5 * (C**2).sum()
        S2 = L2 @ R2 @ R2.transpose(0, 2, 1) @ L2.T
        return Z, L @ (m + root @ e), values["layer1/Z"], (m2 + C @ e) @ L2.T, S2, kl
    S = values["layer0/q_sqrt"][0] if method == "locations" else values["layer0/q_noise"]
    S = S @ S.T
    if method == "locations":
        m = m - Z[:, 0]
    else:
        m, S = _regression(K, m, S)
    u = m + np.linalg.cholesky(S) @ rng.randn(len(m))
    Z2 = Z + u[:, None]
    K2, kl = _upper_gram(values, Z2), gaussian_kl(m, S, K)
    each = []
    for p, target in enumerate(values["layer1/q_mu"]):
        R = values["layer1/q_sqrt"][p] if method == "locations" else values["layer1/q_noise"]
        each.append((target, R @ R.T) if method == "locations" else _regression(K2, target, R @ R.T))
        kl += gaussian_kl(*each[-1], K2)
    return Z, u, Z2, np.array([a for a, _ in each]), np.array([S for _, S in each]), kl


def _upper_gram(values, Z):
    return rbf(values, Z, Z, 1) + JITTER * np.eye(len(Z))


def _regression(K, v, N):
    """GP regression on v with noise covariance N."""
    gain = np.linalg.solve(K + N, K).T
    return gain @ v, K - gain @ K


def outputs(method, values, X, rng):
    """Mean and variance (P, N) of f_2 at X given one draw of u and f_1, and the KL."""
    Z, u, Z2, m2, S2, kl = drawn(method, values, rng)
    white = float(values["layer0/kernel/white/variance"])
    K, k = rbf(values, Z, Z) + (JITTER + white) * np.eye(len(Z)), rbf(values, Z, X)
    a = np.linalg.solve(K, k)
    var = np.diag(rbf(values, X, X)) + white - (k * a).sum(0)
    H = (X[:, 0] + a.T @ u + np.sqrt(var) * rng.randn(len(X)))[:, None]
    k2 = rbf(values, Z2, H, 1)
    a2 = np.linalg.solve(_upper_gram(values, Z2), k2)
    own = np.diag(rbf(values, H, H, 1)) - (k2 * a2).sum(0)
    return m2 @ a2, own + np.einsum("mn,pmk,kn->pn", a2, S2, a2), kl
