"""Natural gradients for a whitened q(u) = N(m, S) in six parameterisations (thesis section 3.3).

Eq. (3.10): xi <- xi + gamma d xi/d theta . dL/d eta, with natural parameters theta = (S^-1 m, -S^-1/2) and
expectation parameters eta = (m, S + m m^T). The prior of a whitened q is N(0, I), so the KL's share of
dL/d eta is known: dKL/d eta = theta - theta_prior, and only the data part of dL/dm and dL/dS is needed.
Shapes: m (P, M), L, S (P, M, M).

q(u) is stored in whitened coordinates v (`White`), or directly, u = L v with K_zz = L L^T (`Direct`). Natural
gradients are taken of q(v). Parameters xi of u are linear in those of v under natural, meanvar and
meanvar_sqrt, so that a natural step is the same step in both. This does not hold for the other three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import tensorflow as tf

from dgpbench.gp.parameters import constrain, scope

if TYPE_CHECKING:
    from dgpbench.gp.deep_gp import DeepGP
    from dgpbench.inference.base import Oracle

MAX_HALVINGS = 30


def _mv(A: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.linalg.matvec(A, v)


def _sym(A: tf.Tensor) -> tf.Tensor:
    return 0.5 * (A + tf.linalg.matrix_transpose(A))


def _inverse_lower(L: tf.Tensor, transpose: bool = False) -> tf.Tensor:
    eye = tf.eye(L.shape[-1], batch_shape=L.shape[:-2], dtype=L.dtype)
    return tf.linalg.triangular_solve(L, eye, adjoint=transpose)


def _precision(L: tf.Tensor) -> tf.Tensor:
    """S^-1 of S = L L^T."""
    Linv = _inverse_lower(L)
    return tf.matmul(Linv, Linv, transpose_a=True)


def sqrt_of_inverse(A: tf.Tensor) -> tf.Tensor:
    """Lower-triangular L with L L^T = A^-1, from one Cholesky of A with rows and columns reversed.

    Of A only the upper triangle is read.
    """
    R = tf.linalg.cholesky(tf.reverse(A, axis=(-2, -1)))
    return tf.reverse(_inverse_lower(R, transpose=True), axis=(-2, -1))


def direction(m, L, g_m, g_S) -> tuple[tf.Tensor, tf.Tensor]:
    """dL/d eta, which is the natural-gradient direction in theta: (P, M) and (P, M, M).

    L is the bound with its KL; g_m and g_S are the gradients of the data part only.
    """
    g_S = _sym(g_S)
    precision = _precision(L)
    d1 = g_m - 2.0 * _mv(g_S, m) - _mv(precision, m)
    d2 = g_S - 0.5 * (tf.eye(L.shape[-1], dtype=L.dtype) - precision)
    return d1, d2


def natural_step(m, L, g_m, g_S, gamma) -> tuple[tf.Tensor, tf.Tensor]:
    """A step in the natural parameters; gamma = 1 on a conjugate full batch lands on the optimum.

    S'^-1 = (1 - gamma) S^-1 + gamma (I - 2 dD/dS): positive definite for 0 <= gamma <= 1 whenever the
    likelihood is log-concave, since dD/dS is then negative semi-definite.
    """
    precision = _precision(L)
    theta1 = (1.0 - gamma) * _mv(precision, m) + gamma * (g_m - 2.0 * _mv(g_S, m))
    eye = tf.eye(L.shape[-1], dtype=L.dtype)
    L_new = sqrt_of_inverse((1.0 - gamma) * precision + gamma * (eye - 2.0 * g_S))
    return _mv(L_new, _mv(tf.linalg.matrix_transpose(L_new), theta1)), L_new


# ---- any parameterisation ----------------------------------------------------------------------------


def _d_meanvar(m, L, d1, d2):
    """(dm, dS) for a direction in theta: S = (-2 theta_2)^-1, m = S theta_1."""
    S = tf.matmul(L, L, transpose_b=True)
    dS = 2.0 * tf.matmul(S, tf.matmul(d2, S))
    Linv = _inverse_lower(L)
    theta1 = _mv(Linv, m)
    theta1 = _mv(tf.linalg.matrix_transpose(Linv), theta1)
    return _mv(dS, theta1) + _mv(S, d1), _sym(dS)


def _d_cholesky(L, dA):
    """Derivative of the lower Cholesky factor of A = L L^T in the direction dA."""
    Linv = _inverse_lower(L)
    T = tf.matmul(Linv, tf.matmul(dA, Linv, transpose_b=True))
    lower = tf.linalg.band_part(T, -1, 0)
    return tf.matmul(L, lower - 0.5 * tf.linalg.diag(tf.linalg.diag_part(T)))


def _d_log(A, dA):
    """log A and its Frechet derivative in the direction dA, by the eigenvectors of A."""
    w, U = tf.linalg.eigh(A)
    log_w = tf.math.log(w)
    gap = w[..., :, None] - w[..., None, :]
    close = tf.abs(gap) < 1e-9 * (w[..., :, None] + w[..., None, :])
    mean_w = 0.5 * (w[..., :, None] + w[..., None, :])
    safe = tf.where(close, tf.ones_like(gap), gap)
    slope = tf.where(close, 1.0 / mean_w, (log_w[..., :, None] - log_w[..., None, :]) / safe)
    inner = tf.matmul(U, tf.matmul(dA, U), transpose_a=True) * slope
    log_A = tf.matmul(U * log_w[..., None, :], U, transpose_b=True)
    return log_A, tf.matmul(U, tf.matmul(inner, U, transpose_b=True))


def _from_natural(theta1, neg_theta2):
    """(m, L) from theta_1 and -theta_2 = S^-1 / 2."""
    L = sqrt_of_inverse(2.0 * neg_theta2)
    return _mv(L, _mv(tf.linalg.matrix_transpose(L), theta1)), L


def _natural_of(m, L):
    precision = _precision(L)
    return _mv(precision, m), 0.5 * precision  # theta_1, -theta_2


def _upright(L):
    """L with a positive diagonal: the Cholesky factor of L L^T, without rounding what is ill-conditioned."""
    return L * tf.sign(tf.linalg.diag_part(L))[..., None, :]


def xi(parameterisation: str, m, L) -> tuple[tf.Tensor, tf.Tensor]:
    """The parameters (xi_1, xi_2) of N(m, L L^T)."""
    if parameterisation.startswith("natural"):
        first, A = _natural_of(m, L)
        if parameterisation == "natural":
            return first, -A
    else:
        if parameterisation == "meanvar_sqrt":
            return m, _upright(L)
        first, A = m, tf.matmul(L, L, transpose_b=True)
        if parameterisation == "meanvar":
            return first, A
    if parameterisation.endswith("sqrt"):
        return first, tf.linalg.cholesky(A)
    return first, _d_log(A, tf.zeros_like(A))[0]


def xi_direction(parameterisation: str, m, L, d1, d2) -> tuple[tf.Tensor, tf.Tensor]:
    """The Jacobian-vector product (3.10): the direction (d1, d2) in theta pushed forward to xi."""
    if parameterisation.startswith("natural"):
        first, A, dA = d1, _natural_of(m, L)[1], -d2
        if parameterisation == "natural":
            return first, d2
    else:
        first, dA = _d_meanvar(m, L, d1, d2)
        if parameterisation == "meanvar_sqrt":
            return first, _d_cholesky(_upright(L), dA)
        A = tf.matmul(L, L, transpose_b=True)
        if parameterisation == "meanvar":
            return first, dA
    if parameterisation.endswith("sqrt"):
        return first, _d_cholesky(tf.linalg.cholesky(A), dA)
    return first, _d_log(A, dA)[1]


def gradient(parameterisation: str, m, L, g_m, g_S) -> tuple[tf.Tensor, tf.Tensor]:
    """dL/d xi, the ordinary gradient of the bound with its KL; g_m, g_S as in `direction`."""
    x1, x2 = xi(parameterisation, m, L)
    with tf.GradientTape() as tape:
        tape.watch((x1, x2))
        moved = mean_and_sqrt(parameterisation, x1, x2)
    L = moved[1]
    d_L = 2.0 * tf.matmul(g_S, L) - L + tf.linalg.diag(1.0 / tf.linalg.diag_part(L))
    downstream = g_m - m, tf.linalg.band_part(d_L, -1, 0)
    d1, d2 = tape.gradient(moved, (x1, x2), downstream, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return d1, tf.linalg.band_part(d2, -1, 0) if parameterisation.endswith("sqrt") else _sym(d2)


def inside_cone(parameterisation: str, xi2) -> tf.Tensor:
    """Whether xi_2 is a valid second parameter: a step size for which it is not is out of the question."""
    if parameterisation.endswith("log"):
        return tf.reduce_all(tf.math.is_finite(xi2))
    if parameterisation.endswith("sqrt"):
        return tf.reduce_all(tf.linalg.diag_part(xi2) > 0.0)
    A = -xi2 if parameterisation == "natural" else xi2
    w = tf.linalg.eigvalsh(A)
    return tf.reduce_all(w[..., 0] > 1e-13 * w[..., -1])


def mean_and_sqrt(parameterisation: str, xi1, xi2) -> tuple[tf.Tensor, tf.Tensor]:
    """(m, L) of the Gaussian with these parameters."""
    if parameterisation.endswith("sqrt"):
        A = tf.matmul(xi2, xi2, transpose_b=True)
    elif parameterisation.endswith("log"):
        w, U = tf.linalg.eigh(xi2)
        A = tf.matmul(U * tf.exp(w)[..., None, :], U, transpose_b=True)
    else:
        A = -xi2 if parameterisation == "natural" else xi2
    if parameterisation.startswith("natural"):
        return _from_natural(xi1, A)
    return xi1, xi2 if parameterisation.endswith("sqrt") else tf.linalg.cholesky(_sym(A))


def step(parameterisation: str, m, L, g_m, g_S, gamma) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """One natural-gradient step in any parameterisation: new m, new L, and how often gamma was halved.

    A step that leaves the positive-definite cone is refused and tried again with half of gamma.
    """
    d1, d2 = direction(m, L, g_m, g_S)
    x1, x2 = xi(parameterisation, m, L)
    v1, v2 = xi_direction(parameterisation, m, L, d1, d2)

    def outside(gamma, halvings):
        return (halvings < MAX_HALVINGS) & ~inside_cone(parameterisation, x2 + gamma * v2)

    gamma, halvings = tf.while_loop(outside, lambda g, n: (0.5 * g, n + 1), (gamma, tf.constant(0)))
    gamma = tf.where(halvings < MAX_HALVINGS, gamma, tf.zeros_like(gamma))
    m_new, L_new = mean_and_sqrt(parameterisation, x1 + gamma * v1, x2 + gamma * v2)
    return m_new, L_new, halvings


Pair = tuple[tf.Tensor, tf.Tensor]


class White:
    """What is stored is q(v) itself."""

    def white(self, m: tf.Tensor, R: tf.Tensor) -> Pair:
        """Mean (P, M) and lower root (P, M, M) of v from what is stored."""
        return m, R

    def stored(self, m: tf.Tensor, R: tf.Tensor) -> Pair:
        """The inverse of `white`."""
        return m, R

    def inward(self, parameterisation: str, x1: tf.Tensor, x2: tf.Tensor) -> Pair:
        """xi of v from xi of what is stored."""
        return x1, x2

    def outward(self, parameterisation: str, x1: tf.Tensor, x2: tf.Tensor) -> Pair:
        """The inverse of `inward`; linear, so that it also maps directions."""
        return x1, x2

    def gradient(self, parameterisation: str, d1: tf.Tensor, d2: tf.Tensor) -> Pair:
        """The ordinary gradient in xi of what is stored, from that in xi of v."""
        return d1, d2


@dataclass(frozen=True)
class Direct(White):
    """What is stored is q(u); `root` is L (M, M), or (P, M, M) where each output has its own."""

    root: tf.Tensor

    def white(self, m, R):
        return self.inward("meanvar_sqrt", m, R)

    def stored(self, m, R):
        return self.outward("meanvar_sqrt", m, R)

    def inward(self, parameterisation, x1, x2):
        if parameterisation == "natural":  # theta_1 = S^-1 m, theta_2 = -S^-1 / 2
            return _apply(self.root, x1, x2, both=True, transpose=True)
        return _apply(self._inverse, x1, x2, both=parameterisation == "meanvar")

    def outward(self, parameterisation, x1, x2):
        if parameterisation == "natural":
            return _apply(self._inverse, x1, x2, both=True, transpose=True)
        return _apply(self.root, x1, x2, both=parameterisation == "meanvar")

    def gradient(self, parameterisation, d1, d2):
        if parameterisation == "natural":
            return _apply(self.root, d1, d2, both=True)
        d1, d2 = _apply(self._inverse, d1, d2, both=parameterisation == "meanvar", transpose=True)
        return d1, d2 if parameterisation == "meanvar" else tf.linalg.band_part(d2, -1, 0)

    @property
    def _inverse(self) -> tf.Tensor:
        *outputs, M, _ = self.root.shape
        return tf.linalg.triangular_solve(self.root, tf.eye(M, batch_shape=outputs, dtype=self.root.dtype))


def _apply(A: tf.Tensor, x1: tf.Tensor, x2: tf.Tensor, both: bool, transpose: bool = False) -> Pair:
    """A x1 and A x2, or A x2 A^T where it acts from `both` sides; A^T for A under `transpose`."""
    if A.shape.rank == 3:
        first = tf.linalg.matvec(A, x1, transpose_a=transpose)
    else:
        first = tf.matmul(x1, A, transpose_b=not transpose)
    second = tf.matmul(A, x2, transpose_a=transpose)
    return first, tf.matmul(second, A, transpose_b=not transpose) if both else second


def coordinates(model: DeepGP, layer: int, whitened: bool, oracle: Oracle) -> White:
    """Those of one layer's q(u) at the present kernel and Z."""
    if whitened:
        return White()
    raw = scope({name: v.read_value() for name, v in oracle.raw.items()}, f"layer{layer}")
    p = constrain(raw, model.layers[layer].constraints())
    return Direct(tf.linalg.cholesky(model.layers[layer].gram(p, oracle.jitter)))
