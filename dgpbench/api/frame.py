"""Records as a pandas DataFrame: one row per record, with metrics and every field of its config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgpbench.config.composition import check_words
from dgpbench.config.schema import show_value
from dgpbench.config.sections import flatten
from dgpbench.store.filters import select
from dgpbench.store.layout import results_to_read
from dgpbench.store.scan import Unit, scan

if TYPE_CHECKING:
    import pandas as pd

LABELS = (
    "dataset",
    "model",
    "inference",
    "protocol",
    "split",
    "seed",
    "status",
    "reason",
    "experiment",
    "tuned",
)
MACHINE = ("device", "threads", "git_commit", "finished", "data_hash", "config_key", "key")
NOT_SETTINGS = (
    *("split", "seed", "experiment", "tuned", "device", "threads"),
    *("paths", "launcher", "engine", "tracker"),
)
DATA = ("task", "train_rows", "path", "target", "drop")  # the rest of the section is the catalogue's


def results(
    *filters: str,
    folder: str | Path | None = None,
    reference: bool = False,
    trials: bool = False,
) -> pd.DataFrame:
    """Return the records of a results folder as a table.

    Parameters
    ----------
    *filters : str
        Conditions that all must hold, e.g. ``"dataset=energy"``, ``"model=dgp*"``,
        ``"model.num_inducing=50,100"``.
    folder : path, default=None
        Results folder; None means DGPBENCH_RESULTS, or ``results``.
    reference : bool, default=False
        Add the records that come with dgpbench.
    trials : bool, default=False
        Add the trials of tuning.

    Returns
    -------
    pandas.DataFrame
        One row per record. Columns are labels, metrics, times (``seconds`` of the whole run,
        ``training_seconds``, ``steps_per_second``), sizes, settings under their dotted names such as
        ``inference.adam.learning_rate``, keys and ``path``.

    Raises
    ------
    UserError
        If there is no results folder, or a filter cannot be read.

    Examples
    --------
    >>> run = dgpbench.run("model=linear", "dataset=step")
    >>> dgpbench.results("dataset=step")[["model", "split", "status"]]
        model  split status
    0  linear      0   done
    """
    check_words(filters)
    return frame(select(scan(results_to_read(folder), reference=reference, trials=trials), filters))


def frame(units: Sequence[Unit]) -> pd.DataFrame:
    """Return one row per unit, in their order; columns that a record lacks are missing values."""
    import pandas as pd

    rows = [_row(unit) for unit in units]
    order = dict.fromkeys(name for part in range(4) for row in rows for name in row[part]) or LABELS
    return pd.DataFrame(
        [{k: v for part in row for k, v in part.items()} for row in rows], columns=list(order)
    )


def _row(unit: Unit) -> tuple[dict, dict, dict, dict]:
    """Labels and times, metrics, config, machine and keys: in this order in the table."""
    record, config = unit.record, unit.record["config"]
    labels = {name: record.get(name, config.get(name)) for name in LABELS}
    labels |= {
        "seconds": record["wall_seconds"],
        "training_seconds": record["training"].get("seconds"),
        "steps_per_second": record["steps_per_second"],
        **record["sizes"],
    }
    data = {name: value for name, value in config["dataset"].items() if name in DATA}
    kept = {name: value for name, value in config.items() if name not in NOT_SETTINGS} | {"dataset": data}
    settings = {name: _cell(value) for name, value in flatten(kept).items()}
    machine = {name: record[name] for name in MACHINE}
    return labels, record["metrics"], settings, machine | {"path": str(unit.path)}


def _cell(value: Any) -> Any:
    """Numbers, text and switches as they are; lists and mappings as they are written on the command line."""
    return show_value(value) if isinstance(value, (list, dict)) else value
