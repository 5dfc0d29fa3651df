"""Multi-fidelity deep GPs: SVGP with one level, exact co-kriging in the linear case, better than one."""

from pathlib import Path

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from dgpbench.config import compose
from dgpbench.data import load_split
from dgpbench.engine.context import RunContext, Silent
from dgpbench.errors import UserError
from dgpbench.gp.parameters import unconstrain
from dgpbench.inference.base import Numerics
from dgpbench.inference.gradients import lower_bound
from dgpbench.models import mfdgp
from dgpbench.models.base import create
from dgpbench.models.mfdgp import FidelityBound

TINY = 1e-10  # jitter: f_0 is to be known exactly


def _settings(**others):
    return compose(["model=mfdgp"])["model"] | others


def _bound(model, values, X, Y, noise=None, jitter=1e-6):
    bound = FidelityBound(model)
    raw = {n: tf.constant(v) for n, v in unconstrain(values, bound.constraints()).items()}
    noise = np.zeros((max(1, model.noise_dim), len(X))) if noise is None else noise
    columns = (tf.constant(np.ascontiguousarray(A.T)) for A in (X, Y))
    return float(lower_bound(bound, raw, *columns, tf.constant(noise), num_data=len(X), jitter=jitter))


def test_one_level_is_svgp():
    rng = np.random.RandomState(0)
    x, Y = rng.randn(12, 2), rng.randn(12, 1)
    X = np.hstack([x, np.zeros((12, 1))])
    model, values, _ = mfdgp.fidelity_start(_settings(num_inducing=5), X, Y, 1, 0)
    kernel = gpflow.kernels.RBF(1.0, [1.0, 1.0])
    q = {"q_mu": values["layer0/q_mu"].T, "q_sqrt": values["layer0/q_sqrt"]}
    theirs = gpflow.models.SVGP(kernel, gpflow.likelihoods.Gaussian(0.01), values["layer0/Z"], **q)
    assert _bound(model, values, X, Y) == pytest.approx(float(theirs.elbo((x, Y))), rel=1e-9)


def _linear_case():
    """Two levels, the linear kernel, f_0 pinned at its inducing inputs: those of the rows and two more."""
    rng = np.random.RandomState(1)
    x = np.sort(rng.uniform(-2, 2, (9, 1)), 0)
    f0, new = np.sin(2 * x[:, 0]), np.array([2, 6])
    y = 1.7 * (f0 - 0.4) + 0.3 * np.cos(x[:, 0]) + 0.1 * rng.randn(9)
    kept = np.delete(np.arange(9), new)
    X = np.vstack([np.hstack([x, np.zeros((9, 1))]), np.hstack([x[kept], np.ones((7, 1))])])
    Y = np.concatenate([f0, y[kept]])[:, None]
    settings = _settings(linear=True, num_inducing=9, lengthscale=0.7, likelihood_variance=0.05)
    model, values, _ = mfdgp.fidelity_start(settings, X, Y, 2, 0)
    gram = np.exp(-0.5 * ((x - x.T) / 0.7) ** 2) + TINY * np.eye(9)
    values |= {
        "layer0/Z": x,
        "layer0/q_mu": np.linalg.solve(np.linalg.cholesky(gram), f0)[None],
        "layer0/q_sqrt": 1e-8 * np.eye(9)[None],
        "layer1/Z": np.column_stack([x[kept], f0[kept]]),
        "layer1/kernel/affine/variances": np.array([1.3]),
        "layer1/kernel/affine/centre": np.array([0.2]),
    }

    def exact(a, b):
        """Co-kriging's kernel between rows by number."""
        gap = (x[a] - x[b].T) / 0.7
        return 1.3 * np.outer(f0[a] - 0.2, f0[b] - 0.2) + np.exp(-0.5 * gap**2)

    return model, values, x, y, kept, new, exact


def test_the_linear_case_with_the_level_below_known_is_exact_co_kriging():
    """With inducing points at the rows and the best q(u): evidence and predictions of the exact GP whose
    kernel is s (f_0 - c)(f_0' - c) + k_delta."""
    model, values, x, y, kept, new, exact = _linear_case()
    K = exact(kept, kept)
    L = np.linalg.cholesky(K + TINY * np.eye(7))
    S = np.linalg.inv(np.eye(7) + L.T @ L / 0.05)
    values |= {
        "layer1/q_mu": (S @ L.T @ y[kept] / 0.05)[None],
        "layer1/q_sqrt": np.linalg.cholesky(S)[None],
    }
    X = np.hstack([x[kept], np.ones((7, 1))])
    noise = np.random.RandomState(0).randn(1, 7)  # of f_0, which has no variance
    found = _bound(model, values, X, y[kept][:, None], noise, TINY)
    m, R = values["layer0/q_mu"][0], values["layer0/q_sqrt"][0]
    below = 0.5 * (m @ m + (R**2).sum() - 9 - 2 * np.log(np.diag(R)).sum())
    C = K + 0.05 * np.eye(7)
    evidence = -0.5 * (y[kept] @ np.linalg.solve(C, y[kept]) + np.linalg.slogdet(2 * np.pi * C)[1])
    assert found + below == pytest.approx(evidence, abs=1e-4)

    bound = FidelityBound(model)
    prepared, _ = bound.prepare({n: tf.constant(v) for n, v in values.items()}, Numerics(TINY))
    at = tf.constant(np.hstack([x[new], np.ones((2, 1))]).T)
    mean, var = bound.moments(prepared, at, tf.constant(np.random.RandomState(3).randn(1, 2)))
    k = exact(new, kept)
    np.testing.assert_allclose(mean[0], k @ np.linalg.solve(C, y[kept]), atol=1e-4)
    expected = np.diag(exact(new, new)) - np.einsum("ij,ij->i", k, np.linalg.solve(C, k.T).T)
    np.testing.assert_allclose(var[0], expected, atol=1e-4)
    lower = tf.constant(np.hstack([x[new], np.zeros((2, 1))]).T)  # the same rows at level 0
    np.testing.assert_allclose(
        bound.moments(prepared, lower, tf.zeros((1, 2), tf.float64))[0][0], np.sin(2 * x[new, 0]), atol=1e-4
    )


