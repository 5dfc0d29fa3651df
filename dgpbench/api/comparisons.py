"""`dgpbench compare` from Python: a fair table of plain runs, as a DataFrame or as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.errors import UserError
from dgpbench.report.comparison.fill import DEFAULT_METRIC, ERRORS, Comparison
from dgpbench.report.comparison.fill import compare as fill

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Compared:
    """A comparison: `frame()` for pandas, `text("markdown")`, latex, csv or html for people."""

    comparison: Comparison

    def frame(self) -> pd.DataFrame:
        """One row per dataset and column: mean over splits, standard error, splits done, missing, failed."""
        import pandas as pd

        table, rows = self.comparison.table, []
        for (dataset, column), cell in table.cells.items():
            ours = table.ours(dataset, column)
            rows.append(
                {
                    "dataset": dataset,
                    "column": column,
                    "metric": self.comparison.metric.name,
                    "mean": None if ours is None else ours.mean,
                    "se": None if ours is None else ours.error,
                    "done": len(cell.values),
                    "missing": len(cell.missing),
                    "failed": len(cell.failed),
                }
            )
        return pd.DataFrame(rows)

    def text(self, format: str = "markdown") -> str:
        """The tables with ranks, tests and what is missing, as `dgpbench compare --format` prints them."""
        from dgpbench.report.comparison.output import render

        return render(self.comparison, format)


def compare(
    *overrides: str,
    metric: str = DEFAULT_METRIC,
    against: str | None = None,
    run: bool = False,
    tuned: bool = False,
    config_dirs: Sequence[str | Path] = (),
    folder: str | Path | None = None,
    reference: bool = False,
    errors: str = ERRORS[0],
) -> Compared:
    """Models by datasets from the records of a results folder ("model=sgp,dgp2", "dataset=boston,energy").

    With `run`, what is missing is run first, as a sweep. With `tuned`, each column is followed by one of the
    refits that `tune` made of it. Columns that are not comparable raise UserError.
    """
    from dgpbench.store.layout import results_folder
    from dgpbench.store.scan import scan

    where = [f"paths.results={folder}"] if folder is not None else []
    dirs = [str(given) for given in config_dirs]
    if run:
        from dgpbench.api.runs import sweep

        sweep(*overrides, *where, config_dirs=dirs)
    place = results_folder(folder).expanduser()
    units = scan(place, reference=reference)
    if errors not in ERRORS:
        raise UserError(f"errors={errors!r} is not one of {', '.join(ERRORS)}")
    chosen = {"metric": metric, "against": against, "tuned": tuned, "errors": errors}
    found = fill(overrides, units, config_dirs=dirs, more=where, **chosen)
    return Compared(found)
