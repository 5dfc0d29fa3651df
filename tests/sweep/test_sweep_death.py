"""The sweep itself dies: its running units end `interrupted` with their checkpoints, none is branded."""

import signal
import time

import psutil
import pytest
from sweep_tools import data, misbehaving, records, started, status

from dgpbench.engine.checkpoint import NAME


@pytest.mark.slow
@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_running_units_outlive_the_death_of_their_sweep(tmp_path, death):
    units = misbehaving("model.deed=steps", "model.on_split=0", "split=0", "seed=0,1", "launcher.workers=2")
    with started(tmp_path, "sweep", *data(tmp_path), *units) as process:
        workers = _training(tmp_path, process, 2)
        process.send_signal(death)
        process.wait(30)
        _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    found = records(tmp_path)
    assert [record["status"] for record in found.values()] == ["interrupted"] * 2
    assert len(list((tmp_path / "results").glob(f"*/*/*/*/{NAME}"))) == 2
    assert {unit["status"] for unit in status(tmp_path)} <= {"interrupted", "stale"}


def _training(folder, process, count) -> list[psutil.Process]:
    """The worker processes, once all have written a first checkpoint."""
    end = time.monotonic() + 60
    while len(list((folder / "results").glob(f"*/*/*/*/{NAME}"))) < count:
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.05)
    return psutil.Process(process.pid).children()
