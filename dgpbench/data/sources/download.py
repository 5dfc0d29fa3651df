"""Fetching one file over HTTP: progress, timeout, retries with backoff, and a sha256 that must match."""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlsplit

from dgpbench import __version__
from dgpbench.data.files import BLOCK, publish, temporary_name, writing

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
