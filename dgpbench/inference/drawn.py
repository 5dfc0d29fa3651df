"""Bounds whose inducing outputs are drawn in `prepare`, once for all points of a batch.

All points of a batch see the same functions, so that layers may depend on each other. The last layer is not
drawn: given the draw below it, its q(u) is Gaussian and its part of the bound is analytic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dgpbench.gp.lazy import lazy
from dgpbench.inference.adam_method import (
    AdamMethod,
    correlated_outputs,
    gp_layers_only,
)
from dgpbench.inference.base import Bound, Numerics, Update

if TYPE_CHECKING:
    import tensorflow as tf

    from dgpbench.gp import deep_gp, parameters, propagation
else:
    tf, deep_gp = lazy("tensorflow"), lazy("dgpbench.gp.deep_gp")
    parameters, propagation = lazy("dgpbench.gp.parameters"), lazy("dgpbench.gp.propagation")

PREDICTIVE_DRAWS = 50  # of all inducing outputs, over which predictions average


@dataclass(frozen=True)
class Drawn(Bound):
    """Subclasses implement `draw`. A step averages `samples` draws; prediction prepares one at a time."""

    @property
    def draws(self) -> int:  # type: ignore[override]  # depends on the depth here
        return PREDICTIVE_DRAWS if len(self.model.layers) > 1 else 1

    @property
    def drawn_numbers(self) -> int:  # type: ignore[override]  # depends on the sizes here
        return sum(layer.output_dim * layer.num_inducing**2 for layer in self.model.layers)

    def draw(self, values, numerics: Numerics, key) -> tuple[dict[str, Any], dict[int, tf.Tensor]]:
        """Return the prepared layers by name, inner ones given their drawn u, and each KL."""
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


def stream(key: tf.Tensor, index: int) -> tf.Tensor:
    """Return a separate key for each index."""
    return tf.random.experimental.stateless_fold_in(key, index)


def normals(key: tf.Tensor, shape: tuple[int, ...], dtype) -> tf.Tensor:
    """Return standard normals, the same in every precision."""
    return tf.cast(tf.random.stateless_normal(shape, key, dtype=tf.float32, alg="philox"), dtype)


def fan_out(value: tf.Tensor, count: int) -> list[tf.Tensor]:
    """Return `count` copies whose gradients are added in pairs: the sum of more depends on their order."""
    copies = []
    for _ in range(count - 1):
        copies.append(tf.identity(value))
        value = tf.identity(value)
    return [*copies, value]


class DrawnMethod(AdamMethod):
    """Base class of these methods: Adam, and models of GP layers."""

    own_kernels: ClassVar[bool] = False  # whether layers may have a kernel for each output

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        own = self.settings["name"]
        layers = gp_layers_only(own, model, self.own_kernels)
        if reason := layers or correlated_outputs(own, model, "output_gps"):
            return reason
        if self.cfg["precision"] == "float32":
            return f"inference={own} draws through Cholesky factors; use precision=mixed or float64"
        return None

    def update(self, bound: Bound) -> Update:
        from dgpbench.inference.updates.adam import Adam

        return Adam()
