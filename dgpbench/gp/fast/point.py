"""The form of a layer whose q(u) is a point, S = 0, as samplers use it (forms.py has the others).

    mean = alpha A,   var = k(h, h) - A^T A,   A = L^-1 k(Z, h),
with one large product forward and two in the gradient, each over a triangle. It also serves programs that XLA
compiles as a whole, where no native Cholesky is available.

Where inducing inputs and rows are on grids, under an RBF kernel, the kernel is a product over the inputs,
s^2 R_1 (x) ... (x) R_D, and so is its Cholesky factor:
    A = L^-1 k(Z, X) = s A_1 (x) ... (x) A_D,   A_d = L_d^-1 C_d,   R_d = L_d L_d^T,
    mean = s (A_1 (x) ... (x) A_D)^T v,   var = s^2 (1 - prod_d |a_d|^2),
with R_d, C_d between the coordinates of one input: small products where the plain form has one with A. Each
factor gets jitter, R_d + jitter / (D s^2) I: to first order the diagonal of the whole grows by jitter, with
one input exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from dgpbench.gp.fast.blocks import from_blocks, sum_over_inducing
from dgpbench.gp.fast.forms import Fenced, fence
from dgpbench.gp.fast.whitening import compiled_inverse_cholesky, inverse_cholesky, through_cholesky

BLOCK = 64  # rows at least of the blocks in which a triangle is multiplied


def _blocks(M: int) -> list[tuple[int, int]]:
    """First and last rows, the latter exclusive, of at most four blocks."""
    count = max(1, min(4, M // BLOCK))
    ends = [M * i // count for i in range(count + 1)]
    return list(zip(ends, ends[1:], strict=False))


def _lower(Linv: tf.Tensor, K: tf.Tensor) -> tf.Tensor:
    """L^-1 K (M, B)."""
    return tf.concat([tf.matmul(Linv[a:b, :b], K[:b]) for a, b in _blocks(K.shape[0])], 0)


def _upper(Linv: tf.Tensor, G: tf.Tensor) -> tf.Tensor:
    """L^-T G (M, B)."""
    parts = [tf.matmul(Linv[a:, a:b], G[a:], transpose_a=True) for a, b in _blocks(G.shape[0])]
    return tf.concat(parts, 0)


def _squares(A: tf.Tensor, g: tf.Tensor) -> tf.Tensor:
    """sum_b g_b a_b a_b^T (M, M) for g (1, B)."""
    parts = [tf.matmul(A[a:b] * g, A[:b], transpose_b=True) for a, b in _blocks(A.shape[0])]
    return from_blocks(parts)


@tf.custom_gradient
def moments(K: tf.Tensor, Linv: tf.Tensor, alpha: tf.Tensor, C: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """alpha A (P, B) and -a_b^T a_b (1, B) for K (M, B). C (M, M) = -I is there for its gradient; L^-1 has
    none here."""
    A = _lower(Linv, K)  # M, B

    def gradient(g_mean, g_quad):
        dA = tf.matmul(alpha, g_mean, transpose_a=True) - 2.0 * A * g_quad
        return _upper(Linv, dA), None, tf.matmul(g_mean, A, transpose_b=True), _squares(A, g_quad)

    return (tf.matmul(alpha, A), -sum_over_inducing(tf.square(A)[None])), gradient


def whitening(K: tf.Tensor, alpha: tf.Tensor, compiled: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """L^-1 of K = L L^T, alpha (P, M) as it is, and C = -I: what `moments` reads. The gradient in L^-1
    follows from those in alpha and C, as in whitening.py: dA A^T = alpha^T dalpha - 2 dC."""

    @tf.custom_gradient
    def made(K, alpha):
        Linv = (compiled_inverse_cholesky if compiled else inverse_cholesky)(K)

        def gradient(_, d_alpha, d_C):
            dA_At = tf.matmul(alpha, d_alpha, transpose_a=True) - 2.0 * d_C
            return through_cholesky(-dA_At, Linv), d_alpha

        return (Linv, tf.identity(alpha), -tf.eye(K.shape[0], dtype=K.dtype)), gradient

    return made(K, alpha)


class Point(NamedTuple):
    Linv: Fenced
    alpha: tf.Tensor
    C: tf.Tensor  # M, M

    def moments(self, K: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """alpha A (P, B) and -A^T A (1, B) for K = k(Z, H) (M, B)."""
        return moments(K, self.Linv.value, self.alpha, self.C)


def make(Kzz: tf.Tensor, mean: tf.Tensor, compiled: bool) -> Point:
    """The form of a layer with inducing outputs `mean` (P, M), whitened."""
    Linv, alpha, C = whitening(Kzz, mean, compiled)
    return Point(Fenced(fence(Linv)), alpha, C)


LEAST = 0.5  # share of the cells that rows must take: others are computed in vain
Axis = tuple[float, ...]


class Grid(NamedTuple):
    """Coordinates of both grids along each input, and the cell of each row, counted with the last input
    fastest; None: rows are the cells in their order."""

    Z: tuple[Axis, ...]
    X: tuple[Axis, ...]
    cells: tuple[int, ...] | None


def find_grid(Z: np.ndarray, X: np.ndarray) -> Grid | None:
    """The grid of rows X (N, D), each on a cell of its own, and of inducing inputs Z (M, D) in the order of
    their cells; None where one of them is no grid. With one input all points are."""
    if X.shape[1] == 1:
        return Grid((tuple(Z[:, 0].tolist()),), (tuple(X[:, 0].tolist()),), None)
    (own, own_cells), (axes, cells) = _cells(Z), _cells(X)
    if not np.array_equal(own_cells, np.arange(np.prod([len(axis) for axis in own]))):
        return None
    count = int(np.prod([len(axis) for axis in axes]))
    if len(np.unique(cells)) < len(X) or len(X) < LEAST * count:
        return None
    in_order = np.array_equal(cells, np.arange(count))
    return Grid(own, axes, None if in_order else tuple(cells.tolist()))


def _cells(points: np.ndarray) -> tuple[tuple[Axis, ...], np.ndarray]:
    """Coordinates along each input, and each point's cell."""
    each = [np.unique(column, return_inverse=True) for column in points.T]
    sizes = tuple(len(axis) for axis, _ in each)
    cells = np.ravel_multi_index(tuple(place.ravel() for _, place in each), sizes)
    return tuple(tuple(axis.tolist()) for axis, _ in each), cells


