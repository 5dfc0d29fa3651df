"""Latent-variable models as a user has them: structure, predictions, posterior of w, checks, messages."""

from pathlib import Path

import numpy as np
import pytest
from latent_tools import conditional, expected_log_density, marginals

from dgpbench.config import compose
from dgpbench.config.classes import create_method
from dgpbench.data import Split
from dgpbench.engine.context import RunContext, Silent
from dgpbench.errors import UserError
from dgpbench.gp.initialisation import principal_axes
from dgpbench.gp.start import build
from dgpbench.models.gp import GPModel

FAST = ["model.num_inducing=8", "budget.steps=12", "engine.xla=false", "inference.batch=20"]


def fit(*overrides, N=40, D=2, P=1, seed=0, notes=None):
    cfg = compose([*FAST, *overrides])
    rng = np.random.RandomState(seed)
    X = rng.randn(N, D)
    Y = np.sin(2 * X[:, :1]) + rng.choice([-1.0, 1.0], (N, 1)) + 0.1 * rng.randn(N, P)
    made = GPModel(cfg)
    note = (lambda text: None) if notes is None else notes.append
    run = RunContext("0" * 64, Path("none"), 0, cfg["budget"]["steps"], None, Silent(), note)
    result = made.fit(Split.from_arrays(X, Y), run)
    return made, X, Y, result


def test_released_layers_are_those_of_the_released_code():
    rng = np.random.RandomState(0)
    X = rng.randn(50, 7) @ rng.randn(7, 7)
    args = ["model=lv_gp_gp", "model.compat=released", "model.inner_variance_trainable=false"]
    structure, values, fixed, _ = build(compose([*args, "model.num_inducing=60"]), X, X[:, :1], 0)
    Vt = np.linalg.svd(X, full_matrices=False)[2]
    np.testing.assert_allclose(values["layer1/P"], Vt[:, :5])  # columns of V^T, not its rows
    np.testing.assert_array_equal(values["layer1/W"], np.eye(8, 7))  # the latent variable is dropped
    assert {"layer1/P", "layer1/W", "layer1/kernel/rbf/variance"} <= fixed
    assert "layer2/kernel/rbf/variance" not in fixed
    np.testing.assert_array_equal(values["layer1/Z"][:50, :7], X)  # fewer rows than inducing points: padded
    assert values["layer1/Z"].shape == (60, 8) and np.abs(values["layer1/Z"][50:]).max() < 6
    np.testing.assert_array_equal(values["layer2/Z"], values["layer1/Z"][:, :7])
    assert not create_method(compose([*args, "inference=iwvi"])).bound(structure).joint
    assert values["layer1/kernel/rbf/lengthscales"] == pytest.approx(np.full(8, 8**0.5))


def test_our_layers_carry_the_latent_and_mix_by_principal_axes():
    rng = np.random.RandomState(1)
    X = rng.randn(300, 7) * np.linspace(3, 0.1, 7)
    structure, values, fixed, _ = build(compose(["model=lv_gp_gp"]), X, X[:, :1], 0)
    assert [layer.input_dim for layer in structure.layers] == [7, 8, 8]
    assert structure.layers[1].mean == "identity" and structure.layers[1].mixed == 8
    P = values["layer1/P"]
    np.testing.assert_allclose(P.T @ P, np.eye(5), atol=1e-10)
    angle = np.linalg.svd(P[:7].T @ principal_axes(X, 3))[1]  # the leading axes of x are among them
    np.testing.assert_allclose(angle[:3], 1.0, atol=0.02)
    assert "layer1/P" in fixed and "layer1/kernel/rbf/variance" not in fixed
    trained = build(compose(["model=lv_gp_gp", "model.mixing_trainable=true"]), X, X[:, :1], 0)[2]
    assert "layer1/P" not in trained


