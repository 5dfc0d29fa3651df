"""What an update is given: a minibatch, and the oracle of the objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import tensorflow as tf

    from dgpbench.inference.base import Bound, Gradients, Pairs, Values


class Batch(NamedTuple):
    """Minibatch of a step, in rows: X (B, D), Y (B, P); `rows` (B,) are its training rows."""

    X: tf.Tensor
    Y: tf.Tensor
    step: tf.Tensor
    rows: tf.Tensor | None


class Oracle(Protocol):
    """The objective, as an update asks for it."""

    trainable: list[str]  # parameters that may move
    raw: dict[str, tf.Variable]  # unconstrained parameters
    slots: dict[str, tf.Variable]  # state of the update
    rates: dict[str, tf.Variable]  # numbers that its steps depend on
    num_data: tf.Variable  # N
    jitter: tf.Variable

    def __call__(
        self,
        batch: Batch,
        names: Sequence[str],
        natural: Sequence[int] = (),
        draw: int = 0,
        replaced: Values | None = None,
    ) -> tuple[tf.Tensor, Gradients, Pairs]:
        """The objective at the raw values (`replaced` in their place), its gradient in `names`, and for each
        `natural` layer the data part of (dL/dm, dL/dS), whose KL is left out. `draw` chooses the noise."""

    def full_batch(self, step) -> Batch:
        """All training rows."""

    def of(self, bound: Bound) -> Oracle:
        """The same variables under another bound, for an update in phases."""

    def fused(self, function: Callable) -> Callable:
        """`function(oracle, *tensors)` as a function of the tensors: one program of XLA where every layer's
        form allows that, and then the oracle that it gets is for use in there."""

    def key(self, batch: Batch, stream: int) -> tf.Tensor:
        """Seed of an update's own stateless random numbers, from the run's seed, the step and the stream."""
