"""The machine's matmul peak by TensorFlow: square products, nothing else."""

from __future__ import annotations

from benchmarks.cases import Case
from dgpbench.engine.platform import choose_device, set_threads, tf

__all__ = ["build", "set_threads"]


def build(case: Case, precision: str, *, device: str = "cpu"):
    side = case.num_inducing
    with tf.device(choose_device(device)):
        A = tf.random.stateless_normal((side, side), (0, 0), dtype=getattr(tf, precision))

    @tf.function
    def product(A):
        return tf.matmul(A, A)

    def run(steps: int) -> float:
        for _ in range(steps):
            C = product(A)
        return float(C[0, 0])

    return run
