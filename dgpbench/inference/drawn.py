"""Bounds whose inducing outputs are drawn in `prepare`, once for all points of a batch.

Points of a batch then see the same functions, so that layers may depend on each other. The last layer is not
drawn: given the draw below it, its q(u) is Gaussian and its part of the bound is analytic. `PassedThrough`
has inducing inputs at the first layer only; its outputs there are the inducing inputs of the next, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dgpbench.gp.lazy import lazy
from dgpbench.inference.base import Bound, Method, Numerics, Update
from dgpbench.inference.fits import any_own_inducing, gp_layers_only
from dgpbench.inference.variational import ADAM_FIELDS, adam_rates

if TYPE_CHECKING:
    import tensorflow as tf

    from dgpbench.gp import deep_gp, parameters, propagation
else:
    tf, deep_gp = lazy("tensorflow"), lazy("dgpbench.gp.deep_gp")
    parameters, propagation = lazy("dgpbench.gp.parameters"), lazy("dgpbench.gp.propagation")

PREDICTIVE_DRAWS = 50  # of all inducing outputs, over which predictions average


@dataclass(frozen=True)
class Drawn(Bound):
    """A subclass has `draw`. `samples` draws of a step are averaged; prediction prepares one at a time."""

    @property
    def draws(self) -> int:  # type: ignore[override]  # depends on the depth here
        return PREDICTIVE_DRAWS if len(self.model.layers) > 1 else 1

    @property
    def drawn_numbers(self) -> int:  # type: ignore[override]  # depends on the sizes here
        return sum(layer.output_dim * layer.num_inducing**2 for layer in self.model.layers)

    def draw(self, values, numerics: Numerics, key) -> tuple[dict[str, Any], dict[int, tf.Tensor]]:
        """The prepared layers by name, inner ones given their drawn u, and each KL given those below."""
        raise NotImplementedError

    def prepare(self, values, numerics: Numerics, key=None, rows=None) -> tuple[Any, dict]:
        count = 1 if numerics.num_data is None else self.samples
        copies = {name: fan_out(v, count) for name, v in values.items()}
        each = []
        for s in range(count):
            own = None if key is None else stream(key, s)
            each.append(self.draw({name: copy[s] for name, copy in copies.items()}, numerics, own))
        layers, penalties = zip(*each, strict=True)
        kl = {i: sum(one[i] for one in penalties) / count for i in penalties[0]}
        return {"likelihood": parameters.scope(values, "likelihood"), "draws": layers, "kl": kl}, {}

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        each, B = [], X.shape[1]
        for s, layers in enumerate(prepared["draws"]):
            own = layers | {"likelihood": prepared["likelihood"]}
            part = noise[:, s * B : (s + 1) * B]
            each.append(deep_gp.expected_log_likelihood(self.model, own, X, Y, part)[0])
        return tf.concat(each, 0)

    def penalty(self, values, prepared, numerics: Numerics) -> dict[int, tf.Tensor]:
        return prepared["kl"]

    def moments(self, prepared, X, noise, w=(), K: int = 1, joint: bool = True, repeat: int = 1):
        return deep_gp.propagate(self.model, self.layers(prepared), X, noise, w, K, joint, repeat)

    def layers(self, prepared) -> dict[str, Any]:
        return prepared["draws"][0]


class Given(NamedTuple):
    """A layer given its inducing inputs: q(u) whitened, a drawn point in an inner layer; KL(q(u) || p(u))
    before the draw; the drawn outputs at the inducing inputs (width, M), in an inner layer."""

    q: Any
    kl: tf.Tensor
    outputs: tf.Tensor | None = None


@dataclass(frozen=True)
class PassedThrough(Drawn):
    """A subclass has `given`. Z of the layers above the first only tells their structure."""

    def given(self, layer, p: Mapping[str, tf.Tensor], K: tf.Tensor, Z: tf.Tensor, key) -> Given:
        """The layer with parameters p at inducing inputs Z (D, M), K = k(Z, Z) with jitter (M, M), or
        (P, M, M) where each output has a kernel; `key` seeds the draw of an inner layer, and is None in the
        last."""
        raise NotImplementedError

    def draw(self, values, numerics: Numerics, key) -> tuple[dict[str, Any], dict[int, tf.Tensor]]:
        layers, penalties, last = {}, {}, len(self.model.layers) - 1
        dtype = numerics.batch_dtype or values["layer0/Z"].dtype
        Z = values["layer0/Z"]
        for i, layer in enumerate(self.model.layers):
            for_gram, for_mean, here = fan_out(Z, 3)
            p = parameters.scope(values, f"layer{i}")
            K = layer.gram(p | {"Z": for_gram}, numerics.jitter)
            own = stream(key, i) if i < last else None
            found = self.given(layer, p, K, tf.transpose(for_mean), own)
            form = numerics.forms[i] if numerics.forms else "white"
            how = propagation.Preparation(numerics.jitter, form, dtype, q=found.q)
            layers[f"layer{i}"], _ = layer.prepare(p | {"Z": here}, how)
            penalties[i] = found.kl
            if found.outputs is not None:
                Z = tf.transpose(found.outputs)
        return layers, penalties


def stream(key: tf.Tensor, index: int) -> tf.Tensor:
    """A key of its own for each index."""
    return tf.random.experimental.stateless_fold_in(key, index)


def normals(key: tf.Tensor, shape: tuple[int, ...], dtype) -> tf.Tensor:
    """Standard normals; the same ones in every precision."""
    return tf.cast(tf.random.stateless_normal(shape, key, dtype=tf.float32, alg="philox"), dtype)


def fan_out(value: tf.Tensor, count: int) -> list[tf.Tensor]:
    """So many copies, whose gradients are added in pairs: the sum of more depends on their order."""
    copies = []
    for _ in range(count - 1):
        copies.append(tf.identity(value))
        value = tf.identity(value)
    return [*copies, value]


class DrawnMethod(Method):
    """What these methods share: Adam, and models of GP layers."""

    fields = ADAM_FIELDS
    own_kernels: ClassVar[bool] = False  # whether it takes layers with a kernel for each output

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        own = self.settings["name"]
        if reason := gp_layers_only(own, model, self.own_kernels):
            return reason
        if model.get("output_gps"):
            return (
                f"model.output_gps={model['output_gps']} makes correlated outputs, and inference={own} "
                "takes each by itself; set model.output_gps=null or use inference=dsvi"
            )
        if self.cfg["precision"] == "float32":
            return f"inference={own} draws through Cholesky factors; use precision=mixed or float64"
        return None

    def update(self, bound: Bound) -> Update:
        from dgpbench.inference.updates.adam import Adam

        return Adam()

    def rates(self) -> dict[str, float]:
        return adam_rates(self.settings["adam"])


class PassedThroughMethod(DrawnMethod):
    """What the methods of `PassedThrough` share: one set of inducing points for all layers and outputs."""

    own_kernels = True

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        if reason := super().refuses(model, likelihood):
            return reason
        own = self.settings["name"]
        if any_own_inducing(model):
            return (
                f"inference={own} takes model.per_output=kernel, not all: the outputs of a layer share the "
                "inducing inputs that pass through; use kernel or set model.per_output=none"
            )
        overrides = model.get("layer_overrides") or {}
        layers = range(len(model.get("layers", ())))
        counts = [overrides.get(str(i), {}).get("num_inducing", model["num_inducing"]) for i in layers]
        if len(set(counts)) < 2:
            return None
        return (
            f"inference={own} passes the same inducing points through all layers; model.layer_overrides "
            f"gives them {', '.join(map(str, counts))}: set model.num_inducing alone"
        )
