"""The classical GPs against NumPy's closed forms, against each other where they must agree, the thesis."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm, t

from dgpbench.config import compose
from dgpbench.data import Split, load_split
from dgpbench.engine.context import RunContext, Silent
from dgpbench.errors import UserError
from dgpbench.experiment import method_lines, plan_lines
from dgpbench.models.base import create
from dgpbench.models.classics.lbfgs import maximise

JITTER = 1e-6  # GPflow's
TRUE = ["model.kernel_variance=1.3", "model.lengthscale=0.7", "model.likelihood_variance=0.05"]


def data(rows=25, seed=0):
    rng = np.random.RandomState(seed)
    X = np.sort(rng.uniform(-2, 2, (rows, 1)), 0)
    return X, np.sin(2.5 * X) + 0.25 * rng.randn(rows, 1)


def fit(name, X, Y, *overrides, steps=5, seconds=None, task="regression"):
    """A fitted model and what it says of its training."""
    model = create(compose([f"model={name}", *overrides]))
    split = Split.from_arrays(X, Y, task=task, n_classes=0 if task == "regression" else 2)
    return model, model.fit(split, context(steps, seconds))


def context(steps, seconds=None):
    return RunContext("0" * 64, Path(), 0, steps, seconds, Silent(), lambda text: None)


def kernel(v, A, B):
    """The RBF kernel with a model's parameters."""
    r2 = (((A[:, None] - B[None]) / v["kernel/rbf/lengthscales"]) ** 2).sum(-1)
    return v["kernel/rbf/variance"] * np.exp(-0.5 * r2)


def low_rank(v, X, X2):
    Z = v["Z"]
    return kernel(v, X, Z) @ np.linalg.solve(kernel(v, Z, Z) + JITTER * np.eye(len(Z)), kernel(v, Z, X2))


def gaussian(Y, cov):
    return multivariate_normal(np.zeros(len(cov)), cov).logpdf(Y[:, 0])


def evidence(name, v):
    """Log evidence, or its bound, in closed form, N x N matrices and all."""
    X, Y, s2 = v["X"], v["Y"], v["likelihood/variance"] * np.eye(len(v["X"]))
    K = kernel(v, X, X)
    if name == "gpr":
        return gaussian(Y, K + s2)
    Q = low_rank(v, X, X)
    if name == "fitc":
        return gaussian(Y, Q + np.diag(np.diag(K - Q)) + s2)
    return gaussian(Y, Q + s2) - 0.5 * np.trace(K - Q) / s2[0, 0]


def prediction(name, v, X2):
    """Mean and variance of y: condition the joint Gaussian that each method puts in the place of the GP."""
    X, Y, s2 = v["X"], v["Y"], v["likelihood/variance"]
    cov = partial(kernel if name == "gpr" else low_rank, v)
    K = cov(X, X) + s2 * np.eye(len(X))
    if name == "fitc":
        K += np.diag(np.diag(kernel(v, X, X) - cov(X, X)))
    gain = np.linalg.solve(K, cov(X, X2)).T
    return gain @ Y[:, 0], np.diag(kernel(v, X2, X2)) - np.sum(gain * cov(X2, X), 1) + s2


@pytest.mark.parametrize("name", ["gpr", "sgpr", "fitc"])
def test_evidence_and_predictions_are_the_closed_forms(name):
    overrides = [] if name == "gpr" else ["model.num_inducing=6"]
    model, trained = fit(name, *data(), *overrides)
    assert trained["steps"] == 5 and trained["evaluations"] >= 6 and not trained["converged"]
    assert trained["evidence"] == pytest.approx(evidence(name, model.values), abs=1e-6)
    X2 = np.linspace(-3, 3, 7)[:, None]
    out, (mean, var) = model.predict(X2, 1, 0), prediction(name, model.values, X2)
    assert np.allclose(out.mean[0, :, 0], mean, atol=1e-6) and np.allclose(out.var[0, :, 0], var, atol=1e-6)
    start = {"kernel/rbf/variance": 1.0, "kernel/rbf/lengthscales": 1.0, "likelihood/variance": 0.1}
    assert trained["evidence"] > evidence(name, model.values | start) + 1.0


@pytest.mark.parametrize("name", ["sgpr", "fitc"])
def test_inducing_points_at_all_inputs_give_the_exact_gp(name):
    X = np.linspace(-2, 2, 10)[:, None]
    held = at_true() | {"X": X, "Y": np.sin(2.5 * X), "Z": X, "kernel/rbf/lengthscales": np.asarray(0.3)}
    exact, sparse = (create(compose([f"model={each}", "model.ard=false"])) for each in ("gpr", name))
    exact.load_parameters(held)
    sparse.load_parameters(held)
    assert -float(sparse.model.training_loss()) == pytest.approx(evidence("gpr", held), abs=3e-4)
    X2 = np.linspace(-3, 3, 7)[:, None]
    ours, theirs = sparse.predict(X2, 1, 0), exact.predict(X2, 1, 0)
    assert np.allclose(ours.mean, theirs.mean, atol=2e-5) and np.allclose(ours.var, theirs.var, atol=2e-5)


