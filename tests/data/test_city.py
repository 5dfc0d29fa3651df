"""The synthetic city has the density that it says, and test rows that cover the inputs."""

import numpy as np
import pytest

from dgpbench.config import compose
from dgpbench.data import city, load_split
from dgpbench.data.split import covering_rows, limit_training
from dgpbench.errors import UserError


@pytest.fixture
def words(tmp_path):
    return ["dataset=city", "protocol=cover", f"paths.datasets={tmp_path}", f"paths.results={tmp_path}"]


def some_input():
    return city.encoded(np.array([[0.2, -0.4]]), np.array([4]), np.array([18.5]))


def test_the_density_is_one(noise=0.7):
    side = np.linspace(-6, 6, 401)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    p = np.exp(city.log_density(np.repeat(some_input(), len(grid), 0), grid, noise))
    assert p.sum() * (side[1] - side[0]) ** 2 == pytest.approx(1.0, abs=1e-9)


def test_the_density_is_that_of_the_mixture():
    """Many draws at one input, made here: mean and covariance, and the share in a circle, by a grid."""
    n, noise, x = 200_000, 1.3, some_input()
    random = np.random.RandomState(0)
    X = np.repeat(x, n, 0)
    weights = np.exp(city.log_weights(x))[0]
    means = np.vstack([city.CENTRES, x[:, :2]])
    cumulative = np.cumsum(weights)
    which = np.searchsorted(cumulative, random.uniform(size=n))
    spread = np.where((which < 5)[:, None], [city.ALONG, city.ACROSS], city.NEAR)
    turn = np.deg2rad(29.0)
    axes = np.array([[np.sin(turn), np.cos(turn)], [np.cos(turn), -np.sin(turn)]])
    Y = means[which] + noise * (spread * random.standard_normal((n, 2))) @ axes
    side = np.linspace(-7, 7, 351)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    p = np.exp(city.log_density(np.repeat(x, len(grid), 0), grid, noise)) * (side[1] - side[0]) ** 2
    assert np.allclose(Y.mean(0), p @ grid, atol=0.02)
    centred = grid - p @ grid
    assert np.allclose(np.cov(Y.T), (p[:, None] * centred).T @ centred, atol=0.04)
    inside = lambda y: ((y - [0.2, -0.4]) ** 2).sum(1) < 0.8  # noqa: E731
    assert inside(Y).mean() == pytest.approx(p[inside(grid)].sum(), abs=0.01)
    assert city.log_density(X[:5], Y[:5], noise).shape == (5,)


def test_drawn_rows_are_scored_by_their_own_density_best():
    """Cross entropy: other noise, shuffled inputs or moved places all have a lower mean log density."""
    X, Y = city.draw(np.random.RandomState(1), 20_000, 1.0)
    own = city.log_density(X, Y, 1.0).mean()
    others = [
        city.log_density(X, Y, 0.9).mean(),
        city.log_density(X, Y, 1.1).mean(),
        city.log_density(X[::-1], Y, 1.0).mean(),
        city.log_density(X, Y + 0.05, 1.0).mean(),
    ]
    assert max(others) < own - 0.005
    ratio = np.exp(city.log_density(X, Y, 0.8) - city.log_density(X, Y, 1.0))  # E q / p = 1 under p
    assert ratio.mean() == pytest.approx(1.0, abs=4 * ratio.std() / np.sqrt(len(X)))


def test_inputs_and_outputs(words):
    split = load_split(
        compose([*words, "dataset.n=3000", "protocol.test_rows=200", "protocol.train_rows=500"])
    )
    assert split.X.shape == (3000, 6) and split.Y.shape == (3000, 2)
    assert (split.n_train, split.n_test) == (500, 200)
    assert np.allclose(split.X[:, 2] ** 2 + split.X[:, 3] ** 2, 1, atol=1e-5)
    assert np.allclose(split.X[:, 4] ** 2 + split.X[:, 5] ** 2, 1, atol=1e-5)
    X = split.X_test * split.x_std + split.x_mean
    Y = split.Y_test * split.y_std + split.y_mean
    assert np.allclose(split.log_density(X, Y), city.log_density(X, Y, 1.0))
    assert np.allclose(split.Y_train.mean(0), 0, atol=1e-9) and np.allclose(split.Y_train.std(0), 1)


def brute_force(X, start, count):
    Z = (X - X.mean(0)) / X.std(0)
    chosen = [start]
    while len(chosen) < count:
        best, at = -1.0, None
        for i in range(len(X)):
            least = min(np.sqrt(((Z[i] - Z[j]) ** 2).sum()) for j in chosen)
            if i not in chosen and least > best + 1e-12:
                best, at = least, i
        chosen.append(at)
    return chosen


def test_test_rows_are_the_greedy_ones_of_brute_force():
    X = np.random.RandomState(3).randn(60, 3) * [1.0, 50.0, 0.01]
    train, test = covering_rows(X, 7, 12)
    assert list(test) == brute_force(X, np.random.RandomState(7).randint(60), 12)
    assert sorted([*train, *test]) == list(range(60)) and list(train) == sorted(train)
    doubled = np.vstack([X[:3], X[:3]])  # each place twice: all places are covered before one is repeated
    assert sorted(i % 3 for i in covering_rows(doubled, 0, 3)[1]) == [0, 1, 2]
    constant = np.column_stack([X, np.full(60, 7.0)])
    assert list(covering_rows(constant, 7, 12)[1]) == list(test)


def test_training_rows_are_limited_at_random():
    train = np.arange(100, 200)
    some = limit_training(train, 2, 30)
    assert len(set(some)) == 30 and set(some) <= set(train) and list(some) != sorted(some)
    assert list(limit_training(train, 2, 10)) == list(some[:10])  # fewer are the first of more
    with pytest.raises(UserError, match="train_rows=101 is more than the 100 rows"):
        limit_training(train, 2, 101)


@pytest.mark.parametrize(
    "more, text",
    [
        (["dataset.n=1000"], "test_rows=1000 leaves no row of 1000"),
        (["dataset.n=1500"], "train_rows=1000 is more than the 500 rows"),
        (["protocol.test_rows=null"], "cover needs test_rows"),
        (["protocol.split_rule=shuffle"], "only it takes them"),
        (["dataset=arm8_rows"], "computed when asked for; leave it out, or use dataset=arm8"),
        (["dataset=mf_sine"], "whose rows have levels"),
    ],
)
def test_numbers_of_rows_that_do_not_fit(words, more, text):
    given = [w for w in words if not (w == "dataset=city" and more[0].startswith("dataset="))]
    with pytest.raises(UserError, match=text):
        load_split(compose([*given, *more]))


def test_rows_of_a_shuffle_are_limited_too(words):
    cfg = compose(["dataset=arm8", "dataset.n=200", "protocol.train_rows=50", *words[2:]])
    split, whole = load_split(cfg), load_split(compose(["dataset=arm8", "dataset.n=200", *words[2:]]))
    assert split.n_train == 50 and set(split.rows_train) < set(whole.rows_train)
    assert list(split.rows_test) == list(whole.rows_test)
