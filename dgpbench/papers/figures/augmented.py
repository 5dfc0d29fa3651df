"""Two KL divergences as functions of one inducing input (Matthews' figure B.1): with the inducing output
among the variables, and without. q(f_z) is optimal for the first; variance, lengthscale and noise are 1."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.report.figures.picture import Picture, panels

SEED, ROWS, JITTER = 5, 3, 1e-9
Z = np.linspace(-3.0, 4.0, 281)


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(SEED)
    return np.sort(rng.uniform(-1.0, 2.0, ROWS)), rng.randn(ROWS)


def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * (a[:, None] - b) ** 2)


def gaussian_kl(m: np.ndarray, S: np.ndarray, n: np.ndarray, T: np.ndarray) -> float:
    """KL[N(m, S) || N(n, T)]."""
    gap, inverse = n - m, np.linalg.inv(T)
    logs = np.linalg.slogdet(T)[1] - np.linalg.slogdet(S)[1]
    return 0.5 * float(np.trace(inverse @ S) + gap @ inverse @ gap - len(m) + logs)


def divergences(x: np.ndarray, y: np.ndarray, z: float) -> tuple[float, float]:
    """KL[q(f_z, f_x) || p(. | y)] and KL[q(f_x) || p(f_x | y)] with Titsias' q(f_z)."""
    k, K = kernel(x, np.array([z])), kernel(x, x)
    precision = 1.0 + (k.T @ k).item()
    s, m = 1.0 / precision, (k[:, 0] @ y) / precision  # q(f_z) = N(m, s)
    mean, cov = k[:, 0] * m, K - (1.0 - s) * (k @ k.T)
    gain = np.linalg.solve(K + np.eye(len(x)), np.column_stack([K, k])).T  # of f_x and f_z
    joint = np.block([[K, k], [k.T, np.ones((1, 1))]])
    q = np.append(mean, m), np.block([[cov, s * k], [s * k.T, np.array([[s]])]])
    p = gain @ y, joint - gain @ np.column_stack([K, k])
    noise = JITTER * np.eye(len(x) + 1)
    both = gaussian_kl(q[0], q[1] + noise, p[0], p[1] + noise)
    return both, gaussian_kl(mean, cov, gain[:-1] @ y, p[1][:-1, :-1])


def picture(spec, units) -> Picture:
    x, y = data()
    both, own = np.array([divergences(x, y, z) for z in Z]).T
    frame = pd.DataFrame({"z": Z, "augmented": both, "unaugmented": own})

    def paint(figure, theme):
        top, bottom = panels(figure, 2, 1, sharex=True)[:, 0]
        top.plot(x, y, "o", color=theme["colours"][1])
        top.set_ylabel("y")
        for (name, values), colour in zip(
            {"augmented": both, "unaugmented": own}.items(), theme["colours"], strict=False
        ):
            bottom.plot(Z, values, color=colour, label=name)
            bottom.plot(Z[values.argmin()], values.min(), "v", color=colour)
        bottom.set_xlabel("inducing input z")
        bottom.set_ylabel("KL divergence")
        bottom.legend()

    note = f"minima at z = {Z[both.argmin()]:.3f} and {Z[own.argmin()]:.3f}; data of seed {SEED}"
    return Picture(spec.name, spec.title, frame, paint, (6.0, 5.0), (note,))
