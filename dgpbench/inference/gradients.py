"""The value of an objective and its gradient, organised for speed, for any Bound.

`lower_bound` is the definition: weight * sum_n terms_n - penalty. `value_and_gradients` is the same number
with its gradient: the M x M part in the precision of the parameters outside XLA, the batch part in
`batch_dtype`, in column chunks that fit the cache, optionally compiled by XLA, and the two chained by hand.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from dgpbench.gp.fast.forms import fenced, open_positions
from dgpbench.gp.parameters import constrain
from dgpbench.inference.base import Bound, Numerics, Whole

if TYPE_CHECKING:
    from dgpbench.inference.base import Gradients, Pairs


def place_of(thing: Any, method: str = "terms") -> str:
    """`; see MyBound.terms (mine.py, line 12)` for a class that is not of this package; else nothing."""
    kind = type(thing)
    if kind.__module__.split(".")[0] == "dgpbench":
        return ""
    function = getattr(kind, method)
    code = inspect.unwrap(function).__code__
    return f"; see {kind.__name__}.{method} ({Path(code.co_filename).name}, line {code.co_firstlineno})"


ZERO = tf.UnconnectedGradients.ZERO


def lower_bound(
    bound: Bound, raw: Mapping[str, tf.Tensor], X, Y, noise, *, num_data, jitter=1e-6, rows=None, key=None
) -> tf.Tensor:
    """Return the bound from one draw of its noise, by its definition.

    X (D, B), Y (P, B), noise (noise_dim, K S B): sample (k, s) of point b stands in column (k S + s) B + b.
    `rows` (B,) are the training rows, where q(w) has parameters for each; `key` (2,) seeds a bound that draws
    in `prepare`.
    """
    values = constrain(raw, bound.constraints())
    numerics = Numerics(jitter, num_data=tf.cast(num_data, X.dtype))
    prepared, _ = bound.prepare(values, numerics, key, rows)
    data = tf.reduce_sum(bound.terms(prepared, X, Y, noise, tf.constant(0)))
    return data * (num_data / (X.shape[1] * bound.repeats)) - sum(
        bound.penalty(values, prepared, numerics).values()
    )


def batch_term(bound: Bound) -> Callable:
    """Return a function for the weighted sum of terms and its gradient in the prepared part."""

    def value_and_gradient(prepared, X, Y, noise, start, weight):
        with tf.GradientTape() as tape:
            tape.watch(prepared)
            terms = _checked(bound, bound.terms(fenced(prepared), X, Y, noise, start), X)
            value = tf.reduce_sum(terms) * weight
        return value, tape.gradient(value, prepared, unconnected_gradients=ZERO)

    return bound.own_gradient() or value_and_gradient


def _checked(bound: Bound, terms: tf.Tensor, X: tf.Tensor) -> tf.Tensor:
    """Return the terms; raise TypeError unless there is one for each column and repetition."""
    shape = getattr(terms, "shape", None)
    if shape is None or tuple(shape) != (wanted := (bound.repeats * X.shape[1],)):
        raise TypeError(f"terms of a bound must have shape {wanted}, got {shape}{place_of(bound)}")
    return terms


def value_and_gradients(
    bound: Bound,
    raw: Mapping[str, tf.Tensor],
    chunks: Sequence[tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]],
    weight: tf.Tensor,
    term: Callable,
    numerics: Numerics,
    *,
    trainable: Sequence[str],
    key: tf.Tensor | None = None,
    rows: tf.Tensor | None = None,
) -> tuple[tf.Tensor, Gradients, Pairs]:
    """Return the bound, its gradient for `trainable`, and the data part of (dL/dm, dL/dS) of natural layers.

    The layers in `numerics.natural` keep their KL out of the gradients of their q: its contribution to a
    natural-gradient step is known in closed form. `chunks` are (X, Y, noise, start) column blocks, `term` is
    that of `batch_term`, `weight` is N / (B S).
    """
    natural = numerics.natural
    with tf.GradientTape() as tape:
        tape.watch(raw)
        values = constrain(raw, bound.constraints())
        prepared, watched = bound.prepare(values, numerics, key, rows)
        penalty = bound.penalty(values, prepared, numerics)
        zero = tf.zeros((), next(iter(raw.values())).dtype)
        apart = natural if bound.whitened else ()  # a KL that depends on the kernel has a gradient there
        ordinary = sum((part for i, part in penalty.items() if i not in apart), zero)
        flat = tf.nest.flatten(prepared)

    batch_dtype = numerics.batch_dtype or zero.dtype
    low = tf.nest.map_structure(lambda t: tf.cast(t, batch_dtype), prepared)
    parts = [term(low, *chunk, tf.cast(weight, batch_dtype)) for chunk in chunks]
    data = sum(tf.cast(value, zero.dtype) for value, _ in parts)
    d_parts = zip(*[tf.nest.flatten(gradient) for _, gradient in parts], strict=True)
    d_flat = [sum(tf.cast(d, t.dtype) for d in ds) for t, ds in zip(flat, d_parts, strict=True)]
    through = [i for i, is_open in enumerate(open_positions(prepared)) if is_open]
    gradients, pairs = tape.gradient(
        [*(flat[i] for i in through), ordinary],
        [[raw[name] for name in trainable], [watched[i] for i in natural]],
        output_gradients=[*(d_flat[i] for i in through), -tf.ones_like(ordinary)],
        unconnected_gradients=ZERO,
    )
    data_part = {i: (g_m, tf.cast(g_S, g_m.dtype)) for i, (g_m, g_S) in zip(natural, pairs, strict=True)}
    dense = [tf.convert_to_tensor(g) for g in gradients]  # those of gathered rows come as slices
    return data - sum(penalty.values()), dict(zip(trainable, dense, strict=True)), data_part


def whole_term(objective: Whole) -> Callable:
    """Return a function for the value and gradient of a whole objective in its unconstrained values."""

    def value_and_gradient(raw, X, Y, noise, scale):
        X, Y = (tf.tile(A, (1, objective.samples)) for A in (X, Y))
        with tf.GradientTape() as tape:
            tape.watch(raw)
            terms = objective.terms(constrain(raw, objective.constraints()), X, Y, noise)
            value = scale * tf.reduce_sum(terms)
        return value, tape.gradient(value, raw)

    return value_and_gradient
