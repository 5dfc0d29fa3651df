"""From config to predictions: what likelihood is chosen, what is refused, what a fitted model answers."""

import likelihood_tools as tools
import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from dgpbench.config import compose
from dgpbench.data import Split
from dgpbench.data.scaling import scale_targets
from dgpbench.engine.context import RunContext, Silent
from dgpbench.errors import UserError
from dgpbench.experiment import rescore, run_unit
from dgpbench.gp import likelihoods
from dgpbench.models.base import create
from dgpbench.models.prediction import sampled_moments
from dgpbench.store.differences import config_differences

RNG = np.random.RandomState(0)
X = RNG.randn(60, 2)
F = np.sin(2 * X[:, :1]) + 0.5 * X[:, 1:]
Y = {
    "gaussian": F + 0.2 * RNG.randn(60, 1),
    "student_t": F + 0.2 * RNG.standard_t(3, (60, 1)),
    "bernoulli": (F + 0.3 * RNG.randn(60, 1) > 0).astype(float),
    "robustmax": np.digitize(F, [-0.5, 0.5]).astype(float),
    "beta": np.clip(special.expit(F + 0.3 * RNG.randn(60, 1)), 0.01, 0.99),
    "poisson": RNG.poisson(np.exp(F)).astype(float),
    "gamma": RNG.gamma(2.0, np.exp(F)),
    "ordinal": np.clip(np.round(2 * F + 0.5 * RNG.randn(60, 1)), -4, 4) + 4,
}
SMALL = ["model.num_inducing=6", "budget.steps=3", "engine.xla=false", "threads=1"]


SAME_DATA = {"softmax": "robustmax", "bernoulli_logit": "bernoulli"}


def split_of(name):
    name = SAME_DATA.get(name, name)
    task, classes = {"bernoulli": ("binary", 2), "robustmax": ("multiclass", 3)}.get(name, ("regression", 0))
    y = Y[name]
    return Split.from_arrays(X[:50], y[:50], X[50:], y[50:], task=task, n_classes=classes)


def fitted(tmp_path, name, *overrides):
    cfg = compose([*SMALL, f"likelihood={name}", *overrides])
    model = create(cfg)
    run = RunContext("0" * 64, tmp_path, 0, 3, None, Silent(), lambda text: None, 1.0)
    model.fit(split_of(name), run)
    return model, cfg


def test_the_task_decides_what_auto_means():
    cfg = compose([])
    expected = {"gaussian": "gaussian", "bernoulli": "bernoulli", "robustmax": "robustmax"}
    for name in expected:
        assert likelihoods.choose(cfg, split_of(name)).name == expected[name]
    assert likelihoods.choose(cfg, split_of("robustmax")).classes == 3
    assert likelihoods.choose(compose(["likelihood=ordinal"]), split_of("ordinal")).levels == 9


REFUSED = {  # likelihood, data: words of the message
    ("gaussian", "bernoulli"): "whose task is binary; use likelihood=auto or one of: bernoulli, bern",
    ("bernoulli", "gaussian"): "whose task is regression",
    ("bernoulli", "robustmax"): "one of: robustmax, softmax",
    ("beta", "gamma"): "targets that are in (0, 1)",
    ("poisson", "beta"): "whole numbers from 0",
    ("gamma", "gaussian"): "targets that are positive",
}


@pytest.mark.parametrize("name, data", REFUSED)
def test_targets_that_do_not_fit_are_refused_before_training(name, data):
    model = create(compose([*SMALL, f"likelihood={name}"]))
    with pytest.raises(UserError) as error:
        model.start(split_of(data), 0)
    assert REFUSED[name, data] in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "overrides, words",
    [
        (["likelihood=studentt"], "did you mean 'student_t'"),
        (["likelihood.epsilon=0.1"], "likelihood.epsilon"),
        (["likelihood=bernoulli", "likelihood.epsilon=0.7"], "below 0.5"),
        (["likelihood=robustmax", "likelihood.epsilon=0"], "above 0"),
        (["likelihood=student_t", "likelihood.df=0"], "above 0"),
        (["likelihood=ordinal", "likelihood.low=3"], "below likelihood.high"),
        (["likelihood=student_t", "model=linear"], "likelihood=student_t is for GP models"),
        (["likelihood=softmax", "model=lv_gp", "inference=iwvi"], "use inference=vi"),
        (["likelihood=softmax", "model=lv_gp", "inference=optimal"], "use inference=vi"),
    ],
)
def test_settings_that_do_not_fit_are_refused(overrides, words):
    with pytest.raises(UserError) as error:
        compose(overrides)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_mixed_outputs_are_refused_for_classes():
    model = create(compose([*SMALL, "model.output_gps=2"]))
    with pytest.raises(UserError, match="model.output_gps=null"):
        model.start(split_of("robustmax"), 0)


