"""Student's t distribution without SciPy, whose import takes a tenth of the time of `dgpbench tables`."""

from __future__ import annotations

import math

TINY = 1e-300
TERMS = 10_000  # at most, of a continued fraction


def upper_tail(t: float, freedom: float) -> float:
    """P(T > t) for t >= 0: half of the regularised incomplete beta function I_x(freedom / 2, 1 / 2) at
    x = freedom / (freedom + t^2)."""
    x, a, b = freedom / (freedom + t * t), 0.5 * freedom, 0.5
    y = t * t / (freedom + t * t)
    if x in (0.0, 1.0):
        return 0.5 * x
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log(y) - log_beta)
    if x < (a + 1.0) / (a + b + 2.0):  # where the fraction converges quickly
        return 0.5 * front * _fraction(x, a, b) / a
    return 0.5 * (1.0 - front * _fraction(y, b, a) / b)


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of I_x(a, b) without its front factor, by Lentz's method."""
    c, d = 1.0, 1.0 / _kept(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, TERMS):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _kept(1.0 + step * d)
            c = _kept(1.0 + step / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _kept(value: float) -> float:
    return value if abs(value) > TINY else TINY
