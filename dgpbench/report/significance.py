"""Paired tests between the columns of a table, on the splits that both columns have.

The splits of one dataset share training and test rows, so their differences are correlated. The tests of one
dataset therefore use the variance of Nadeau and Bengio (2003): with n splits, n_test test rows and n_train
training rows,

    var(mean difference) = (1/n + n_test/n_train) var(differences).

The corrected resampled t-test and the correlated Bayesian t-test (Benavoli, Corani, Demsar and Zaffalon,
2017) both rest on it. Different datasets are independent: signed-rank tests compare their means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError
from dgpbench.report.grid import Grid, plain
from dgpbench.report.result_table import Table, community_note

ROPE = 0.01  # region of practical equivalence: smaller differences count as none (nat, or the table's unit)
POWER = 0.8  # probability with which the detectable difference would be found
PRIOR_WEIGHT = 0.5  # of one pseudo-difference of zero
DRAWS = 20_000
LEVEL = 0.05
LEAST_SETS = 5  # datasets; over fewer, ranks have no critical difference worth the name
OVER_DATASETS = "all, by dataset means"


class Resampled(NamedTuple):
    """Mean of the differences between two models on resampled splits, with its corrected standard error."""

    mean: float
    error: float
    freedom: int

    @classmethod
    def of(cls, differences: np.ndarray, test_ratio: float) -> Resampled | None:
        """Summarise one difference per split; None for fewer than two, or where one is not finite."""
        n = len(differences)
        if n < 2 or not np.isfinite(differences).all():
            return None
        error = math.sqrt((1 / n + test_ratio) * float(np.var(differences, ddof=1)))
        return cls(float(np.mean(differences)), error, n - 1)

    def p_value(self) -> float:
        """Return the two-sided p of the corrected resampled t-test."""
        if self.error == 0:
            return float(self.mean == 0)
        return float(2 * _t().sf(abs(self.mean) / self.error, self.freedom))

    def posterior(self, rope: float = ROPE) -> tuple[float, float, float]:
        """Return the probabilities that the mean difference is below -rope, within it, and above rope."""
        if self.error == 0:
            worse, better = float(self.mean < -rope), float(self.mean > rope)
        else:
            worse = float(_t().cdf((-rope - self.mean) / self.error, self.freedom))
            better = float(_t().sf((rope - self.mean) / self.error, self.freedom))
        return worse, 1 - worse - better, better

    def detectable(self, power: float = POWER, level: float = LEVEL) -> float:
        """Return the true difference that this design would find significant with probability `power`."""
        from scipy.optimize import brentq
        from scipy.stats import nct

        critical = float(_t().isf(level / 2, self.freedom))

        def excess(shift: float) -> float:
            return float(nct.sf(critical, self.freedom, shift)) - power

        return self.error * brentq(excess, 0.0, 4 * critical + 10)


def _t() -> Any:
    from scipy.stats import t

    return t


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Return p values adjusted by Holm's step-down method. NaN stays NaN and does not count as a test."""
    p = np.asarray(p_values, float)
    out = np.full(p.shape, math.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    scaled = p[order] * np.arange(len(order), 0, -1)
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return out


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
    """Compare each column with `against`, per dataset and over the means of all datasets.

    Parameters
    ----------
    table : Table
        Values of each cell by split.
    against : str, optional
        The column to compare with; the baseline of the table by default.

    Returns
    -------
    DataFrame
        One row per dataset and column. Positive differences are better. Per dataset, p and the posterior
        are those of the corrected resampled t-tests; over datasets, of the signed-rank tests. `p (Holm)` is
        adjusted for all tests over splits, or for all tests over datasets.
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
            for row in rows:
                if row in found.index.unique("row"):
                    values = found.loc[[row]].to_numpy()
                    result = Resampled.of(values, table.cells[row, column].test_ratio)
                    lines.append((row, column, *_counts(values), *_over_splits(result)))
            means = found.groupby("row").mean().to_numpy()
            if len(means) > 1:
                lines.append((OVER_DATASETS, column, *_counts(means), *_over_datasets(means)))
    frame = pd.DataFrame(lines, columns=TEST_COLUMNS)
    over = frame["dataset"] == OVER_DATASETS
    for family in (over, ~over):
        frame.loc[family, "p (Holm)"] = holm(frame.loc[family, "p"].to_numpy(float))
    return frame


TEST_COLUMNS = [
    *("dataset", "model", "pairs", "win", "tie", "loss", "mean difference", "detectable"),
    *("p", "p (Holm)", "P(worse)", "P(equal)", "P(better)"),
]


def _counts(values: np.ndarray) -> tuple[int, int, int, int, float]:
    """Return pairs, wins, ties, losses and the mean difference."""
    wins, losses = int((values > ROPE).sum()), int((values < -ROPE).sum())
    return len(values), wins, len(values) - wins - losses, losses, float(values.mean())


def _over_splits(result: Resampled | None) -> tuple[float, ...]:
    """Return the detectable difference, p, a place for the adjusted p, and the posterior."""
    if result is None:
        return (math.nan,) * 6
    return result.detectable(), result.p_value(), math.nan, *result.posterior()


def _over_datasets(means: np.ndarray) -> tuple[float, ...]:
    p = wilcoxon(means)
    posterior = signed_rank_posterior(means) if np.isfinite(means).all() else (math.nan,) * 3
    return math.nan, math.nan if p is None else p, math.nan, *posterior


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


TEST_FORMATS = {
    **dict.fromkeys(("mean difference", "detectable", "P(worse)", "P(equal)", "P(better)"), ".3f"),
    **dict.fromkeys(("p", "p (Holm)"), ".2g"),
}


def explain_tests(against: str, what: str, rope: str) -> list[str]:
    """Return the notes below a table of paired tests."""
    return [
        f"{what} from {against} on common splits, positive is better; differences below {rope} are ties",
        "one dataset: p of the corrected resampled t-test, P of the correlated Bayesian t-test, which allow "
        "for the rows that splits share; all datasets: signed-rank tests of the means",
        "p (Holm): adjusted for all tests over splits, or for all tests over datasets",
        f"detectable: the true difference that these splits find at {LEVEL:.0%} with probability {POWER:.0%}",
    ]


def significance_grids(table: Table, against: str | None = None) -> list[Grid]:
    """The paired tests, and the ranks with their critical difference."""
    against = _column(table, against)
    notes = (*explain_tests(against, "differences", str(ROPE)), *community_note(table.cells))
    title = f"Paired tests against {against}: {table.spec.title}"
    first = plain(
        title,
        paired(table, against),
        TEST_FORMATS,
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