def test_the_full_variational_gp_reaches_the_exact_one():
    X, Y = data(12)
    v = {"X": X, "Y": Y, **at_true()}
    exact = evidence("gpr", v | {"likelihood/variance": v["likelihood/variance"] + JITTER})
    model, trained = fit("vgp", X, Y, *TRUE, "model.frozen_steps=1000", steps=1000)
    assert trained["converged"] and exact - 1e-2 < trained["evidence"] < exact + 1e-6
    mean, var = prediction("gpr", v, X + 0.1)
    out = model.predict(X + 0.1, 1, 0)
    assert np.allclose(out.mean[0, :, 0], mean, atol=2e-2) and np.allclose(out.var[0, :, 0], var, atol=2e-2)


def at_true():
    names = ("kernel/rbf/variance", "kernel/rbf/lengthscales", "likelihood/variance")
    return {name: np.asarray(float(text.split("=")[1])) for name, text in zip(names, TRUE, strict=True)}


def test_a_frozen_phase_moves_inducing_inputs_only():
    model, trained = fit("sgpr", *data(), *TRUE, "model.num_inducing=4", "model.frozen_steps=3", steps=3)
    assert all(np.allclose(model.values[name], value) for name, value in at_true().items())
    start = model.own_initial(data()[0], 1, 0)["Z"]
    assert trained["steps"] == 3 and start.shape == (4, 1) and not np.allclose(model.values["Z"], start)
    after, trained = fit("sgpr", *data(), *TRUE, "model.num_inducing=4", "model.frozen_steps=3", steps=6)
    assert trained["steps"] == 6 and not np.allclose(after.values["likelihood/variance"], 0.05)


@pytest.mark.slow
def test_vfe_stays_at_the_exact_optimum_and_fitc_leaves_it():
    """Matthews 4.5.1: start at the exact optimum with Z = X; FITC gains evidence and loses on new rows."""
    X, Y = data(40)
    exact, trained = fit("gpr", X, Y, steps=200)
    assert trained["converged"]
    start = exact.values
    models, found = {"gpr": exact}, {}
    for name in ("sgpr", "fitc"):
        models[name] = model = create(compose([f"model={name}"]))
        model.load_parameters(start | {"Z": X})
        found[name] = maximise(model.model, context(300))
        rbf, noise = model.model.kernel, model.model.likelihood.variance.numpy()
        new = (rbf.variance.numpy(), rbf.lengthscales.numpy(), noise)
        model.load_parameters(start | model.own_values() | dict(zip(at_true(), new, strict=True)))
    assert found["sgpr"]["evidence"] == pytest.approx(trained["evidence"], abs=1e-3)
    for name in at_true():
        assert np.allclose(models["sgpr"].values[name], start[name], rtol=1e-3)
    assert found["fitc"]["evidence"] > trained["evidence"] + 1.0  # no bound: it passes the exact evidence
    assert models["fitc"].values["likelihood/variance"] < 0.8 * start["likelihood/variance"]
    X2, Y2 = data(200, seed=100)
    score = {name: held_out(model.predict(X2, 1, 0), Y2) for name, model in models.items()}
    assert score["fitc"] < score["gpr"] - 0.1 and score["sgpr"] == pytest.approx(score["gpr"], abs=1e-3)


def held_out(out, Y):
    return norm.logpdf(Y, out.mean[0], np.sqrt(out.var[0])).mean()


def test_every_part_of_a_composed_kernel_is_trained_and_kept():
    kernel = ["model.kernel=polynomial2+rbf@0*rbf", "model.ard=false"]
    model, _ = fit("gpr", *data(), *kernel, steps=4)
    start = {"polynomial2/variances": 1, "polynomial2/offset": 1, "rbf/variance": 1, "rbf_2/lengthscales": 1}
    assert len(model.values) == 2 + 6 + 1
    assert all(abs(model.values[f"kernel/{name}"] - v) > 1e-4 for name, v in start.items())


@pytest.mark.skipif(
    not os.environ.get("DGPBENCH_MIRROR"), reason="needs the data mirror: set DGPBENCH_MIRROR"
)
def test_the_snelson_fit_of_the_thesis(tmp_path):
    """Matthews fig. 1.3: even rows; printed .87, .61, .27 and -33.8."""
    split = load_split(compose(["dataset=snelson1d", f"paths.datasets={tmp_path}"]), lambda text: None)
    model, trained = fit("gpr", np.asarray(split.X[::2]), np.asarray(split.Y[::2]), steps=200)
    v = model.values
    assert np.sqrt(v["kernel/rbf/variance"]) == pytest.approx(0.871, abs=5e-4)
    assert v["kernel/rbf/lengthscales"][0] == pytest.approx(0.610, abs=5e-4)
    assert np.sqrt(v["likelihood/variance"]) == pytest.approx(0.275, abs=5e-4)
    assert trained["converged"] and trained["evidence"] == pytest.approx(-33.89, abs=5e-3)


