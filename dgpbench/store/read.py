"""The files beside a record: predictions, draws, parameters. They are used only if their sha256 fits."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from dgpbench.data.transform import separate
from dgpbench.errors import UserError
from dgpbench.store.scan import Unit, read_record
from dgpbench.store.write import DRAWS, PARAMS, PREDICTIONS, sha256


def companion(unit: Unit, name: str) -> Path:
    """The path of a companion file, checked against the record that names it."""
    if unit.is_reference:
        raise UserError(f"{unit.path} holds records only; run the unit to have its {name}")
    path = unit.folder / name
    record = read_record(unit.folder) or unit.record  # it may have been replaced since it was read
    entry = record["files"].get(name)
    if entry and path.is_file() and sha256(path) == entry["sha256"]:
        return path
    if entry is None:
        raise UserError(f"{unit.path} has no {name}; run the unit again with --force to have it")
    raise UserError(f"{path} is missing or not the file its record names; run the unit again with --force")


def predictions(unit: Unit) -> dict[str, np.ndarray]:
    """Columns of predictions.parquet, original units."""
    return _columns(companion(unit, PREDICTIONS))


def draws(unit: Unit) -> dict[str, np.ndarray]:
    """Columns of draws.parquet: row, output, y (R,), x (R, D), draws (R, n), original units."""
    return _columns(companion(unit, DRAWS))


def parameters(unit: Unit) -> dict[str, np.ndarray]:
    """The model's final parameters by name."""
    return separate(arrays(unit))[0]


def arrays(unit: Unit) -> dict[str, np.ndarray]:
    """All of params.npz: the model's parameters, and the scaling of the run."""
    with np.load(io.BytesIO(companion(unit, PARAMS).read_bytes()), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _columns(path: Path) -> dict[str, np.ndarray]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = {}
    table = pq.read_table(path)
    for name in table.column_names:
        array = pa.concat_arrays(table.column(name).chunks)
        values = array.flatten() if pa.types.is_fixed_size_list(array.type) else array
        out[name] = values.to_numpy(zero_copy_only=False)
        if values is not array:
            out[name] = out[name].reshape(len(array), array.type.list_size)
    return out