def test_free_q_starts_at_what_a_line_leaves():
    rng = np.random.RandomState(2)
    X = rng.randn(100, 2)
    side = rng.choice([-1.0, 1.0], (100, 1))
    Y = X @ np.ones((2, 1)) + side
    values = build(compose(["model=lv_gp", "inference.latent_q=free"]), X, Y, 0)[1]
    assert np.corrcoef(values["layer0/local/mean"][:, 0], side[:, 0])[0, 1] > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lv_gp", "gp_lv_gp"])
def test_predictions_average_over_the_prior_of_w(name):
    """Mean and variance of the mixture against NumPy draws of w and of the inner layer."""
    made, X, _, _ = fit(f"model={name}", "inference=iwvi", "model.inner_gps=null")
    x, jitter, rng, S = X[:3], float(made.values["jitter"]), np.random.RandomState(5), 200_000
    predictive = made.predict(x, 20_000, 1)
    index = 1 if name == "lv_gp" else 2
    for n in range(3):
        H = np.tile(x[n], (S, 1))
        if name == "gp_lv_gp":
            for d in range(2):
                mean, cov = conditional(made.values, 0, x[n : n + 1], d, jitter)
                H[:, d] += mean[0] + np.sqrt(cov[0, 0]) * rng.randn(S)
        mean, var = marginals(made.values, index, np.column_stack([H, rng.randn(S)]), jitter)
        y_mean, y_var = mean.mean(), mean.var() + var.mean() + float(made.values["likelihood/variance"])
        error = mean.std() * np.sqrt(1 / S + 1 / 20_000)
        assert abs(predictive.mixture_mean()[n, 0] - y_mean) < 4 * error + 1e-9
        assert predictive.mixture_sd()[n, 0] ** 2 == pytest.approx(y_var, rel=0.05)


@pytest.mark.slow
def test_mixed_outputs_are_correlated_in_prediction():
    """Given w: y ~ N(P m, P diag(v) P^T + noise); the mixture over f has that covariance and density."""
    made, X, _, _ = fit("model=cde", "model.output_gps=2", "model.latent_scale=0", P=3)
    predictive = made.predict(X[:1], 100_000, 3)
    values, jitter = made.values, float(made.values["jitter"])
    h = np.column_stack([X[:1], [[0.0]]])
    moments = [conditional(values, 1, h, p, jitter) for p in range(2)]
    P, noise = values["layer1/P"], float(values["likelihood/variance"])
    mean = P @ [m[0] for m, _ in moments]
    cov = P @ np.diag([c[0, 0] for _, c in moments]) @ P.T + noise * np.eye(3)
    got = predictive.mean[:, 0]
    np.testing.assert_allclose(got.mean(0), mean, atol=0.02 * np.sqrt(cov.max()))
    np.testing.assert_allclose(np.cov(got.T) + np.diag(predictive.var[0, 0]), cov, atol=0.02 * cov.max())
    from scipy.stats import multivariate_normal

    y = mean + 0.3
    exact = multivariate_normal(mean, cov).logpdf(y)
    assert predictive.log_density(y[None])[0] == pytest.approx(exact, abs=0.05)


def test_posterior_draws_of_w_have_the_exact_density():
    """LV-GP: p(w | x, y) ~ exp(L(w)) N(w; 0, 1) on a grid, against resampled draws with many samples."""
    args = ["model=lv_gp", "inference=iwvi", "inference.importance_samples=200"]
    made, X, Y, _ = fit(*args, "model.likelihood_variance=0.3")
    wide = {"layer0/encoder/b2": np.array([[0.0], [3.5]])}  # a proposal that covers the posterior
    made.load_parameters(made.values | wide)
    draws = made.posterior_latents(X[:2], Y[:2], 1500, 0)
    assert draws.shape == (1500, 2, 1)
    w = np.linspace(-6, 6, 2001)
    for n in range(2):
        H = np.column_stack([np.tile(X[n], (len(w), 1)), w])
        log_p = expected_log_density(
            made.values, Y[n], *marginals(made.values, 1, H, float(made.values["jitter"]))
        )
        p = np.exp(log_p - 0.5 * w**2 - (log_p - 0.5 * w**2).max())
        p /= p.sum()
        mean = p @ w
        sd = np.sqrt(p @ w**2 - mean**2)
        assert abs(draws[:, n].mean() - mean) < 5 * sd / np.sqrt(1500)
        assert draws[:, n].std() == pytest.approx(sd, rel=0.15)


