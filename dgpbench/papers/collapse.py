"""How noise of a layer's input enters its output: section 3.2 and appendix A of Ustyuzhaninov et al. (2020).

A GP of unit variance and lengthscale g, known without error at its inducing inputs. Its input has mean m and
variance s; the variance of its output is to second order in the input's deviation
    sigma^2(m) + s (mu'(m)^2 + (sigma^2)''(m) / 2).
The paper's (11) has no 1/2; its own appendix A, whose slope is that of `noisy_variance`, has it.
"""

from __future__ import annotations

import numpy as np


def noisy_variance(d, s, g: float = 1.0) -> np.ndarray:
    """Output variance (26) for one inducing point with u = 0 at distance d of the input's mean: 1 - Q."""
    Q = np.exp(-0.5 * np.square(d) / (0.5 * g**2 + s)) / np.sqrt(2.0 * s / g**2 + 1.0)
    return 1.0 - Q


def noisy_slope(d, s, g: float = 1.0) -> np.ndarray:
    """Its derivative in s: below zero at s = 0 where g < sqrt(2) |d|. In print, the first term lacks the
    power -1/2 of 2 s / g^2 + 1."""
    wide, scale = 0.5 * g**2 + s, 2.0 * s / g**2 + 1.0
    first = -0.5 * np.square(d) / wide**2 / np.sqrt(scale)
    return np.exp(-0.5 * np.square(d) / wide) * (first + 1.0 / (g**2 * scale**1.5))


def posterior_variance(x: np.ndarray, Z: np.ndarray, g: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """sigma^2 (N,) at x given the function at Z (M,), and its second derivative."""
    gap = (x[None] - Z[:, None]) / g  # M, N
    k = np.exp(-0.5 * gap**2)
    first, second = -gap * k / g, (gap**2 - 1.0) * k / g**2
    pairs = (Z[None] - Z[:, None]) / g
    K = np.exp(-0.5 * pairs**2) + 1e-12 * np.eye(len(Z))
    a, b = np.linalg.solve(K, k), np.linalg.solve(K, first)
    return 1.0 - (k * a).sum(0), -2.0 * ((second * a).sum(0) + (first * b).sum(0))


def evenly_spaced(count: int, g: float = 1.0) -> np.ndarray:
    """Inducing inputs of section 3.2: `count` of them within three lengthscales of 0."""
    return np.linspace(-3.0 * g, 3.0 * g, count)
