"""From a config and training data to a structure and initial values (docs/default-configuration.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dgpbench.config.kernel_names import KernelError
from dgpbench.config.keys import later_defaults, merged
from dgpbench.errors import UserError
from dgpbench.gp import kernels, latent, likelihoods, warp
from dgpbench.gp.deep_gp import DeepGP
from dgpbench.gp.initialisation import (
    INNER_VARIANCE,
    WITHOUT,
    best_posterior,
    count_inducing,
    grid,
    kmeans,
    median_distance,
    output_mixing,
    padded,
    principal_axes,
    regression,
    released_mixing,
    residual_scores,
)
from dgpbench.gp.kernels.base import Kernel
from dgpbench.gp.kernels.compose import with_white
from dgpbench.gp.latent import LatentLayer, ProjectionLayer
from dgpbench.gp.layer import GPLayer, SeparateLayer
from dgpbench.gp.likelihoods import Gaussian, Likelihood
from dgpbench.gp.parameters import scope
from dgpbench.gp.warp import AlignLayer, WarpLayer

WARPS = {layer.kind: layer for layer in (WarpLayer, AlignLayer)}


def structure(cfg: dict, values: dict[str, np.ndarray]) -> DeepGP:
    """Return the static structure that a config and the shapes of its parameters imply."""
    kinds = cfg["model"]["layers"]
    layers: list = []
    for i in reversed(range(len(kinds))):
        settings, last = layer_settings(cfg["model"], i), i == len(kinds) - 1
        if kinds[i] == "lv":
            q = "amortised" if f"layer{i}/encoder/W0" in values else "free"
            q = q if q == "amortised" or f"layer{i}/local/mean" in values else "optimal"
            layers.append(
                LatentLayer(layers[-1].input_dim - settings["latent_dim"], settings["latent_dim"], q)
            )
        elif kinds[i] == "linear":
            dim_out, dim_in = values[f"layer{i}/projection/mean"].shape
            layers.append(ProjectionLayer(dim_in, dim_out))
        elif kinds[i] in WARPS:
            M, warps = len(values[f"layer{i}/Z"]), len(values[f"layer{i}/q_mu"])
            layers.append(WARPS[kinds[i]](layer_kernel(settings, 1, inner=False), M, warps))
        else:
            M, dim_in = values[f"layer{i}/Z"].shape[-2:]
            mean = "zero" if last or settings["mean"] == "zero" else "identity"
            mean = "linear" if f"layer{i}/W" in values else mean
            mixed = len(values[f"layer{i}/P"]) if f"layer{i}/P" in values else 0
            kernel = layer_kernel(settings, dim_in, inner=not last)
            kind = GPLayer if last or settings["per_output"] == "none" else SeparateLayer
            grid = (round(M ** (1.0 / dim_in)),) * dim_in if settings["kronecker"] else ()
            layers.append(kind(kernel, M, values[f"layer{i}/q_mu"].shape[0], mean, mixed, grid))
    return DeepGP(tuple(reversed(layers)), likelihoods.from_values(cfg, values))


def layer_settings(model: dict, index: int | None) -> dict:
    """Return the model's settings overridden by those of one layer; older configs get later defaults."""
    return later_defaults("model") | model | model["layer_overrides"].get(str(index), {})


def layer_kernel(settings: dict, dim_in: int, inner: bool) -> Kernel:
    """Return the layer's kernel; noise between layers is white noise in the inner kernels."""
    try:
        kernel = kernels.parse(settings["kernel"], dim_in, bool(settings["ard"]))
    except KernelError as error:
        raise UserError(f"model.kernel={settings['kernel']} {error}") from None
    return with_white(kernel) if inner and settings["inner_noise"] else kernel


