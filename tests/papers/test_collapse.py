"""The collapse analysis of Ustyuzhaninov et al. against sampling, finite differences and NumPy."""

import numpy as np
import pytest

from dgpbench.papers import figures
from dgpbench.papers.figures.approximation_figures import (
    evenly_spaced,
    noisy_slope,
    noisy_variance,
    posterior_variance,
)


@pytest.mark.parametrize(("d", "s", "g"), [(0.4, 0.3, 1.0), (1.5, 0.2, 0.8)])
def test_output_variance_of_a_noisy_input(d, s, g):
    """By the law of total variance over draws of the input: the mean is 0, so E sigma^2(x) is all."""
    x = d + np.sqrt(s) * np.random.RandomState(0).randn(400_000)
    each = 1.0 - np.exp(-((x / g) ** 2))  # one inducing point at 0
    assert noisy_variance(d, s, g) == pytest.approx(each.mean(), abs=4 * each.std() / np.sqrt(len(x)))


@pytest.mark.parametrize("s", [0.0, 0.7])
def test_slope_by_finite_differences(s):
    d, g, step = np.array([0.1, 0.6, 1.3]), 0.9, 1e-6
    expected = (noisy_variance(d, s + step, g) - noisy_variance(d, s - step, g)) / (2 * step)
    np.testing.assert_allclose(noisy_slope(d, s, g), expected, rtol=1e-6)


def test_sign_changes_at_root_two_distances():
    for g in (0.5, 1.0, 2.0):
        edge = g / np.sqrt(2.0)
        assert noisy_slope(edge * 0.999, 0.0, g) > 0 > noisy_slope(edge * 1.001, 0.0, g)


def test_posterior_variance_and_its_curvature():
    Z, x, g = evenly_spaced(4, 0.7), np.linspace(-1.4, 1.9, 7), 0.7
    K = np.exp(-0.5 * ((Z[:, None] - Z) / g) ** 2)

    def variance(x):
        k = np.exp(-0.5 * ((Z[:, None] - x) / g) ** 2)
        return 1.0 - np.diag(k.T @ np.linalg.inv(K) @ k)

    found, second = posterior_variance(x, Z, g)
    np.testing.assert_allclose(found, variance(x), atol=1e-9)
    h = 1e-4
    expected = (variance(x + h) - 2 * variance(x) + variance(x - h)) / h**2
    np.testing.assert_allclose(second, expected, atol=1e-5)


def test_slope_is_half_the_curvature():
    """Equation (11) of the paper has no 1/2 there; its appendix A agrees with this."""
    d = np.array([0.2, 0.9, 2.0])
    _, second = posterior_variance(d, np.zeros(1))
    np.testing.assert_allclose(noisy_slope(d, 0.0), 0.5 * second, rtol=1e-9)


@pytest.mark.parametrize("name", ["ustyuzhaninov3", "ustyuzhaninovA"])
def test_figures_without_records(name):
    picture = figures.make(figures.find(name), [])
    assert picture.image()[:4] == b"\x89PNG"
    if name == "ustyuzhaninov3":
        least = picture.data.dropna(subset=["least"]).set_index("M").least
        assert least[3] < least[5] < least[8] < 0 and least[15] > -1e-3  # towards 0 with M