def test_scaling_of_targets():
    """By hand, for each rule."""
    y = np.array([[2.0], [4.0], [12.0]])
    train = np.array([0, 1])
    settings = lambda name, **more: {"name": name, "rescale": False, **more}  # noqa: E731
    for name in ("auto", "gaussian", "student_t"):
        shift, scale = scale_targets(y, train, "train", settings(name))
        assert (shift, scale) == (3.0, 1.0)
    assert scale_targets(y, train, "train", settings("poisson")) == (0.0, 1.0)
    assert scale_targets(y, train, "train", settings("beta")) == (0.0, 1.0)
    assert scale_targets(y, train, "train", settings("gamma")) == (0.0, 3.0)
    assert scale_targets(y, None, "all", settings("gamma")) == (0.0, 6.0)
    shift, scale = scale_targets(y, train, "train", settings("beta", rescale=True))
    np.testing.assert_allclose((y - shift) / scale, [[1e-6], [0.2 + 0.6e-6], [1 - 1e-6]], rtol=1e-9)
    shift, scale = scale_targets(y, train, "train", settings("ordinal"))
    np.testing.assert_allclose((y - shift) / scale, [[0.0], [1.0], [5.0]])
    naval = 0.95 + 0.001 * np.arange(51.0)[:, None]
    shift, scale = scale_targets(naval, train, "train", settings("ordinal"))
    np.testing.assert_allclose((naval - shift) / scale, np.arange(51.0)[:, None], atol=1e-9)


@pytest.mark.parametrize("y", [[1.0, 1.0, 1.0], [0.0, 1.0, 2.5], list(np.arange(2000.0))])
def test_targets_without_levels_are_refused(y):
    with pytest.raises(UserError, match="evenly spaced levels"):
        scale_targets(np.reshape(y, (-1, 1)), np.arange(3), "train", {"name": "ordinal", "rescale": False})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["student_t", "beta", "ordinal", "poisson", "gamma"])
