"""Records in one file, to share and to take in again: .jsonl.gz as in results/reference, or .parquet.

A Parquet file has the columns of `dgpbench.results` and one more, `record`, with the whole record as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dgpbench.config.schema import show_value
from dgpbench.errors import UserError
from dgpbench.store import reference
from dgpbench.store.scan import Unit, parse
from dgpbench.store.seal import dumps_line

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


def read(path: str | Path) -> list[Unit]:
    """The records of an exported file; UserError where it is none."""
    path = Path(path).expanduser()
    if not path.name.endswith(ENDINGS):
        raise UserError(f"{path} is no export; give a results folder, or a file that `show --export` wrote")
    return _read_parquet(path) if path.suffix == ".parquet" else reference.load(path)


def _parquet(units: Sequence[Unit], path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dgpbench.api.frame import frame
    from dgpbench.data.atomic_files import atomic_file

    units = sorted(units, key=lambda unit: unit.record["key"])
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
