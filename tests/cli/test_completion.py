"""Completion, driven through real shells where they are installed."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest
from cli_process import ROOT

from dgpbench.cli.completion import SCRIPTS, candidates

DRIVER = """
set -u
eval "$(dgpbench completion bash)"
COMP_LINE=$1; COMP_POINT=${#COMP_LINE}
COMP_WORDBREAKS=$2
compopt() { :; }
_dgpbench
printf '%s\\n' "${COMPREPLY[@]:-}"
"""


@pytest.fixture
def command(tmp_path):
    """A `dgpbench` on the PATH that runs this source tree."""
    script = tmp_path / "dgpbench"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m dgpbench "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    "line, breaks, expected",
    [
        ("dgpbench ru", " =:", ["run"]),
        ("dgpbench run mod", " =:", None),
        ("dgpbench run dataset=kin", " =:", ["kin40k", "kin8nm"]),
        ("dgpbench run dataset=kin", " ", ["dataset=kin40k", "dataset=kin8nm"]),
        ("dgpbench run model=dgp3 inference=ng", " =:", ["ngd_adam", "ngd_all"]),
        ("dgpbench run precision=m", " =:", ["mixed"]),
        ("dgpbench run inference.natgrad.step=", " =:", ["schedule", "linesearch"]),
        ("dgpbench run model.ard=f", " =:", ["false"]),
        ("dgpbench run model.num_", " =:", ["model.num_inducing="]),
        ("dgpbench data show bos", " =:", ["boston"]),
        ("dgpbench data ", " =:", ["list", "show", "fetch", "verify", "--help"]),
        ("dgpbench completion z", " =:", ["zsh"]),
        ("dgpbench run nothing=", " =:", [""]),
        ("dgpbench run model.kernel=matern1", " =:", ["matern12"]),
        ("dgpbench sweep model=sgp,sg", " =:", ["sgp,sgp500", "sgp,sgpr"]),
        ("dgpbench compare --metric test_r", " =:", ["test_rmse", "test_rmse_std"]),
        ("dgpbench figures 3.5", " =:", ["3.5", "3.5-direct", "3.5-steps"]),
    ],
)
def test_bash(command, line, breaks, expected):
    done = subprocess.run(
        ["bash", "-c", DRIVER, "bash", line, breaks], env=command, capture_output=True, text=True
    )
    assert done.stderr == ""
    replies = done.stdout.splitlines() or [""]
    if expected is None:
        assert "model=" in replies and "model.kernel=" in replies
    else:
        assert replies == expected


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_with_a_tab_key(command):
    """An interactive bash on a pseudo-terminal, so that its own completion machinery does the work."""
    ours, theirs = pty.openpty()
    env = {**command, "PS1": "$ ", "TERM": "dumb"}
    arguments = ["bash", "--norc", "--noprofile", "-i"]
    shell = subprocess.Popen(
        arguments, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        os.write(ours, b'eval "$(dgpbench completion bash)"; echo rea""dy\n')
        read_until(ours, "ready")
        os.write(ours, b"dgpbench run model=dgp3 dataset=kin8\t")
        read_until(ours, "dataset=kin8nm")
        os.write(ours, b"precis\t")
        read_until(ours, "precision=")
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def read_until(terminal: int, text: str, seconds: float = 20.0) -> None:
    seen, end = "", time.monotonic() + seconds
    while text not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"waited for {text!r}, saw {seen!r}"
        seen += os.read(terminal, 4096).decode()


@pytest.mark.parametrize("shell, flag", [("zsh", "-n"), ("fish", "--no-execute")])
def test_other_shells_parse(shell, flag, tmp_path):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(SCRIPTS[shell])
    assert subprocess.run([shell, flag, str(tmp_path / "script")], capture_output=True).returncode == 0


def test_a_users_folder_is_completed_too(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("name: mine\n")
    assert candidates(["run", "--config-dir", str(tmp_path), "model=mi"]) == ["model=mine"]
    assert candidates([""])[:3] == ["run", "sweep", "tune"]


def test_tune_and_predict_complete_like_the_others():
    assert "model=dgp2" in candidates(["tune", "model="]) and "--trials" in candidates(["tune", "--t"])
    assert candidates(["predict", "--q"]) == ["--quantiles"] and "tune" in candidates(["tu"])


def test_values_of_flags_that_take_one_of_a_few():
    assert candidates(["plot", "--kind", "c"]) == ["curves", "calibration"]
    assert candidates(["compare", "--format", "l"]) == ["latex"]
    assert candidates(["compare", "--plot", "r"]) == ["ranks"]
    assert candidates(["compare", "--plot", "model=dgp2"]) == ["model=dgp2"]


def test_flags_are_those_of_the_parser():
    assert candidates(["tables", "--no"]) == ["--no-reference", "--no-community"]
    assert candidates(["worker", "--"]) == ["--allow", "--force", "--quiet", "--help"]
    assert candidates(["nothing", ""]) == ["--help"]


def test_tune_completes_lists_as_sweep_does():
    assert candidates(["tune", "model=sgp,dgp2,dgp"])[0] == "model=sgp,dgp2,dgp3"
