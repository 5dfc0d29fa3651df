"""Synthetic sets: their densities integrate to one and describe the rows that are drawn."""

import numpy as np
import pytest

from dgpbench.data import letters, load_split, synthetic
from dgpbench.data.cache import load_data
from dgpbench.data.catalogue import catalogue, entry_from_config
from dgpbench.errors import UserError

DRAWN = ["bimodal", "heteroscedastic", "step", "arm8"]
NOISE = {"bimodal": 1.0, "heteroscedastic": 1.0, "step": 0.05, "arm8": 0.05, "sincs": 0.05}
HASHES = {
    "bimodal": "7eacfc066dba7ef3303989a80e8393b8dd79c0371c1ceb0d32aa812dec131bcd",
    "heteroscedastic": "b40d3b8c9320c17f254d4d3e66b18988354e555385b7d6bc95da0161daff6b21",
    "step": "08f95c59aac2417d54c37caa69a4ffad4144d73c16efd01b1b8b4ab3cda413cf",
    "arm8": "65f72b5f429cf80f8eb42f5fae8656a7ae9f04ffcde580c92162d470a9066adb",
    "shifted_sincs": "4f1e74aa963815b4e6c804b75aa43dc84ddb000189a9dda8a1e77d755d70b7be",
    "dgp_letters": "d49f8158b8277cfbdbc5a4c8465c399cd069e33406436c2e82199c7bade8ccfc",
}


@pytest.mark.parametrize("name", [*DRAWN, "sincs"])
def test_density_integrates_to_one(name):
    X, _ = synthetic.DRAW[name](np.random.RandomState(3), 8, NOISE[name])
    y = np.linspace(-25, 25, 200_001)[:, None]
    for x in X:
        p = np.exp(synthetic.LOG_DENSITY[name](np.repeat(x[None], len(y), 0), y, NOISE[name]))
        assert p.sum() * (y[1, 0] - y[0, 0]) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", DRAWN)
def test_density_matches_a_histogram(name):
    """Many draws of y at one x fill bins as the density says (within five standard errors)."""
    n, noise = 200_000, NOISE[name]
    x = {"bimodal": [0.3], "heteroscedastic": [1.0], "step": [0.2], "arm8": [0.1 * j for j in range(8)]}[name]

    class AtOnePoint(np.random.RandomState):
        first = True

        def uniform(self, low=0.0, high=1.0, size=None):
            if self.first:
                self.first = False
                return np.tile(x, (n, 1))
            return super().uniform(low, high, size)

    X, Y = synthetic.DRAW[name](AtOnePoint(0), n, noise)
    edges = np.quantile(Y, np.linspace(0, 1, 21))
    counts, _ = np.histogram(Y, edges)
    for low, high, count in zip(edges[1:-2], edges[2:-1], counts[1:-1], strict=True):
        y = np.linspace(low, high, 201)[:, None]
        p = np.exp(synthetic.LOG_DENSITY[name](np.tile(X[:1], (201, 1)), y, noise))
        mass = (p[1:] + p[:-1]).sum() / 2 * (y[1, 0] - y[0, 0])
        assert abs(count / n - mass) < 5 * np.sqrt(mass / n) + 1e-6


def test_bimodal_and_step_by_hand():
    x, y = np.array([[0.0]]), np.array([[10.0]])
    expected = np.log(0.5 * np.exp(-50) + 0.5) - 0.5 * np.log(2 * np.pi)
    assert synthetic.bimodal_log_density(x, y, 1.0)[0] == pytest.approx(expected)
    assert synthetic.step_log_density(x - 0.1, np.array([[-1.0]]), 0.5)[0] == pytest.approx(
        -np.log(0.5) - 0.5 * np.log(2 * np.pi)
    )


def test_sequences_are_one_sinc_at_three_places():
    X, Y = synthetic.sincs_draw(np.random.RandomState(0), 3000, 0.05)
    assert np.unique(X[:, 1]).tolist() == [0, 1, 2] and np.abs(X[:, 0]).max() <= 3
    late = np.pi * (X[:, 0] - np.array([-0.5, 0.0, 0.5])[X[:, 1].astype(int)])
    rest = Y[:, 0] - np.sin(late) / late
    assert np.std(rest) == pytest.approx(0.05, rel=0.05) and abs(np.mean(rest)) < 0.004
    at = synthetic.sincs_log_density(np.array([[0.5, 2.0], [0.5, 1.0]]), np.array([[1.0], [2 / np.pi]]), 0.5)
    np.testing.assert_allclose(at, -np.log(0.5) - 0.5 * np.log(2 * np.pi))