def test_a_row_counts_at_its_own_level_and_noise():
    """Moving a row to the other level changes the bound by the difference of two Gaussian terms."""
    model, values, x, y, kept, _, _ = _linear_case()
    values["likelihood/variance"] = np.array([0.2, 0.05])
    terms = []
    for level in (0.0, 1.0):
        X = np.hstack([x[kept], np.ones((7, 1))])
        X[3, 1] = level
        terms.append(_bound(model, values, X, y[kept][:, None], None, TINY))
    bound = FidelityBound(model)
    prepared, _ = bound.prepare({n: tf.constant(v) for n, v in values.items()}, Numerics(TINY))
    each = []
    for level, noise in ((0.0, 0.2), (1.0, 0.05)):
        at = tf.constant([[x[kept][3, 0]], [level]])
        mean, var = (float(a[0, 0]) for a in bound.moments(prepared, at, tf.zeros((1, 1), tf.float64)))
        each.append(-0.5 * (np.log(2 * np.pi * noise) + ((y[kept][3] - mean) ** 2 + var) / noise))
        assert float(bound.noise_variance(prepared, at)[0, 0]) == noise
    assert terms[1] - terms[0] == pytest.approx(each[1] - each[0], rel=1e-6)


def _fit(cfg, split, steps):
    model = create(cfg)
    model.fit(split, RunContext("0" * 64, Path("none"), 0, steps, None, Silent(), lambda text: None, 1.0))
    return model


@pytest.mark.slow
def test_it_beats_the_gp_of_the_highest_level_alone(tmp_path):
    """20 rows of the highest level, 50 below: less than half of the exact GP's error; stored and restored."""
    words = ["model=mfdgp", "dataset=mf_sine", "dataset.n=200", "protocol.train_fraction=0.1", "threads=1"]
    cfg = compose([*words, "model.lengthscale=0.3", f"paths.datasets={tmp_path}", "engine.xla=false"])
    split = load_split(cfg)
    model = _fit(cfg, split, 2400)
    found = model.predict(split.X_test, 20, 0)
    error = np.sqrt(np.mean((found.mixture_mean() - split.Y_test) ** 2))
    high = split.X_train[:, 1] == 1
    theirs = gpflow.models.GPR(
        (split.X_train[high, :1], split.Y_train[high]), gpflow.kernels.RBF(lengthscales=0.3)
    )
    gpflow.optimizers.Scipy().minimize(theirs.training_loss, theirs.trainable_variables)
    alone = np.sqrt(np.mean((theirs.predict_f(split.X_test[:, :1])[0].numpy() - split.Y_test) ** 2))
    assert error < 0.5 * alone
    x = np.linspace(0.02, 0.98, 40)
    low = np.stack([(x - split.x_mean[0]) / split.x_std[0], np.zeros(40)], 1)
    truth = (np.sin(8 * np.pi * x) - split.y_mean) / split.y_std
    below = model.predict(low, 20, 0).mixture_mean()[:, 0]
    assert np.sqrt(np.mean((below - truth) ** 2)) < 0.1  # the level below is predicted as itself
    again = create(cfg)
    again.load_parameters(model.parameters())
    np.testing.assert_array_equal(again.predict(split.X_test, 20, 0).mean, found.mean)
    with pytest.raises(UserError, match="level 2 of a row to predict is none of 0 to 1"):
        model.predict(np.array([[0.0, 2.0]]), 20, 0)


@pytest.mark.parametrize(
    "words, says",
    [
        (["dataset=step"], "needs a level for each row, dataset step has none"),
        (["dataset=mf_sine", "dataset.train_levels=highest"], "no training row has level 0"),
        (["dataset=mf_sine", "likelihood=student_t"], "for one target with Gaussian noise"),
    ],
)
def test_what_it_cannot_take_is_said_in_one_line(words, says, tmp_path):
    with pytest.raises(UserError, match=says) as error:
        cfg = compose(["model=mfdgp", f"paths.datasets={tmp_path}", *words])
        create(cfg).start(load_split(cfg), 0)
    assert "\n" not in str(error.value)


def test_hyperparameters_may_be_held(tmp_path):
    words = ["model=mfdgp", "dataset=mf_sine", "dataset.n=40", "dataset.lower=20", "model.num_inducing=5"]
    words += ["inference=dsvi", "inference.hyperparameters=fixed", "engine.xla=false", "threads=1"]
    cfg = compose([*words, f"paths.datasets={tmp_path}"])
    split = load_split(cfg)
    one, three = (_fit(cfg, split, steps).parameters() for steps in (1, 3))
    moved = {name for name in one if not np.array_equal(one[name], three[name])}
    assert moved == {name for name in one if "/q_" in name}


def test_other_methods_are_refused():
    with pytest.raises(UserError, match="inference=sghmc is not for model=mfdgp"):
        create(compose(["model=mfdgp", "inference=sghmc"]))
