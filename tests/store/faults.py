"""Faults at every file operation: a kill, an error of the disk, and the loss of what was not synced."""

import builtins
import errno
import io
import itertools
import os
from contextlib import contextmanager
from pathlib import Path

OPERATIONS = ("open", "replace", "fsync", "unlink", "link", "mkdir", "write")


class Killed(BaseException):
    """The process has gone: nothing that it would do afterwards is done."""


class _File:
    """A file whose writes and syncs count as operations."""

    def __init__(self, file, step):
        self._file, self._step = file, step

    def write(self, content):
        self._step("write")
        return self._file.write(content)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._file.close()

    def __iter__(self):
        return iter(self._file)


@contextmanager
def fault(at: int, kind: int | None):
    """Fail at file operation number `at`: with an errno, or with a kill (None), after which nothing works.
    Yields the list of operations so far."""
    done: list[str] = []
    real = {name: getattr(os, name) for name in OPERATIONS}
    real_open = builtins.open

    def step(name):
        done.append(name)
        if len(done) - 1 == at or (kind is None and len(done) - 1 > at):
            if kind is None:
                raise Killed
            raise OSError(kind, os.strerror(kind))

    def wrapped(name):
        def call(*args, **kwargs):
            step(name)
            return real[name](*args, **kwargs)

        return call

    def opening(path, mode="r", *args, **kwargs):
        if set(mode) & set("wax+"):
            step("open")
            return _File(real_open(path, mode, *args, **kwargs), step)
        return real_open(path, mode, *args, **kwargs)

    for name in OPERATIONS:
        setattr(os, name, wrapped(name))
    builtins.open = io.open = opening
    try:
        yield done
    finally:
        builtins.open = io.open = real_open
        for name, function in real.items():
            setattr(os, name, function)


FAULTS = {"kill": None, "EIO": errno.EIO, "ENOSPC": errno.ENOSPC}


class Journal:
    """What a disk may hold after a power loss: all that was synced, and any part of the rest.

    Names are changed by creating, renaming and removing; a change lasts once its folder is synced, until then
    it may or may not. The content of a file lasts once the file is synced; until then it may be empty.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.names = {p.name: p.stat().st_ino for p in folder.iterdir() if p.is_file()}  # that last
        self.content = {p.stat().st_ino: p.read_bytes() for p in folder.iterdir() if p.is_file()}
        self.pending: list[tuple] = []
        self.moments: list[tuple[dict, dict, list]] = [self._now()]

    def _now(self):
        return dict(self.names), dict(self.content), list(self.pending)

    def _change(self, *change):
        self.pending.append(change)
        self.moments.append(self._now())

    @contextmanager
    def watching(self):
        real = {name: getattr(os, name) for name in ("replace", "fsync", "unlink")}
        real_open = builtins.open

        def replace(source, target, **kwargs):
            inode = os.stat(source).st_ino
            real["replace"](source, target, **kwargs)
            self._change("rename", Path(source).name, Path(target).name, inode)

        def unlink(path, **kwargs):
            real["unlink"](path, **kwargs)
            self._change("remove", Path(path).name)

        def fsync(handle):
            real["fsync"](handle)
            place = Path(os.readlink(f"/proc/self/fd/{handle}"))
            if place == self.folder:
                for change in self.pending:
                    apply(self.names, change)
                self.pending = []
            elif place.parent == self.folder:
                with real_open(place, "rb") as file:
                    self.content[os.fstat(handle).st_ino] = file.read()
            self.moments.append(self._now())

        def opening(path, mode="r", *args, **kwargs):
            file = real_open(path, mode, *args, **kwargs)
            if set(mode) & set("wx") and Path(path).parent == self.folder:
                inode = os.fstat(file.fileno()).st_ino
                self.content[inode] = b""
                self._change("create", Path(path).name, inode)
            return file

        os.replace, os.unlink, os.fsync, builtins.open = replace, unlink, fsync, opening
        try:
            yield self
        finally:
            os.replace, os.unlink, os.fsync = real["replace"], real["unlink"], real["fsync"]
            builtins.open = real_open

    def disks(self):
        """Every (names, content) that may be found, without repetition."""
        seen = set()
        for names, content, pending in self.moments:
            for chosen in itertools.product((False, True), repeat=len(pending)):
                found = dict(names)
                for change, lasts in zip(pending, chosen, strict=True):
                    if lasts:
                        apply(found, change)
                disk = tuple(sorted((name, content[inode]) for name, inode in found.items()))
                if disk not in seen:
                    seen.add(disk)
                    yield dict(disk)


def apply(names: dict, change: tuple) -> None:
    kind, name, *rest = change
    if kind == "create":
        names[name] = rest[0]
    elif kind == "remove":
        names.pop(name, None)
    else:
        names.pop(name, None)
        names[rest[0]] = rest[1]
