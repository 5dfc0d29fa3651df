"""Full verification of the cache: every byte of every file that a run would read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dgpbench.data.arrays import hash_array
from dgpbench.data.catalogue import catalogue
from dgpbench.data.files import read_json, sha256_file
from dgpbench.data.published import index_problem
from dgpbench.data.sources.pins import with_pins

Found = list[tuple[str, str | None]]


def verify_all(paths: dict, note) -> Found:
    """(what, None) for each sound item, (what, what is wrong) for each damaged one."""
    root, found = Path(paths["datasets"]), []
    for entry in catalogue().values():
        for source in entry.sources:
            for remote, known in zip(with_pins(source, root / entry.name).files, source.files, strict=True):
                path = root / entry.name / remote.name
                if source.kind == "file" and known.sha256 is None:
                    found += _unpinned(entry.name, path, remote.sha256)
                else:
                    found += _raw_file(entry.name, path, remote.sha256)
    for meta in sorted(root.glob("*/meta.json")) + sorted(root.glob("*/*/meta.json")):
        found.append(_parsed(root, meta))
    for entry in catalogue().values():
        if entry.published and (root / entry.name / "published" / "meta.json").is_file():
            folder = root / entry.name / "published"
            found += _raw_file(f"{entry.name}/published", folder / "data.txt", entry.published.get("sha256"))
            found.append((f"{entry.name}/published/index files", index_problem(entry, folder)))
    for what, problem in found:
        note(f"{what}: {problem or 'sound'}")
    return found


def _raw_file(name: str, path: Path, sha256: str | None) -> Found:
    if not path.is_file() or sha256 is None:
        return []
    got = sha256_file(path)
    problem = (
        None
        if got == sha256
        else f"sha256 expected {sha256}, got {got}; remove the file to have it fetched again"
    )
    return [(f"{name}/{path.name}", problem)]


def _unpinned(name: str, path: Path, first: str | None) -> Found:
    """A file whose sha256 nobody has published: it can only be compared with what came first."""
    if not path.is_file():
        return []
    changed = first is not None and sha256_file(path) != first
    problem = "it is not the file that was fetched first; remove it to have it fetched again"
    what = f"{name}/{path.name} (unpinned: no published sha256, {'as first fetched' if first else 'no pin'})"
    return [(what, problem if changed else None)]


def _parsed(root: Path, meta_path: Path) -> tuple[str, str | None]:
    folder, what = meta_path.parent, str(meta_path.parent.relative_to(root)) + " (parsed)"
    meta = read_json(meta_path)
    if meta is None:
        return what, "meta.json is unreadable; remove the folder"
    for file, key in (("X.npy", "x_sha256"), ("Y.npy", "y_sha256")):
        try:
            same = hash_array(np.load(folder / file, mmap_mode="r", allow_pickle=False)) == meta.get(key)
        except (OSError, ValueError) as error:
            return what, f"{file} cannot be read ({error}); remove the folder"
        if not same:
            return what, f"{file} has other values than were written; remove it to have it read again"
    return what, None