def test_density_and_draws_of_a_fitted_model(tmp_path, name, monkeypatch):
    """A single layer: both follow from the moments of f, by dense quadrature."""
    model, cfg = fitted(tmp_path, name, "model=sgp")
    split = split_of(name)
    mean, var, *_ = sampled_moments(model.bound, model._members[0], split.X_test, 1, tf.constant([0, 0]))
    p = {key: value.numpy() for key, value in model._members[0]["likelihood"].items()}
    scales = [v for key, v in p.items() if key not in ("edges", "bin_size")]
    monkeypatch.setattr(tools, "SCALE", float(scales[0]) if scales else 1.0)
    monkeypatch.setattr(tools, "EDGES", p.get("edges"))
    moments = list(zip(mean.numpy()[0], var.numpy()[0], strict=True))
    exact = [tools.log_density(name, m, v, y) for (m, v), y in zip(moments, split.Y_test[:, 0], strict=True)]
    terms = model.log_density(split.X_test, split.Y_test, 100, 0)
    np.testing.assert_allclose(terms, [exact], rtol=1e-4, atol=1e-4)

    draws = model.predict(split.X_test, 4000, 0).draws
    assert draws.shape == (4000, 10, 1)
    inside = draws[:, :, 0] <= split.Y_test[:, 0]
    for n, (m, v) in enumerate(moments):  # P(y <= observed), from a sample of f and the draw's own cdf
        f = m + np.sqrt(v) * np.random.RandomState(n).randn(4000)
        other = model.model.likelihood.draw(p, f, np.random.default_rng(n)) <= split.Y_test[n, 0]
        se = np.sqrt(2 * max(other.mean() * (1 - other.mean()), 1e-3) / 4000)
        assert abs(inside[:, n].mean() - other.mean()) < 4.5 * se

    again = create(cfg)
    again.load_parameters(model.parameters())
    assert again.model == model.model
    first, second = (each.predict(split.X_test, 50, 1).draws for each in (model, again))
    np.testing.assert_array_equal(first, second)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, kind",
    [("bernoulli", "dgp2"), ("bernoulli_logit", "sgp"), ("robustmax", "dgp2"), ("softmax", "dgp2")],
)
def test_class_probabilities_of_a_fitted_model(tmp_path, name, kind):
    """Against plain Monte Carlo over the inner layers and f, within 4.5 standard errors."""
    model, cfg = fitted(tmp_path, name, f"model={kind}", "inference=ngd_adam")
    test = X[50:]
    probs = model.predict(test, 2000, 0).probs
    np.testing.assert_allclose(probs.sum(1), 1.0, atol=1e-12)
    S = 4000
    mean, var, *_ = sampled_moments(model.bound, model._members[0], test, S, tf.constant([7, 7]))
    f = mean.numpy() + np.sqrt(np.maximum(var.numpy(), 0)) * np.random.RandomState(1).randn(*mean.shape)
    f = f.reshape(len(f), S, 10)
    if name == "bernoulli":
        each = 1e-3 + (1 - 2e-3) * special.ndtr(np.concatenate([-f, f]))
    elif name == "bernoulli_logit":
        each = special.expit(np.concatenate([-f, f]))
    elif name == "robustmax":
        each = np.where(f == f.max(0), 1 - 1e-3, 1e-3 / 2)
    else:
        each = special.softmax(f, 0)
    se = np.sqrt(each.var(1) / S + each.var(1) / 2000)
    assert (np.abs(probs.T - each.mean(1)) < 4.5 * se + 1e-3).all()
    again = create(cfg)
    again.load_parameters(model.parameters())
    np.testing.assert_array_equal(again.predict(test, 50, 1).probs, model.predict(test, 50, 1).probs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, kind", [("robustmax", "lv_gp_gp"), ("poisson", "lv_gp"), ("ordinal", "lv_gp")]
)
def test_latent_variables_under_other_likelihoods(tmp_path, name, kind):
    """Importance-weighted training runs; the density is that of many samples of the latent variable."""
    model, _ = fitted(tmp_path, name, f"model={kind}", "inference=iwvi")
    split = split_of(name)
    if name == "robustmax":
        return np.testing.assert_allclose(model.predict(split.X_test, 200, 0).probs.sum(1), 1.0, atol=1e-12)
    x, y, S = split.X_test[:5], split.Y_test[:5], 1000
    log_p = special.logsumexp(terms := model.log_density(x, y, 500, 0), 0)
    mean, var, *_ = sampled_moments(model.bound, model._members[0], x, S, tf.constant([3, 3]))
    f = mean.numpy()[0] + np.sqrt(np.maximum(var.numpy()[0], 0)) * np.random.RandomState(0).randn(5 * S)
    tiled = tf.constant(np.tile(y[:, 0], S))
    each = model.model.likelihood.log_prob(model._members[0]["likelihood"], tf.constant(f), tiled).numpy()
    other = special.logsumexp(each.reshape(S, -1), 0) - np.log(S)
    np.testing.assert_allclose(log_p - np.log(len(terms)), other, atol=0.15)


def test_a_unit_of_levels_from_file_to_record(tmp_path):
    """Levels 0.95, 0.96 ...: log probabilities of levels, and densities in the file's units."""
    file = tmp_path / "levels.csv"
    np.savetxt(file, np.hstack([X, 0.95 + 0.01 * Y["ordinal"]]), delimiter=",")
    paths = [f"paths.results={tmp_path / 'results'}", f"paths.datasets={tmp_path / 'd'}", "paths.mirror=null"]
    data = ["dataset=csv", f"dataset.path={file}", "likelihood=ordinal", "protocol.draws=200"]
    unit, _ = run_unit(compose([*SMALL, *paths, *data, "model=sgp"]))
    metrics = unit.record["metrics"]
    assert unit.record["status"] == "done" and metrics["test_loglik_kde"] is None
    assert metrics["test_loglik"] - metrics["test_loglik_std"] == pytest.approx(-np.log(0.01))
    assert metrics["test_rmse"] == pytest.approx(0.01 * metrics["test_rmse_std"])
    assert -3.0 < metrics["test_loglik_std"] < 0.0  # ten levels by chance: -2.3
    assert rescore(unit).record["metrics"] == metrics


def test_records_of_two_likelihoods_are_told_apart():
    """In `dgpbench show`; a config from before there were likelihoods counts as auto."""
    old, other = compose([]), compose(["likelihood=student_t"])
    del old["likelihood"]
    found = [config_differences(config) for config in (old, other)]
    assert found == [[], ["likelihood=student_t"]]
