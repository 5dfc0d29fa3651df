"""Running from Python what `dgpbench run` and `dgpbench sweep` run: the same records, in the same folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.errors import RunFailed
from dgpbench.store.scan import Unit

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Run(Unit):
    """A recorded run.

    Attributes
    ----------
    record : dict
        The whole record.
    path : Path
        Its file; `folder` is the folder of the run.
    """

    @property
    def status(self) -> str:
        """How the run ended: ``done``, ``failed``, ``diverged``, ``oom`` or ``interrupted``."""
        return self.record.status

    @property
    def metrics(self) -> dict[str, float | None]:
        """Metrics by name; None where one does not apply."""
        return self.record.metrics

    @property
    def config(self) -> dict:
        """All settings of the run."""
        return self.record.config

    @property
    def key(self) -> str:
        """Hash of everything that determines the numbers."""
        return self.record.key

    def __repr__(self) -> str:
        names = (self.record[name] for name in ("model", "dataset", "protocol"))
        return f"<Run {' '.join(names)} split {self.record.split}: {self.status}, {self.folder}>"

    def _repr_html_(self) -> str:
        from dgpbench.progress import metric_rows, times

        record = self.record
        names = ("model", "dataset", "protocol", "inference", "split", "seed", "status", "reason")
        facts = [(name, str(record[name])) for name in names if record.get(name) is not None]
        facts += [("time", times(record)), ("folder", str(self.folder)), ("key", self.key[:8])]
        head = "".join(_html_row(name, value) for name, value in facts)
        rows = "".join(_html_row(*row) for row in metric_rows(self.metrics))
        titles = "".join(f"<th>{title}</th>" for title in ("test", "original units", "standardised"))
        table = f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
        return f"<div><table><tbody>{head}</tbody></table>{table}</div>"


def _html_row(name: str, *values: str) -> str:
    cells = "".join(f"<td>{escape(value)}</td>" for value in values)
    return f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'


def run(
    *overrides: str,
    data: pd.DataFrame | None = None,
    config_dirs: Sequence[str | Path] = (),
    force: bool = False,
    check: bool = True,
    quiet: bool = True,
) -> Run:
    """Train and evaluate one model on one split, in this process.

    A finished run is loaded from its record instead of being repeated.

    Parameters
    ----------
    *overrides : str
        Settings as on the command line, e.g. ``"model=dgp2"``, ``"dataset=energy"``.
    data : DataFrame, optional
        Rows to train and test on, instead of a file. They are stored as Parquet in the folder of datasets,
        so that the run can be repeated. Set ``"dataset.target=..."``, and ``"dataset.prepare=auto"`` unless
        all columns are numbers.
    config_dirs : sequence of path, default=()
        Folders with your own configs.
    force : bool, default=False
        Train even if there is a record.
    check : bool, default=True
        Raise RunFailed if the run fails or diverges; False returns it.
    quiet : bool, default=True
        Hide progress output.

    Returns
    -------
    Run

    Raises
    ------
    UserError
        If a setting or the data are invalid.
    RunFailed
        If the run fails or diverges; its record has the reason.

    Examples
    --------
    >>> run = dgpbench.run("model=linear", "dataset=step")
    >>> run.status
    'done'
    >>> run.metrics["test_rmse"] < 1
    True
    """
    from dgpbench.config import compose
    from dgpbench.experiment import run_unit
    from dgpbench.progress import Reporter

    reporter = Reporter(verbosity=-1 if quiet else 0, expects=True)
    if data is not None:
        overrides = _with_data(overrides, data)
    cfg = compose(overrides, config_dirs)
    try:
        unit, _ = run_unit(cfg, force=force, reporter=reporter)
    finally:
        reporter.stop()
    found = Run(unit.record, unit.path)
    if check and found.status != "done":
        raise RunFailed(found)
    return found


def _with_data(overrides: Sequence[str], data: pd.DataFrame) -> tuple[str, ...]:
    """Return the overrides, with the file in which the data are stored now."""
    from dgpbench.config import compose
    from dgpbench.data.readers.file_table import store_frame
    from dgpbench.errors import UserError

    given = {text.partition("=")[0].lstrip("+"): text.partition("=")[2] for text in overrides}
    if "dataset.path" in given or given.get("dataset", "csv") != "csv":
        raise UserError("give either data or another dataset; with data, leave dataset and dataset.path out")
    paths = compose([text for text in overrides if text.startswith("paths.")])["paths"]
    path = str(store_frame(data, Path(paths["datasets"]))).replace("\\", "\\\\").replace("'", "\\'")
    return (*overrides, *(() if "dataset" in given else ("dataset=csv",)), f"dataset.path='{path}'")


def sweep(
    *overrides: str,
    config_dirs: Sequence[str | Path] = (),
    retry: str = "missing",
    quiet: bool = True,
) -> pd.DataFrame:
    """Run every combination of the given values, on every split.

    Each run has its own process, on this machine or on a cluster. Finished runs are skipped.

    Parameters
    ----------
    *overrides : str
        Settings as on the command line, with lists of values: ``"model=sgp,dgp2"``, ``"split=0,1"``.
        ``"launcher=slurm"`` and ``"launcher=ray"`` run elsewhere.
    config_dirs : sequence of path, default=()
        Folders with your own configs.
    retry : {"missing", "failed", "all", "none"}, default="missing"
        Which runs to start: those without a record, also failed ones, all, or none.
    quiet : bool, default=True
        Hide progress output.

    Returns
    -------
    pandas.DataFrame
        One row per run that has a record, as from `results`; failed runs have their reason.

    Raises
    ------
    UserError
        If a setting is invalid.

    Examples
    --------
    >>> table = dgpbench.sweep("model=linear,knn", "dataset=step", "split=0,1")  # doctest: +SKIP
    >>> table.groupby("model")["test_rmse"].mean()  # doctest: +SKIP
    """
    from dgpbench.api.record_tables import frame
    from dgpbench.config.composition import check_words
    from dgpbench.errors import UserError
    from dgpbench.sweep.launch import complete
    from dgpbench.sweep.planner import make_plan
    from dgpbench.sweep.state import RETRY

    if retry not in RETRY:
        raise UserError(f"retry={retry!r} is not allowed; give one of {', '.join(RETRY)}")
    check_words(overrides)
    plan = make_plan(overrides, [str(folder) for folder in config_dirs], fetch=True, note=lambda text: None)
    return frame([unit for unit in complete(plan, retry=retry, quiet=quiet) if unit is not None])
