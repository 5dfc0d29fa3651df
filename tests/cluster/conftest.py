"""Clusters of one machine, started for the tests and ended with them."""

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "sweep"))

from sweep_tools import environment  # noqa: E402


@pytest.fixture(autouse=True)
def only_when_asked():
    if not os.environ.get("DGPBENCH_TEST_CLUSTER"):
        pytest.skip("starts SLURM and Ray: `make test-cluster` runs it")


@pytest.fixture
def slurm():
    """SLURM_CONF of a running one-node SLURM whose arrays take at most five tasks."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    script, env = str(HERE / "slurm.sh"), os.environ | {"MAX_ARRAY_SIZE": "5"}
    started = subprocess.run([script, "start", str(folder)], env=env, capture_output=True, text=True)
    try:
        if started.returncode == 3:
            pytest.skip(started.stderr.strip())
        assert started.returncode == 0, started.stderr
        yield str(folder / "slurm.conf")
    finally:
        subprocess.run([script, "stop", str(folder)])
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def ray_cluster(tmp_path):
    """Python with Ray, the address of a head node of two CPUs, and the environment that lets one in: the
    cluster asks for a token, made up for this test."""
    python = Path(os.environ.get("DGPBENCH_RAY_ENV", "no such folder"), "bin", "python")
    if not python.exists():
        pytest.skip("there is no environment with Ray: `make test-cluster` makes one where Ray can be had")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder, token = (
        Path(tempfile.mkdtemp(prefix="ray-")),
        {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)},
    )
    options = [
        "--head",
        "--block",
        f"--port={port}",
        "--num-cpus=2",
        "--include-dashboard=false",
        f"--temp-dir={folder}",
        "--disable-usage-stats",
    ]
    with open(tmp_path / "ray.log", "wb") as log:
        command = [str(python), str(python.with_name("ray")), "start", *options]
        head = subprocess.Popen(command, stdout=log, stderr=log, env=environment(**token))
    try:
        end = time.monotonic() + 60
        while "Ray runtime started" not in (tmp_path / "ray.log").read_text():
            assert head.poll() is None and time.monotonic() < end, (tmp_path / "ray.log").read_text()
            time.sleep(0.2)
        host = re.search(r"Local node IP: (\S+)", (tmp_path / "ray.log").read_text())[1]
        yield str(python), f"{host}:{port}", token
    finally:
        head.terminate()  # with --block it ends what it started
        head.wait(60)
        shutil.rmtree(folder, ignore_errors=True)
