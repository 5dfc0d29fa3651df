"""Configs that Hydra composed before, kept in the user's cache folder: milliseconds, not tenths of seconds.

An entry is found by everything its config depends on: the bytes of all conf files, the source of this
package, the versions of Hydra and OmegaConf, the environment variables that conf files read, the home folder,
and the overrides. Nothing found is trusted: a file that another user owns or may write, that is damaged, or
whose configs do not pass the checks of a fresh one, is left aside. Without a cache folder everything is
composed anew.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

SWITCH = "DGPBENCH_CACHE"  # another folder; empty: none
ENVIRONMENT = re.compile(rb"oc\.env:(\w+)")
LIMIT = 5000  # configs in a file
FACTS = "facts "  # before the names of what is kept of a config and is none
FILES = 4  # of other contents that stay

_new: dict[Path, dict[str, dict]] = {}
_variables: dict[Path, set[str]] = {}  # of the environment, that conf files read


def folder() -> Path | None:
    """Where configs are kept; None: nowhere."""
    if SWITCH in os.environ:
        return Path(os.environ[SWITCH]) if os.environ[SWITCH] else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "dgpbench" if os.path.isabs(base) else None


def recall(overrides: Sequence[str], folders: Sequence[Path]) -> dict | None:
    """The config of these overrides if it was composed before from the same contents."""
    from dgpbench.config.checks import normalise
    from dgpbench.errors import UserError

    path = _file(tuple(folders))
    if path is None:
        return None
    found = _found(path, _name(path, overrides))
    try:
        return normalise(json.loads(json.dumps(found))) if isinstance(found, dict) else None
    except (UserError, KeyError, TypeError, ValueError, AttributeError):
        return None


def remember(overrides: Sequence[str], folders: Sequence[Path], cfg: dict) -> None:
    """Keep a config; written when the process ends."""
    path = _file(tuple(folders))
    copy = json.loads(json.dumps(cfg))  # whoever asked for the config may go on to change it
    if path is None or copy != cfg:  # keys that are numbers would come back as text
        return
    _keep(path, _name(path, overrides), copy)


def recall_facts(overrides: Sequence[str], folders: Sequence[Path]) -> dict | None:
    """What was kept of the config of these overrides; its reader checks it."""
    path = _file(tuple(folders))
    if path is None:
        return None
    found = _found(path, FACTS + _name(path, overrides))
    return found if isinstance(found, dict) else None


def remember_facts(overrides: Sequence[str], folders: Sequence[Path], facts: dict) -> None:
    """Keep facts that follow from the config of these overrides and from nothing else; written, as they are
    then, when the process ends."""
    if (path := _file(tuple(folders))) is not None:
        _keep(path, FACTS + _name(path, overrides), facts)


def _found(path: Path, name: str) -> Any:
    return _new.get(path, {}).get(name) or _stored(path).get(name)


def _keep(path: Path, name: str, value: dict) -> None:
    if not _new:
        atexit.register(flush)
    _new.setdefault(path, {})[name] = value


def flush() -> None:
    """Write what is new, whole or not at all. A folder that cannot be written is no reason to complain."""
    for path, entries in _new.items():
        kept = _read(path) | entries
        write_own(path, "configs", kept if len(kept) <= LIMIT else entries, FILES)
    _new.clear()


def write_own(path: Path, name: str, value: Any, files: int) -> None:
    """Write a value with its checksum, whole or not at all; of files that are named alike so many stay."""
    text = json.dumps(value)
    document = json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), name: text})
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(document)
            os.replace(temporary, path)
        finally:
            Path(temporary).unlink(missing_ok=True)
        others = sorted(path.parent.glob(f"{name}-*.json"), key=lambda p: p.stat().st_mtime)
        for old in others[:-files]:
            old.unlink(missing_ok=True)


def read_own(path: Path, name: str) -> Any:
    """The value in a file of `write_own`; None if the file is not ours alone or damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
                return None
            document = json.load(file)
        text = document[name]
        if hashlib.sha256(text.encode()).hexdigest() != document["sha256"]:
            return None
        return json.loads(text)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _name(path: Path, overrides: Sequence[str]) -> str:
    values = {name: os.environ.get(name) for name in sorted(_variables[path])}
    return json.dumps([list(overrides), os.path.expanduser("~"), values])


@lru_cache(maxsize=8)
def _stored(path: Path) -> dict[str, dict]:
    return _read(path)


def _read(path: Path) -> dict[str, dict]:
    """The configs in a file; none if it is not ours alone or damaged."""
    found = read_own(path, "configs")
    return found if isinstance(found, dict) else {}


@lru_cache(maxsize=8)
def _file(folders: tuple[Path, ...]) -> Path | None:
    """The file for the present contents; None where there is no place, or the contents cannot be read."""
    place = folder()
    if place is None:
        return None
    digest, variables = hashlib.sha256(), set()
    try:
        for root in (*folders, Path(__file__).resolve().parent):
            for path in sorted(p for p in root.rglob("*") if p.suffix in (".yaml", ".py")):
                content = path.read_bytes()
                variables.update(ENVIRONMENT.findall(content))
                digest.update(f"{path.relative_to(root)}\0{len(content)}\0".encode() + content)
        facts = [version("hydra-core"), version("omegaconf"), *map(str, folders)]
        digest.update(json.dumps(facts).encode())
    except (OSError, ValueError):
        return None
    path = place / f"configs-{digest.hexdigest()[:32]}.json"
    _variables[path] = {variable.decode() for variable in variables}
    return path
