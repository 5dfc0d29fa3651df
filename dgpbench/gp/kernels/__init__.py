"""Covariance functions as pure functions of constrained parameters, and how they compose.

Written here, not taken from GPflow, because the batch part runs in another precision than the M x M part and
under XLA; the tests hold each one against GPflow or NumPy. Points are columns: H is (D, B), inducing inputs
are rows: Z is (M, D), so that k(Z, H) is (M, B) and one matrix product gives all squared distances.

A kernel is written ``rbf*periodic@0+linear+white`` (config/kernel_names.py reads it, docs/kernels.md explains
it). One file holds one family; `catalogue` says which name is which class. Importing this package imports no
TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgpbench.gp.kernels.base import Kernel


def parse(text: str, input_dim: int, ard: bool = True) -> Kernel:
    """The kernel that `text` describes over `input_dim` inputs; with `ard` one lengthscale for each."""
    from dgpbench.config.kernel_names import read
    from dgpbench.gp.kernels.catalogue import build

    return build(read(text), input_dim, ard)
