"""What must answer at once: no TensorFlow, no pandas, well under a second."""

import os
import subprocess
import sys
import time

import pytest
from cli_process import ROOT

HEAVY = ("tensorflow", "gpflow", "pandas", "sklearn", "pyarrow", "scipy")
COMMANDS = {
    "--help": HEAVY + ("hydra", "rich"),
    "--version": HEAVY + ("hydra", "rich"),
    "run --help": HEAVY + ("hydra", "rich"),
    "_complete run model=": HEAVY + ("hydra", "rich", "yaml"),
    "completion bash": HEAVY + ("hydra", "rich"),
    "data list": HEAVY,
    "show": HEAVY,
    "run --cfg": HEAVY,
}
SCRIPT = """
import sys
from dgpbench.cli import main
code = main(sys.argv[2:])
print([name for name in sys.argv[1].split(",") if name in sys.modules], code, file=sys.stderr)
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_imports_little_and_answers_quickly(command, tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DGPBENCH_RESULTS": str(tmp_path)}
    forbidden = ",".join(COMMANDS[command])
    seconds = []
    for _ in range(5):  # the quickest of five, so that a busy machine does not fail us
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, forbidden, *command.split()],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
        )
        seconds.append(time.perf_counter() - began)
        if "--help" not in command or command == "--help":
            assert done.stderr.splitlines()[-1] == "[] 0", done.stderr
        if seconds[-1] < 0.7:
            break
    assert done.stdout.strip()
    assert min(seconds) < (2.0 if command == "run --cfg" else 1.0)  # Hydra is slow, and needed there only