@dataclass
class Start:
    """State of building a model layer by layer: the inputs at this depth, and all values so far."""

    X: np.ndarray  # N, D: inputs of the model
    Y: np.ndarray  # N, P
    likelihood: Likelihood
    num_data: int  # rows of the whole training set, of which X, Y may be a sample
    rng: np.random.RandomState
    H: np.ndarray  # N, D_i
    values: dict[str, np.ndarray] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    centres: dict[int, np.ndarray] = field(default_factory=dict)  # M: k-means centres of X
    maps: list[Callable] = field(default_factory=list)  # what carried the inputs here
    latents: int = 0  # latent dimensions so far
    noise: float | None = None  # of a Gaussian likelihood, where the data give it
    regression: bool = False  # whether the last layer starts from a regression
    image: Sequence[int] | None = None  # rows and columns, where Y holds pixels

    def carry(self, step: Callable[[np.ndarray], np.ndarray]) -> None:
        self.H = step(self.H)
        self.maps.append(step)

    def inducing(self, M: int, places: str) -> np.ndarray:
        """Return M points of this layer's input space: centres or a grid of the inputs, carried through the
        layers below."""
        if M not in self.centres:
            self.centres[M] = self._grid(M) if places == "grid" else self._centres(M)
        Z = self.centres[M].copy()
        for step in self.maps:
            Z = step(Z)
        return Z

    def _centres(self, M: int) -> np.ndarray:
        make = kmeans if M <= len(self.X) else padded
        return make(self.X, M, self.rng)

    def _grid(self, M: int) -> np.ndarray:
        try:
            return grid(self.X, M)
        except ValueError as error:
            D = self.X.shape[1]
            raise UserError(
                f"model.inducing=grid: {error}; set model.num_inducing to k^{D}, such as {5**D}, or "
                "use kmeans"
            ) from None


def build(
    cfg: dict,
    X: np.ndarray,
    Y: np.ndarray,
    seed: int,
    num_data: int | None = None,
    likelihood: Likelihood | None = None,
) -> tuple[DeepGP, dict[str, np.ndarray], set, list]:
    """Return structure, constrained initial values, names that are not trained, and notes for the user.

    X (N, D), Y (N, P) are the training data, or a random sample of `num_data` rows when there are very many.
    `likelihood` comes from `likelihoods.choose`; the default is Gaussian.
    """
    model = layer_settings(cfg["model"], None)
    X = X if model["use_inputs"] else X[:, :0]
    likelihood = likelihood or Gaussian(model["likelihood_variance"])
    start = Start(X, Y, likelihood, num_data or len(X), np.random.RandomState(seed), X)
    start.image = cfg.get("dataset", {}).get("image")
    depth = len(model["layers"])
    for i, kind in enumerate(model["layers"]):
        settings = layer_settings(cfg["model"], i)
        if kind == "lv":
            _start_latent(start, i, settings, merged(later_defaults("inference"), cfg.get("inference", {})))
        elif kind == "linear":
            _start_projection(start, i, settings)
        elif kind in WARPS:
            _start_warp(start, i, kind, settings)
        else:
            _start_gp(start, i, settings, last=i == depth - 1)
    values = start.values
    values |= {f"likelihood/{n}": v for n, v in likelihood.initial().items()}
    if start.noise is not None:
        values["likelihood/variance"] = np.asarray(start.noise)
    start.fixed |= {f"likelihood/{n}" for n in likelihood.fixed}
    if not model["likelihood_variance_trainable"]:
        _hold_noise(start)
    fixed = start.fixed & values.keys()
    inference = merged(later_defaults("inference"), cfg.get("inference", {}))
    made = structure(cfg, values)
    if start.regression and start.noise is not None:
        _best_last(start, start.noise, made.layers[-1], f"layer{depth - 1}")
    if inference["hyperparameters"] == "fixed":
        fixed |= {name for name in values if not made.is_variational(name)}
    return made, values, fixed, start.notes


