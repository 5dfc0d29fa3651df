"""Write requirements.lock and .ci/requirements-docs.lock: the versions of constraints.txt and of
.ci/constraints-docs.txt, with the sha256 of every file that pip may take.

    python .ci/lock.py            # asks the package index that pip is set to

`pip install --require-hashes -r requirements.lock` then refuses any other file, wherever it comes from.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("cp311", "cp312", "cp313", "py3")
PLATFORMS = re.compile(r"any|(many)?linux.*_(x86_64|aarch64)|macosx_.*")
LINK = re.compile(r'href="[^"]*?/([^"/#]+)#sha256=([0-9a-f]{64})"')


def index_url() -> str:
    """The index that pip is set to, or its default."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True
    )
    from pip._internal.models.index import PyPI

    return (os.environ.get("PIP_INDEX_URL") or asked.stdout.strip() or PyPI.simple_url).rstrip("/")


def files(index: str, name: str) -> list[tuple[str, str]]:
    """File names and sha256 of all releases of a package."""
    with urllib.request.urlopen(f"{index}/{canonicalize_name(name)}/", timeout=60) as answer:  # noqa: S310
        return LINK.findall(answer.read().decode())


def fits(file: str, version: Version) -> str | None:
    """'wheel' or 'sdist' if pip may take the file for this version on a machine of ours."""
    try:
        if file.endswith(".whl"):
            _, found, _, tags = parse_wheel_filename(file)
            usable = any(_python(tag) and PLATFORMS.fullmatch(tag.platform) for tag in tags)
            return "wheel" if found == version and usable else None
        return "sdist" if parse_sdist_filename(file)[1] == version else None
    except (InvalidWheelFilename, InvalidVersion, ValueError):
        return None


def _python(tag) -> bool:
    if tag.abi == "abi3":
        return int(tag.interpreter.removeprefix("cp3") or 0) <= 13
    return tag.interpreter in PYTHONS and tag.abi in (*PYTHONS, "none")


def lines(index: str, constraints: list[str]) -> Iterator[str]:
    for line in constraints:
        pinned, _, marker = (part.strip() for part in line.partition(";"))
        if not pinned or pinned.startswith("#"):
            continue
        name, _, version = pinned.partition("==")
        found = [(fits(file, Version(version)), sha256) for file, sha256 in files(index, name)]
        hashes = {h for kind, h in found if kind == "wheel"} or {h for kind, h in found if kind == "sdist"}
        if not hashes:
            raise SystemExit(f"the index has no file for {pinned}")
        yield " \\\n    ".join([line, *(f"--hash=sha256:{sha256}" for sha256 in sorted(hashes))])


def main() -> None:
    index = index_url()
    for kind in ("", "-docs"):
        place = ROOT / ".ci" if kind else ROOT
        source, lock = place / f"constraints{kind}.txt", place / f"requirements{kind}.lock"
        names = [path.relative_to(ROOT) for path in (source, lock)]
        head = f"# Made by .ci/lock.py from {names[0]}: pip install --require-hashes -r {names[1]}"
        text = "\n".join([head, *lines(index, source.read_text().splitlines())]) + "\n"
        lock.write_text(text)
        print(f"{text.count('==')} packages, {text.count('--hash')} files in {lock.name}")
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    gpflow = [pin.partition(";")[0] for pin in pins if pin.startswith("gpflow==")]
    head = "# Made by .ci/lock.py for Python 3.13: pip install --no-deps --require-hashes -r .ci/gpflow.lock"
    (ROOT / ".ci/gpflow.lock").write_text("\n".join([head, *lines(index, gpflow)]) + "\n")


if __name__ == "__main__":
    main()
