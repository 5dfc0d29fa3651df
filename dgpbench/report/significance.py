"""Paired comparisons of the columns of a table, on common splits only.

Per dataset over splits, and over datasets by their means. Splits of one dataset share training rows, so tests
over splits are optimistic: they say how sure the order is on these data, not on new ones.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError
from dgpbench.report.grid import Grid, plain
from dgpbench.report.others import others_note
from dgpbench.report.table import Table

ROPE = 0.01  # nat (or whatever the table's unit is): smaller differences are practically none
PRIOR_WEIGHT = 0.5  # of one pseudo-difference of zero
DRAWS = 20_000
LEVEL = 0.05
LEAST_SETS = 5  # datasets; over fewer, ranks have no critical difference worth the name
OVER_DATASETS = "all, by dataset means"


def wilcoxon(differences: np.ndarray) -> float | None:
    """Two-sided p of the signed-rank test, exact up to 25 differences without ties; None if all are zero."""
    from scipy.stats import wilcoxon as scipy_wilcoxon

    kept = differences[differences != 0]
    if not len(kept):
        return None
    tied = len(np.unique(np.abs(kept))) < len(kept)
    return float(scipy_wilcoxon(kept, method="exact" if len(kept) <= 25 and not tied else "approx").pvalue)


def signed_rank_posterior(differences: np.ndarray, rope: float = ROPE, draws: int = DRAWS, seed: int = 0):
    """Posterior probability that worse, practically equal or better is likeliest: Bayesian signed-rank test.

    The differences z_0 = 0, z_1, ..., z_n get Dirichlet(s, 1, ..., 1) weights w; theta_better is
    sum_ij w_i w_j [z_i + z_j > 2 rope], and the answer the share of draws in which each theta is largest.
    """
    z = np.concatenate([[0.0], np.asarray(differences, float)])
    order = np.argsort(z)
    z = z[order]
    alpha = np.ones(len(z))
    alpha[order == 0] = PRIOR_WEIGHT
    weights = np.random.default_rng(seed).dirichlet(alpha, draws)  # draws, n + 1
    below = np.concatenate([np.zeros((draws, 1)), np.cumsum(weights, axis=1)], axis=1)
    # for each i the weight of those j with z_j < -2 rope - z_i, and with z_j <= 2 rope - z_i
    worse = below[:, np.searchsorted(z, -2 * rope - z, side="left")]
    not_better = below[:, np.searchsorted(z, 2 * rope - z, side="right")]
    left = (weights * worse).sum(1)
    right = 1.0 - (weights * not_better).sum(1)
    winner = np.argmax(np.stack([left, 1.0 - left - right, right]), axis=0)
    return tuple(float(np.mean(winner == k)) for k in range(3))


def critical_difference(models: int, datasets: int, level: float = LEVEL) -> float:
    """Nemenyi: average ranks over datasets that differ by less cannot be told apart."""
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1 - level, models, np.inf) / math.sqrt(2)
    return float(q * math.sqrt(models * (models + 1) / (6 * datasets)))


def friedman(wide: pd.DataFrame) -> float | None:
    """p of the Friedman test that all columns have one average rank; None with under 3 columns or 2 rows."""
    from scipy.stats import friedmanchisquare

    if wide.shape[1] < 3 or len(wide) < 2:
        return None
    if (wide.nunique(axis=1) == 1).all():
        return None  # nothing but ties
    return float(friedmanchisquare(*(wide[column] for column in wide)).pvalue)


def paired(table: Table, against: str | None = None) -> pd.DataFrame:
    """One line per dataset and column: the differences from `against` on common splits, and their tests.

    Differences are signed so that positive is better.
    """
    against = _column(table, against)
    wide = table.frame().pivot(index=["row", "split"], columns="column", values="value")
    sign = 1.0 if next(iter(table.cells.values())).place.better == "higher" else -1.0
    lines = []
    if against in wide:
        gaps = sign * wide.drop(columns=against).sub(wide[against], axis=0)
        rows = [row for row in table.spec.rows if row in gaps.index.get_level_values("row")]
        columns = [column for column in table.spec.columns if column in gaps]
        for column in columns:
            found = gaps[column].dropna()
            lines += [
                _line(row, column, found.loc[[row]]) for row in rows if row in found.index.unique("row")
            ]
            means = found.groupby("row").mean()
            if len(means) > 1:
                lines.append(_line(OVER_DATASETS, column, means))
    names = ["dataset", "model", "pairs", "win", "tie", "loss", "mean difference", "median difference"]
    return pd.DataFrame(lines, columns=[*names, "wilcoxon p", "P(worse)", "P(equal)", "P(better)"])


def _line(row: str, column: str, gaps: pd.Series) -> tuple:
    values = gaps.to_numpy()
    wins, losses = int((values > ROPE).sum()), int((values < -ROPE).sum())
    p = wilcoxon(values)
    counts = (len(values), wins, len(values) - wins - losses, losses)
    posterior = signed_rank_posterior(values) if np.isfinite(values).all() else (math.nan,) * 3
    middle = (float(values.mean()), float(np.median(values)), math.nan if p is None else p)
    return (row, column, *counts, *middle, *posterior)


def rank_groups(table: Table) -> tuple[pd.DataFrame, float | None, float | None]:
    """(average ranks over datasets with all columns, critical difference, Friedman p), 1 = best, best first.

    Columns with runs on one dataset only are left out where others have more. Means of a dataset are over the
    splits that all its columns have. Without LEAST_SETS datasets there is no
    critical difference.
    """
    wide = table.frame().pivot(index=["row", "split"], columns="column", values="value")
    sets = wide.notna().groupby("row").any().sum()
    if (sets > 1).sum() > 1:
        wide = wide[sets.index[sets > 1]]
    wide = _on_common_splits(wide).groupby("row").mean().dropna()
    better = next(iter(table.cells.values())).place.better
    places = wide.rank(axis=1, ascending=better == "lower")
    ranks = pd.DataFrame({"mean": places.mean(), "error": places.sem(), "n": places.count()})
    ranks = ranks.sort_values("mean", kind="stable")
    if len(ranks) < 2 or len(wide) < LEAST_SETS:
        return ranks, None, None
    return ranks, critical_difference(len(ranks), len(wide)), friedman(wide)


def _on_common_splits(wide: pd.DataFrame) -> pd.DataFrame:
    """Of each dataset the splits that all of its columns with runs have."""
    kept = [
        part[part[part.columns[part.notna().any()]].notna().all(axis=1)] for _, part in wide.groupby("row")
    ]
    return pd.concat(kept) if kept else wide


def significance_grids(table: Table, against: str | None = None) -> list[Grid]:
    """The paired tests, and the ranks with their critical difference."""
    against = _column(table, against)
    formats = {
        name: ".3f" for name in ("P(worse)", "P(equal)", "P(better)", "mean difference", "median difference")
    }
    notes = (
        f"differences from {against} on common splits, positive is better; win, tie, loss and P(equal): "
        f"{ROPE} is practically none",
        "Wilcoxon signed-rank, two-sided; P: Bayesian signed-rank test",
        "splits of one dataset share rows: tests over splits are optimistic",
        *others_note(table.cells),
    )
    title = f"Paired tests against {against}: {table.spec.title}"
    first = plain(
        title,
        paired(table, against),
        {**formats, "wilcoxon p": ".3g"},
        name=f"{table.spec.name}-tests",
        heads=2,
        notes=notes,
    )
    ranks, cd, p = rank_groups(table)
    frame = ranks.rename_axis("model").reset_index().rename(columns={"mean": "average rank", "n": "datasets"})
    about = (
        f"no critical difference: fewer than {LEAST_SETS} datasets have all of these columns"
        if cd is None
        else f"critical difference {cd:.2f} (Nemenyi, 5 %)"
        + (f"; Friedman p = {p:.3g}" if p is not None else "")
    )
    second = plain(
        f"Average ranks over datasets: {table.spec.title}",
        frame,
        {"average rank": ".2f", "error": ".2f"},
        name=f"{table.spec.name}-ranks",
        notes=(about, "1 = best"),
    )
    return [first, second]


def _column(table: Table, name: str | None) -> str:
    name = name or table.spec.baseline or table.spec.columns[0]
    if name not in table.spec.columns:
        raise UserError(
            f"table {table.spec.name} has no column '{name}'{did_you_mean(name, table.spec.columns)}"
        )
    return name
