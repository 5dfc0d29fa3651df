"""Which name is which class, and the kernel of a tree of names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dgpbench.config.kernel_names import DEGREES, Term, indices
from dgpbench.gp.kernels.arccosine import ArcCosine
from dgpbench.gp.kernels.base import Kernel, Part
from dgpbench.gp.kernels.compose import Active, Product, Sum
from dgpbench.gp.kernels.cosine import Cosine
from dgpbench.gp.kernels.gibbs import Gibbs
from dgpbench.gp.kernels.linear import Affine, Linear, Polynomial
from dgpbench.gp.kernels.periodic import Periodic
from dgpbench.gp.kernels.stationary import RBF, Matern12, Matern32, Matern52, RationalQuadratic
from dgpbench.gp.kernels.white import White
from dgpbench.gp.kernels.wiener import Wiener

PARTS: dict[str, Callable[[str, int, bool], Part]] = {
    "rbf": RBF,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "rational_quadratic": RationalQuadratic,
    "gibbs": Gibbs,
    "periodic": Periodic,
    "cosine": Cosine,
    "linear": Linear,
    "affine": Affine,
    "polynomial": Polynomial,
    "wiener": Wiener,
    "white": White,
    **{f"arccosine{order}": partial(ArcCosine, order=order) for order in (0, 1, 2)},
    **{f"polynomial{degree}": partial(Polynomial, degree=degree) for degree in DEGREES},
}


def build(term: Term, input_dim: int, ard: bool) -> Kernel:
    """The kernel of a tree. A name that occurs again gets a number: rbf, rbf_2, rbf_3."""
    used: dict[str, int] = {}

    def one(term: Term, dim: int) -> Kernel:
        if term.dims:
            dims = indices(term.dims, dim)
            return Active(one(Term(term.op, term.terms), len(dims)), dims, dim)
        if term.terms:
            parts = tuple(one(inner, dim) for inner in term.terms)
            return Sum(parts) if term.op == "+" else Product(parts)
        used[term.op] = count = used.get(term.op, 0) + 1
        return PARTS[term.op](term.op if count == 1 else f"{term.op}_{count}", dim, ard)

    return one(term, input_dim)
