"""The machine's matmul peak by TensorFlow: square products, nothing else."""

from __future__ import annotations

from dgpbench.engine.platform import set_threads, tf
from dgpbench.perf.cases import Case

__all__ = ["build", "set_threads"]


def build(case: Case, precision: str):
    side = case.num_inducing
    A = tf.random.stateless_normal((side, side), (0, 0), dtype=getattr(tf, precision))

    @tf.function
    def product(A):
        return tf.matmul(A, A)

    def run(steps: int) -> float:
        for _ in range(steps):
            C = product(A)
        return float(C[0, 0])

    return run
