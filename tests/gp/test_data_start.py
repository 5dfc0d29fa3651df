"""The start from the data: against exact GP regression, GPflow's collapsed bound, and a brute-force grid."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy.stats import multivariate_normal

from dgpbench.config import compose
from dgpbench.gp import initialisation, start
from dgpbench.gp.parameters import unconstrain
from dgpbench.inference.bounds import VI
from dgpbench.inference.gradients import lower_bound


def _data(N=60, D=2, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.randn(N, D)
    return X, np.sin(2 * X[:, :1]) + 0.3 * rng.randn(N, 1)


def test_the_median_distance():
    assert initialisation.median_distance(np.array([[0.0], [1.0], [3.0]])) == 2.0
    assert initialisation.median_distance(np.ones((5, 2))) == 1.0


def test_the_grid_finds_the_largest_marginal_likelihood():
    X, Y = _data()
    variance, scale, noise = initialisation.regression(X, Y)
    squares = np.sum((X[:, None] - X) ** 2, 2)
    y = (Y - Y.mean())[:, 0]

    def evidence(variance, scale, noise):
        K = variance * np.exp(-0.5 * squares / scale**2) + noise * np.eye(len(X))
        return multivariate_normal.logpdf(y, np.zeros(len(X)), K)

    best = evidence(variance, scale, noise)
    middle = initialisation.median_distance(X)
    for lengthscale in middle * initialisation.LENGTHSCALES:
        for ratio in initialisation.NOISES[::4]:
            for other in (0.3, 1.0, 3.0):
                assert evidence(other, lengthscale, other * ratio) <= best + 1e-9
    assert best > evidence(variance * 1.1, scale, noise * 1.1)  # the variance is the best one, not on a grid
    assert best > evidence(variance * 0.9, scale, noise * 0.9)


def test_the_start_is_that_of_the_collapsed_bound():
    """One layer: the bound at the start is SGPR's, at a noise where it is stationary."""
    X, Y = _data()
    words = ["model=sgp", "model.num_inducing=12", "model.start=data"]
    model, values, _, _ = start.build(compose(words), X, Y, seed=0)
    raw = {n: tf.constant(v) for n, v in unconstrain(values, model.constraints()).items()}
    none = tf.zeros((0, len(X)), tf.float64)
    ours = lower_bound(VI(model), raw, tf.constant(X.T), tf.constant(Y.T), none, num_data=len(X))
    own = {n.removeprefix("layer0/kernel/rbf/"): v for n, v in values.items()}
    kernel = gpflow.kernels.SquaredExponential(float(own["variance"]), own["lengthscales"])
    theirs = gpflow.models.SGPR((X, Y), kernel, values["layer0/Z"])

    def collapsed(noise):
        theirs.likelihood.variance.assign(noise)
        return float(theirs.elbo())

    noise = float(values["likelihood/variance"])
    assert float(ours) == pytest.approx(collapsed(noise), abs=0.05)  # noise is one half-step ahead of q(u)
    assert max(collapsed(0.8 * noise), collapsed(1.25 * noise)) < collapsed(noise)


def test_a_sample_of_the_rows_counts_for_all():
    """Every row twice, or once with twice the weight: the same q(u) and noise."""
    X, Y = _data()
    cfg = compose(["model=sgp", "model.num_inducing=12", "model.start=data"])
    model, values, _, _ = start.build(cfg, X, Y, seed=0)
    layer, own = model.layers[0], {n[7:]: v for n, v in values.items() if n.startswith("layer0/")}
    once = initialisation.best_posterior(layer, own, 0.1, X, Y, 2 * len(X))
    twice = initialisation.best_posterior(layer, own, 0.1, np.tile(X, (2, 1)), np.tile(Y, (2, 1)), 2 * len(X))
    for a, b in zip(once, twice, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_a_deep_model_starts_near_the_sparse_one():
    """Inner layers are near their mean functions: noise, kernel and q(u) of the last are those of sgp."""
    X, Y = _data()
    words = ["model.num_inducing=12", "model.start=data"]
    _, shallow, _, _ = start.build(compose(["model=sgp", *words]), X, Y, seed=0)
    _, deep, _, _ = start.build(compose(["model=dgp2", *words]), X, Y, seed=0)
    for name in ("q_mu", "q_sqrt", "kernel/rbf/lengthscales", "kernel/rbf/variance"):
        np.testing.assert_allclose(deep[f"layer1/{name}"], shallow[f"layer0/{name}"], rtol=1e-8, err_msg=name)
    assert deep["likelihood/variance"] == pytest.approx(float(shallow["likelihood/variance"]))
    assert (deep["layer0/kernel/rbf/variance"] == initialisation.INNER_VARIANCE).all()  # of each output


@pytest.mark.parametrize("model", ["lv_gp", "lv_gp_gp"])
def test_with_latent_variables_only_scales_come_from_the_data(model):
    X, Y = _data()
    words = [f"model={model}", "model.num_inducing=12", "model.start=data", "inference=vi"]
    _, values, _, _ = start.build(compose(words), X, Y, seed=0)
    assert float(values["likelihood/variance"]) == pytest.approx(0.5 * Y.var())
    last = [name for name in values if name.endswith("/q_mu")][-1]
    assert not values[last].any()
