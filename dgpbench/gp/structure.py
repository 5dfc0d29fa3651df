"""The structure of a model: which layers a config and the shapes of its parameters imply."""

from __future__ import annotations

import numpy as np

from dgpbench.config.kernel_names import KernelError
from dgpbench.config.keys import later_defaults
from dgpbench.errors import UserError
from dgpbench.gp import kernels, likelihoods
from dgpbench.gp.align import AlignLayer
from dgpbench.gp.deep_gp import DeepGP
from dgpbench.gp.kernels.base import Kernel
from dgpbench.gp.kernels.compose import with_white
from dgpbench.gp.latent import LatentLayer
from dgpbench.gp.layer import GPLayer
from dgpbench.gp.projection import ProjectionLayer
from dgpbench.gp.separate import SeparateLayer
from dgpbench.gp.warp import WarpLayer

WARPS = {layer.kind: layer for layer in (WarpLayer, AlignLayer)}


def structure(cfg: dict, values: dict[str, np.ndarray]) -> DeepGP:
    """The static structure that a config and the shapes of its parameters imply."""
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
    """The model's settings with those of one layer on top; what an older config lacks has its default."""
    return later_defaults("model") | model | model["layer_overrides"].get(str(index), {})


def layer_kernel(settings: dict, dim_in: int, inner: bool) -> Kernel:
    """The layer's kernel; noise between layers is white noise in the inner kernels."""
    try:
        kernel = kernels.parse(settings["kernel"], dim_in, bool(settings["ard"]))
    except KernelError as error:
        raise UserError(f"model.kernel={settings['kernel']} {error}") from None
    return with_white(kernel) if inner and settings["inner_noise"] else kernel
