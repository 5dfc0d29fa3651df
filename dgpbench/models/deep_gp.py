"""A deep GP: layers in sequence, samples propagated between them (DSVI; thesis section 2.3).

The structure is static and hashable, so that compiled steps can be reused across splits and seeds; all
numbers are in the parameter dictionary. Points are columns: a batch is X (D, B), Y (P, B).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from dgpbench.models import layers
from dgpbench.models.likelihoods import LIKELIHOODS
from dgpbench.models.parameters import scope

VARIANCE_FLOOR = {tf.float64: 1e-12, tf.float32: 1e-8}  # before the square root of a sample


@dataclass(frozen=True)
class DeepGP:
    """Layers from input to output, the last one without mean function."""

    layers: tuple[layers.GPLayer, ...]
    likelihood: str = "gaussian"

    @property
    def noise_dim(self) -> int:
        """Number of standard normals that one point needs to pass through the inner layers."""
        return sum(layer.output_dim for layer in self.layers[:-1])

    def parameter_names(self, index: int) -> tuple[str, str]:
        """Names of q(u) of one layer."""
        return f"layer{index}/q_mu", f"layer{index}/q_sqrt"


def prepare(
    model: DeepGP,
    values: dict[str, tf.Tensor],
    jitter: tf.Tensor,
    forms: Sequence[str] | None = None,
    batch_dtype: tf.DType = tf.float64,
) -> tuple[dict, list[tf.Tensor]]:
    """The M x M part of every layer: what the batch part reads, and each layer's L^-1.

    `forms` names a form for each layer (layers.py); None takes `white`, which is safe in every precision.
    """
    forms = forms or ("white",) * len(model.layers)
    done = [
        layers.prepare(layer, scope(values, f"layer{i}"), jitter, form, batch_dtype)
        for i, (layer, form) in enumerate(zip(model.layers, forms, strict=True))
    ]
    batch = {f"layer{i}": batch for i, (batch, _) in enumerate(done)}
    return batch | {"likelihood": scope(values, "likelihood")}, [Linv for _, Linv in done]


def kl_divergences(model: DeepGP, values: dict[str, tf.Tensor]) -> list[tf.Tensor]:
    """KL(q(u) || p(u)) of each layer."""
    names = [model.parameter_names(i) for i in range(len(model.layers))]
    return [layers.kl_divergence(values[m], values[L]) for m, L in names]


def propagate(model: DeepGP, prepared: dict, X: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance (P, B) of the last layer given one sample through the inner layers (thesis 2.17).

    X (D, B); noise (noise_dim, B) standard normal.
    """
    H, used = X, 0
    for i, layer in enumerate(model.layers):
        mean, var = layers.conditional(layer, prepared[f"layer{i}"], H)  # P, B
        if i < len(model.layers) - 1:
            eps = noise[used : used + layer.output_dim]
            H = mean + tf.sqrt(tf.maximum(var, VARIANCE_FLOOR[var.dtype])) * eps
            used += layer.output_dim
    return mean, var


def expected_log_likelihood(
    model: DeepGP, prepared: dict, X: tf.Tensor, Y: tf.Tensor, noise: tf.Tensor
) -> tf.Tensor:
    """E log p(y_n | f_n) for each column, over the last layer in closed form: (B,)."""
    mean, var = propagate(model, prepared, X, noise)
    return LIKELIHOODS[model.likelihood].variational_expectations(prepared["likelihood"], mean, var, Y)