@pytest.mark.slow
def test_posterior_draws_under_quadrature_and_messages():
    made, X, Y, result = fit("model=cde", "inference=optimal")
    draws = made.posterior_latents(X[:3], Y[:3], 20, 0)
    assert draws.shape == (20, 3, 1) and np.isfinite(draws).all()
    assert result.checks["quadrature"]["mean"] < 0.01 and result.checks["quadrature"]["rows"] == 40
    with pytest.raises(UserError, match="needs y beside x"):
        made.posterior_latents(X[:3], None, 5, 0)
    plain, *_ = fit("model=gp", "inference=vi")
    with pytest.raises(UserError, match="no latent variables"):
        plain.posterior_latents(X[:3], Y[:3], 5, 0)
    free, *_ = fit("model=lv_gp", "inference=vi", "inference.latent_q=free")
    with pytest.raises(UserError, match="name the rows"):
        free.posterior_latents(X[:3], Y[:3], 5, 0)
    own = free.posterior_latents(X[:3], Y[:3], 400, 0, rows=np.arange(3))
    np.testing.assert_allclose(own.mean(0), free.values["layer0/local/mean"][:3], atol=0.1)


def test_a_fixed_rule_that_is_too_coarse_is_said():
    notes: list[str] = []
    args = ["inference=optimal", "inference.quadrature.rule=hermite", "inference.quadrature.nodes=8"]
    _, _, _, result = fit("model=cde", *args, "model.likelihood_variance=0.001", notes=notes)
    assert result.checks["quadrature"]["mean"] > 0.01
    assert any("it is no bound" in text for text in notes)


def test_too_many_mixed_outputs_and_too_wide_projections_are_refused():
    with pytest.raises(UserError, match="model.output_gps=4 is more than the 1 outputs"):
        fit("model=cde", "model.output_gps=4")
    with pytest.raises(UserError, match="model.projection_dim=9 is more than the 2 inputs"):
        fit("model=cde", "model.layers=[linear,lv,gp]", "model.projection_dim=9")


@pytest.mark.parametrize("bound", ["vi", "iwvi", "optimal"])
def test_two_runs_are_equal_to_the_last_bit(bound):
    args = (["model=gp_lv_gp"] if bound == "optimal" else ["model=lv_gp_gp"]) + [f"inference={bound}"]
    first = fit(*args)[0].values
    for _ in range(2):
        again = fit(*args)[0].values
        assert all(np.array_equal(first[name], again[name]) for name in first)


@pytest.mark.slow
def test_xla_changes_nothing_but_rounding():
    args = ("model=lv_gp_gp", "inference=iwvi", "inference.importance_samples=2", "precision=float64")
    plain, compiled = fit(*args)[0].values, fit(*args, "engine.xla=true")[0].values
    for name in plain:
        np.testing.assert_allclose(plain[name], compiled[name], rtol=1e-5, atol=1e-7, err_msg=name)


def test_free_parameters_of_rows_outside_a_batch_do_not_move_at_first():
    """One step of batch 20 of 40 rows: half of the rows of q(w) have a gradient."""
    made, X, Y, _ = fit("model=lv_gp", "inference=vi", "inference.latent_q=free", "budget.steps=1")
    start = build(made.cfg, X, Y, 0)[1]["layer0/local/mean"]
    moved = np.abs(made.values["layer0/local/mean"] - start)[:, 0] > 1e-12
    assert moved.sum() == 20


def test_gplvm_ignores_its_inputs():
    made, X, _, _ = fit("model=gplvm", "inference=iwvi", P=2)
    a, b = made.predict(X[:4], 50, 0), made.predict(X[:4] + 5.0, 50, 0)
    np.testing.assert_array_equal(a.mean, b.mean)
