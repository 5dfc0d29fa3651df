"""Answers to the `data` verbs as plain values: rows of the list, text of one entry, fetching, verifying."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from dgpbench.data.atomic_files import read_json, sha256_file
from dgpbench.data.catalogue import Entry, Source, catalogue, find
from dgpbench.data.sources import with_pins
from dgpbench.errors import UserError

Found = list[tuple[str, str | None]]  # name, and what is wrong
NO_OWN: Mapping[str, Entry] = MappingProxyType({})


def default_paths(datasets: str | None = None, mirror: str | None = None) -> dict:
    """Given value, else environment, else the folder `datasets` here and no mirror."""
    return {
        "datasets": datasets or os.environ.get("DGPBENCH_DATASETS") or "datasets",
        "mirror": mirror or os.environ.get("DGPBENCH_MIRROR") or None,
    }


def places(entry: Entry, paths: dict) -> list[str]:
    """Places that have a dataset now, in the order of the chain; asks no network."""
    if entry.kind == "csv":
        return ["your file"]
    if entry.images_of:
        return places(find(entry.images_of), paths)
    folder, mirror = Path(paths["datasets"]) / entry.name, paths.get("mirror")
    found = ["cached"] if _cached(entry, folder) else []
    if entry.kind == "synthetic":
        return [*found, "generated"]
    files = [s for s in entry.sources if s.kind == "file"]
    if mirror and any(_mirrored(s, mirror) for s in files):
        found.append("mirror")
    found += ["wheel"] if any(s.kind == "wheel" for s in entry.sources) else []
    found += ["url"] if any(f.url for s in files for f in s.files) else []
    return found or ["by hand"]


def _cached(entry: Entry, folder: Path) -> bool:
    if entry.kind == "synthetic":
        return any(folder.glob("*/meta.json"))
    raw = any(all((folder / f.name).is_file() for f in s.files) for s in entry.sources)
    return raw or (folder / "meta.json").is_file()


def _mirrored(source: Source, mirror: str) -> bool:
    if mirror.startswith(("http://", "https://")):
        return True
    return all((Path(mirror) / f.path).is_file() for f in source.files)


def list_rows(paths: dict | None = None, own: Mapping[str, Entry] = NO_OWN) -> list[dict]:
    """One row per dataset: name, n, d, task, where, traps (how many), title. The user's own come first."""
    paths = paths or default_paths()
    return [
        {
            "name": e.name,
            "n": e.n,
            "d": e.d,
            "task": e.task,
            "classes": e.n_classes,
            "where": places(e, paths),
            "traps": len(e.traps),
            "title": e.title,
            "thesis": e.thesis,
        }
        for e in (*own.values(), *catalogue().values())
    ]


def show_text(name: str, paths: dict | None = None, own: Mapping[str, Entry] = NO_OWN) -> str:
    """Everything the catalogue, or a yaml file of the user's own, knows of one dataset."""
    e, paths = find(name, own), paths or default_paths()
    size = f"{e.n} rows, {e.d} inputs" if e.n else "any size"
    classes = f", {e.n_classes} classes" if e.n_classes else ""
    lines = [f"{e.name}: {e.title}", f"task      {e.task}{classes}, {size}"]
    if e.kind != "csv":
        lines.append(
            f"target    {e.target}"
            + (f" (mean {e.target_mean:.6g}, std {e.target_std:.6g})" if e.target_std else "")
        )
    if e.classes:
        lines.append(f"classes   {', '.join(e.classes)}")
    if e.train_rows:
        lines.append(f"test set  of its own: the first {e.train_rows} rows train, the rest test")
    if e.row_number is not None:
        kept = "protocol=bayesian_benchmarks keeps it as an input"
        lines.append(f"row no.   column {e.row_number} of the source, left out; {kept}")
    if e.thesis:
        lines.append(f"thesis    table {e.thesis}")
    lines.append(f"now       {', '.join(places(e, paths))}")
    for source in e.sources:
        lines += _source_lines(source)
    if e.published:
        lines.append(
            f"splits    {e.published['splits']} published (protocol gal2016): {e.published['folder']}"
        )
    if e.settings:
        lines.append("settings  " + ", ".join(f"dataset.{k}={_plain(v)}" for k, v in e.settings.items()))
    if e.kind == "csv":
        lines.append(
            "settings  dataset.target= column name, number from 0, or a list; default: the last column"
        )
    for label, value in (("data hash", e.data_sha256), ("licence", e.licence), ("citation", e.citation)):
        if value:
            lines.append(f"{label:<9} {value}")
    lines += [f"trap      {t}" for t in e.traps]
    if e.nearest:
        lines.append(f"nearest   {e.nearest}")
    return "\n".join(lines)


def _source_lines(source: Source) -> list[str]:
    if source.kind == "wheel":
        lines = [f"wheel     {source.package} {source.version}: {source.files[0].path}"]
    elif source.kind == "manual":
        lines = [f"by hand   {source.files[0].name} from {source.page}"]
    else:
        lines = [f"url       {f.url}" if f.url else f"mirror    {f.path}" for f in source.files]
    return lines + [f"          sha256 {f.sha256 or 'not known: the shape is checked'}" for f in source.files]


def _plain(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def fetch(
    names: list[str], paths: dict, note: Callable[[str], None], own: Mapping[str, Entry] = NO_OWN
) -> Found:
    """Put each dataset into the cache, parsed; returns (name, None) or (name, why not)."""
    from dgpbench.data.cache import load_data

    entries = [find(name, own) for name in names]
    done = []
    for entry in entries:
        try:
            if entry.kind == "csv":
                raise UserError(f"{entry.name} is read from your own files: there is nothing to fetch")
            data = load_data(entry, paths, note)
            note(
                f"{entry.name}: {len(data.X)} rows, {data.X.shape[1]} inputs, in {paths['datasets']} "
                f"(from {data.meta['origin']['stage']})"
            )
            done.append((entry.name, None))
        except UserError as error:
            done.append((entry.name, str(error)))
    return done


def verify(paths: dict, note: Callable[[str], None]) -> Found:
    """Check every cached file in full: sources against their sha256, parsed arrays against their hashes.

    Return (name, None) for each sound file, and (name, problem) for each damaged one.
    """
    from dgpbench.data.loader import index_problem

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
    import numpy as np

    from dgpbench.data.cache import hash_array

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
