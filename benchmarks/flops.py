"""Stated flop counts: the matrix products that one training step needs, forward and backward.

A product (m, k) x (k, n) counts 2mkn, also where its result is symmetric and half of it could be copied, or
a factor is triangular (gp/fast/blocks.py): the count is the same for every system.
Elementwise work, exponentials and random numbers count nothing, so the share of the matmul limit that a step
reaches is what is left of the machine after them.
The batch part has three forms (gp/fast/forms.py). A step is held to the one with the fewest products, layer
by layer: float64 of dgpbench among all three, all others, which would lose too many digits with `quad` or do
not have it, among `white` and `half`.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.cases import Case

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


def count(case: Case, exact: bool) -> Flops:
    """Flops of one step, every layer in the form that needs least; `exact`: `quad` is one of them."""
    layers = []
    for i in range(case.depth):
        forms = ("white", "half", "quad") if exact else ("white", "half")
        counts = [_layer(case, i, form) for form in forms]
        layers.append(min(counts, key=lambda flops: flops.total))
    return Flops(sum(one.batch for one in layers), sum(one.square for one in layers))


def _layer(case: Case, i: int, form: str) -> Flops:
    D, P, last = case.widths[i], case.gps[i], i == case.depth - 1
    B, M, K = case.columns, case.num_inducing, max(case.importance, 1)
    kernels = P if case.own and not last else 1
    distances = 2 * M * (D + 2) * kernels  # per column of k(Z, H): the augmented product, D + 2 inner terms
    batch = distances * B * (2 if i == 0 and not case.latent else 3)  # forward, dZ, and dH but for the data
    batch += 2 * P * M * B * 3  # mean, and its gradient for both factors
    batch += 2 * P * M * M * B * 2  # quadratic form, and its gradient for C
    if K > 1 and not last:
        batch += 3 * 2 * P * K * M * B  # joint covariances of K samples, and back
    square = distances * M * 3  # k(Z, Z)
    square += kernels * (M**3 // 3 + M**3 + 2 * 2 * M**3)  # Cholesky, triangular inverse, gradient of both
    square += 2 * 2 * P * M**3  # for each output a square A A^T, and C dC
    if case.latent and last:
        square += P * (M**3 + 2 * M**3 + M**3 // 3 + M**3)  # natural step: S^-1, factor of the next S
    else:
        square += 2 * P * M**3  # gradient of the square
    if form == "white":
        batch += 2 * 2 * kernels * M * M * B  # A = L^-1 K and its gradient
    elif form == "half":
        batch += 2 * kernels * M * M * B  # A = L^-1 K
        square += 2 * P * M**3  # L^-T C
    else:
        folding = min(4 * P, 2 * P + 2)  # products for L^-T C L^-1, and back, beside what all forms need
        square += folding * 2 * M**3 + 2 * 2 * P * M * M  # and m L^-1
    return Flops(batch, square)


def exact(library: str, precision: str) -> bool:
    """True if a system is held to the products of `quad` where they are fewer."""
    return library == "dgpbench" and precision == "float64"


def limit_seconds(flops: Flops, precision: str, peak: dict[str, float]) -> float:
    """The time of a step if every product ran at the matmul peak (flop/s by dtype) of its precision."""
    batch = peak["float64" if precision == "float64" else "float32"]
    square = peak["float32" if precision == "float32" else "float64"]
    return flops.batch / batch + flops.square / square
