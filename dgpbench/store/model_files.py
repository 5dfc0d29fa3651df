"""Models of other libraries: a file next to the record, loaded only if the user allows the model by name.

This is the only module of dgpbench that unpickles (through joblib), and it does so only with that permission.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dgpbench.errors import UserError, message
from dgpbench.store import read
from dgpbench.store.deep import MODEL_FILES
from dgpbench.store.scan import Unit


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
        if len(self.content) > read.MAX_FILE:
            size = f"{len(self.content) / 1e6:,.0f} MB"
            raise ValueError(
                f"the {self.format} model takes {size}; at most {read.MAX_FILE / 1e6:,.0f} MB are stored"
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
        return read.parameters(unit)
    kind, name = found
    content = read.companion(unit, name)
    try:
        return unpack(ModelFile(kind, content))
    except Exception as error:  # noqa: BLE001 - a file of any library can fail in any way
        what = f"{type(error).__name__}: {message(error)}"
        raise UserError(
            f"{unit.folder / name} cannot be loaded ({what}); run the unit again with --force"
        ) from error


def check_allowed(unit: Unit, allow: Collection[str]) -> None:
    """Raise UserError if a run's model is in another library's file and the user has not allowed it."""
    found, name = file_of(unit.record), unit.record["model"]
    if found is None or name in allow:
        return
    risk = "a pickle, which can run any code" if found[0] == "joblib" else "a file of another library"
    raise UserError(
        f"the model of {unit.path} is in {found[1]}, {risk}; if you trust it, add --allow-model {name} "
        f"(in Python: allow_models=[{name!r}])"
    )


def file_of(record: dict) -> tuple[str, str] | None:
    """Return format and name of the model file in a record, if it has one."""
    return next(((kind, name) for kind, name in MODEL_FILES.items() if name in record["files"]), None)


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
