"""What a kernel offers (`Kernel`), and what those with parameters of their own share (`Part`)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import tensorflow as tf

from dgpbench.errors import UserError
from dgpbench.gp.parameters import POSITIVE, Constraint, below

NAME = re.compile(r"[A-Za-z_]\w*(?<!_\d)", re.ASCII)  # rbf_2 is the second rbf of a text
Kind = TypeVar("Kind", bound="type[Part]")
Prepared = Any  # a nest of tensors: a dictionary for a part, a tuple of those of its parts for a sum


class Kernel(ABC):
    """A covariance function over inputs of dimension `input_dim`: static, hashable, without numbers.

    `prepare` does what depends on Z and the hyperparameters only, in the precision of the M x M part; `cross`
    does what touches the batch.
    """

    input_dim: int
    noise: ClassVar[bool] = False  # independent noise: on the diagonal, nothing between different points
    stackable: bool = False  # takes a leading axis of outputs, in hyperparameters and Z (SeparateLayer)

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The first component of each part's parameter names, in the order of the text: ("rbf", "white")."""

    @abstractmethod
    def initial(self, variance: float, lengthscale: float, white: float) -> dict[str, np.ndarray]:
        """Initial values. Only the first part gets `variance`; a further non-white part starts at 1."""

    @abstractmethod
    def constraints(self) -> dict[str, Constraint]:
        """The constraints of all parameters that are not free."""

    @abstractmethod
    def prepare(self, p: dict[str, tf.Tensor], Z: tf.Tensor) -> Prepared:
        """What the others need of Z (M, D) and the hyperparameters."""

    @abstractmethod
    def gram(self, prepared: Prepared) -> tf.Tensor:
        """k(Z, Z) (M, M); white noise stands on the diagonal."""

    @abstractmethod
    def cross(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        """k(Z, H) (M, B). White noise is independent of the inducing points: it adds nothing here."""

    @abstractmethod
    def cross_rows(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        """k(H, Z) (B, M) for points in rows, H (B, D): `cross` with the places of Z and H exchanged."""

    @abstractmethod
    def diagonal(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        """k(h, h) for each column of H, as (1, B) or, for stationary kernels, (1, 1)."""

    @abstractmethod
    def between(self, prepared: Prepared, left: tf.Tensor, right: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
        """k(left, right) point by point for (D, T, C) arrays: (T, C), or (P, T, C) where the
        hyperparameters have an axis of outputs. `same` (T, 1): where both are one."""


@dataclass(frozen=True)
class Part(Kernel):
    """One named kernel; its parameters stand below `name`, one per input where it has several and `ard`.

    A subclass writes `initial`, `prepare`, `value`, `diagonal`, `between`, and `columns` and `rows` where its
    features are not the scaled inputs. `prepare` returns at least Z, the features of the inducing inputs.
    """

    name: str
    input_dim: int
    ard: bool = True
    positive: ClassVar[tuple[str, ...]] = ("variance", "lengthscales")
    in_gpflow: ClassVar[tuple[str, dict[str, str]] | None] = None  # GPflow's class, our and its parameters

    def __str__(self) -> str:
        return re.sub(r"_\d+$", "", self.name)  # a second rbf is rbf_2

    @classmethod
    def of_family(cls, family: str, name: str, input_dim: int, ard: bool) -> Part:
        """Return the kernel that the text calls `family`, whose parameters are below `name`."""
        return cls(name, input_dim, ard)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def constraints(self) -> dict[str, Constraint]:
        return below(self.name, dict.fromkeys(self.positive, POSITIVE))

    def each(self, value: float) -> np.ndarray:
        """`value` for each input, or once without `ard`."""
        return np.full((self.input_dim,) if self.ard else (), float(value))

    def columns(self, q: Prepared, H: tf.Tensor) -> tf.Tensor:
        """Features (F, B) of the columns of H (D, B)."""
        return H * q["scale"]

    def rows(self, q: Prepared, H: tf.Tensor) -> tf.Tensor:
        """Features (B, F) of the rows of H (B, D)."""
        return H * tf.linalg.matrix_transpose(q["scale"])

    @abstractmethod
    def value(self, q: Prepared, left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """k (M, B) from features in rows, left (M, F), and in columns, right (F, B)."""

    def gram(self, prepared: Prepared) -> tf.Tensor:
        return self.value(prepared, prepared["Z"], tf.linalg.matrix_transpose(prepared["Z"]))

    def cross(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        return self.value(prepared, prepared["Z"], self.columns(prepared, H))

    def cross_rows(self, prepared: Prepared, H: tf.Tensor) -> tf.Tensor:
        Z = tf.linalg.matrix_transpose(prepared["Z"])
        return self.value(prepared, self.rows(prepared, H), Z)


def kernel(*names: str) -> Callable[[Kind], Kind]:
    """Declare a kernel: each of the names means the class in `model.kernel`."""

    def declare(kind: Kind) -> Kind:
        if not (isinstance(kind, type) and issubclass(kind, Part)):
            raise UserError(f"kernel {', '.join(names)}: {kind.__name__} must be a subclass of Part")
        if wrong := [name for name in names if not NAME.fullmatch(name)]:
            raise UserError(f"kernel name {wrong[0]!r} is not allowed; use letters, digits and underscores")
        return kind

    return declare


def column(v: tf.Tensor) -> tf.Tensor:
    """A vector (D,) as (D, 1), a number as (1, 1); for P outputs (P, D) as (P, D, 1), (P, 1, 1) as it is."""
    if v.shape.rank < 2:
        return tf.reshape(v, (-1, 1))
    return v[:, :, None] if v.shape.rank == 2 else v
