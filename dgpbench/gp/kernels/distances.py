"""Squared distances and the RBF kernel with gradients written by hand.

TensorFlow adds three or more gradients of one tensor in an order that depends on timing. So that runs repeat
to the last bit, distances have gradients of their own, which leave each tensor at most two to add.
All take a leading axis of outputs, Z (P, M, D) and H (P, D, B), as well.
"""

from __future__ import annotations

import tensorflow as tf


@tf.custom_gradient
def half_negative_distance(Z: tf.Tensor, H: tf.Tensor) -> tf.Tensor:
    """-|z - h|^2 / 2 (M, B) as one product of augmented matrices: z.h - |z|^2/2 - |h|^2/2."""
    z2 = tf.reduce_sum(tf.square(Z), -1, keepdims=True)  # M, 1
    h2 = tf.reduce_sum(tf.square(H), -2, keepdims=True)  # 1, B
    Z1, H1 = tf.concat([Z, tf.ones_like(z2)], -1), tf.concat([H, tf.ones_like(h2)], -2)
    left, right = tf.concat([Z1, -0.5 * z2], -1), tf.concat([H, -0.5 * h2, tf.ones_like(h2)], -2)

    def gradient(G):
        dZ = tf.matmul(G, H1, transpose_b=True)  # M, D + 1: G H^T and the row sums of G
        dH = tf.matmul(Z1, G, transpose_a=True)  # D + 1, B
        return dZ[..., :-1] - Z * dZ[..., -1:], dH[..., :-1, :] - H * dH[..., -1:, :]

    return tf.matmul(left, right), gradient


@tf.custom_gradient
def rbf_cross(Z: tf.Tensor, H: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
    """exp(log_variance - |z - h|^2 / 2) (M, B) in one pass over the product; its gradient in another.

    The gradient in log_variance is the sum of the row sums that the gradient in Z has anyway.
    """
    z2 = tf.reduce_sum(tf.square(Z), -1, keepdims=True)  # M, 1
    h2 = tf.reduce_sum(tf.square(H), -2, keepdims=True)  # 1, B
    Z1, H1 = tf.concat([Z, tf.ones_like(z2)], -1), tf.concat([H, tf.ones_like(h2)], -2)
    left = tf.concat([Z1, log_variance - 0.5 * z2], -1)
    K = tf.exp(tf.matmul(left, tf.concat([H, -0.5 * h2, tf.ones_like(h2)], -2)))

    def gradient(dK):
        G = dK * K
        dZ = tf.matmul(G, H1, transpose_b=True)  # M, D + 1: G H^T and the row sums of G
        dH = tf.matmul(Z1, G, transpose_a=True)  # D + 1, B
        rows = dZ[..., -1:]
        total = tf.reduce_sum(rows, (-2, -1), keepdims=True) if rows.shape.rank > 2 else tf.reduce_sum(rows)
        return dZ[..., :-1] - Z * rows, dH[..., :-1, :] - H * dH[..., -1:, :], total

    return K, gradient


@tf.custom_gradient
def half_negative_distance_among(Z: tf.Tensor) -> tf.Tensor:
    """-|z - z'|^2 / 2 (M, M) among the rows of Z."""
    z2 = tf.reduce_sum(tf.square(Z), -1, keepdims=True)

    def gradient(G):
        G = G + tf.linalg.matrix_transpose(G)
        return tf.matmul(G, Z) - Z * tf.reduce_sum(G, -1, keepdims=True)

    return tf.matmul(Z, Z, transpose_b=True) - 0.5 * (z2 + tf.linalg.matrix_transpose(z2)), gradient
