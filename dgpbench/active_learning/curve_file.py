"""The file of one curve: results/active/<dataset>/<model>-<inference>/<protocol>/split<k>-<key8>.json.

It is written whole after every step, so that a curve that was stopped goes on with its next step. The key
hashes the settings, the data and the options, not the number of iterations: a longer curve goes on from a
shorter one.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dgpbench.active_learning.loop import Options
from dgpbench.config.keys import run_key
from dgpbench.store.disk import clear_errors
from dgpbench.store.layout import labels_of, unit_folder
from dgpbench.store.untrusted import parse_json, read_regular

FOLDER = "active"
SCHEMA = 1


@dataclass
class Curve:
    """Steps of one model on one split, with what they were made of."""

    key: str
    config: dict
    options: Options
    data_hash: str
    steps: list[dict] = field(default_factory=list)
    reason: str | None = None  # why it ended early


def curve_key(cfg: dict, data_hash: str, options: Options) -> str:
    text = json.dumps({"run": run_key(cfg, data_hash), **asdict(options)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def curve_path(results: str | Path, cfg: dict, key: str) -> Path:
    folder = unit_folder(Path(results) / FOLDER, labels_of(cfg), key)
    return folder.with_name(f"{folder.name}.json")


def read_curve(path: Path, empty: Curve) -> Curve:
    """The curve of a file that goes on what `empty` begins; `empty` itself where there is no such file."""
    try:
        content = parse_json(read_regular(path))
        fits = content["schema"] == SCHEMA and content["key"] == empty.key
        steps = [_checked(step) for step in content["steps"]] if fits else []
    except (OSError, ValueError, KeyError, TypeError):
        return empty  # none yet, or not one of ours: begun anew
    empty.steps = steps
    return empty


def write_curve(results: str | Path, path: Path, curve: Curve) -> None:
    """Write the curve whole or not at all."""
    from dgpbench.report.output_files import put

    text = json.dumps({"schema": SCHEMA} | asdict(curve), indent=1, allow_nan=False)
    with clear_errors(results):
        path.parent.mkdir(parents=True, exist_ok=True)
        put(path, text.encode())


def _checked(step: dict) -> dict:
    """A step of numbers; ValueError if it is none."""
    for name in ("labels", "row"):
        if type(step[name]) is not int:
            raise ValueError(f"{name} is no whole number")
    if not all(isinstance(v, int | float) and math.isfinite(v) for v in step.values()):
        raise ValueError("a step holds what is no number")
    return step
