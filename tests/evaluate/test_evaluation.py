"""evaluate: chunks, units, tables, divergence, known truth, speed."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from dgpbench.errors import Diverged, UserError
from dgpbench.evaluate import evaluation
from dgpbench.evaluate.evaluation import evaluate
from dgpbench.evaluate.metrics import QUANTILE_NAMES
from dgpbench.evaluate.predictive import Predictive
from dgpbench.evaluate.scorers import kept_rows

PROTOCOL = {"test_samples": 20, "draws": 200, "max_test": None, "kde_rows": None}


def make_split(N=60, P=1, D=3, seed=0, log_density=None):
    rng = np.random.default_rng(seed)
    return SimpleNamespace(
        X_test=rng.normal(size=(N, D)),
        Y_test=rng.normal(size=(N, P)),
        rows_test=1000 + np.arange(N),
        y_mean=np.arange(5.0, 5 + P),
        y_std=np.linspace(2.0, 3.0, P),
        x_mean=np.full(D, 10.0),
        x_std=np.full(D, 4.0),
        log_density=log_density,
        task="regression",
    )


def predict_by_row(X, samples, seed, P=1):
    """Components that depend on x only, so that chunks cannot matter."""
    s = np.linspace(-1, 1, samples)[:, None, None]
    mean = np.sin(X[:, :P])[None] + 0.5 * s
    return Predictive(mean=mean, var=0.2 + 0.1 * s**2 + 0.1 * np.abs(X[:, :P])[None])


def test_metrics_against_independent_formulas():
    split = make_split()
    result = evaluate(predict_by_row, split, PROTOCOL, seed=3)
    p, Y = predict_by_row(split.X_test, 20, 0), split.Y_test
    m = result.metrics
    density = stats.norm(p.mean, np.sqrt(p.var)).pdf(Y)[..., 0].mean(0)
    assert m["test_loglik_std"] == pytest.approx(np.log(density).mean(), abs=1e-12)
    assert m["test_loglik"] == pytest.approx(np.log(density / 2).mean(), abs=1e-12)
    assert m["test_rmse_std"] == pytest.approx(np.sqrt(((p.mean.mean(0) - Y) ** 2).mean()), abs=1e-12)
    assert m["test_rmse"] == pytest.approx(2 * m["test_rmse_std"])
    assert m["test_crps"] == pytest.approx(2 * m["test_crps_std"])
    assert m["test_loglik_kde"] == pytest.approx(m["test_loglik_kde_std"] - np.log(2))
    draws = p.draw(200, seed=3)[:, :, 0]
    h = 1.06 * draws.std(0) * 200**-0.2
    kde = np.log(stats.norm(draws, h).pdf(Y[:, 0]).mean(0))
    assert m["test_loglik_kde_std"] == pytest.approx(kde.mean(), abs=1e-10)
    pit = stats.norm(p.mean, np.sqrt(p.var)).cdf(Y).mean(0)
    assert m["test_coverage95"] == ((pit >= 0.025) & (pit <= 0.975)).mean()
    assert m["test_pit_ks"] == pytest.approx(stats.kstest(pit.ravel(), "uniform").statistic)
    w = [stats.shapiro(row).statistic for row in draws.T]
    assert m["shapiro_w_median"] == pytest.approx(np.median(w), abs=1e-6)
    assert 0 < m["test_loglik_mc_se"] < 0.2
    assert "test_kl_to_truth" not in m
    assert sum(result.details["pit_histogram"]) == pytest.approx(1)


def test_predictions_table():
    split = make_split()
    result = evaluate(predict_by_row, split, PROTOCOL, seed=3)
    t = result.predictions
    assert list(t)[:8] == ["row", "output", "y", "mean", "sd", "log_density", "shapiro_w", "pit"]
    assert list(t)[8:] == QUANTILE_NAMES and QUANTILE_NAMES[0] == "q01" and QUANTILE_NAMES[-1] == "q99"
    np.testing.assert_array_equal(t["row"], split.rows_test)
    np.testing.assert_allclose(t["y"], split.Y_test[:, 0] * 2 + 5)
    p = predict_by_row(split.X_test, 20, 0).rescale([5.0], [2.0])
    np.testing.assert_allclose(t["mean"], p.mixture_mean()[:, 0])
    np.testing.assert_allclose(t["sd"], p.mixture_sd()[:, 0])
    np.testing.assert_allclose(t["log_density"].mean(), result.metrics["test_loglik"])
    assert t["q50"].dtype == np.float32
    for name, level in (("q01", 0.01), ("q50", 0.5), ("q99", 0.99)):
        reached = stats.norm(p.mean, np.sqrt(p.var)).cdf(t[name].astype(float)[:, None]).mean(0)
        np.testing.assert_allclose(reached, level, atol=1e-6)


def test_draws_table_has_fixed_rows_in_original_units():
    split = make_split(N=250)
    result = evaluate(predict_by_row, split, PROTOCOL, seed=3)
    d = result.draws
    assert len(d["row"]) == 100 and d["row"][0] == 1000 and d["row"][-1] == 1249
    assert d["draws"].shape == (100, 200) and d["draws"].dtype == np.float32
    np.testing.assert_allclose(d["x"], split.X_test[d["row"] - 1000] * 4 + 10)
    expected = predict_by_row(split.X_test, 20, 0).draw(200, seed=3)[:, d["row"] - 1000, 0].T * 2 + 5
    np.testing.assert_allclose(d["draws"], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(kept_rows(3), [0, 1, 2])


def test_result_does_not_depend_on_chunks(monkeypatch):
    split = make_split(N=300)
    whole = evaluate(predict_by_row, split, PROTOCOL, seed=3)
    monkeypatch.setattr(evaluation, "CHUNK_ROWS", 37)
    parts = evaluate(predict_by_row, split, PROTOCOL, seed=3)
    assert parts.metrics == pytest.approx(whole.metrics, rel=1e-12)
    for name, column in whole.predictions.items():
        np.testing.assert_allclose(parts.predictions[name], column, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(parts.draws["draws"], whole.draws["draws"], rtol=1e-6)


def test_chunks_are_bounded_and_have_their_own_seeds():
    calls = []

    def predict(X, samples, seed):
        calls.append((len(X), samples, seed))
        return predict_by_row(X, samples, seed)

    evaluate(predict, make_split(N=2500), PROTOCOL | {"draws": 50}, seed=3)
    assert [c[0] for c in calls] == [1000, 1000, 500] and {c[1] for c in calls} == {20}
    assert len({c[2] for c in calls}) == 3 and all(0 <= c[2] < 2**31 for c in calls)
    assert evaluation.chunk_rows(100, 2000, 1) == 1000
    assert evaluation.chunk_rows(100, 2000, 50) * 2000 * 50 * 8 <= 100e6


def test_max_test_and_kde_rows():
    split = make_split(N=60)
    some = evaluate(predict_by_row, split, PROTOCOL | {"max_test": 25, "kde_rows": 10}, seed=3)
    assert len(some.predictions["row"]) == 25
    short = make_split(N=60)
    short.X_test, short.Y_test = short.X_test[:10], short.Y_test[:10]
    short.rows_test = short.rows_test[:10]
    ten = evaluate(predict_by_row, short, PROTOCOL, seed=3)
    assert some.metrics["test_loglik_kde"] == pytest.approx(ten.metrics["test_loglik_kde"], rel=1e-12)
    none = evaluate(predict_by_row, split, PROTOCOL | {"kde_rows": 0}, seed=3)
    assert none.metrics["test_loglik_kde"] is None and none.metrics["test_loglik"] is not None


def test_two_outputs():
    split = make_split(N=150, P=2)

    def predict(X, samples, seed):
        return predict_by_row(X, samples, seed, P=2)

    result = evaluate(predict, split, PROTOCOL, seed=0)
    p, m = predict(split.X_test, 20, 0), result.metrics
    joint = stats.norm(p.mean, np.sqrt(p.var)).pdf(split.Y_test).prod(-1).mean(0)
    assert m["test_loglik_std"] == pytest.approx(np.log(joint).mean(), abs=1e-12)
    assert m["test_loglik"] == pytest.approx(m["test_loglik_std"] - np.log(2) - np.log(3))
    error = (p.mixture_mean() - split.Y_test) * [2.0, 3.0]
    assert m["test_rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    assert m["test_loglik_kde"] is None and m["test_loglik_kde_std"] is None
    assert list(result.predictions["output"][:4]) == [0, 1, 0, 1] and len(result.predictions["q01"]) == 300
    assert result.predictions["y"][1] == pytest.approx(split.Y_test[0, 1] * 3 + 6)
    assert result.draws["draws"].shape == (200, 200) and result.draws["x"].shape == (200, 3)


def test_a_model_that_only_draws():
    split, asked = make_split(), []

    def predict(X, samples, seed):
        asked.append(samples)
        return Predictive(draws=np.random.default_rng(seed).normal(size=(samples, len(X), 1)))

    result = evaluate(predict, split, PROTOCOL, seed=0)
    assert asked == [20, 200]
    m = result.metrics
    assert m["test_loglik"] is None and m["test_loglik_mc_se"] is None
    assert "log_density" not in result.predictions
    assert m["test_loglik_kde_std"] == pytest.approx(stats.norm.logpdf(split.Y_test).mean(), abs=0.15)
    z = split.Y_test
    crps = (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi)).mean()
    assert m["test_crps_std"] == pytest.approx(crps, abs=0.02)


def test_exact_density_has_no_monte_carlo_error():
    def predict(X, samples, seed):
        return Predictive(mean=np.zeros((1, len(X), 1)), var=np.ones((1, len(X), 1)))

    assert evaluate(predict, make_split(), PROTOCOL, 0).metrics["test_loglik_mc_se"] == 0.0
    one = evaluate(predict, make_split(), PROTOCOL | {"test_samples": 1}, 0)
    assert one.metrics["test_loglik_mc_se"] is None


def test_kl_to_a_known_truth():
    """Truth N(5, 2^2) against a model with sd 2 r in original units: KL = log r + 1/(2 r^2) - 1/2."""
    split = make_split(N=4000, log_density=lambda X, Y: stats.norm(5, 2).logpdf(Y[:, 0]))

    def predict(X, samples, seed):
        return Predictive(mean=np.zeros((1, len(X), 1)), var=np.full((1, len(X), 1), 1.5**2))

    m = evaluate(predict, split, PROTOCOL, 0).metrics
    expected = np.log(1.5) + 1 / (2 * 1.5**2) - 0.5
    assert abs(m["test_kl_to_truth"] - expected) < 4 * m["test_kl_to_truth_se"]
    assert m["test_kl_to_truth_se"] < 0.01


@pytest.mark.parametrize(
    "field, value, words",
    [
        ("mean", np.nan, "mean is not finite"),
        ("mean", np.inf, "mean is not finite"),
        ("var", np.nan, "var is not finite"),
        ("var", 0.0, "variance is not positive"),
        ("mean", 1e200, "not finite: test_loglik"),
    ],
)
def test_divergence_is_raised_with_a_reason(field, value, words):
    def predict(X, samples, seed):
        fields = {"mean": np.zeros((samples, len(X), 1)), "var": np.ones((samples, len(X), 1))}
        fields[field][:, -1] = value
        return Predictive(**fields)

    with pytest.raises(Diverged, match=words):
        evaluate(predict, make_split(), PROTOCOL, 0)


def test_wrong_shapes_and_tasks():
    with pytest.raises(ValueError, match=r"shape \(20, 60, 2\), expected \(S, 60, 1\)"):
        evaluate(lambda X, s, seed: predict_by_row(X, s, seed, P=2), make_split(), PROTOCOL, 0)
    split = make_split()
    split.task = "ranking"
    with pytest.raises(UserError, match="no metrics for task ranking"):
        evaluate(predict_by_row, split, PROTOCOL, 0)
    with pytest.raises(UserError, match="no test rows"):
        evaluate(predict_by_row, make_split(N=0), PROTOCOL, 0)


def test_a_thousand_rows_take_seconds():
    def predict(X, samples, seed):
        rng = np.random.default_rng(seed)
        shape = (samples, len(X), 1)
        return Predictive(mean=rng.normal(size=shape), var=rng.uniform(0.2, 1.5, shape))

    start = time.process_time()
    evaluate(predict, make_split(N=1000), PROTOCOL | {"test_samples": 100, "draws": 2000}, 0)
    assert time.process_time() - start < 10  # about 1.5 s; the margin is for slow and busy machines