def test_arm_geometry():
    straight = np.zeros((1, 8))
    assert synthetic.ARM_LINKS.sum() == pytest.approx(1.6)
    expected = np.linalg.norm(np.array([1.6, 0, 0]) - synthetic.ARM_TARGET)
    assert synthetic.arm_distance(straight)[0] == pytest.approx(expected)
    up = straight.copy()
    up[0, 0] = np.pi / 2  # the first joint turns the whole arm about z
    expected = np.linalg.norm(np.array([0, 1.6, 0]) - synthetic.ARM_TARGET)
    assert synthetic.arm_distance(up)[0] == pytest.approx(expected)
    wrist = straight.copy()
    wrist[0, 7] = np.pi / 2  # the last joint turns the last link about y
    expected = np.linalg.norm(np.array([1.5, 0, 0.1]) - synthetic.ARM_TARGET)
    assert synthetic.arm_distance(wrist)[0] == pytest.approx(expected)


def test_every_input_of_the_arm_matters():
    X = np.random.RandomState(0).uniform(-1.5, 1.5, (2000, 8))
    base = synthetic.arm_distance(X)
    for j in range(8):
        moved = X.copy()
        moved[:, j] += 0.3
        assert np.abs(synthetic.arm_distance(moved) - base).mean() > 0.004


def test_letters_have_the_points_of_the_thesis(paths):
    data = load_data(catalogue()["dgp_letters"], paths)
    assert data.X.shape == (73419, 1)
    assert np.isfinite(letters.log_density(data.X, data.Y)).all()
    with pytest.raises(UserError, match="fixed grid of 73419"):
        load_data(entry_from_config({"name": "dgp_letters", "n": 100}), paths)


def test_letters_density_integrates_to_one_and_matches_the_grid():
    y = (np.arange(200_000) + 0.5)[:, None] / 200_000
    for x in (0.05, 0.3, 0.65, 0.95, 1.3, 1.5, 1.7, 1.95, 2.2, 2.5):
        p = np.exp(letters.log_density(np.full_like(y, x), y))
        assert p.mean() == pytest.approx(1.0, abs=1e-4)
    X, Y = letters.grid_points()
    for x in np.unique(X)[[20, 150, 300, 380, 420, 500, 580]]:
        column = Y[X[:, 0] == x]
        inside = np.exp(-letters.log_density(np.array([[x]]), column[:1]))[0]
        assert len(column) / letters.GRID[1] == pytest.approx(inside, abs=3.5 / letters.GRID[1])


def test_letters_look_like_letters():
    def ink(x):
        return sum(hi > lo for lo, hi in letters.sections(np.array([x]))[0])

    assert [ink(x) for x in (0.05, 0.35, 0.70)] == [1, 2, 2]  # D: stem, then the two halves of the bowl
    assert [ink(x) for x in (1.1, 1.45)] == [2, 3]  # G: arcs, then arcs and bar
    assert [ink(x) for x in (1.95, 2.2)] == [1, 2]  # P: stem, bowl
    assert ink(0.8) == 0 and ink(1.8) == 0  # between the letters
    assert letters.log_density(np.array([[0.8]]), np.array([[0.5]]))[0] == -np.inf


@pytest.mark.parametrize("name", HASHES)
def test_golden_hashes(name, paths):
    assert load_data(catalogue()[name], paths).data_hash == HASHES[name]


def test_larger_sets_begin_with_smaller_ones():
    big = next(iter(synthetic.blocks_of("arm8", 70_000, 0.05, 0)))
    small = next(iter(synthetic.blocks_of("arm8", 100, 0.05, 0)))
    assert np.array_equal(big[0][:100], small[0]) and np.array_equal(big[1][:100], small[1])
    sizes = [len(x) for x, _ in synthetic.blocks_of("arm8", 70_000, 0.05, 0)]
    assert sizes == [65536, 70_000 - 65536]


def test_settings_change_the_data(paths):
    base = load_data(catalogue()["arm8"], paths)
    for change in ({"n": 9999}, {"noise": 0.1}, {"data_seed": 1}):
        assert load_data(entry_from_config({"name": "arm8", **change}), paths).data_hash != base.data_hash
    for change in ({"n": 2}, {"n": 10.5}, {"noise": 0}, {"noise": "loud"}, {"data_seed": -1}):
        with pytest.raises(UserError, match="is needed"):
            load_data(entry_from_config({"name": "arm8", **change}), paths)


def test_split_carries_the_density_in_original_units(config):
    split = load_split(config({"name": "step", "n": 500}))
    X, Y = split.X[split.rows_test], split.Y[split.rows_test]
    entropy = 0.5 * np.log(2 * np.pi * np.e * 0.05**2)
    assert split.log_density(X, Y).shape == (50,)
    assert split.log_density(X, Y).mean() == pytest.approx(-entropy, abs=0.4)
    assert load_split(config({"name": "arm8", "n": 50})).log_density is not None
