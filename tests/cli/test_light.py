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


REFUSED = {  # by the config alone, and by the data
    "model=gpr likelihood=student_t": "whose noise is Gaussian",
    "model=gfitc likelihood=softmax": "whose link is the probit",
    "model=gpmc budget.steps=10 model.kept=200": "fewer than model.kept=200",
    "model=gpmc budget.steps=null budget.seconds=5": "counts its burn-in in steps",
    "model=mc_dropout model.hidden=[]": "leaves nothing to drop",
    "model=mdn inference.samples=5": "its likelihood is exact",
    "model=cvae_50 model.dropout=0.5 model.hidden=[]": "needs hidden units to drop",
    "model=deep_ensemble inference=iwvi": "has no natural gradients",
    "model=dgp2 likelihood=bernoulli": "does not fit arm8, whose task is regression",
    "model=sgp likelihood=poisson": "needs targets that are whole numbers",
    "model=vgp likelihood=softmax": "has no exact counterpart in GPflow",
    "model=ep_gpc": "is for binary; dataset arm8 is regression",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_run_that_cannot_be_is_refused_without_tensorflow(words, tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DGPBENCH_RESULTS": str(tmp_path)}
    data = ["dataset=arm8", "dataset.n=100", f"paths.datasets={tmp_path}"]
    began = _processor_seconds()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "tensorflow,gpflow", "run", *data, *words.split()],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )
    seconds = _processor_seconds() - began
    assert done.stderr.splitlines()[-1] == "[] 2", done.stderr
    assert REFUSED[words] in done.stderr
    assert seconds < 3.0  # 1 measured; TensorFlow takes 5
