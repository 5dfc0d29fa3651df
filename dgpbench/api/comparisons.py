"""`dgpbench compare` from Python: a fair table of plain runs, as a DataFrame or as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.errors import UserError
from dgpbench.evaluate.metric_table import LOGLIK
from dgpbench.report.comparison.compare_runs import ERRORS, Comparison
from dgpbench.report.comparison.compare_runs import compare as fill

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Compared:
    """A table of models by datasets, as a DataFrame or as text. `dgpbench.compare` returns one."""

    comparison: Comparison

    def __repr__(self) -> str:
        table = self.comparison.table
        rows, columns = (", ".join(dict.fromkeys(names)) for names in zip(*table.cells, strict=True))
        return f"<Compared {self.comparison.metric.name} of {columns} on {rows}>"

    def frame(self) -> pd.DataFrame:
        """Return the comparison as a table.

        Returns
        -------
        pandas.DataFrame
            One row per dataset and column, with mean over splits, standard error, and the number of
            splits that are done, missing and failed.
        """
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
        """Return the tables with ranks, tests and missing runs, as `dgpbench compare --format` prints them.

        Parameters
        ----------
        format : {"markdown", "latex", "csv", "html"}, default="markdown"
            Format of the text.

        Returns
        -------
        str

        Raises
        ------
        UserError
            If the format is unknown.
        """
        from dgpbench.report.comparison.comparison_views import render

        return render(self.comparison, format)

    def _repr_html_(self) -> str:
        from dgpbench.report.comparison.comparison_views import grids
        from dgpbench.report.render import to_html

        return "".join(map(to_html, grids(self.comparison)))


def compare(
    *overrides: str,
    metric: str = LOGLIK,
    against: str | None = None,
    run: bool = False,
    tuned: bool = False,
    config_dirs: Sequence[str | Path] = (),
    folder: str | Path | None = None,
    reference: bool = False,
    errors: str = ERRORS[0],
) -> Compared:
    """Compare models on datasets, from the records of a results folder.

    Parameters
    ----------
    *overrides : str
        Settings with lists of values, e.g. ``"model=sgp,dgp2"``, ``"dataset=boston,energy"``.
    metric : str, default="loglik"
        Metric of the table.
    against : str, default=None
        Column that the others are tested against; None means the first.
    run : bool, default=False
        Run missing combinations first, as a sweep.
    tuned : bool, default=False
        Add to each column one with the results that `tune` made of it.
    config_dirs : sequence of path, default=()
        Folders with your own configs.
    folder : path, default=None
        Results folder; None means DGPBENCH_RESULTS, or ``results``.
    reference : bool, default=False
        Add the records that come with dgpbench.
    errors : {"corrected", "plain"}, default="corrected"
        Standard errors over splits: "corrected" allows for the rows that splits share, and
        "plain" is the papers' form.

    Returns
    -------
    Compared

    Raises
    ------
    UserError
        If a setting is invalid, or the columns are not comparable.

    Examples
    --------
    >>> for model in ("linear", "knn"):
    ...     run = dgpbench.run(f"model={model}", "dataset=step")
    >>> table = dgpbench.compare("model=linear,knn", "dataset=step", "split=0", metric="rmse").frame()
    >>> table[["dataset", "column", "done", "missing"]]
      dataset  column  done  missing
    0    step  linear     1        0
    1    step     knn     1        0
    """
    from dgpbench.config.composition import check_words
    from dgpbench.store.layout import results_folder
    from dgpbench.store.scan import scan

    check_words(overrides)
    where = [f"paths.results={folder}"] if folder is not None else []
    dirs = [str(given) for given in config_dirs]
    if run:
        from dgpbench.api.runs import sweep

        sweep(*overrides, *where, config_dirs=dirs)
    place = results_folder(folder).expanduser()
    units = scan(place, reference=reference)
    if errors not in ERRORS:
        raise UserError(f"errors={errors!r} is not one of {', '.join(ERRORS)}")
    found = fill(
        overrides,
        units,
        config_dirs=dirs,
        more=where,
        metric=metric,
        against=against,
        tuned=tuned,
        errors=errors,
    )
    return Compared(found)
