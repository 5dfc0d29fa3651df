"""Read the files next to a record: predictions, draws, parameters and models of other libraries.

A file is used only if its sha256 is the one in the record. Only this module of dgpbench unpickles (through
joblib), and only models that the user allows by name.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgpbench.data.scaling import separate
from dgpbench.errors import UserError, message
from dgpbench.store.record import MODEL_FILES, Record
from dgpbench.store.scan import Unit, read_record
from dgpbench.store.untrusted import MAX_FILE, read_regular
from dgpbench.store.write import DRAWS, PARAMS, PREDICTIONS

MAX_UNPACKED = 8 << 30
TRIES = 3  # a record may be replaced, and its files with it, between two readings


def companion(unit: Unit, name: str) -> bytes:
    """Return the content of a companion file, checked against the record that names it."""
    if unit.is_reference:
        raise UserError(f"{unit.path} holds records only; run the unit to have its {name}")
    for _ in range(TRIES):
        with suppress(OSError, ValueError):
            unit = Unit(read_record(unit.folder) or unit.record, unit.path)
        entry = unit.record.files.get(name)
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


def predictions(unit: Unit) -> dict[str, np.ndarray]:
    """Return the columns of predictions.parquet, in original units."""
    return _columns(unit, PREDICTIONS)


def draws(unit: Unit) -> dict[str, np.ndarray]:
    """Return the columns of draws.parquet: row, output, y (R,), x (R, D), draws (R, n), in original units."""
    return _columns(unit, DRAWS)


def parameters(unit: Unit) -> dict[str, np.ndarray]:
    """Return the model's final parameters by name."""
    return separate(arrays(unit))[0]


def arrays(unit: Unit) -> dict[str, np.ndarray]:
    """Return all of params.npz: the model's parameters, and the scaling of the run."""
    content = companion(unit, PARAMS)
    try:
        return unpack_arrays(content)
    except ValueError as error:
        raise UserError(f"{unit.folder / PARAMS} cannot be used: {error}") from None


def unpack_arrays(content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz by name; raise ValueError for another or too large content."""
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
    """Return a column of numbers as (N,), one of fixed-size lists as (N, n)."""
    import pyarrow as pa

    array = column.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    if not pa.types.is_fixed_size_list(array.type):
        return array.to_numpy(zero_copy_only=False)
    values = array.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(array), array.type.list_size)


@dataclass(frozen=True)
class ModelFile:
    """A fitted model in the format of another library, as `parameters()` of a model may return it.

    Attributes
    ----------
    format : {"joblib", "torch", "onnx"}
        How `content` is loaded before `load_parameters` receives it: joblib as the object that was dumped,
        torch as a state_dict (`weights_only=True`), onnx as the same bytes.
    content : bytes
        What `joblib.dump` or `torch.save` wrote to an `io.BytesIO`, or a serialised ONNX model.

    Raises
    ------
    ValueError
        If the format is unknown, or the content empty, not bytes or larger than 2 GB.
    """

    format: str
    content: bytes

    def __post_init__(self) -> None:
        if self.format not in MODEL_FILES:
            raise ValueError(f"unknown model format {self.format!r}; use {', '.join(MODEL_FILES)}")
        if not isinstance(self.content, bytes) or not self.content:
            raise ValueError(
                f"the {self.format} model must be non-empty bytes, not {type(self.content).__name__}"
            )
        if len(self.content) > MAX_FILE:
            size = f"{len(self.content) / 1e6:,.0f} MB"
            raise ValueError(
                f"the {self.format} model takes {size}; at most {MAX_FILE / 1e6:,.0f} MB are stored"
            )


def split_parameters(values: Any) -> tuple[dict[str, Any], ModelFile | None]:
    """Return what `parameters()` gave as arrays by name, and as the file of another library's model."""
    if isinstance(values, ModelFile):
        return {}, values
    if isinstance(values, bytes):
        raise ValueError('parameters() returned bytes; wrap them, e.g. ModelFile("joblib", content)')
    if any(type(value).__module__.partition(".")[0] == "torch" for value in values.values()):
        return {}, _state_dict(values)
    return dict(values), None


def load_parameters(unit: Unit, allow: Collection[str] = ()) -> Any:
    """Return what the model's `load_parameters` receives: arrays by name, or another library's object.

    Parameters
    ----------
    unit : Unit
        A finished run.
    allow : collection of str
        Names of models whose files the user trusts.

    Raises
    ------
    UserError
        If the run has a model file and its model is not allowed, or the file cannot be loaded.
    """
    check_allowed(unit, allow)
    found = file_of(unit.record)
    if found is None:
        return parameters(unit)
    kind, name = found
    content = companion(unit, name)
    try:
        return unpack(ModelFile(kind, content))
    except Exception as error:  # noqa: BLE001 - a file of any library can fail in any way
        what = f"{type(error).__name__}: {message(error)}"
        raise UserError(
            f"{unit.folder / name} cannot be loaded ({what}); run the unit again with --force"
        ) from error


def check_allowed(unit: Unit, allow: Collection[str]) -> None:
    """Raise UserError if a run's model is in another library's file and the user has not allowed it."""
    found, name = file_of(unit.record), unit.record.model
    if found is None or name in allow:
        return
    risk = "a pickle, which can run any code" if found[0] == "joblib" else "a file of another library"
    raise UserError(
        f"the model of {unit.path} is in {found[1]}, {risk}; if you trust it, add --allow-model {name} "
        f"(in Python: allow_models=[{name!r}])"
    )


def file_of(record: Record) -> tuple[str, str] | None:
    """Return format and name of the model file in a record, if it has one."""
    return next(((kind, name) for kind, name in MODEL_FILES.items() if name in record.files), None)


def unpack(file: ModelFile) -> Any:
    """Return the object in a model file. Permission is the caller's business."""
    if file.format == "onnx":
        return file.content
    if file.format == "torch":
        import torch

        return torch.load(io.BytesIO(file.content), map_location="cpu", weights_only=True)
    import joblib

    return joblib.load(io.BytesIO(file.content))


def _state_dict(values: Mapping[str, Any]) -> ModelFile:
    """Return a state_dict as a file; raise ValueError if it could not be loaded with `weights_only=True`."""
    import torch

    buffer = io.BytesIO()
    torch.save(values, buffer)
    file = ModelFile("torch", buffer.getvalue())
    try:
        unpack(file)
    except Exception as error:  # noqa: BLE001 - torch raises several kinds
        raise ValueError(f"the state_dict holds more than tensors ({message(error)})") from None
    return file