def grid_gram(axes: Sequence[tf.Tensor], lengthscales: tf.Tensor, variance: tf.Tensor, jitter) -> tf.Tensor:
    """K_zz (M, M) of the grid with these coordinates along each input, jitter on each factor."""
    K = tf.reshape(variance, (1, 1))
    for axis, rate in zip(axes, _rates(lengthscales, len(axes)), strict=True):
        square = tf.square(axis[:, None] - axis)
        R = tf.exp(-rate * square) + _share(jitter, variance, len(axes)) * tf.eye(
            axis.shape[0], dtype=K.dtype
        )
        M = K.shape[0] * R.shape[0]
        K = tf.reshape(K[:, None, :, None] * R[None, :, None, :], (M, M))
    return K


def along(Z: tf.Tensor, sizes: Sequence[int]) -> list[tf.Tensor]:
    """Coordinates along each input of a grid Z (M, D) of so many points along each."""
    strides = [int(np.prod(sizes[d + 1 :])) for d in range(len(sizes))]
    return [
        Z[: size * stride : stride, d] for d, (size, stride) in enumerate(zip(sizes, strides, strict=True))
    ]


def _rates(lengthscales: tf.Tensor, D: int) -> list[tf.Tensor]:
    """1 / (2 l_d^2)."""
    each = tf.broadcast_to(0.5 / tf.square(tf.reshape(lengthscales, (-1,))), (D,))
    return tf.unstack(each)


def _share(jitter, variance: tf.Tensor, D: int) -> tf.Tensor:
    """Jitter of each factor, whose diagonal is 1."""
    return jitter / (D * tf.reshape(variance, ()))


def factor(z: Axis, x: Axis, rate: tf.Tensor, jitter: tf.Tensor, compiled: bool) -> tf.Tensor:
    """A_d (M_d, n_d), with its gradient in 1 / (2 l^2) and the jitter."""
    zz, zx = np.subtract.outer(z, z) ** 2, np.subtract.outer(z, x) ** 2
    invert = compiled_inverse_cholesky if compiled else inverse_cholesky

    @tf.custom_gradient
    def made(rate, jitter):
        R, C = tf.exp(-rate * zz), tf.exp(-rate * zx)
        Linv = invert(R + jitter * tf.eye(len(z), dtype=R.dtype))
        A = tf.matmul(Linv, C)

        def gradient(G):
            dC = tf.matmul(Linv, G, transpose_a=True)
            dR = through_cholesky(-tf.matmul(G, A, transpose_b=True), Linv)
            return -tf.reduce_sum(dC * C * zx) - tf.reduce_sum(dR * R * zz), tf.linalg.trace(dR)

        return A, gradient

    return made(rate, jitter)


class OnGrid(NamedTuple):
    """What `moments` reads of inducing outputs v (P, M), whitened."""

    v: tf.Tensor
    variance: tf.Tensor
    factors: tuple[tf.Tensor, ...]


def make_on_grid(grid: Grid, v: tf.Tensor, lengthscales, variance, jitter, compiled: bool) -> OnGrid:
    D, variance = len(grid.Z), tf.reshape(variance, ())
    own = _share(jitter, variance, D)
    each = zip(grid.Z, grid.X, _rates(lengthscales, D), strict=True)
    return OnGrid(v, variance, tuple(factor(z, x, rate, own, compiled) for z, x, rate in each))


def grid_moments(grid: Grid, form: OnGrid) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance (P, N) at the rows."""
    P = form.v.shape[0]
    mean = tf.reshape(form.v, (P, *(len(z) for z in grid.Z)))
    explained = tf.ones((1, 1), form.v.dtype)
    for A in form.factors:  # the first input that is left becomes the last
        mean = tf.tensordot(mean, A, [[1], [0]])
        explained = tf.reshape(explained[:, :, None] * tf.reduce_sum(tf.square(A), 0), (1, -1))
    mean = tf.sqrt(form.variance) * tf.reshape(mean, (P, -1))
    var = form.variance * (1.0 - explained)
    if grid.cells is not None:
        mean, var = _at(mean, grid.cells), _at(var, grid.cells)
    return mean, tf.broadcast_to(var, mean.shape)


def _at(F: tf.Tensor, cells: tuple[int, ...]) -> tf.Tensor:
    """Columns of F (P, cells) at the rows. The gradient puts each back in its place, zero where no row is."""
    back = np.full(F.shape[1], len(cells))
    back[list(cells)] = np.arange(len(cells))

    @tf.custom_gradient
    def take(F):
        def gradient(G):
            return tf.gather(tf.pad(G, [(0, 0), (0, 1)]), back, axis=1)

        return tf.gather(F, cells, axis=1), gradient

    return take(F)