def _start_gp(start: Start, i: int, settings: dict, last: bool) -> None:
    released = settings["compat"] == "released"
    dim_in = start.H.shape[1]
    width = start.likelihood.gps(start.Y.shape[1]) if last else _width(settings, start, released)
    gps = settings["output_gps"] if last else settings["inner_gps"]
    if last and gps and gps > width:
        raise UserError(
            f"model.output_gps={gps} is more than the {width} outputs to be mixed; at most {width}"
        )
    gps = gps if gps is None or released else min(gps, width)
    outputs = gps or width
    asked = count_inducing(settings["num_inducing"], start.num_data)
    M = asked if released else min(asked, start.num_data)
    if M < asked:
        start.notes.append(f"layer {i}: {asked} inducing points asked for, {M} rows: M = {M}")
    kernel = layer_kernel(settings, dim_in, inner=not last)
    initial = kernel.initial(*_scales(start, settings, last), settings["inner_noise"])
    q_scale = 1.0 if last else settings["inner_q_scale"]
    own = "none" if last else settings["per_output"]
    if own != "none":
        _check_stackable(kernel)
        initial = {name: _each(v, outputs) for name, v in initial.items()}
    Z = start.inducing(M, settings["inducing"])
    start.values |= {f"layer{i}/kernel/{name}": v for name, v in initial.items()}
    start.values |= {
        f"layer{i}/Z": _each(Z, outputs) if own == "all" else Z,
        f"layer{i}/q_mu": np.zeros((outputs, M)),
        f"layer{i}/q_sqrt": np.tile(np.eye(M), (outputs, 1, 1)) * q_scale,
    }
    if last:
        if gps:
            start.values[f"layer{i}/P"] = output_mixing(settings, start.Y, start.image, gps)
            if not settings["output_mixing_trainable"]:
                start.fixed.add(f"layer{i}/P")
        return
    if not settings["inner_noise_trainable"]:
        start.fixed.add(f"layer{i}/kernel/white/variance")
    if not settings["inner_variance_trainable"]:
        start.fixed |= {f"layer{i}/kernel/{name}/variance" for name in kernel.names if name != "white"}
    kind, W = _mean_function(settings["mean"], start.H, width, released)
    if kind == "linear" and W is not None:
        start.values[f"layer{i}/W"] = W
        if settings["mean"] != "linear_trained":
            start.fixed.add(f"layer{i}/W")
    if W is not None:
        start.carry(lambda A: A @ W)
    if gps:
        start.values[f"layer{i}/P"] = (
            released_mixing(start.X, width, gps) if released else principal_axes(start.H, gps)
        )
        if not settings["mixing_trainable"]:
            start.fixed.add(f"layer{i}/P")


def _start_latent(start: Start, i: int, settings: dict, inference: dict) -> None:
    dim, scale = settings["latent_dim"], settings["latent_scale"]
    start.values[f"layer{i}/scale"] = np.asarray(float(scale))
    start.fixed.add(f"layer{i}/scale")
    if inference["bound"] != "optimal":
        layer = LatentLayer(start.H.shape[1], dim, inference["latent_q"])
        data_dim = start.X.shape[1] + start.likelihood.gps(start.Y.shape[1])  # classes enter one-hot
        initial = layer.initial(start.num_data, data_dim, inference["encoder"], start.rng)
        if layer.q == "free" and len(start.X) == start.num_data:
            initial["local/mean"] += residual_scores(start.X, start.Y, dim)
        start.values |= {f"layer{i}/{name}": value for name, value in initial.items()}
    start.carry(lambda A: np.hstack([A, scale * start.rng.randn(len(A), dim)]))
    start.latents += dim


def _start_projection(start: Start, i: int, settings: dict) -> None:
    if settings["projection_dim"] > start.X.shape[1]:
        raise UserError(
            f"model.projection_dim={settings['projection_dim']} is more than the {start.X.shape[1]} inputs; "
            "a projection has at most as many outputs as inputs"
        )
    W = principal_axes(start.X, settings["projection_dim"])
    initial = latent.initial_projection(W, settings["projection_scale"])
    start.values |= {f"layer{i}/{name}": value for name, value in initial.items()}
    start.carry(lambda A: A @ W)


def _start_warp(start: Start, i: int, kind: str, settings: dict) -> None:
    own: dict[str, np.ndarray] = {}
    if kind == "align":
        own["levels"] = warp.sequence_levels(start.X)
        start.fixed.add(f"layer{i}/levels")
        start.X = start.X[:, :1]  # all that is behind the warp sees one input
        start.carry(lambda A: A[:, :1])
    M = min(count_inducing(settings["num_inducing"], start.num_data), start.num_data)
    warps = len(own.get("levels", start.X.T))
    own |= warp.initial(start.X, M, warps, settings["inner_q_scale"])
    scale = 1.0 if settings["lengthscale"] == "sqrt_dim" else settings["lengthscale"]
    kernel = layer_kernel(settings, 1, inner=False).initial(settings["kernel_variance"], scale, 0.0)
    own |= {f"kernel/{name}": value for name, value in kernel.items()}
    start.values |= {f"layer{i}/{name}": value for name, value in own.items()}
    if not settings["inner_variance_trainable"]:
        start.fixed |= {f"layer{i}/kernel/{name}" for name in kernel if name.endswith("/variance")}


