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
    config_dirs: Sequence[str | Path] = (),
    force: bool = False,
    check: bool = True,
    quiet: bool = True,
) -> Run:
    """Train and evaluate one model on one split, in this process; a run that is done is not done again.

    `overrides` are those of the command line: "model=dgp2", "dataset=energy", "budget.steps=100". Bad ones
    raise UserError. A run that fails or diverges is recorded and raises RunFailed, or with check=False is
    returned like any other.
    """
    from dgpbench.config import compose
    from dgpbench.experiment import run_unit
    from dgpbench.progress import Reporter

    reporter = Reporter(verbosity=-1 if quiet else 0, expects=True)
    cfg = compose(overrides, config_dirs)
    try:
        unit, _ = run_unit(cfg, force=force, reporter=reporter)
    finally:
        reporter.stop()
    found = Run(unit.record, unit.path)
    if check and found.status != "done":
        raise RunFailed(found)
    return found


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
