"""Directions of a line search, from the ordinary gradient as one flat vector (thesis 3.2.2)."""

from __future__ import annotations

import numpy as np

from dgpbench.inference.updates.schedules import BETA1, BETA2, EPSILON

MEMORY = 10  # pairs that L-BFGS keeps


class Gradient:
    """Steepest ascent: the gradient as it is."""

    def __init__(self) -> None:
        self.state: dict[str, np.ndarray] = {}

    def __call__(self, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        return gradient


class Adam(Gradient):
    """Adam's direction m / (sqrt(v) + epsilon), bias corrected."""

    def __call__(self, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        zero = np.zeros_like(gradient)
        m = BETA1 * self.state.get("m", zero) + (1 - BETA1) * gradient
        v = BETA2 * self.state.get("v", zero) + (1 - BETA2) * gradient**2
        t = self.state.get("t", np.zeros(())) + 1
        self.state = {"m": m, "v": v, "t": t}
        return (m / (1 - BETA1**t)) / (np.sqrt(v / (1 - BETA2**t)) + EPSILON)


class LBFGS(Gradient):
    """Limited-memory BFGS: the two-loop recursion over the last pairs of steps and gradient changes."""

    def __call__(self, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        empty = np.zeros((0, len(x)))
        steps, changes = self.state.get("steps", empty), self.state.get("changes", empty)
        if "x" in self.state:
            s, y = x - self.state["x"], self.state["gradient"] - gradient  # of -L, which is minimised
            if s @ y > 1e-12 * np.sqrt((s @ s) * (y @ y)):  # else it says nothing about the curvature
                steps, changes = np.vstack([steps, s])[-MEMORY:], np.vstack([changes, y])[-MEMORY:]
        self.state = {"x": x, "gradient": gradient, "steps": steps, "changes": changes}
        r, alphas = gradient.copy(), []
        for s, y in zip(steps[::-1], changes[::-1], strict=True):
            alphas.append((s @ r) / (s @ y))
            r = r - alphas[-1] * y
        if len(steps):
            r = r * (steps[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
        for s, y, alpha in zip(steps, changes, alphas[::-1], strict=True):
            r = r + s * (alpha - (y @ r) / (s @ y))
        return r


DIRECTIONS = {"gradient": Gradient, "adam": Adam, "lbfgs": LBFGS}  # besides the natural gradient