def _width(settings: dict, start: Start, released: bool) -> int:
    """Return the configured width, else that of inputs and latents so far (released: of the inputs alone)."""
    if settings["width"]:
        return int(settings["width"])
    natural = start.X.shape[1] + (0 if released else start.latents)
    return min(int(settings["max_width"]), natural) if settings["max_width"] else natural


def _scales(start: Start, settings: dict, last: bool) -> tuple[float, float]:
    """Return initial kernel variance and lengthscale; under start=data also set the last layer's noise."""
    if settings["start"] != "data":
        wanted = settings["lengthscale"]
        return settings["kernel_variance"], math.sqrt(start.H.shape[1]) if wanted == "sqrt_dim" else wanted
    if not last:
        return INNER_VARIANCE, median_distance(start.H)
    gaussian = isinstance(start.likelihood, Gaussian)
    start.regression = gaussian and not start.latents and not settings["output_gps"]
    if start.regression:
        variance, scale, start.noise = regression(start.H, start.Y)
        return variance, scale
    variance, noise = WITHOUT
    start.noise = noise * max(float(start.Y.var(0).mean()), 1e-6) if gaussian else None
    return variance, median_distance(start.H)


def _best_last(start: Start, noise: float, layer: GPLayer, name: str) -> None:
    """Set the best q(u) of the last layer, and the noise that belongs to it."""
    values, own = start.values, scope(start.values, name)
    q_mu, q_sqrt, noise = best_posterior(layer, own, noise, start.H, start.Y, start.num_data)
    values |= {f"{name}/q_mu": q_mu, f"{name}/q_sqrt": q_sqrt, "likelihood/variance": np.asarray(noise)}


def _check_stackable(kernel: Kernel) -> None:
    if not kernel.stackable:
        raise UserError(
            f"model.per_output=kernel and all take rbf, matern, rational_quadratic and white kernels, their "
            f"sums and products; model.kernel={kernel} is another: set model.per_output=none"
        )


def _each(value: np.ndarray, outputs: int) -> np.ndarray:
    """Repeat a value for each output, along a first axis."""
    return np.repeat(np.asarray(value)[None], outputs, 0)


def _mean_function(
    wanted: str, H: np.ndarray, dim_out: int, released: bool = False
) -> tuple[str, np.ndarray | None]:
    """Return the kind of an inner mean function and the map W (None: identity) to the next layer.

    Identity where the width stays (as a W of its own if it is trained); PCA where it shrinks (released: the
    first inputs, so that a latent variable, which comes last, is dropped); identity padded with zeros where
    it grows. Under `zero` the map only places the next layer's inducing inputs.
    """
    dim_in = H.shape[1]
    if wanted == "identity" and dim_in != dim_out:
        raise UserError(
            f"model.mean=identity needs equal widths, not {dim_in} and {dim_out}; use auto, pca or zero"
        )
    if dim_in == dim_out and wanted not in ("pca", "linear_trained"):
        return "zero" if wanted == "zero" else "identity", None
    keep = (
        dim_in < dim_out
        or (dim_in == dim_out and wanted == "linear_trained")
        or (released and wanted != "pca")
    )
    W = np.eye(dim_in, dim_out) if keep else principal_axes(H, dim_out)
    return "zero" if wanted == "zero" else "linear", W


def _hold_noise(start: Start) -> None:
    """Fix a Gaussian likelihood's variance at its initial value."""
    if not isinstance(start.likelihood, Gaussian):
        raise UserError(
            f"model.likelihood_variance_trainable=false is for Gaussian noise, not {start.likelihood.name}"
        )
    start.fixed.add("likelihood/variance")
