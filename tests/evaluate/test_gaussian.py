"""One Gaussian per row: the scores by draws that rows share, against those of draws of their own."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats
from test_evaluation import PROTOCOL, make_split

from dgpbench.evaluate import evaluation
from dgpbench.evaluate.draws import SHARED, StandardDraws, kde_log_density
from dgpbench.evaluate.evaluation import evaluate
from dgpbench.evaluate.predictive import Predictive


def normal_by_row(X, samples, seed, P=1):
    """One Gaussian per row and output, which depends on x only."""
    return Predictive(mean=np.sin(X[:, :P])[None], var=0.2 + 0.1 * np.abs(X[:, :P])[None])


def numbers(result):
    return {name: value for name, value in result.metrics.items() if value is not None}


def own_scores(p, Y, n, seed):
    """W by scipy (N,) and the KDE written out (N,) of draws (n, N) that each row makes for itself."""
    draws = p.draw(n, seed)[:, :, 0]
    h = 1.06 * draws.std(0) * n**-0.2
    w = np.array([stats.shapiro(row).statistic for row in draws.T])
    return w, np.log(stats.norm(draws, h).pdf(Y[:, 0]).mean(0))


def test_the_first_rows_have_the_scores_of_their_own_draws():
    split = make_split(N=SHARED)
    found = evaluate(normal_by_row, split, PROTOCOL, seed=3)
    w, kde = own_scores(normal_by_row(split.X_test, 1, 0), split.Y_test, 200, 3)
    np.testing.assert_allclose(found.predictions["shapiro_w"], w, atol=1e-6)
    assert found.metrics["test_loglik_kde_std"] == pytest.approx(kde.mean(), abs=1e-10)


def test_later_rows_have_the_noise_of_the_first_in_turn():
    N = 2 * SHARED + 5
    split = make_split(N=N)
    p, n = normal_by_row(split.X_test, 1, 0), 200
    mean, sd, y = p.mean[0, :, 0], np.sqrt(p.var[0, :, 0]), split.Y_test[:, 0]
    shared = StandardDraws(n, 3, N, 1)
    noise = Predictive(mean=np.zeros((1, SHARED, 1)), var=np.ones((1, SHARED, 1))).draw(n, 3)[:, :, 0]
    draws = mean + sd * noise[:, np.arange(N) % SHARED]
    kde = shared.kde_log_density(mean, sd, y, 0)
    np.testing.assert_allclose(kde, kde_log_density(draws.T, y), atol=1e-10)
    later = shared.kde_log_density(mean[200:], sd[200:], y[200:], 200)
    np.testing.assert_allclose(later, kde[200:], rtol=1e-12)
    w = [stats.shapiro(row).statistic for row in draws.T]
    np.testing.assert_allclose(shared.shapiro_w(0, N)[:, 0], w, atol=1e-6)


def test_metrics_agree_with_draws_of_each_row_within_their_error():
    """Over seeds the two estimates have one mean, and the shared draws no more than twice the spread; the
    median W is compared with that of 100 rows, as 128 rows have noise of their own."""
    u = np.random.default_rng(0).standard_normal(500)
    zero, one, repeats = np.zeros(500), np.ones(500), 30
    shared, own, w_shared, w_own = [], [], [], []
    for seed in range(repeats):
        some, each = StandardDraws(500, seed, 500, 1), np.random.default_rng(seed).normal(size=(500, 500))
        shared.append(some.kde_log_density(zero, one, u, 0).mean())
        own.append(kde_log_density(each, u).mean())
        w_shared.append(np.median(some.shapiro_w(0, 500)))
        w_own.append(np.median([stats.shapiro(row).statistic for row in each[:100]]))
    for a, b in ((shared, own), (w_shared, w_own)):
        error = np.sqrt((np.var(a, ddof=1) + np.var(b, ddof=1)) / repeats)
        assert abs(np.mean(a) - np.mean(b)) < 4 * error
        assert np.std(a) < 2 * np.std(b)
    assert len(set(w_shared)) == repeats  # each seed has its own draws


def test_kept_draws_are_those_of_each_row():
    """Rows whose draws are stored have noise of their own: no two share it."""
    split = make_split(N=400)
    found = evaluate(normal_by_row, split, PROTOCOL, seed=3).draws
    expected = normal_by_row(split.X_test, 1, 0).draw(200, seed=3)[:, found["row"] - 1000, 0].T * 2 + 5
    np.testing.assert_allclose(found["draws"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("P", [1, 2])
def test_chunks_and_threads_change_nothing(P, monkeypatch):
    split = make_split(N=300, P=P)

    def predict(X, samples, seed):
        return normal_by_row(X, samples, seed, P)

    whole = evaluate(predict, split, PROTOCOL, seed=3)
    monkeypatch.setattr(evaluation, "CHUNK_ROWS", 37)
    parts = evaluate(predict, split, PROTOCOL, seed=3, threads=2)
    assert numbers(parts) == pytest.approx(numbers(whole), rel=1e-12)
    for name, column in whole.predictions.items():
        np.testing.assert_allclose(parts.predictions[name], column, rtol=1e-6, atol=1e-7)
    assert whole.draws["draws"].shape == (100 * P, 200)
    np.testing.assert_array_equal(parts.draws["draws"], whole.draws["draws"])


def test_two_outputs_have_noise_of_their_own():
    split = make_split(N=20, P=2)
    found = evaluate(lambda X, samples, seed: normal_by_row(X, samples, seed, 2), split, PROTOCOL, seed=3)
    draws = normal_by_row(split.X_test, 1, 0, 2).draw(200, 3)
    w = [stats.shapiro(draws[:, i, p]).statistic for i in range(20) for p in range(2)]
    np.testing.assert_allclose(found.predictions["shapiro_w"], w, atol=1e-6)


def test_a_single_component_with_a_weight_is_one_gaussian():
    split = make_split(N=150)

    def weighted(X, samples, seed):
        p = normal_by_row(X, samples, seed)
        return Predictive(mean=p.mean, var=p.var, log_weights=np.zeros((1, len(X))))

    plain, one = (evaluate(f, split, PROTOCOL, seed=3) for f in (normal_by_row, weighted))
    assert one.metrics == pytest.approx(plain.metrics, rel=1e-12)


def test_memory_does_not_grow_with_the_draws_of_all_rows():
    """2,000 rows of 2,000 draws are 32 MB; the shared ones are 2 MB, and kept draws 1.6."""
    split = make_split(N=2000)
    protocol = PROTOCOL | {"draws": 2000}
    evaluate(normal_by_row, split, protocol, seed=3)
    tracemalloc.start()
    try:
        evaluate(normal_by_row, split, protocol, seed=3)
        assert tracemalloc.get_traced_memory()[1] < 16e6
    finally:
        tracemalloc.stop()
