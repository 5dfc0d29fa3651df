"""Three equal forms of a layer's batch part, with hand-written gradients that reuse the forward products.

With A = L^-1 k(Z, h), K_zz = L L^T and C = S - I (thesis 1.28, 1.29, whitened):
    mean = alpha A,   var = k(h, h) + A^T C A.
No (P, B, B) array is ever formed.
    White: A = L^-1 K is formed, var from A^T C A. Safe in float32. The gradient in L^-1 does not pass
           through the batch: it follows from those in alpha and C (whitening.py).
    Half:  A likewise, var from K^T [L^-T C] A: the product is also the gradient in K, which saves one.
           As safe as White, and used where P M is small against the columns.
    Quad:  var from K^T [L^-T C L^-1] K without A: fewer products per column, for float64 only
           (in float32 the entries of the bracket cancel and gradients are wrong).
A form has alpha (P, M) and C (P, M, M), or C (1, M, M) where all outputs share one S.

White and Half drop the gradient in L^-1, which is right only where A serves alpha A and A^T C A. Anything
else that reads L^-1 would get a correct value and silently a zero gradient in K_zz. A fence around L^-1
raises WrongGradient instead. `gp.layer.whiten` gives an A with its whole gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from dgpbench.gp.fast.blocks import BLOCKS, MIN_SIZE, sum_over_inducing, weighted_squares
from dgpbench.gp.fast.joint_samples import joint_quadratic_form
from dgpbench.gp.fast.whitening import folding, folding_root, outer_square, whitening
from dgpbench.gp.propagation import Whitened


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
    """Return the same tree with a fence in front of every Fenced tensor."""
    return _mapped(tree, fence, lambda tensor: tensor)


def open_positions(tree: Any) -> list[bool]:
    """Return for each tensor of tf.nest.flatten(tree) whether it has a gradient."""
    return tf.nest.flatten(_mapped(tree, lambda tensor: False, lambda tensor: True))


def _mapped(tree: Any, of_fenced: Callable, of_open: Callable) -> Any:
    if isinstance(tree, Fenced):
        return Fenced(of_fenced(tree.value))
    if isinstance(tree, dict):
        return {name: _mapped(branch, of_fenced, of_open) for name, branch in tree.items()}
    if isinstance(tree, tuple):
        branches = [_mapped(branch, of_fenced, of_open) for branch in tree]
        return type(tree)(*branches) if hasattr(tree, "_fields") else tuple(branches)
    return of_open(tree)


FORMS = ("white", "half", "quad")


@tf.custom_gradient
def whitened(Linv: tf.Tensor, K: tf.Tensor) -> tf.Tensor:
    """A = L^-1 K (M, B), without a gradient in L^-1: `whitening` makes it from those in alpha and C."""
    return tf.matmul(Linv, K), lambda G: (None, tf.matmul(Linv, G, transpose_a=True))


@tf.custom_gradient
def whitened_rows(Linv: tf.Tensor, K: tf.Tensor) -> tf.Tensor:
    """The same for k(H, Z) (B, M): (B, M)."""
    return tf.matmul(K, Linv, transpose_b=True), lambda G: (None, tf.matmul(G, Linv))


@tf.custom_gradient
def quadratic_form(K: tf.Tensor, alpha: tf.Tensor, C: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """alpha K (P, B) and k_b^T C_p k_b (P, B) for symmetric C (P, M, M), K (M, B), alpha (P, M)."""
    P, M, _ = C.shape
    CK = tf.reshape(tf.matmul(tf.reshape(C, (P * M, M)), K), (P, M, K.shape[1]))  # P, M, B
    quad = sum_over_inducing(CK * K)  # P, B

    def gradient(g_mean, g_quad):
        g = g_quad[:, None, :]  # P, 1, B
        dK = tf.matmul(alpha, g_mean, transpose_a=True) + 2.0 * tf.reduce_sum(CK * g, 0)  # M, B
        return dK, tf.matmul(g_mean, K, transpose_b=True), weighted_squares(K, g_quad)

    return (tf.matmul(alpha, K), quad), gradient


@tf.custom_gradient
def half_form(K: tf.Tensor, Linv, alpha: tf.Tensor, C: tf.Tensor, D) -> tuple[tf.Tensor, tf.Tensor]:
    """`quadratic_form` of A = L^-1 K, from D = L^-T C (P, M, M). C is there for its gradient; L^-1 and D
    have none here."""
    P, M, _ = C.shape
    A = tf.matmul(Linv, K)  # M, B
    DA = tf.reshape(tf.matmul(tf.reshape(D, (P * M, M)), A), (P, M, K.shape[1]))  # P, M, B

    def gradient(g_mean, g_quad):
        g = g_quad[:, None, :]  # P, 1, B
        dK = tf.matmul(tf.matmul(alpha, Linv), g_mean, transpose_a=True) + 2.0 * tf.reduce_sum(DA * g, 0)
        return dK, None, tf.matmul(g_mean, A, transpose_b=True), weighted_squares(A, g_quad), None

    return (tf.matmul(alpha, A), sum_over_inducing(DA * K)), gradient


class White(NamedTuple):
    Linv: Fenced
    alpha: tf.Tensor
    C: tf.Tensor

    def moments(self, K: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """alpha A and A^T C A (P, B) for K = k(Z, H) (M, B)."""
        return quadratic_form(whitened(self.Linv.value, K), self.alpha, self.C)

    def joint_moments(self, rows: tf.Tensor, K: int) -> tuple[tf.Tensor, tf.Tensor]:
        """The same with all covariances of the K columns of a point (joint_samples.py), for rows k(H, Z)."""
        return joint_quadratic_form(whitened_rows(self.Linv.value, rows), self.alpha, self.C, K)


class Half(NamedTuple):
    Linv: Fenced
    alpha: tf.Tensor
    C: tf.Tensor
    D: Fenced  # L^-T C

    def moments(self, K: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return half_form(K, self.Linv.value, self.alpha, self.C, self.D.value)

    def joint_moments(self, rows: tf.Tensor, K: int) -> tuple[tf.Tensor, tf.Tensor]:
        return joint_quadratic_form(rows, self.alpha, self.C, K, self.Linv.value, self.D.value)


class Quad(NamedTuple):
    alpha: tf.Tensor  # alpha L^-1
    C: tf.Tensor  # L^-T C L^-1

    def moments(self, K: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return quadratic_form(K, self.alpha, self.C)

    def joint_moments(self, rows: tf.Tensor, K: int) -> tuple[tf.Tensor, tf.Tensor]:
        return joint_quadratic_form(rows, self.alpha, self.C, K)


class Blocks(NamedTuple):
    """Quad without gradients, for prediction: C is symmetric, so its blocks up to the diagonal are enough."""

    alpha: tf.Tensor
    C: tf.Tensor

    def moments(self, K: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """As Quad's, with 5/8 of its products where there are four blocks."""
        P, M, _ = self.C.shape
        count = BLOCKS if M >= MIN_SIZE else 1
        quad, start = tf.zeros((P, K.shape[1]), K.dtype), 0
        for end in (M * (i + 1) // count for i in range(count)):
            rows, own = self.C[:, start:end], K[start:end]
            left = tf.concat([2.0 * rows[:, :, :start], rows[:, :, start:end]], 2)  # P, rows, end
            part = tf.matmul(tf.reshape(left, (-1, end)), K[:end])
            quad += tf.reduce_sum(tf.reshape(part, (P, end - start, K.shape[1])) * own, 1)
            start = end
        return tf.matmul(self.alpha, K), quad


def make(
    form: str, Kzz: tf.Tensor, q: Whitened, batch_dtype: tf.DType, natural: bool
) -> tuple[White | Half | Quad, tuple[tf.Tensor, tf.Tensor]]:
    """The form of that name for a posterior, and the tensors mean and S - I that it was made from; a
    `natural` layer has gradients in both.

    In White and Half, S is made in the precision of the batch part, which is the precision it is used in.
    """
    dtype, M = Kzz.dtype if form == "quad" else batch_dtype, Kzz.shape[0]
    mean, R = q.mean, None
    if q.root is not None:
        R = tf.cast(q.root, dtype)
        C = outer_square(R) - tf.eye(M, dtype=dtype)  # S - I
    else:
        C = -tf.eye(M, batch_shape=(1,), dtype=dtype) if q.excess is None else tf.cast(q.excess, dtype)
    if form == "quad":
        rooted = R is not None and R.shape[0] > 1 and not natural
        _, alpha, folded = folding_root(Kzz, mean, R) if rooted else folding(Kzz, mean, C)
        return Quad(alpha, folded), (mean, C)
    Linv, alpha, white = whitening(Kzz, mean, C)
    behind = Fenced(fence(Linv))
    if form == "white":
        return White(behind, alpha, white), (mean, C)
    D = tf.stop_gradient(tf.matmul(tf.cast(Linv, dtype), C, transpose_a=True))
    return Half(behind, alpha, white, Fenced(fence(D))), (mean, C)


def cheaper_form(outputs: int, num_inducing: int, columns: int, exact: bool) -> str:
    """The form that needs fewer products in float64 (`exact`), or among the safe ones.

    Beside P each for the variance and its gradient, `white` pays 2 of M x M by M x columns, for A and its
    gradient, `half` pays 1 and P of M x M by M x M, `quad` pays none and 2 P + 2 (P > 1) or 4 of those.
    """
    inducing = outputs * num_inducing
    if exact and 2 * columns > 3 * inducing:
        return "quad"
    return "half" if columns > 2 * inducing else "white"  # M x M products are slower than wide ones
