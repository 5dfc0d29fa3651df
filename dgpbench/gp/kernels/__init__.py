"""Covariance functions as pure functions of constrained parameters, and how they compose.

Written here, not taken from GPflow, because the batch part runs in another precision than the M x M part and
under XLA; the tests hold each one against GPflow or NumPy. Points are columns: H is (D, B), inducing inputs
are rows: Z is (M, D), so that k(Z, H) is (M, B) and one matrix product gives all squared distances.

A kernel is written ``rbf*periodic@0+linear+white`` (config/kernel_names.py reads it, docs/kernels.md explains
it). Importing this package imports no TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dgpbench.config import plugins
from dgpbench.config.kernel_names import Term, indices, read

if TYPE_CHECKING:
    from dgpbench.gp.kernels.base import Kernel, Part


def parse(text: str, input_dim: int, ard: bool = True) -> Kernel:
    """The kernel that `text` describes over `input_dim` inputs; with `ard` one lengthscale for each."""
    return build(read(text), input_dim, ard)


def part_class(name: str) -> type[Part]:
    """Return the class that a name in a kernel's text means."""
    return plugins.load(plugins.entries("kernel")[name])


def build(term: Term, input_dim: int, ard: bool) -> Kernel:
    """The kernel of a tree. A name that occurs again gets a number: rbf, rbf_2, rbf_3."""
    from dgpbench.gp.kernels.compose import Active, Product, Sum

    used: dict[str, int] = {}

    def one(term: Term, dim: int) -> Kernel:
        if term.dims:
            dims = indices(term.dims, dim)
            return Active(one(Term(term.op, term.terms), len(dims)), dims, dim)
        if term.terms:
            parts = tuple(one(inner, dim) for inner in term.terms)
            return Sum(parts) if term.op == "+" else Product(parts)
        used[term.op] = count = used.get(term.op, 0) + 1
        name = term.op if count == 1 else f"{term.op}_{count}"
        return part_class(term.op).of_family(term.op, name, dim, ard)

    return one(term, input_dim)
