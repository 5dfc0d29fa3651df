"""OpenML datasets by number, from the caches of scikit-learn (`fetch_openml`) and of openml-python.

Nothing is downloaded here, and no pickled file of a cache is read.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse
from xml.etree import ElementTree

from dgpbench.data.readers.archives import MAX_UNPACKED, unpacking
from dgpbench.errors import UserError

_DESCRIPTION = 16 << 20  # bytes


@dataclass(frozen=True)
class Cached:
    """A dataset in a cache: its data file, target columns and columns that are no inputs."""

    path: Path
    targets: tuple[str, ...]
    ignored: tuple[str, ...]


def cached(number: Any) -> Cached:
    """Find an OpenML dataset in the local caches.

    Parameters
    ----------
    number : int
        The dataset's number on openml.org (`dataset.id`).

    Raises
    ------
    UserError
        If no cache has it, or its files are damaged.
    """
    if type(number) is not int or number < 1:
        raise UserError(
            f"dataset.id={number} is not allowed; give the number of a dataset on openml.org, e.g. "
            "dataset=openml dataset.id=531"
        )
    for root in _sklearn_roots():
        if (description := root / f"api/v1/json/data/{number}.gz").is_file():
            return _of_sklearn(root, description, number)
    for folder in _openml_folders(number):
        if (description := folder / "description.xml").is_file():
            return _of_openml(folder, description, number)
    raise UserError(
        f"OpenML dataset {number} is not in a local cache; on a machine with network access, fetch it with "
        f'python -c "from sklearn.datasets import fetch_openml; fetch_openml(data_id={number})" '
        "(the cache is ~/scikit_learn_data, or SCIKIT_LEARN_DATA)"
    )


def _sklearn_roots() -> Iterator[Path]:
    home = os.environ.get("SCIKIT_LEARN_DATA") or "~/scikit_learn_data"
    yield Path(home).expanduser() / "openml" / "openml.org"


def _openml_folders(number: int) -> Iterator[Path]:
    """Yield the folders that openml-python may keep a dataset in, under any of its servers."""
    xdg = os.environ.get("XDG_CACHE_HOME")
    given = (
        os.environ.get("OPENML_CACHE_DIR"),
        *((f"{xdg}/openml", xdg) if xdg else ()),
        *("~/.cache/openml", "~/.openml", "~/.openml/cache"),
    )
    for root in (Path(name).expanduser() for name in given if name):
        for server in ("www", "api"):
            yield root / "org" / "openml" / server / "datasets" / str(number)


def _of_sklearn(root: Path, description: Path, number: int) -> Cached:
    with unpacking(description), gzip.open(description) as file:
        content = file.read(_DESCRIPTION + 1)
    facts: Any = None
    try:
        facts = json.loads(content)["data_set_description"] if len(content) <= _DESCRIPTION else None
    except (ValueError, KeyError, TypeError):
        pass
    if not isinstance(facts, dict) or not isinstance(facts.get("url"), str):
        raise _damaged(description, number)
    place = unquote(urlparse(facts["url"]).path).lstrip("/")
    if ".." in Path(place).parts:
        raise _damaged(description, number)
    path = root / f"{place}.gz"
    if not path.is_file():
        raise UserError(f"{description} is cached without its data {path.name}; fetch the dataset again")
    if str(facts.get("format")).lower() != "arff":
        raise UserError(f"OpenML dataset {number} is {str(facts.get('format'))[:40]}; only ARFF can be read")
    return _checked(path, facts, number)


def _of_openml(folder: Path, description: Path, number: int) -> Cached:
    if description.stat().st_size > _DESCRIPTION:
        raise _damaged(description, number)
    facts: dict[str, Any] = {}
    try:
        for node in ElementTree.fromstring(description.read_bytes()):
            name = node.tag.rpartition("}")[2]
            facts[name] = [*facts[name], node.text] if name in facts else [node.text]
    except ElementTree.ParseError:
        raise _damaged(description, number) from None
    facts["md5_checksum"] = (facts.get("md5_checksum") or [None])[0]
    for name in ("dataset.arff", f"dataset_{number}.pq", "dataset.pq"):
        if (folder / name).is_file():
            return _checked(folder / name, facts, number)
    raise UserError(f"{description} is cached without its data, dataset.arff; fetch the dataset again")


def _checked(path: Path, facts: dict, number: int) -> Cached:
    """The dataset, if its data have the MD5 checksum that its description states."""
    stated = facts.get("md5_checksum")
    if path.suffix != ".pq" and isinstance(stated, str) and re.fullmatch(r"[0-9a-f]{32}", stated):
        digest, size = hashlib.md5(usedforsecurity=False), 0
        with unpacking(path), gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            while (block := file.read(1 << 20)) and size <= MAX_UNPACKED:
                digest.update(block)
                size += len(block)
        if digest.hexdigest() != stated:
            raise UserError(f"{path} is not the file of OpenML dataset {number} (MD5); fetch it again")
    ignored = (*_names(facts.get("ignore_attribute")), *_names(facts.get("row_id_attribute")))
    return Cached(path, _names(facts.get("default_target_attribute")), ignored)


def _names(value: Any) -> tuple[str, ...]:
    """Names of attributes: none, one, several with commas between, or a list."""
    if isinstance(value, list):
        return tuple(name for part in value for name in _names(part))
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else ()


def _damaged(path: Path, number: int) -> UserError:
    return UserError(f"{path} is not the description of OpenML dataset {number}; fetch the dataset again")
