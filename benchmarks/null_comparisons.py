"""Measure how often paired tests reject when two learners are equally good.

    python -m benchmarks.null_comparisons --repetitions 2000

Each repetition draws a fresh dataset with two exchangeable groups of inputs. One least-squares model sees the
first group and one the second, so neither is better in expectation. Both are scored on the same shuffled
splits as dgpbench uses, and the tests of `dgpbench compare` are applied to the differences of their
log-likelihoods. A test at 5 % should reject in 5 % of the repetitions.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np
from scipy.stats import ttest_1samp

from dgpbench.data.split import shuffle_rows
from dgpbench.report.significance import Resampled, signed_rank_posterior, wilcoxon

SPLITS = (3, 5, 10, 20)
LEVEL = 0.05


def differences(rng: np.random.Generator, splits: int, rows: int = 200, inputs: int = 4) -> np.ndarray:
    """Return the difference in test log-likelihood of the two models on each split of one new dataset."""
    X = rng.standard_normal((rows, 2, inputs))  # N, group, D
    y = X.sum((1, 2)) + rng.standard_normal(rows)
    out = np.empty(splits)
    for split in range(splits):
        train, test = shuffle_rows(rows, split)
        scores = []
        for group in (0, 1):
            weights, *_ = np.linalg.lstsq(X[train, group], y[train], rcond=None)
            residual = y[train] - X[train, group] @ weights
            variance = residual @ residual / (len(train) - inputs)
            error = y[test] - X[test, group] @ weights
            scores.append(np.mean(-0.5 * np.log(2 * np.pi * variance) - 0.5 * error**2 / variance))
        out[split] = scores[1] - scores[0]
    return out


def rejections(repetitions: int, splits: int, seed: int = 0, draws: int = 0) -> dict[str, float]:
    """Return the share of repetitions in which each test finds a difference at the 5 % level.

    The Bayesian signed-rank test is included if `draws` is positive.
    """
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    for _ in range(repetitions):
        gaps = differences(rng, splits)
        train, test = shuffle_rows(200, 0)
        result = Resampled.of(gaps, len(test) / len(train))
        assert result is not None
        counts["corrected t"] += result.p_value() < LEVEL
        counts["plain t"] += ttest_1samp(gaps, 0).pvalue < LEVEL
        counts["Wilcoxon"] += (wilcoxon(gaps) or 1.0) < LEVEL
        worse, _, better = result.posterior(rope=0.0)
        counts["corrected P > 0.975"] += max(worse, better) > 1 - LEVEL / 2
        if draws:
            worse, _, better = signed_rank_posterior(gaps, rope=0.0, draws=draws)
            counts["signed-rank P > 0.975"] += max(worse, better) > 1 - LEVEL / 2
    return {name: count / repetitions for name, count in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=300, help="datasets to draw (default: 300)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the datasets (default: 0)")
    args = parser.parse_args()
    error = np.sqrt(LEVEL * (1 - LEVEL) / args.repetitions)
    print(f"share of {args.repetitions:,} null comparisons with a verdict (5 % is nominal, +- {error:.1%})")
    for splits in SPLITS:
        found = rejections(args.repetitions, splits, args.seed, draws=1000)
        print(f"{splits:3d} splits: " + ", ".join(f"{name} {share:.1%}" for name, share in found.items()))


if __name__ == "__main__":
    main()
