"""Records as a pandas DataFrame: one row per record, with metrics and every field of its config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dgpbench.config.composition import check_words
from dgpbench.config.schema import show_value
from dgpbench.config.sections import flatten
from dgpbench.errors import UserError
from dgpbench.store import reference
from dgpbench.store.filters import select
from dgpbench.store.layout import results_to_read
from dgpbench.store.record import dumps_line
from dgpbench.store.scan import Unit, parse, scan

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
    record, config = unit.record, unit.record.config
    labels = {name: record.get(name, config.get(name)) for name in LABELS}
    labels |= {
        "seconds": record.wall_seconds,
        "training_seconds": record.training.get("seconds"),
        "steps_per_second": record.steps_per_second,
        **record.sizes,
    }
    data = {name: value for name, value in config["dataset"].items() if name in DATA}
    kept = {name: value for name, value in config.items() if name not in NOT_SETTINGS} | {"dataset": data}
    settings = {name: _cell(value) for name, value in flatten(kept).items()}
    machine = {name: record[name] for name in MACHINE}
    return labels, record.metrics, settings, machine | {"path": str(unit.path)}


def _cell(value: Any) -> Any:
    """Numbers, text and switches as they are; lists and mappings as they are written on the command line."""
    return show_value(value) if isinstance(value, (list, dict)) else value


ENDINGS = (".jsonl.gz", ".parquet")
RECORD = "record"


def export(units: Sequence[Unit], path: str | Path) -> int:
    """Write records without their machine's folders and without companions; returns how many."""
    path = Path(path).expanduser()
    if not path.name.endswith(ENDINGS):
        raise UserError(f"cannot export to {path}; give a name that ends in {' or '.join(ENDINGS)}")
    if path.is_dir():
        raise UserError(
            f"cannot export to {path}, a folder; give a file in it, e.g. {path / 'results.parquet'}"
        )
    try:
        return (_parquet if path.suffix == ".parquet" else reference.export)(units, path)
    except OSError as error:
        raise UserError(
            f"cannot export to {path} ({error.strerror}); give a place that can be written"
        ) from None


def read_export(path: str | Path) -> list[Unit]:
    """The records of an exported file; UserError where it is none."""
    path = Path(path).expanduser()
    if not path.name.endswith(ENDINGS):
        raise UserError(f"{path} is no export; give a results folder, or a file that `show --export` wrote")
    return _read_parquet(path) if path.suffix == ".parquet" else reference.load(path)


def _parquet(units: Sequence[Unit], path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dgpbench.data.atomic_files import atomic_file

    units = sorted(units, key=lambda unit: unit.record.key)
    table = frame(units)
    for name in table.select_dtypes(object):  # one type in each column
        if len({type(value) for value in table[name] if value is not None and value == value}) > 1:
            table[name] = [
                None if value is None or value != value else show_value(value) for value in table[name]
            ]
    table["path"] = ""
    table[RECORD] = [dumps_line(reference.portable(unit.record)) for unit in units]
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), file, compression="zstd")
    return len(units)


def _read_parquet(path: Path) -> list[Unit]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        texts = pq.read_table(path, columns=[RECORD], use_threads=False).column(RECORD).to_pylist()
        return [Unit(parse(text.encode()), path) for text in texts]
    except (OSError, AttributeError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
        first = (str(error).splitlines() or ["unknown"])[0]
        raise UserError(f"{path} was not written by `show --export`, or is damaged ({first})") from None
