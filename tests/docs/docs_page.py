"""A documentation page as something to execute: its files and its commands."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", re.M | re.S)
OUTPUT = re.compile(r"^```(?:text|tex)\n(.*?)^```$", re.M | re.S)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)


def files(page: str) -> dict[str, str]:
    """Code blocks under a line that names their file."""
    return dict(FILE.findall((ROOT / "docs" / page).read_text(encoding="utf-8")))


def commands(page: str) -> list[list[str]]:
    """Arguments of each `dgpbench` command in the page's sh blocks."""
    blocks = COMMANDS.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("dgpbench ")]


def write(page: str, folder: Path) -> None:
    for name, text in files(page).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def masked(text: str) -> list[str]:
    """Lines with numbers and keys replaced and spaces collapsed: what stays on another machine."""
    text = re.sub(r"-[0-9a-f]{8}\b", "-KEY", text)
    lines = re.sub(r"[-–]?\d[\d.,:]*(e-?\d+)?", "#", text).splitlines()
    return [" ".join(line.split()) for line in lines if line.strip()]


def outputs(page: str) -> list[str]:
    """Masked lines of the output that a page shows."""
    blocks = OUTPUT.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    return [line for block in blocks for line in masked(block)]


def run(arguments: list[str], folder: Path, notes: bool = False) -> str:
    """Return what the command prints, with `notes` also its plan and progress; it must succeed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("DGPBENCH_")}
    env |= {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    command = [sys.executable, "-m", "dgpbench", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout if notes else done.stdout


def records(folder: Path) -> list[dict]:
    """All records, in the order they were written."""
    found = sorted(folder.glob("results/*/*/*/*/record.json"), key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(path.read_text()) | {"folder": path.parent} for path in found]
