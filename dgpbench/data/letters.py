"""The letters 'DGP' as a conditional density: x runs along the word, y is uniform over the ink above x.

Thesis section 5.3.1 takes a fine grid of points inside the glyphs of an image. The image is not published, so
the glyphs here are drawn from ellipses; the number of grid points, 73,419, is the thesis's.
"""

from __future__ import annotations

import numpy as np

STROKE = 0.16
_D_LEFT, _D_WIDTH = 0.0, 0.72
_G_LEFT, _G_HALF, _G_BAR, _G_MOUTH = 0.90, 0.42, 0.48, 0.72
_P_LEFT, _P_WIDTH, _P_HEIGHT = 1.92, 0.60, 0.56
GRID = (690, 258)  # columns over the word, rows over the letter height: 73,419 points lie inside


def _half_height(u: np.ndarray, width: float, height: float) -> np.ndarray:
    """Half the height of an ellipse with half-axes (width, height) at distance u from its centre."""
    return height * np.sqrt(np.clip(1 - (u / width) ** 2, 0, None))


def _bowl(u: np.ndarray, width: float, centre: float, height: float) -> tuple[np.ndarray, np.ndarray]:
    """Outer and inner half-height of half a ring that starts at u = 0 and is STROKE thick."""
    return _half_height(u, width, height), _half_height(u, width - STROKE, height - STROKE)


def sections(x: np.ndarray) -> np.ndarray:
    """The ink above each x as three disjoint intervals (N, 3, 2), ascending; empty ones are (0, 0)."""
    x = np.asarray(x, dtype=np.float64).reshape(-1)
    out = np.zeros((len(x), 3, 2))
    _letter_with_stem(x, out, _D_LEFT, _D_WIDTH, 0.5, 0.5)
    _letter_with_stem(x, out, _P_LEFT, _P_WIDTH, 1 - _P_HEIGHT / 2, _P_HEIGHT / 2)
    _letter_g(x, out)
    return out


def _letter_with_stem(
    x: np.ndarray, out: np.ndarray, left: float, width: float, centre: float, height: float
) -> None:
    """D and P: a full-height stem, then a bowl that reaches `height` above and below `centre`."""
    u = x - left
    stem = (u >= 0) & (u <= STROKE)
    out[stem, 0] = (0.0, 1.0)
    bowl = (u > STROKE) & (u <= width)
    outer, inner = _bowl(u[bowl], width, centre, height)
    out[bowl, 0] = np.stack([centre - outer, centre - inner], axis=1)
    out[bowl, 1] = np.stack([centre + inner, centre + outer], axis=1)


def _letter_g(x: np.ndarray, out: np.ndarray) -> None:
    """A ring whose right side is open between the bar's top and the mouth, and a bar inside it."""
    u = x - (_G_LEFT + _G_HALF)
    ring = np.abs(u) <= _G_HALF
    v = u[ring]
    outer, inner = _half_height(v, _G_HALF, 0.5), _half_height(v, _G_HALF - STROKE, 0.5 - STROKE)
    low, high = np.stack([0.5 - outer, 0.5 - inner], axis=1), np.stack([0.5 + inner, 0.5 + outer], axis=1)
    bar = np.zeros((len(v), 2))
    right = v > 0.05
    high[right, 0] = np.maximum(high[right, 0], _G_MOUTH)
    high[high[:, 1] <= high[:, 0]] = 0.0
    joined = right & (low[:, 1] >= _G_BAR - STROKE)  # here the bar runs into the lower arc
    low[joined, 1] = np.maximum(low[joined, 0], _G_BAR)
    bar[right & ~joined] = (_G_BAR - STROKE, _G_BAR)
    out[ring] = np.stack([low, bar, high], axis=1)


def log_density(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """log p(y | x): minus the log of the ink's length above x inside the ink, -inf outside."""
    spans, y = sections(X[:, 0]), Y[:, :1]
    length = (spans[:, :, 1] - spans[:, :, 0]).sum(axis=1)
    inside = ((y >= spans[:, :, 0]) & (y <= spans[:, :, 1]) & (spans[:, :, 1] > spans[:, :, 0])).any(axis=1)
    with np.errstate(divide="ignore"):
        return np.where(inside, -np.log(length), -np.inf)


def grid_points(columns: int = GRID[0], rows: int = GRID[1]) -> tuple[np.ndarray, np.ndarray]:
    """Centres of a columns x rows raster over the word that fall inside a glyph, column by column."""
    word = _P_LEFT + _P_WIDTH
    x, y = (np.arange(columns) + 0.5) / columns * word, (np.arange(rows) + 0.5) / rows
    X, Y = (a.reshape(-1, 1) for a in np.meshgrid(x, y, indexing="ij"))
    inside = np.isfinite(log_density(X, Y))
    return X[inside], Y[inside]
