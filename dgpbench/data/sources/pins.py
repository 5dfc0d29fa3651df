"""Trust on first use: where nobody has published a file's sha256, the one first fetched is remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dgpbench.data.catalogue import Source
from dgpbench.data.files import read_json, sha256_file, write_json, writing

PINS = "pins.json"  # in the dataset's folder: file name -> sha256


def read_pins(folder: Path) -> dict[str, str]:
    return {name: text for name, text in (read_json(folder / PINS) or {}).items() if isinstance(text, str)}


def with_pins(source: Source, folder: Path) -> Source:
    """The source with the remembered sha256 of each file that has no published one."""
    pins = read_pins(folder) if can_be_pinned(source) else {}
    return replace(source, files=tuple(replace(f, sha256=f.sha256 or pins.get(f.name)) for f in source.files))


def pin(source: Source, folder: Path, note: Callable[[str], None]) -> None:
    """Remember the files that are not pinned yet, and say so."""
    if not can_be_pinned(source):
        return
    pins = read_pins(folder)
    new = {f.name: sha256_file(folder / f.name) for f in source.files if not f.sha256 and f.name not in pins}
    if new:
        with writing(folder):
            write_json(folder / PINS, pins | new)
    for name, sha256 in new.items():
        note(
            f"{folder.name}: no sha256 of {name} is published: taken on trust and pinned for later ({sha256})"
        )


def can_be_pinned(source: Source) -> bool:
    """Whether a file of it can be fetched that nobody vouches for. (Index files are checked together.)"""
    return source.kind == "file" and not source.vouched and any(f.sha256 is None for f in source.files)
