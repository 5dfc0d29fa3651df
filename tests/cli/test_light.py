"""What must answer at once: no TensorFlow, no pandas, well under a second."""

import os
import subprocess
import sys

import pytest
from cli_process import ROOT

HEAVY = ("tensorflow", "gpflow", "pandas", "sklearn", "pyarrow", "scipy")
COMMANDS = {
    "--help": HEAVY + ("hydra", "rich"),
    "--version": HEAVY + ("hydra", "rich"),
    "run --help": HEAVY + ("hydra", "rich"),
    "run --help datasets": HEAVY + ("hydra", "rich"),
    "_complete run model=": HEAVY + ("hydra", "rich", "yaml"),
    "completion bash": HEAVY + ("hydra", "rich"),
    "data list": HEAVY,
    "show": HEAVY,
    "tables --help": HEAVY + ("hydra", "rich"),
    "figures --help": HEAVY + ("hydra", "rich", "matplotlib"),
    "report --help": HEAVY + ("hydra", "rich", "matplotlib"),
    "_complete tables 5": HEAVY + ("hydra", "rich"),
    "run --cfg": HEAVY,
    "sweep --help": HEAVY + ("hydra", "rich", "numpy"),
    "repro --help": HEAVY + ("hydra", "rich", "numpy"),
    "perf --help": HEAVY + ("hydra", "rich", "numpy"),
    "gc": HEAVY + ("hydra",),
}
SCRIPT = """
import sys
from dgpbench.cli import main
try:
    code = main(sys.argv[2:])
except SystemExit as done:  # argparse ends --help this way
    code = done.code
print([name for name in sys.argv[1].split(",") if name in sys.modules], code, file=sys.stderr)
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_imports_little_and_answers_quickly(command, tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DGPBENCH_RESULTS": str(tmp_path)}
    forbidden = ",".join(COMMANDS[command])
    began = _processor_seconds()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, forbidden, *command.split()],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    seconds = _processor_seconds() - began
    assert done.stderr.splitlines()[-1] == "[] 0", done.stderr
    assert done.stdout.strip()
    assert seconds < (2.0 if command == "run --cfg" else 1.0)  # Hydra is slow, and needed there only


def _processor_seconds() -> float:
    """Time that our children have computed, which a busy machine does not stretch."""
    times = os.times()
    return times.children_user + times.children_system