def test_two_labels_against_the_integral():
    """p(y) of two correlated probits by quadrature: the bound lies just below, the probabilities agree."""
    X, Y = np.array([[0.0], [0.5]]), np.array([[1.0], [1.0]])
    overrides = ["model.frozen_steps=200", "model.kernel_variance=4", "model.lengthscale=1"]
    model, trained = fit("vgp", X, Y, *overrides, steps=200, task="binary")
    v = model.values
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    F = np.linalg.cholesky(kernel(v, X, X)) @ np.stack(np.meshgrid(nodes, nodes)).reshape(2, -1)
    w, (a, b) = np.outer(weights, weights).ravel() / weights.sum() ** 2, 0.001 + 0.998 * norm.cdf(F)
    joint, new = np.sum(w * a * b), np.sum(w * a * a * b)
    assert np.log(joint) - 0.1 < trained["evidence"] < np.log(joint)
    assert model.predict(X[:1], 1, 0).probs[0, 1] == pytest.approx(new / joint, abs=0.02)


def test_densities_of_another_likelihood_are_the_integral():
    X, Y = data(12)
    model, _ = fit("vgp", X, Y, "likelihood=student_t", steps=4)
    mean, var = model.moments(X[:3])
    scale = float(model.values["likelihood/scale"])
    for i, log_p in enumerate(model.log_density(X[:3], Y[:3], 1, 0)[0]):
        m, s, y = mean[i, 0], np.sqrt(var[i, 0]), Y[i, 0]
        p = quad(lambda f, m=m, s=s, y=y: t.pdf((y - f) / scale, 3) / scale * norm.pdf(f, m, s), -20, 20)[0]
        assert log_p == pytest.approx(np.log(p), abs=1e-6)
    draws = model.predict(X[:3], 4000, 0).draws
    assert np.allclose(
        np.median(draws, 0), mean, atol=5 * 1.6 * np.sqrt(var.max() + scale**2) / np.sqrt(4000)
    )


def test_the_time_is_a_budget_too():
    _, trained = fit("gpr", *data(), steps=None, seconds=1e-6)
    assert trained["steps"] == 1 and not trained["converged"]


def test_more_rows_than_fit_are_refused_with_the_number_that_fits():
    X = np.zeros((1_000_000, 1))
    for name, most in (("gpr", "6,201"), ("sgpr", "312,400"), ("fitc", "312,400"), ("vgp", "3,296")):
        model = create(compose([f"model={name}"]))
        with pytest.raises(UserError, match=f"model={name} on 1,000,000 training rows .* {most} rows fit in"):
            model.start(Split.from_arrays(X, X), 0)
    with pytest.raises(UserError, match=r"use model=sgp or gp \(the IWVI paper's\)"):
        create(compose(["model=gpr"])).start(Split.from_arrays(X, X), 0)


def test_rows_that_fit_are_the_most_that_fit():
    model = create(compose(["model=gpr", "engine.memory_limit_gb=0.00001"]))  # 1,250 numbers, 9 rows
    assert "exact" in model.start(Split.from_arrays(*data(9)), 0)
    with pytest.raises(UserError, match="10 training rows needs about 0.0 GB; 9 rows fit"):
        model.start(Split.from_arrays(*data(10)), 0)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model=gpr", "likelihood=student_t"], "likelihood=student_t is not possible with model=gpr"),
        (
            ["model=vgp", "inference.batch=10"],
            "model=vgp is fitted by lbfgs and has no use for inference.batch=10; leave it out",
        ),
        (["model=sgpr", "model.frozen_steps=-1"], "model.frozen_steps=-1 is not allowed"),
        (
            ["model=gpr", "inference.hyperparameters=fixed"],
            "is not for model=gpr, which trains in its own way",
        ),
        (["model=gpr", "model.kernel=rbf+wiener"], "GPflow has no kernel wiener"),
        (["model=vgp", "likelihood=ordinal"], "likelihood ordinal has no exact counterpart in GPflow"),
    ],
)
def test_what_is_not_possible_is_said_in_one_line(overrides, message):
    with pytest.raises(UserError) as error:
        X, Y = data(8)
        create(compose(overrides)).start(Split.from_arrays(X, np.round(Y + 1)), 0)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_the_plan_says_how_it_trains():
    cfg = compose(["model=sgpr", "model.num_inducing=5", "budget.steps=70"])
    lines = dict(plan_lines(cfg, Split.from_arrays(*data()), create(cfg), 0))
    assert lines["inference"] == "lbfgs, all rows, at most 70 steps, float64, seed 0"
    assert lines["model"].endswith("(VFE), gaussian, kernel rbf, 5 inducing points")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", {}),
        ("model=gpr", {}),
        ("inference=joint", {"precision": "float64, which inference=joint needs"}),
        (
            "inference=sghmc budget.steps=600",
            {"sampling": "300 steps of burn-in, then a sample every 3 steps"},
        ),
        (
            "model=sgp inference=sgpmc budget.steps=50",
            {"sampling": "25 steps of fit and 12 of burn-in, then a sample of each chain every step"},
        ),
        (
            "model=gpmc budget.steps=50",
            {"sampling": "25 steps of burn-in, then a sample of each chain every step"},
        ),
    ],
)
def test_the_plan_has_what_the_method_derives(words, expected):
    assert dict(method_lines(compose(words.split()))) == expected
