"""The picture of aligned sequences: its numbers, from warps that are known."""

import numpy as np

from dgpbench.data import Split
from dgpbench.report.layers_plot import DRAWS, alignment_picture


def test_sequences_before_and_after_a_known_warp():
    """Two parabolas that are 1 apart, moved together by half of it each."""
    t = np.linspace(-2, 2, 41)
    X = np.concatenate([np.stack([t, np.full(41, j)], 1) for j in (0.0, 1.0)])
    Y = ((X[:, 0] - X[:, 1]) ** 2)[:, None]
    split = Split.from_arrays(X, Y)

    def warps(X):
        late = X[:, 1] > X[:, 1].mean()
        return np.tile(np.where(late, X[:, 0] - 0.5, X[:, 0] + 0.5), (DRAWS + 2, 1))

    picture = alignment_picture("layers-x", "Layers", split, warps)
    late = picture.data.sequence == 1
    np.testing.assert_allclose(picture.data.warped[late], picture.data.time[late] - 0.5, atol=1e-9)
    np.testing.assert_allclose(picture.data.y, (picture.data.warped - 0.5) ** 2, atol=1e-9)
    grid = np.linspace(-2, 2, 200)  # (t^2 - (t - 1)^2)^2 = (2 t - 1)^2, also between the points
    assert f"{np.mean((2 * grid - 1) ** 2):.3g} as observed" in picture.notes[0]
    assert picture.image()[:4] == b"\x89PNG"
