"""The machine's matmul peak by NumPy's BLAS. Its threads are set by the worker's environment."""

from __future__ import annotations

import os

import numpy as np

from benchmarks.cases import Case


def set_threads(threads: int) -> int:
    return int(os.environ.get("OPENBLAS_NUM_THREADS", threads))


def build(case: Case, precision: str, *, device: str = "cpu"):
    if device != "cpu":
        raise ValueError("NumPy has no products on a GPU")
    A = np.random.RandomState(0).randn(case.num_inducing, case.num_inducing).astype(precision)
    C = np.empty_like(A)

    def run(steps: int) -> float:
        for _ in range(steps):
            np.matmul(A, A, out=C)
        return float(C[0, 0])

    return run
