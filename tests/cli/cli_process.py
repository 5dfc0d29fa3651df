"""Calling the command as a user does."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def dgpbench(*args: str, cwd=None, **environment: str) -> subprocess.CompletedProcess:
    env = {k: v for k, v in os.environ.items() if not k.startswith("DGPBENCH_")}
    env |= {"PYTHONPATH": str(ROOT), "COLUMNS": "120", **environment}
    command = [sys.executable, "-m", "dgpbench", *args]
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=float(os.environ.get("CLI_SECONDS", 120)),
    )
