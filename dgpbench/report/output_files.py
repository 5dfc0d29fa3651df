"""Files that a command writes: whole or not at all, with a clear line where that is impossible."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.errors import UserError

if TYPE_CHECKING:
    from dgpbench.report.charts.picture import Picture


@contextmanager
def writing(path: str | Path, option: str = "-o") -> Iterator[None]:
    """Turn an OSError into a UserError that names the path and the option that chooses it."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise UserError(f"cannot write {path} ({reason}); choose another place with {option}") from error


def output_folder(path: str | Path, option: str = "-o") -> Path:
    """Create the folder and test that it is writable, so that a bad one fails before the work starts."""
    folder = Path(path).expanduser()
    with writing(folder, option):
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".tmp-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    return folder


def put(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


@contextmanager
def folder_of_files(path: str | Path) -> Iterator[tuple[Path, Callable[[str, bytes], None]]]:
    """Give a folder and a function that writes files into it: all of them appear at the end, or none.

    Files are collected in a temporary folder. If the block ends early, that folder is removed, and so is the
    output folder if it is new.
    """
    wanted = Path(path).expanduser()
    new = not wanted.exists()
    folder = output_folder(path)
    with writing(folder):
        waiting = Path(tempfile.mkdtemp(prefix=".tmp-", dir=folder))

    def put_file(name: str, content: bytes) -> None:
        with writing(folder):
            place = waiting / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)

    done = False
    try:
        yield folder, put_file
        with writing(folder):
            for file in sorted(file for file in waiting.rglob("*") if file.is_file()):
                place = folder / file.relative_to(waiting)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, place)
        done = True
    finally:
        shutil.rmtree(waiting, ignore_errors=True)
        if new and not done and not any(folder.iterdir()):
            folder.rmdir()


def save_pictures(pictures: Iterable[Picture], undrawn: Iterable[str], folder: Path, out=None) -> None:
    """Write pictures and say where they are, then which could not be drawn and why."""
    out = out or sys.stdout
    folder = output_folder(folder)
    for picture in pictures:
        with writing(folder):
            files = picture.save(folder)
        print(f"{picture.name}: {' '.join(map(str, files))}", file=out)
        for note in picture.notes:
            print(f"  {note}", file=out)
    for text in undrawn:
        print(f"not drawn: {text}", file=out)
