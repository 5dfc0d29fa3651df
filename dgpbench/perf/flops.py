"""Stated flop counts: the matrix products of one training step, forward and backward.

A product (m, k) x (k, n) counts 2mkn. Elementwise work, exponentials and random numbers count nothing, so the
share of the matmul limit that a step reaches is what is left of the machine after them.
Two forms of the batch part (models/layers.py): `quad` in float64, `white` otherwise. Peers are given the
`white` count, whatever they compute: the same useful work.
"""

from __future__ import annotations

from dataclasses import dataclass

from dgpbench.perf.cases import Case

PEAK = Case("matmul", 0, 0, 0, 2048, 0)  # the product of two square matrices of side `num_inducing`
PEAK_FLOPS = 2 * PEAK.num_inducing**3


@dataclass(frozen=True)
class Flops:
    """Of one step: in the batch part and in the M x M part, which may differ in precision."""

    batch: int
    square: int

    @property
    def total(self) -> int:
        return self.batch + self.square


def count(case: Case, form: str) -> Flops:
    """Flops of one step in the `quad` or the `white` form."""
    B, M, widths = case.batch, case.num_inducing, case.widths
    batch = square = 0
    for i, (D, P) in enumerate(zip(widths[:-1], widths[1:], strict=True)):
        distances = 2 * M * (D + 2)  # per column of k(Z, H); the augmented product has D + 2 inner terms
        batch += distances * B * (2 if i == 0 else 3)  # forward, dZ, and dH but for the data
        batch += 2 * P * M * B * 3  # mean, and its gradient for both factors
        batch += 2 * P * M * M * B * 2  # quadratic form, and its gradient for C
        square += distances * M * 3
        square += M**3 // 3 + M**3 + 3 * 2 * M**3  # Cholesky, triangular inverse, gradient of both
        square += 3 * 2 * P * M**3  # S = L_q L_q^T
        if form == "white":
            batch += 2 * M * M * B * 3  # A = L^-1 K
        else:
            square += 3 * 2 * 2 * P * M**3 + 3 * 2 * P * M * M  # C = L^-T (S - I) L^-1 and alpha = L^-T m
    return Flops(batch, square)


def form_of(library: str, precision: str) -> str:
    return "quad" if library == "dgpbench" and precision == "float64" else "white"


def limit_seconds(flops: Flops, precision: str, peak: dict[str, float]) -> float:
    """The time of a step if every product ran at the matmul peak (flop/s by dtype) of its precision."""
    batch = peak["float64" if precision == "float64" else "float32"]
    square = peak["float32" if precision == "float32" else "float64"]
    return flops.batch / batch + flops.square / square
