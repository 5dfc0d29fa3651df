"""Exact GP regression: the evidence log N(y; 0, K + s2 I) in closed form, at a cost of N^3."""

from __future__ import annotations

from typing import Any

import numpy as np

from dgpbench.models.classics.base import Classic


class GPR(Classic):
    """GPflow's GPR."""

    evidence_kind = "exact log evidence"

    def numbers(self, rows: int, gps: int) -> float:
        return 13.0 * rows**2  # measured: 12

    def build(self, kernel: Any, likelihood: Any, values: dict[str, np.ndarray]) -> Any:
        import gpflow

        return gpflow.models.GPR((values["X"], values["Y"]), kernel, likelihood=likelihood)
