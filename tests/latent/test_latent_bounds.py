"""The bounds with latent variables against quadrature, brute force and each other."""

import numpy as np
import pytest
import tensorflow as tf
from latent_tools import (
    conditional,
    data,
    estimate,
    expected_log_density,
    fast,
    grid,
    kl,
    log_integral,
    marginals,
    model,
    noise_for,
    value,
)

from dgpbench.inference.bounds import IWVI, VI, Optimal
from dgpbench.inference.natgrad import natural_step


def iw(structure, K, samples=1, joint=True):
    return IWVI(structure, samples, K, joint)


def lv_gp(seed=0, N=5, **kwargs):
    rng = np.random.RandomState(seed)
    X, Y = data(rng, N)
    return (rng, X, Y, *model(rng, X, Y, "model=lv_gp", **kwargs)[:2])


def exact_integrals(values, X, Y, jitter=1e-8):
    """log of the integral of exp(L_n(w)) p(w) for each point of an LV-GP, on a fine grid."""
    w, step, log_p = grid()
    out = []
    for x, y in zip(X, Y, strict=True):
        H = np.column_stack([np.tile(x, (len(w), 1)), w])
        mean, var = marginals(values, 1, H, jitter)
        out.append(log_integral(expected_log_density(values, y, mean, var) + log_p, step))
    return np.array(out)


def test_optimal_bound_is_the_integral():
    rng, X, Y, structure, values = lv_gp()
    best = Optimal(structure)
    ours = value(best, values, X, Y, noise_for(rng, best, 5), jitter=1e-8)
    assert ours == pytest.approx(exact_integrals(values, X, Y).sum() - kl(values, 1), abs=1e-4)


@pytest.mark.slow
def test_more_importance_samples_tighten_the_bound_up_to_the_integral():
    """VI <= IW(1) = VI <= IW(2) <= ... -> optimal, each step beyond its Monte Carlo error."""
    _, X, Y, structure, values = lv_gp()
    limit = exact_integrals(values, X, Y).sum() - kl(values, 1)
    vi, vi_se = estimate(VI(structure, 2000), values, X, Y, np.random.RandomState(1))
    found = [estimate(iw(structure, K, 2000), values, X, Y, np.random.RandomState(1)) for K in (1, 2, 5, 20)]
    assert abs(found[0][0] - vi) < 4 * np.hypot(found[0][1], vi_se)
    for (low, a), (high, b) in zip(found, found[1:], strict=False):
        assert high - low > 4 * np.hypot(a, b)
    assert found[-1][0] < limit + 4 * found[-1][1]
    many, se = estimate(iw(structure, 4000, 10), values, X, Y, np.random.RandomState(2))
    assert abs(many - limit) < 4 * se + 0.02
    assert se < 0.02 and limit - vi > 1.0  # the test could see a difference


@pytest.mark.slow
def test_iw_of_a_deep_model_tends_to_the_integral_given_the_inner_function():
    """LV-GP-GP: sum_n E_g log of the integral of exp(L_n(g, w)) p(w) dw, with g drawn on a grid of w."""
    rng = np.random.RandomState(3)
    X, Y = data(rng, 2)
    overrides = ["model=lv_gp_gp", "model.width=1", "model.inner_gps=1", "model.kernel_variance=0.5"]
    structure, values, _ = model(rng, X, Y, *overrides, noise=0.5)
    values["layer0/encoder/W2"] *= 0.0  # q(w) is the prior
    values["layer0/encoder/b2"] = np.array([[0.0], [3.0 + np.log(np.expm1(1.0))]])
    jitter = 1e-6
    w, step, log_p = grid(161, 6.0)
    estimates = []
    for x, y in zip(X, Y, strict=True):
        H = np.column_stack([np.tile(x, (len(w), 1)), w])
        mean, cov = conditional(values, 1, H, 0, jitter)
        g = mean[:, None] + np.linalg.cholesky(cov + jitter * np.eye(len(w))) @ rng.randn(len(w), 3000)
        h = (g * values["layer1/P"] + (H @ values["layer1/W"])).T.reshape(-1, 1)
        ell = expected_log_density(values, y, *marginals(values, 2, h, jitter)).reshape(3000, len(w))
        estimates.append(log_integral(ell + log_p, step))
    per_draw = np.sum(estimates, 0) - kl(values, 1) - kl(values, 2)
    limit, limit_se = per_draw.mean(), per_draw.std() / np.sqrt(len(per_draw))
    found = {
        K: estimate(iw(structure, K, 400), values, X, Y, np.random.RandomState(4), 20, jitter)
        for K in (2, 40)
    }
    assert found[2][0] < found[40][0] < limit + 4 * np.hypot(found[40][1], limit_se)
    assert abs(found[40][0] - limit) < 4 * np.hypot(found[40][1], limit_se) + 0.1 * (limit - found[2][0])
    apart, se = estimate(
        iw(structure, 40, 400, joint=False), values, X, Y, np.random.RandomState(4), 20, jitter
    )
    assert apart - limit > 6 * np.hypot(se, limit_se)  # K independent inner draws: not a bound of this model


