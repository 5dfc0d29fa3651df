"""First values of P, which mixes GPs linearly to outputs. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dgpbench.errors import UserError
from dgpbench.gp.first_guesses import principal_scales


def outputs(settings: Mapping[str, Any], Y: np.ndarray, image: Sequence[int] | None, gps: int) -> np.ndarray:
    """P (outputs, gps) of the last layer: scaled axes of Y (N, outputs), or of a kernel on the pixels."""
    if settings["output_mixing"] == "principal":
        return principal_scales(Y, gps)
    if not image:
        raise UserError(
            "model.output_mixing=pixels needs images as outputs, such as dataset=mnist_images; use principal"
        )
    return pixel_scales(image, gps, settings["mixing_lengthscale"])


def pixel_scales(shape: Sequence[int], count: int, lengthscale: float) -> np.ndarray:
    """Eigenvectors of the Matern-5/2 Gram matrix of an image's pixels, times roots of their eigenvalues, the
    largest first (pixels, count): P P^T is that matrix, or as near it as so many columns can be (thesis 4.4).

    Pixels are numbered row by row and lie at distances of 1.
    """
    from scipy.spatial.distance import cdist

    places = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"), -1).reshape(-1, len(shape))
    r = np.sqrt(5.0) * cdist(places, places) / lengthscale
    values, vectors = np.linalg.eigh((1.0 + r + r**2 / 3.0) * np.exp(-r))
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    signs = np.where(vectors[np.abs(vectors).argmax(0), np.arange(count)] < 0, -1.0, 1.0)
    return vectors * signs * np.sqrt(np.maximum(values, 0.0))


def released(X: np.ndarray, width: int, gps: int) -> np.ndarray:
    """The first columns of V^T of the SVD of X, as the released code takes them: not the principal axes."""
    Vt = np.linalg.svd(X, full_matrices=False)[2]
    P = np.zeros((width, gps))
    P[: len(Vt), : min(gps, X.shape[1])] = Vt[:width, : min(gps, X.shape[1])]
    return P
