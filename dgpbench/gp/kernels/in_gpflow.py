"""Kernels as GPflow's classes, there and back. GPflow is imported when a function is called.

In GPflow only a single kernel has active dimensions, so those of a sum or product go down to its parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dgpbench.config import plugins
from dgpbench.config.kernel_names import read
from dgpbench.errors import UserError, import_gpflow
from dgpbench.gp.kernels import part_class
from dgpbench.gp.kernels.base import Kernel, Part
from dgpbench.gp.kernels.compose import Active, Combination, Product, Sum
from dgpbench.gp.parameters import below, scope

Values = dict[str, np.ndarray]


def _counterparts() -> dict[str, tuple[str, dict[str, str], dict[str, int]]]:
    """By name GPflow's class, our and its parameters, and its structure."""
    found = {}
    for name in plugins.entries("kernel"):
        kind = part_class(name)
        if theirs := vars(kind).get("in_gpflow"):  # not that of a base class
            part = kind.of_family(name, name, 1, True)
            structure = {key: getattr(part, key) for key in ("degree", "order") if hasattr(part, key)}
            found[name] = (*theirs, structure)
    return found


THEIRS = _counterparts()
ALL = (*THEIRS, "periodic")
LEAST = 1e-12  # a positive parameter that has rounded to 0 has no logarithm


def to_gpflow(kernel: Kernel, values: Values) -> Any:
    """GPflow's kernel with these values, named as in `kernel.initial`; UserError where GPflow has none."""
    return _theirs(kernel, values, None)


def _theirs(kernel: Kernel, values: Values, dims: tuple[int, ...] | None) -> Any:
    gpflow = import_gpflow()

    if isinstance(kernel, Active):
        inner = kernel.dims if dims is None else tuple(dims[d] for d in kernel.dims)
        return _theirs(kernel.kernel, values, inner)
    if isinstance(kernel, Combination):
        join = gpflow.kernels.Sum if isinstance(kernel, Sum) else gpflow.kernels.Product
        return join([_theirs(part, values, dims) for part in kernel.parts])
    name = str(kernel)
    if not isinstance(kernel, Part) or name not in ALL:
        raise UserError(f"GPflow has no kernel {name}; it has {', '.join(ALL)}, their sums and products")
    own = {key: np.maximum(v, LEAST) for key, v in scope(values, kernel.name).items()}
    active = None if dims is None else list(dims)
    if name == "periodic":
        base = gpflow.kernels.SquaredExponential(own["variance"], own["lengthscales"], active_dims=active)
        return gpflow.kernels.Periodic(base, own["period"])
    class_name, names, structure = THEIRS[name]
    arguments = {theirs: own[ours] for ours, theirs in names.items()}
    return getattr(gpflow.kernels, class_name)(**structure, **arguments, active_dims=active)


def from_gpflow(theirs: Any, input_dim: int) -> tuple[Kernel, Values]:
    """The kernel over `input_dim` inputs that equals GPflow's, and its values; UserError where there is none.

    Parts are named in the order of the text: a second rbf is rbf_2.
    """
    gpflow = import_gpflow()

    used: dict[str, int] = {}
    values: Values = {}

    def one(k: Any) -> Kernel:
        if type(k) in (gpflow.kernels.Sum, gpflow.kernels.Product):
            parts = tuple(one(inner) for inner in k.kernels)
            return Sum(parts) if type(k) is gpflow.kernels.Sum else Product(parts)
        family = _family(k)
        used[family] = count = used.get(family, 0) + 1
        name = family if count == 1 else f"{family}_{count}"
        dims = _active(k, input_dim) if family != "white" else tuple(range(input_dim))
        own = _values(k, family, len(dims))
        values.update(below(name, own))
        part = part_class(family).of_family(family, name, len(dims), any(v.ndim for v in own.values()))
        return part if dims == tuple(range(input_dim)) else Active(part, dims, input_dim)

    kernel = one(theirs)
    try:
        read(str(kernel))
    except UserError as error:  # white noise where this package has none
        raise UserError(f"GPflow's kernel {kernel} {error}") from None
    return kernel, values


def values_of(kernel: Kernel, theirs: Any) -> Values:
    """The values of `kernel` that GPflow's, made by `to_gpflow`, has now."""
    made, values = from_gpflow(theirs, kernel.input_dim)
    pairs = zip(kernel.names, made.names, strict=True)  # polynomial2 is polynomial
    return {f"{ours}/{leaf}": v for ours, name in pairs for leaf, v in scope(values, name).items()}


def _family(theirs: Any) -> str:
    gpflow = import_gpflow()

    if (
        type(theirs) is gpflow.kernels.Periodic
        and type(theirs.base_kernel) is gpflow.kernels.SquaredExponential
    ):
        return "periodic"
    for name, (kind, _, structure) in THEIRS.items():
        same = type(theirs) is getattr(gpflow.kernels, kind)
        if same and all(getattr(theirs, key) == value for key, value in structure.items()):
            return name
    raise UserError(f"GPflow's kernel {type(theirs).__name__} is none of {', '.join(ALL)}")


def _active(theirs: Any, input_dim: int) -> tuple[int, ...]:
    dims = theirs.active_dims
    return tuple(range(input_dim)[dims] if isinstance(dims, slice) else (int(d) for d in dims))


def _values(theirs: Any, family: str, dim: int) -> Values:
    if family != "periodic":
        return {ours: getattr(theirs, name).numpy() for ours, name in THEIRS[family][1].items()}
    base = theirs.base_kernel
    own = {"lengthscales": base.lengthscales.numpy(), "period": theirs.period.numpy()}
    if any(v.ndim for v in own.values()):  # one number for all inputs beside one for each
        own = {name: np.broadcast_to(v, (dim,)).copy() for name, v in own.items()}
    return own | {"variance": base.variance.numpy()}
