"""From a csv file to a record: its metrics equal those computed by hand from the stored parameters."""

import numpy as np
import pytest
from csv_units import TINY, by_hand, config, scores
from scipy.stats import multivariate_normal

from dgpbench.experiment import rescore, run_unit
from dgpbench.store import read


def check(unit, hand, mean, var):
    for name, value in scores(hand, mean, var).items():
        assert unit.record["metrics"][name] == pytest.approx(value, rel=1e-8), name
    table = read.predictions(unit)
    assert np.array_equal(table["row"], hand["rows_test"])
    np.testing.assert_allclose(table["y"], hand["y_test"], rtol=1e-12)
    np.testing.assert_allclose(table["mean"], mean * hand["scale"] + hand["shift"], rtol=1e-9)
    np.testing.assert_allclose(table["sd"], np.sqrt(var) * hand["scale"], rtol=1e-8)


@pytest.mark.parametrize("split", [0, 3])
def test_linear_equals_the_gaussian_process_it_is(tmp_path, split):
    """Weight space in the model, function space here: K = F F^T / alpha, noise 1 / beta."""
    unit, _ = run_unit(config(tmp_path, "model=linear", f"split={split}"))
    hand, values = by_hand(split), read.parameters(unit)
    alpha, beta = values["alpha"], values["beta"]
    F, F_test = (np.column_stack([hand[name], np.ones(len(hand[name]))]) for name in ("X", "X_test"))
    K = F @ F.T / alpha + np.eye(len(F)) / beta
    A = np.linalg.solve(K, F @ F_test.T / alpha)
    var = np.sum(F_test**2, 1) / alpha + 1.0 / beta - np.sum(A * (F @ F_test.T / alpha), 0)
    check(unit, hand, A.T @ hand["y"], var)

    def evidence(alpha, beta):
        cov = F @ F.T / alpha + np.eye(len(F)) / beta
        return multivariate_normal(np.zeros(len(F)), cov).logpdf(hand["y"])

    best = evidence(alpha, beta)
    assert values["log_evidence"] == pytest.approx(best, rel=1e-9)
    for factor in (0.97, 1.03):
        assert evidence(alpha * factor, beta) < best and evidence(alpha, beta * factor) < best


def test_sgp_equals_its_formula(tmp_path):
    """Whitened q(u): mean A^T m, variance k - sum A^2 + sum (L^T A)^2, plus noise."""
    unit, _ = run_unit(config(tmp_path, "model=sgp", *TINY, "budget.steps=20"))
    hand, v = by_hand(), read.parameters(unit)
    variance, lengthscales = v["layer0/kernel/rbf/variance"], v["layer0/kernel/rbf/lengthscales"]

    def k(X, Z):
        square = np.sum(((X[:, None] - Z[None]) / lengthscales) ** 2, 2)
        return variance * np.exp(-0.5 * square)

    Z, (m,), (L,) = v["layer0/Z"], v["layer0/q_mu"], v["layer0/q_sqrt"]
    chol = np.linalg.cholesky(k(Z, Z) + v["jitter"] * np.eye(5))
    A = np.linalg.solve(chol, k(Z, hand["X_test"]))
    var = variance - np.sum(A**2, 0) + np.sum((np.tril(L).T @ A) ** 2, 0) + v["likelihood/variance"]
    check(unit, hand, A.T @ m, var)
    assert unit.record["training"]["steps"] == 20 and unit.record["training"]["bound"] < 0


@pytest.mark.parametrize("model", ["linear", "dgp2"])
def test_rescore_gives_the_same_bits(tmp_path, model):
    cfg = config(tmp_path, f"model={model}", *(TINY if model == "dgp2" else []))
    unit, _ = run_unit(cfg)
    before = read.predictions(unit), read.draws(unit), read.parameters(unit)
    again = rescore(unit)
    assert again.path == unit.path
    same = (
        "metrics",
        "details",
        "key",
        "config_key",
        "training",
        "wall_seconds",
        "config",
        "sizes",
        "status",
    )
    assert all(again.record[name] == unit.record[name] for name in same)
    after = read.predictions(again), read.draws(again), read.parameters(again)
    for old, new in zip(before, after, strict=True):
        assert set(old) == set(new) and all(np.array_equal(old[name], new[name]) for name in old)
