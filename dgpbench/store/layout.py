"""Folders of units: results/<dataset>/<model>-<inference>/<protocol>/split<k>-<key8>/."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dgpbench.errors import UserError

RECORD = "record.json"
DAMAGED = ".damaged-"  # between the name of a file and its sha256, when a damaged record was set aside
REFERENCE = "reference"  # folder of compressed records that come with the project; no dataset has this name
COMMUNITY = "community"  # the same for records of others: consistent, not run again
PACKED = (REFERENCE, COMMUNITY)
KEY_LENGTHS = (8, 64)  # the whole key where two keys share their first eight digits


def results_folder(named: str | Path | None = None) -> Path:
    """Return the results folder: `named`, else DGPBENCH_RESULTS, else results."""
    return Path(named or os.environ.get("DGPBENCH_RESULTS") or "results")


def results_to_read(named: str | Path | None = None) -> Path:
    """Return the results folder; raise UserError if `named` does not exist."""
    folder = results_folder(named)
    if named and not folder.is_dir():
        raise UserError(f"no results folder {folder}; give the folder that holds the dataset folders")
    return folder


def slug(name: str) -> str:
    """Return a name as one safe path component."""
    safe = re.sub(r"[^A-Za-z0-9_.+-]", "_", name).lstrip(".") or "_"
    return f"{safe}_" if safe in PACKED else safe[:80]


def unit_folder(
    results: str | Path, labels: Mapping[str, Any], key: str, digits: int = KEY_LENGTHS[0]
) -> Path:
    """Return the folder of a run. `labels` is a record, or a mapping with the same label fields."""
    method = f"{slug(labels['model'])}-{slug(labels['inference'])}"
    place = Path(results) / slug(labels["dataset"]) / method / slug(labels["protocol"])
    return place / f"split{labels['split']}-{key[:digits]}"


def unit_folders(results: str | Path, labels: Mapping[str, Any], key: str) -> Iterator[Path]:
    """Yield the folders that may be a run's, likeliest first."""
    return (unit_folder(results, labels, key, digits) for digits in KEY_LENGTHS)


def labels_of(cfg: dict) -> dict:
    """Return the label fields of a composed config."""
    names = {group: cfg[group]["name"] for group in ("dataset", "model", "inference", "protocol")}
    return {**names, "split": cfg["split"]}


def packaged(name: str = REFERENCE) -> Path | None:
    """Return a folder of records that comes with dgpbench, in the package or in the clone's results."""
    package = Path(__file__).resolve().parent.parent
    found = (package / name, package.parent / "results" / name)
    return next((folder for folder in found if folder.is_dir()), None)


def reference_folders(results: str | Path) -> list[Path]:
    """Return the folders of reference records: of the results folder first, then those of dgpbench."""
    return _folders(results, REFERENCE)


def known_folders(results: str | Path) -> list[Path]:
    """Return the folders of reference records, then those of records that others submitted."""
    return [folder for name in PACKED for folder in _folders(results, name)]


def _folders(results: str | Path, name: str) -> list[Path]:
    folders = [Path(results) / name, packaged(name)]
    return list({folder.resolve(): folder for folder in folders if folder is not None}.values())
