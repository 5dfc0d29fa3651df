"""A deep GP: layers in sequence, samples propagated between them (DSVI; thesis section 2.3), with or without
latent variables (thesis chapters 4 and 5).

The structure is static and hashable, so that compiled steps can be reused across splits and seeds; all
numbers are in the parameter dictionary. Points are columns: a batch is X (D, B), Y (P, B). C = S B columns
are S samples of the batch; behind the first latent layer each column becomes K, sample k of column c standing
in column k C + c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from dgpbench.models import latent, layers, projection
from dgpbench.models.latent import LatentLayer
from dgpbench.models.layers import GPLayer
from dgpbench.models.likelihoods.base import Likelihood
from dgpbench.models.likelihoods.continuous import Gaussian
from dgpbench.models.parameters import scope
from dgpbench.models.projection import ProjectionLayer


@dataclass(frozen=True)
class DeepGP:
    """Layers from input to output, the last one a GP without mean function."""

    layers: tuple[GPLayer | LatentLayer | ProjectionLayer, ...]
    likelihood: Likelihood = Gaussian()

    @property
    def input_dim(self) -> int:
        return self.layers[0].input_dim

    @property
    def output_dim(self) -> int:
        return self.layers[-1].width

    @property
    def target_dim(self) -> int:
        """Columns of Y: one for classes, however many functions they have."""
        return self.likelihood.targets(self.output_dim)

    @property
    def noise_dim(self) -> int:
        """Number of standard normals that one point needs: for the inner layers, then for the likelihood."""
        inner = sum(layer.noise_dim for layer in self.layers[:-1])
        return inner + self.likelihood.noise_rows(self.output_dim)

    @property
    def latent(self) -> tuple[int, ...]:
        """Positions of the latent layers."""
        return tuple(i for i, layer in enumerate(self.layers) if isinstance(layer, LatentLayer))

    @property
    def gps(self) -> tuple[int, ...]:
        """Positions of the GP layers."""
        return tuple(i for i, layer in enumerate(self.layers) if isinstance(layer, GPLayer))

    def noise_rows(self, index: int) -> slice:
        """The rows of the noise that belong to one layer."""
        before = sum(layer.noise_dim for layer in self.layers[:index])
        return slice(before, before + self.layers[index].noise_dim)

    @property
    def likelihood_rows(self) -> slice:
        """The rows of the noise that belong to the likelihood."""
        return slice(self.noise_dim - self.likelihood.noise_rows(self.output_dim), self.noise_dim)

    def parameter_names(self, index: int) -> tuple[str, str]:
        """Names of q(u) of one layer."""
        return f"layer{index}/q_mu", f"layer{index}/q_sqrt"


def prepare(
    model: DeepGP,
    values: dict[str, tf.Tensor],
    jitter: tf.Tensor,
    forms: Sequence[str] | None = None,
    batch_dtype: tf.DType = tf.float64,
    rows: tf.Tensor | None = None,
    natural: Sequence[int] = (),
) -> tuple[dict, dict[int, tuple[tf.Tensor, tf.Tensor]]]:
    """What does not depend on the batch: what the batch part reads of every layer, and each GP's m and S - I.

    `forms` names a form for each layer (layers.py); None takes `white`, which is safe in every precision.
    `rows` are the training rows of the batch, where q(w) has parameters for each. The layers in `natural`
    have gradients in their m and S - I.
    """
    forms = forms or ("white",) * len(model.layers)
    prepared: dict = {"likelihood": scope(values, "likelihood")}
    moments: dict[int, tuple[tf.Tensor, tf.Tensor]] = {}
    for i, (layer, form) in enumerate(zip(model.layers, forms, strict=True)):
        p = scope(values, f"layer{i}")
        if isinstance(layer, GPLayer):
            made = layers.prepare(layer, p, jitter, form, batch_dtype, i in natural)
            prepared[f"layer{i}"], moments[i] = made
        elif isinstance(layer, LatentLayer):
            prepared[f"layer{i}"] = latent.prepare(layer, p, rows)
        else:
            prepared[f"layer{i}"] = projection.prepare(p)
    if model.latent:
        prepared["jitter"] = tf.convert_to_tensor(jitter, next(iter(values.values())).dtype)
    return prepared, moments


def kl_divergences(model: DeepGP, values: dict[str, tf.Tensor]) -> dict[int, tf.Tensor]:
    """KL(q || p) of what all points share, by layer: q(u) of the GPs, q(A) of a projection."""
    kl = {}
    for i, layer in enumerate(model.layers):
        if isinstance(layer, GPLayer):
            m, L = model.parameter_names(i)
            kl[i] = layers.kl_divergence(values[m], values[L])
        elif isinstance(layer, ProjectionLayer):
            kl[i] = projection.kl_divergence(scope(values, f"layer{i}"))
    return kl


def propagate(
    model: DeepGP,
    prepared: dict,
    X: tf.Tensor,
    noise: tf.Tensor,
    w: Sequence[tf.Tensor] = (),
    K: int = 1,
    joint: bool = True,
    repeat: int = 1,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance (P, K C) of the last layer given one sample through the inner layers (thesis 2.17).

    X (D, C); noise (noise_dim, K C) standard normal; w (dim, K, C) the value of each latent layer. `joint`:
    the K values of a point come from one draw of each inner function, as (5.11) asks; else from K draws.
    Without latent layers K is 1. The moments are those of the last layer's GPs, before `mixed_outputs`.
    `repeat` samples of each column, in blocks, for X (D, C / repeat): a GP at the inputs is then asked once.
    """
    H, values, spread = X, list(w), 1
    if repeat > 1 and not (isinstance(model.layers[0], GPLayer) and len(model.layers) > 1):
        H, repeat = tf.tile(X, (1, repeat)), 1
    for i, layer in enumerate(model.layers[:-1]):
        batch = prepared[f"layer{i}"]
        if isinstance(layer, LatentLayer):
            H = tf.tile(H, (1, K)) if spread == 1 else H
            spread = K
            H = tf.concat([H, batch["scale"] * tf.reshape(values.pop(0), (layer.dim, -1))], 0)
            continue
        eps = noise[model.noise_rows(i), : H.shape[1] * repeat]
        repeat = 1
        if isinstance(layer, ProjectionLayer):
            H = projection.sample(batch, H, eps)
        else:
            H = layers.sample(layer, batch, H, eps, spread if joint else 1, prepared.get("jitter"))
    return layers.conditional(model.layers[-1], prepared[f"layer{len(model.layers) - 1}"], H)


def mixed_outputs(
    model: DeepGP, prepared: dict, mean: tf.Tensor, var: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance of each output P f, given those of the last layer's GPs; they are correlated."""
    if not model.layers[-1].mixed:
        return mean, var
    P = prepared[f"layer{len(model.layers) - 1}"]["P"]
    return tf.matmul(P, mean), tf.matmul(tf.square(P), var)


def expected_log_likelihood(
    model: DeepGP, prepared: dict, X, Y, noise, w: Sequence[tf.Tensor] = (), K: int = 1, joint: bool = True
) -> tf.Tensor:
    """L_n = E log p(y_n | f_n) over the last layer (5.8), K samples of each column: (K, C).

    In closed form or by quadrature; softmax takes a sample of its own, from its rows of the noise.
    """
    mean, var = mixed_outputs(model, prepared, *propagate(model, prepared, X, noise, w, K, joint))
    each = model.likelihood.variational_expectations(
        prepared["likelihood"], mean, var, tf.tile(Y, (1, K)), noise[model.likelihood_rows]
    )
    return tf.reshape(each, (K, -1))
