"""Running from Python what `dgpbench run` and `dgpbench sweep` run: the same records, in the same folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.errors import RunFailed
from dgpbench.store.scan import Unit

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Run(Unit):
    """A recorded run: `record` is the whole record, `path` its file."""

    @property
    def status(self) -> str:
        return self.record["status"]

    @property
    def metrics(self) -> dict[str, float | None]:
        return self.record["metrics"]

    @property
    def config(self) -> dict:
        return self.record["config"]

    @property
    def key(self) -> str:
        return self.record["key"]

    def __repr__(self) -> str:
        names = (self.record[name] for name in ("model", "dataset", "protocol"))
        return f"<Run {' '.join(names)} split {self.record['split']}: {self.status}, {self.folder}>"


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
        Settings as on the command line, e.g. ``"model=dgp2"``.
    data : DataFrame, optional
        Rows to train and test on, in place of a file. They are stored as Parquet in the folder of datasets,
        so that the run can be repeated; set ``"dataset.target=..."``, and ``"dataset.prepare=auto"`` unless
        all columns are numbers.
    config_dirs : sequence of path, default=()
        Folders with your own configs.
    force : bool, default=False
        Train even if a record exists.
    check : bool, default=True
        Raise RunFailed if the run fails or diverges.
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
        If the run fails or diverges, and `check` is true.
    """
    from dgpbench.config import compose
    from dgpbench.experiment import run_unit
    from dgpbench.progress import Reporter

    reporter = Reporter(verbosity=-1 if quiet else 0)
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
    from dgpbench.data.readers.table import store_frame
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
    """Run every combination of the values given, on every split unless "split=..." says otherwise.

    Units run in processes of their own, on this machine or where "launcher=slurm" or "launcher=ray" say.
    Returns one row per unit that has a record, as `results` does; failed ones have their reason.
    """
    from dgpbench.api.frame import frame
    from dgpbench.errors import UserError
    from dgpbench.sweep.launch import complete
    from dgpbench.sweep.planner import make_plan
    from dgpbench.sweep.state import RETRY

    if retry not in RETRY:
        raise UserError(f"retry={retry!r} is not allowed; give one of {', '.join(RETRY)}")
    plan = make_plan(overrides, [str(folder) for folder in config_dirs], fetch=True, note=lambda text: None)
    return frame([unit for unit in complete(plan, retry=retry, quiet=quiet) if unit is not None])