@pytest.mark.slow
def test_no_bound_exceeds_the_log_marginal_likelihood():
    """Three points: log p(y) by a grid over all three latent variables; q(u) at the optimum of `optimal`."""
    rng, X, Y, structure, values = lv_gp(seed=5, N=3)
    w, step, log_p = grid(61, 5.0)
    grids = np.stack(np.meshgrid(w, w, w, indexing="ij"), -1).reshape(-1, 3)
    noise = float(values["likelihood/variance"])
    scale, k0 = values["layer1/kernel/rbf/lengthscales"], float(values["layer1/kernel/rbf/variance"])
    gap = ((X[:, 0][:, None] - X[:, 0]) / scale[0]) ** 2 + (
        (grids[:, :, None] - grids[:, None]) / scale[1]
    ) ** 2
    K = k0 * np.exp(-0.5 * gap) + noise * np.eye(3)
    fit = np.einsum("i,gij,j->g", Y[:, 0], np.linalg.inv(K), Y[:, 0])
    log_joint = -0.5 * (fit + np.linalg.slogdet(K)[1] + 3 * np.log(2 * np.pi))
    log_joint += sum(-0.5 * grids[:, i] ** 2 - 0.5 * np.log(2 * np.pi) for i in range(3))
    marginal = log_integral(log_joint[None], step**3)[0]
    values = _optimised(structure, values, X, Y)
    best = Optimal(structure)
    optimal = value(best, values, X, Y, noise_for(rng, best, 3))
    assert marginal - 3.0 < optimal < marginal
    for K in (1, 5, 50):
        mean, se = estimate(iw(structure, K, 500), values, X, Y, rng)
        assert mean - 4 * se < optimal < marginal


def _optimised(structure, values, X, Y, steps=60):
    """Natural-gradient steps on the one GP layer's q(u) under the optimal bound."""
    for _ in range(steps):
        noise = np.zeros((structure.noise_dim, 1, len(X)))
        best = Optimal(structure)
        _, _, pairs = fast(best, values, set(), X, Y, noise, [len(X)], len(X), natural=(1,))
        q = (tf.constant(values["layer1/q_mu"]), tf.constant(values["layer1/q_sqrt"]))
        m, L = natural_step(*q, *pairs[1], tf.constant(0.3, tf.float64))
        values = values | {"layer1/q_mu": m.numpy(), "layer1/q_sqrt": L.numpy()}
    return values


def test_the_best_gaussian_q_reaches_the_optimal_bound_of_a_linear_kernel():
    """With a linear kernel L_n(w) is quadratic in w: q* is Gaussian, and known from three values of L_n."""
    rng = np.random.RandomState(6)
    X, Y = data(rng, 4)
    args = ("model=lv_gp", "model.kernel=linear", "inference.latent_q=free", "inference=vi")
    structure, values, _ = model(rng, X, Y, *args)
    rows = tf.range(4)
    at = {}
    narrow = values | {"layer0/local/scale": np.full((4, 1), 1e-9)}
    for w in (-1.0, 0.0, 1.0):  # L_n(w) by VI with q a spike at w, its KL taken back
        spike = narrow | {"layer0/local/mean": np.full((4, 1), w)}
        each = [_point(structure, spike, X, Y, n) for n in range(4)]
        at[w] = np.array(each) + (0.5 * (w**2 + 1e-18 - 1) - np.log(1e-9)) + kl(values, 1)
    curvature = at[1.0] + at[-1.0] - 2 * at[0.0]
    slope = 0.5 * (at[1.0] - at[-1.0])
    precision = 1.0 - curvature
    best = values | {
        "layer0/local/mean": (slope / precision)[:, None],
        "layer0/local/scale": precision[:, None] ** -0.5,
    }
    exact, vi = Optimal(structure), VI(structure)
    optimal = value(exact, values, X, Y, noise_for(rng, exact, 4))
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)  # exact for a quadratic
    gaussian = sum(
        weight / np.sqrt(2 * np.pi) * value(vi, best, X, Y, np.full((1, 1, 4), node), rows=rows)
        for node, weight in zip(nodes, weights, strict=True)
    )
    assert gaussian == pytest.approx(optimal, abs=1e-4)
    worse = best | {"layer0/local/scale": 1.5 * best["layer0/local/scale"]}
    for q, least in ((worse, 0.05), (values, 0.1)):
        mean = sum(
            weight / np.sqrt(2 * np.pi) * value(vi, q, X, Y, np.full((1, 1, 4), node), rows=rows)
            for node, weight in zip(nodes, weights, strict=True)
        )
        assert mean < optimal - least


def _point(structure, values, X, Y, n):
    """The VI bound of one point alone."""
    own = values | {name: values[name][n : n + 1] for name in values if "local" in name}
    noise = np.zeros((1, 1, 1))
    return value(VI(structure), own, X[n : n + 1], Y[n : n + 1], noise, rows=tf.range(1))


@pytest.mark.parametrize("kind_of", [VI, lambda structure: iw(structure, 3), Optimal])
def test_a_latent_of_zero_scale_reproduces_the_gp(kind_of):
    """gpflow's SVGP on the inputs alone; the latent's own KL or weights vanish when q is the prior."""
    import gpflow

    rng = np.random.RandomState(7)
    X, Y = data(rng, 8, D=2)
    args = ("model=lv_gp", "model.latent_scale=0", "inference.latent_q=free")
    structure, values, _ = model(rng, X, Y, *args)
    values |= {"layer0/local/mean": np.zeros((8, 1)), "layer0/local/scale": np.ones((8, 1))}
    values["layer1/Z"][:, 2] = 0.0
    kind = kind_of(structure)
    ours = value(kind, values, X, Y, noise_for(rng, kind, 8), rows=tf.range(8))
    kernel = gpflow.kernels.SquaredExponential(
        values["layer1/kernel/rbf/variance"], values["layer1/kernel/rbf/lengthscales"][:2]
    )
    svgp = gpflow.models.SVGP(
        kernel,
        gpflow.likelihoods.Gaussian(float(values["likelihood/variance"])),
        values["layer1/Z"][:, :2].copy(),
        q_mu=values["layer1/q_mu"].T.copy(),
        q_sqrt=values["layer1/q_sqrt"].copy(),
        whiten=True,
        num_data=8,
    )
    assert ours == pytest.approx(float(svgp.elbo((X, Y))), rel=1e-5)
