"""The files beside a record: predictions, draws, parameters. They are used only if their sha256 fits."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib

import numpy as np

from dgpbench.data.scaling import separate
from dgpbench.errors import UserError
from dgpbench.store.scan import Unit, read_record
from dgpbench.store.untrusted import MAX_FILE, read_regular
from dgpbench.store.write import DRAWS, PARAMS, PREDICTIONS

MAX_UNPACKED = 8 << 30
TRIES = 3  # a record may be replaced, and its files with it, between two looks


def companion(unit: Unit, name: str) -> bytes:
    """The content of a companion file, checked against the record that names it."""
    if unit.is_reference:
        raise UserError(f"{unit.path} holds records only; run the unit to have its {name}")
    for _ in range(TRIES):
        entry = (_record_now(unit) or unit.record)["files"].get(name)
        if entry is None:
            raise UserError(f"{unit.path} has no {name}; run the unit again with --force to have it")
        path = unit.folder / entry.get("name", name)
        try:
            content = read_regular(path, MAX_FILE)
        except (OSError, ValueError):
            continue
        if hashlib.sha256(content).hexdigest() == entry["sha256"]:
            return content
    raise UserError(f"{path} is missing or not the file its record names; run the unit again with --force")


def _record_now(unit: Unit) -> dict | None:
    try:
        return read_record(unit.folder)
    except (OSError, ValueError):
        return None


def predictions(unit: Unit) -> dict[str, np.ndarray]:
    """Columns of predictions.parquet, original units."""
    return _columns(unit, PREDICTIONS)


def draws(unit: Unit) -> dict[str, np.ndarray]:
    """Columns of draws.parquet: row, output, y (R,), x (R, D), draws (R, n), original units."""
    return _columns(unit, DRAWS)


def parameters(unit: Unit) -> dict[str, np.ndarray]:
    """The model's final parameters by name."""
    return separate(arrays(unit))[0]


def arrays(unit: Unit) -> dict[str, np.ndarray]:
    """All of params.npz: the model's parameters, and the scaling of the run."""
    content = companion(unit, PARAMS)
    try:
        return unpack_arrays(content)
    except ValueError as error:
        raise UserError(f"{unit.folder / PARAMS} cannot be used: {error}") from None


def unpack_arrays(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of an .npz by name; ValueError for whatever else it is, or if it unpacks to too much."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(member.file_size for member in archive.infolist()) > MAX_UNPACKED:
                raise ValueError(f"it unpacks to more than {MAX_UNPACKED >> 30} GB")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: np.asarray(file[name]) for name in file.files}
    except (OSError, EOFError, KeyError, NotImplementedError, RuntimeError, MemoryError) as error:
        raise ValueError(f"no .npz of plain arrays ({type(error).__name__}: {error})") from None
    except (zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"a damaged .npz ({error})") from None


def _columns(unit: Unit, name: str) -> dict[str, np.ndarray]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    content, where = companion(unit, name), unit.folder / name
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
        if sum(group.total_byte_size for group in groups) > MAX_UNPACKED:
            raise UserError(f"{where} cannot be used: it unpacks to more than {MAX_UNPACKED >> 30} GB")
        table = file.read(use_threads=False)  # threads of the library may outlive the end of a command
        return {column: _array(table.column(column)) for column in table.column_names}
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{where} cannot be used: it is no table of ours ({first})") from None


def _array(column) -> np.ndarray:
    """A column of numbers as (N,), one of fixed-size lists as (N, n)."""
    import pyarrow as pa

    array = column.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    if not pa.types.is_fixed_size_list(array.type):
        return array.to_numpy(zero_copy_only=False)
    values = array.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(array), array.type.list_size)
