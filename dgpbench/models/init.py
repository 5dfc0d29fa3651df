"""From a config and training inputs to a structure and initial values (protocols.md, A1)."""

from __future__ import annotations

import math
import warnings

import numpy as np

from dgpbench.errors import UserError
from dgpbench.models.deep_gp import DeepGP
from dgpbench.models.kernels import PARTS, Kernel
from dgpbench.models.layers import GPLayer
from dgpbench.models.likelihoods import LIKELIHOODS

KMEANS_ROWS_PER_CENTRE = 100  # k-means sees at most this many random rows per inducing point


def build(
    cfg: dict, X: np.ndarray, output_dim: int, seed: int
) -> tuple[DeepGP, dict[str, np.ndarray], set, list]:
    """Structure, constrained initial values, names that are not trained, and notes for the user.

    X are training inputs (N, D), or a random sample of them when there are very many.
    """
    model, notes = cfg["model"], []
    rng = np.random.RandomState(seed)
    values: dict[str, np.ndarray] = {}
    fixed: set[str] = set()
    H, centres, carry = X, {}, None  # carry: the product of the maps W so far
    depth = len(model["layers"])
    for i in range(depth):
        settings, last = layer_settings(model, i), i == depth - 1
        dim_out = output_dim if last else _width(settings, X.shape[1])
        M = min(settings["num_inducing"], len(X))
        if M < settings["num_inducing"]:
            notes.append(
                f"layer {i}: {settings['num_inducing']} inducing points asked for, {M} rows: M = {M}"
            )
        if M not in centres:
            centres[M] = kmeans(X, M, rng)
        scale = math.sqrt(H.shape[1]) if settings["lengthscale"] == "sqrt_dim" else settings["lengthscale"]
        kernel = _kernel(settings, H.shape[1], inner=not last)
        initial = kernel.initial(settings["kernel_variance"], scale, settings["inner_noise"])
        values |= {f"layer{i}/kernel/{name}": v for name, v in initial.items()}
        values |= {
            f"layer{i}/Z": centres[M].copy() if carry is None else centres[M] @ carry,
            f"layer{i}/q_mu": np.zeros((dim_out, M)),
            f"layer{i}/q_sqrt": np.tile(np.eye(M), (dim_out, 1, 1))
            * (1.0 if last else settings["inner_q_scale"]),
        }
        if last:
            break
        if not settings["inner_noise_trainable"]:
            fixed.add(f"layer{i}/kernel/white/variance")
        kind, W = _mean_function(settings["mean"], H, dim_out)
        if kind == "linear":
            values[f"layer{i}/W"] = W
            fixed.add(f"layer{i}/W")
        if W is not None:
            H, carry = H @ W, W if carry is None else carry @ W
    likelihood = LIKELIHOODS["gaussian"]
    values |= {f"likelihood/{n}": v for n, v in likelihood.initial(model["likelihood_variance"]).items()}
    return structure(cfg, values), values, fixed & values.keys(), notes


def structure(cfg: dict, values: dict[str, np.ndarray]) -> DeepGP:
    """The static structure that a config and the shapes of its parameters imply."""
    model, layers = cfg["model"], []
    depth = len(model["layers"])
    for i in range(depth):
        settings, last = layer_settings(model, i), i == depth - 1
        M, dim_in = values[f"layer{i}/Z"].shape
        kernel = _kernel(settings, dim_in, inner=not last)
        mean = "zero" if last or settings["mean"] == "zero" else "identity"
        mean = "linear" if f"layer{i}/W" in values else mean
        layers.append(GPLayer(kernel, M, values[f"layer{i}/q_mu"].shape[0], mean))
    return DeepGP(tuple(layers), "gaussian")


def layer_settings(model: dict, index: int) -> dict:
    """The model's settings with those of one layer on top."""
    return model | model["layer_overrides"].get(str(index), {})


def _width(settings: dict, input_dim: int) -> int:
    return int(settings["width"]) if settings["width"] else min(int(settings["max_width"]), input_dim)


def _kernel(settings: dict, dim_in: int, inner: bool) -> Kernel:
    """The layer's kernel; noise between layers is white noise in the inner kernels."""
    kernel = Kernel.parse(settings["kernel"], dim_in, bool(settings["ard"]))
    unknown = [part for part in kernel.parts if part not in PARTS]
    if unknown or set(kernel.parts) == {"white"} or len(set(kernel.parts)) < len(kernel.parts):
        raise UserError(
            f"model.kernel={settings['kernel']}: a kernel is a sum of different parts of {', '.join(PARTS)},"
            " such as rbf or rbf+linear, and not white alone"
        )
    if inner and settings["inner_noise"] and "white" not in kernel.parts:
        kernel = Kernel((*kernel.parts, "white"), dim_in, kernel.ard)
    return kernel


def _mean_function(wanted: str, H: np.ndarray, dim_out: int) -> tuple[str, np.ndarray | None]:
    """Kind of an inner mean function and the map W (None: identity) that carries points to the next layer.

    Identity where the width stays; PCA where it shrinks; identity padded with zeros where it grows. Under
    `zero` the map only places the next layer's inducing inputs.
    """
    dim_in = H.shape[1]
    if wanted == "identity" and dim_in != dim_out:
        raise UserError(
            f"model.mean=identity needs equal widths, not {dim_in} and {dim_out}; use auto, pca or zero"
        )
    if dim_in == dim_out and wanted != "pca":
        return "zero" if wanted == "zero" else "identity", None
    W = np.eye(dim_in, dim_out) if dim_in < dim_out else principal_axes(H, dim_out)
    return "zero" if wanted == "zero" else "linear", W


def principal_axes(H: np.ndarray, count: int) -> np.ndarray:
    """The first `count` principal axes of H as columns (D, count); zeros where there are fewer rows."""
    _, _, Vt = np.linalg.svd(H - H.mean(0), full_matrices=False)
    signs = np.where(Vt[np.arange(len(Vt)), np.abs(Vt).argmax(1)] < 0, -1.0, 1.0)
    W = np.zeros((H.shape[1], count))
    W[:, : min(count, len(Vt))] = (Vt * signs[:, None])[:count].T
    return W


def kmeans(X: np.ndarray, count: int, rng: np.random.RandomState) -> np.ndarray:
    """k-means centres of (a random subset of) the rows of X, started from random rows."""
    from scipy.cluster.vq import kmeans2

    rows = KMEANS_ROWS_PER_CENTRE * count
    subset = X if len(X) <= rows else X[rng.choice(len(X), rows, replace=False)]
    start = subset[rng.choice(len(subset), count, replace=False)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster keeps its starting row
        return kmeans2(subset, start, minit="matrix", iter=10, missing="warn", check_finite=False)[0]
