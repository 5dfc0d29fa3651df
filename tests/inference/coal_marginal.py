"""Hyperparameters of the coal-mining disasters: chains of finished runs against a grid.

    python tests/inference/coal_marginal.py RESULTS

The grid holds prior x evidence of the full model, a GP on all 100 bins; its evidence comes from importance
sampling around the Laplace approximation. Prints mean and deviation of log lengthscale and log variance.
"""

import sys

import numpy as np
from scipy import linalg, stats

from dgpbench.inference.mixing import effective_samples
from dgpbench.store import read
from dgpbench.store.scan import scan

DRAWS, GRID = 400, 31  # of each evidence, and points along each axis
PRIORS = stats.gamma(1.1, scale=10.0), stats.gamma(1.0, scale=1 / 0.3)


def log_evidence(K, Y, b, noise):
    """log of the mean importance weight of draws of N(mode, (K^-1 + W)^-1), W the curvature at the mode."""
    n = len(Y)
    f = np.zeros(n)
    for _ in range(50):  # Newton, in the stable form of Rasmussen and Williams, 3.18
        rate = b * np.exp(f)
        root = np.sqrt(rate)
        B = linalg.cho_factor(np.eye(n) + root[:, None] * K * root, lower=True)
        a = rate * f + Y - rate
        a = a - root * linalg.cho_solve(B, root * (K @ a))
        f, before = K @ a, f
        if np.abs(f - before).max() < 1e-9:
            break
    rate = b * np.exp(f)
    root = np.sqrt(rate)
    B = linalg.cholesky(np.eye(n) + root[:, None] * K * root, lower=True)
    V = linalg.solve_triangular(B, root[:, None] * K, lower=True)
    S = K - V.T @ V
    L, LK = (linalg.cholesky(A + 1e-8 * np.eye(n), lower=True) for A in (S, K))
    F = f[:, None] + L @ noise  # n, draws
    prior = -0.5 * (linalg.solve_triangular(LK, F, lower=True) ** 2).sum(0) - np.log(np.diag(LK)).sum()
    proposal = -0.5 * (noise**2).sum(0) - np.log(np.diag(L)).sum()
    log_w = stats.poisson.logpmf(Y[:, None], b * np.exp(F)).sum(0) + prior - proposal
    w = np.exp(log_w - log_w.max())
    return log_w.max() + np.log(w.mean()), w.sum() ** 2 / (w**2).sum()


def grid_moments(X, Y, b, draws=DRAWS, points=GRID):
    """Mean and deviation of log theta (2,) over the grid, and the fewest effective draws where it matters."""
    noise = np.random.RandomState(0).randn(len(Y), draws)
    axes = np.linspace(0.0, 5.0, points), np.linspace(-4.0, 4.0, points)
    log_p, effective = np.empty((points, points)), np.empty((points, points))
    for i, t in enumerate(axes[0]):
        unit = np.exp(-0.5 * (X[:, None] - X) ** 2 / np.exp(2 * t))
        for j, s in enumerate(axes[1]):
            log_p[i, j], effective[i, j] = log_evidence(np.exp(s) * unit + 1e-6 * np.eye(len(X)), Y, b, noise)
            log_p[i, j] += PRIORS[0].logpdf(np.exp(t)) + t + PRIORS[1].logpdf(np.exp(s)) + s
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    marginals = p.sum(1), p.sum(0)
    mean = np.array([m @ a for m, a in zip(marginals, axes, strict=True)])
    square = np.array([m @ a**2 for m, a in zip(marginals, axes, strict=True)])
    return mean, np.sqrt(square - mean**2), effective[p > 1e-3 * p.max()].min()


def main(results):
    names = [f"layer0/kernel/rbf/{name}" for name in ("lengthscales", "variance")]
    table = None
    for unit in scan(results, reference=False):
        if unit.record["dataset"] != "coal" or unit.record["status"] != "done":
            continue
        values = read.parameters(unit)
        if f"draws/{names[0]}" not in values:
            continue
        table = read.predictions(unit)
        chains = unit.record["training"]["checks"]["chains"]["chains"]
        chain = np.log(np.stack([values[f"draws/{n}"].reshape(chains, -1) for n in names], -1))
        flat, effective = chain.reshape(-1, 2), effective_samples(chain)
        error = flat.std(0) / np.sqrt(effective)
        fit = [float(np.ravel(values[name])[0]) for name in names]
        print(unit.record["experiment"], "mean", flat.mean(0), "+-", error, "sd", flat.std(0), "fit", fit)
    b = float(values["likelihood/bin_size"])
    mean, sd, effective = grid_moments(table["x_0"] - table["x_0"].mean(), table["y"], b)
    print("grid mean", mean, "sd", sd, f"least effective draws of the evidence {effective:.0f} of {DRAWS}")


if __name__ == "__main__":
    main(sys.argv[1])
