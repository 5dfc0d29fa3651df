"""A deep GP: layers in sequence, samples propagated between them (DSVI; thesis section 2.3), with or without
latent variables (thesis chapters 4 and 5).

The structure is static and hashable, so that compiled steps can be reused across splits and seeds; all
numbers are in the parameter dictionary. Points are columns: a batch is X (D, B), Y (P, B). C = S B columns
are S samples of the batch; behind the first latent layer each column becomes K, sample k of column c standing
in column k C + c.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from dgpbench.gp.likelihoods.base import VARIANCE_FLOOR, Likelihood
from dgpbench.gp.likelihoods.distributions import Gaussian
from dgpbench.gp.parameters import Constraint, below, scope
from dgpbench.gp.propagation import Flow, Preparation, Whitened

Layer = Any  # GPLayer, LatentLayer or ProjectionLayer: distinguished by what they do, not by their type
Pair = tuple[tf.Tensor, tf.Tensor]


@dataclass(frozen=True)
class DeepGP:
    """Layers from input to output, the last one a GP without mean function."""

    layers: tuple[Layer, ...]
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
        """Standard normals that one point needs: for the inner layers, then for the likelihood."""
        inner = sum(layer.noise_dim for layer in self.layers[:-1])
        return inner + self.likelihood.noise_rows(self.output_dim)

    @property
    def latent(self) -> tuple[int, ...]:
        """Positions of the latent layers."""
        return self._positions("lv")

    @property
    def gps(self) -> tuple[int, ...]:
        """Positions of the GP layers."""
        return self._positions("gp")

    def _positions(self, kind: str) -> tuple[int, ...]:
        return tuple(i for i, layer in enumerate(self.layers) if layer.kind == kind)

    def noise_rows(self, index: int) -> slice:
        """Return the rows of the noise that belong to one layer."""
        before = sum(layer.noise_dim for layer in self.layers[:index])
        return slice(before, before + self.layers[index].noise_dim)

    @property
    def likelihood_rows(self) -> slice:
        """Rows of the noise that belong to the likelihood."""
        return slice(self.noise_dim - self.likelihood.noise_rows(self.output_dim), self.noise_dim)

    def parameter_names(self, index: int) -> tuple[str, str]:
        """Return the names of q(u) of one layer."""
        return f"layer{index}/q_mu", f"layer{index}/q_sqrt"

    def constraints(self) -> dict[str, Constraint]:
        """Return the constraint of every parameter that is not free, by its full name."""
        out = below("likelihood", self.likelihood.constraints())
        for i, layer in enumerate(self.layers):
            out |= below(f"layer{i}", layer.constraints())
        return out

    def is_variational(self, name: str) -> bool:
        """Return whether a parameter belongs to q and not to the model."""
        first, _, rest = name.partition("/")
        if not first.startswith("layer"):
            return False
        return rest.split("/")[0] in self.layers[int(first.removeprefix("layer"))].variational

    def describe(self) -> str:
        """Return the layers in one line: 8 -> 8 -> 1, with latents as `+ w(1)` and mixed GPs in brackets."""
        return " -> ".join([str(self.input_dim), *(layer.describe() for layer in self.layers)])


def prepare(
    model: DeepGP,
    values: Mapping[str, tf.Tensor],
    jitter: tf.Tensor,
    forms: Sequence[str] | None = None,
    batch_dtype: tf.DType = tf.float64,
    rows: tf.Tensor | None = None,
    natural: Sequence[int] = (),
    q: Mapping[int, Whitened] | None = None,
    compiled: bool = False,
) -> tuple[dict, dict[int, Pair]]:
    """Return the M x M part: every layer as the batch part reads it, and m and S - I of each GP layer.

    `forms` names a form for each layer (fast/forms.py). The default `white` is safe in every precision.
    `rows` are the training rows of the batch, needed where q(w) has parameters for each row. The layers in
    `natural` have gradients in their m and S - I. `q` gives posteriors instead of the layers' own q_mu and
    q_sqrt. With `compiled`, XLA compiles this part too.
    """
    forms = forms or ("white",) * len(model.layers)
    prepared: dict = {"likelihood": scope(values, "likelihood")}
    watched: dict[int, Pair] = {}
    for i, (layer, form) in enumerate(zip(model.layers, forms, strict=True)):
        how = Preparation(jitter, form, batch_dtype, rows, i in natural, (q or {}).get(i), compiled)
        prepared[f"layer{i}"], pair = layer.prepare(scope(values, f"layer{i}"), how)
        if pair is not None:
            watched[i] = pair
    if model.latent:
        prepared["jitter"] = tf.convert_to_tensor(jitter, next(iter(values.values())).dtype)
    return prepared, watched


def penalties(model: DeepGP, values: Mapping[str, tf.Tensor]) -> dict[int, tf.Tensor]:
    """Return KL(q || p) of the parameters that all points share, by layer: q(u), and q(A) of a projection."""
    each = {i: layer.penalty(scope(values, f"layer{i}")) for i, layer in enumerate(model.layers)}
    return {i: kl for i, kl in each.items() if kl is not None}


def walk(model: DeepGP, prepared: dict, X: tf.Tensor, flow: Flow) -> Iterator[tuple[Layer, Any, tf.Tensor]]:
    """Yield each layer, its prepared part and a sample of its inputs, from the first layer to the last."""
    H = X
    if flow.repeat > 1 and not (model.layers[0].kind == "gp" and len(model.layers) > 1):
        H, flow.repeat = tf.tile(X, (1, flow.repeat)), 1
    for i, layer in enumerate(model.layers):
        batch = prepared[f"layer{i}"]
        yield layer, batch, H
        if i < len(model.layers) - 1:
            H = layer.carry(batch, H, flow)


def propagate(
    model: DeepGP,
    prepared: dict,
    X: tf.Tensor,
    noise: tf.Tensor,
    w: Sequence[tf.Tensor] = (),
    K: int = 1,
    joint: bool = True,
    repeat: int = 1,
) -> Pair:
    """Return mean and variance (P, K C) of the last layer given one sample of the inner ones (thesis 2.17).

    X (D, C); noise (noise_dim, K C) standard normal; w (dim, K, C) the value of each latent layer. `joint`:
    the K values of a point come from one draw of each inner function, as (5.11) asks; else from K draws.
    Without latent layers K is 1. The moments are those of the last layer's GPs, before `mixed_outputs`.
    `repeat` samples of each column, in blocks, for X (D, C / repeat): a GP at the inputs is then asked once.
    """
    flow = Flow(noise, w, K, joint, repeat, prepared.get("jitter"))
    *_, (layer, batch, H) = walk(model, prepared, X, flow)
    mean, var = layer.conditional(batch, H)
    if var.dtype == tf.float32:  # rounding can leave it below 0, and a bound without this grows by that
        var = tf.maximum(var, VARIANCE_FLOOR[var.dtype.name])
    return mean, var


def mixed_outputs(
    model: DeepGP, prepared: dict, mean: tf.Tensor, var: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean and variance of each output P f, given those of the last layer's GPs."""
    if not model.layers[-1].mixed:
        return mean, var
    P = prepared[f"layer{len(model.layers) - 1}"].mixing["P"]
    return tf.matmul(P, mean), tf.matmul(tf.square(P), var)


def expected_log_likelihood(
    model: DeepGP, prepared: dict, X, Y, noise, w: Sequence[tf.Tensor] = (), K: int = 1, joint: bool = True
) -> tf.Tensor:
    """Return L_n = E log p(y_n | f_n) over the last layer (5.8) for K samples of each column: (K, C).

    It is in closed form or by quadrature. Softmax is sampled, from its rows of the noise.
    """
    mean, var = mixed_outputs(model, prepared, *propagate(model, prepared, X, noise, w, K, joint))
    each = model.likelihood.variational_expectations(
        prepared["likelihood"], mean, var, tf.tile(Y, (1, K)), noise[model.likelihood_rows]
    )
    return tf.reshape(each, (K, -1))
