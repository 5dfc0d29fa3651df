"""Noiseless curves over [-1, 1]: points at equal distances, every second one a test point.

The sets of Ustyuzhaninov et al. (2020), "Compositional uncertainty in deep Gaussian processes", as far as the
text tells them: a sine and the identity (figures E1 to E6), and something for a two-layer model with
squared-exponential and periodic kernels (figure 5, table 1), for which two periods of a sine are our choice.
"""

from __future__ import annotations

import numpy as np

CURVES = {
    "sine": lambda x: np.sin(np.pi * x),
    "identity": lambda x: x,
    "waves": lambda x: np.sin(2 * np.pi * x),
}


def points(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """X, Y (n, 1): the points at both ends and every second between them first, then those half-way."""
    x = np.linspace(-1.0, 1.0, n)
    x = np.round(np.concatenate([x[::2], x[1::2]]), 6)
    return x[:, None], np.round(CURVES[name](x), 6)[:, None]
