"""A fence around tensors whose gradient is known to be wrong: whoever differentiates through one is stopped.

The fast forms drop the gradient in L^-1: it follows from those in alpha and C, but only where A = L^-1 K
serves alpha A and A^T C A and nothing else (whitening.py). Used for anything else the value is right and the
gradient in K_zz silently zero. `gp.layer.whiten` is the A with its whole gradient.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf


class WrongGradient(RuntimeError):
    """Somebody differentiates through a tensor that has no gradient."""


class Fenced(NamedTuple):
    """A tensor behind the fence, inside the values that `prepare` makes."""

    value: tf.Tensor


@tf.custom_gradient
def fence(value: tf.Tensor) -> tf.Tensor:
    """The same value; its gradient raises WrongGradient when a graph or a tape asks for it."""

    def gradient(_):
        raise WrongGradient(
            "the fast L^-1 of a layer has no gradient outside alpha A and A^T C A; use gp.layer.whiten, "
            "whose A = L^-1 K has its whole gradient"
        )

    return tf.identity(value), gradient


def fenced(tree: Any) -> Any:
    """The same tree, with a fence in front of every Fenced tensor."""
    if isinstance(tree, Fenced):
        return Fenced(fence(tree.value))
    if isinstance(tree, dict):
        return {name: fenced(branch) for name, branch in tree.items()}
    if isinstance(tree, tuple):
        branches = [fenced(branch) for branch in tree]
        return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)
    return tree


def open_positions(tree: Any) -> list[bool]:
    """For each tensor of tf.nest.flatten(tree): whether it has a gradient."""
    marked = _marked(tree)
    return [bool(mark) for mark in tf.nest.flatten(marked)]


def _marked(tree: Any) -> Any:
    if isinstance(tree, Fenced):
        return Fenced(False)
    if isinstance(tree, dict):
        return {name: _marked(branch) for name, branch in tree.items()}
    if isinstance(tree, tuple):
        branches = [_marked(branch) for branch in tree]
        return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)
    return True
