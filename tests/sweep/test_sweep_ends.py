"""However a unit ends, its record says so, the others are done, and the next sweep knows what to run."""

import os
import signal
import subprocess
import time

import pytest
from sweep_tools import command, data, dgpbench, environment, misbehaving, records, status, sweep

from dgpbench.store.scan import scan

ENDS = {
    "fail": ("failed", "RuntimeError: no luck today"),
    "broken": ("failed", "RuntimeError: cannot be built"),
    "diverge": ("diverged", "the bound is not finite"),
    "kill": ("interrupted", "its process was killed from outside (signal 9, SIGKILL)"),
    "crash": ("failed", "its process crashed (signal 11, SIGSEGV); its log says more"),
    "exit": (
        "failed",
        "its process ended with exit code 3 before the run did: the model, or a library that it uses, "
        "may call os._exit; its log says more",
    ),
    "sleep": ("timeout", "took more than 0.08 minutes (launcher.timeout); stopped by signal 15"),
    "stubborn": ("timeout", "took more than 0.08 minutes (launcher.timeout) and did not stop when asked"),
    "import": ("interrupted", "stopped by signal 15 outside of training"),
    "eat": ("oom", "GB, more than 0.6 GB (launcher.memory): killed"),
}
LIMITS = ["launcher.timeout=0.08", "launcher.memory=0.6", "launcher.grace=1", "launcher.retries=0"]


@pytest.mark.slow
def test_the_end_of_a_unit_is_in_its_record_and_stops_no_other(tmp_path):
    done = sweep(tmp_path, *misbehaving(f"model.deed={','.join(ENDS)}", "split=0,1", *LIMITS))
    assert done.returncode == 1, done.stderr
    found = {
        (u.record["config"]["model"]["deed"], u.record["split"]): u.record for u in scan(tmp_path / "results")
    }
    for deed, (wanted, reason) in ENDS.items():
        good, bad = found[deed, 0], found[deed, 1]
        assert good["status"] == "done" and bad["status"] == wanted, (deed, bad["status"], bad["reason"])
        assert reason in bad["reason"] and bad["data_hash"] == good["data_hash"]
        assert bad["config_key"] == good["config_key"] and bad["key"] != good["key"] and bad["metrics"] == {}
        assert f"{wanted}: stub csv split 1" in done.stderr
    assert "20 units: 10 done, 4 failed, 1 diverged, 2 timeout, 1 oom, 2 interrupted" in done.stdout
    assert not list((tmp_path / "results/.leases").glob("*.json"))
    again = sweep(tmp_path, *misbehaving(f"model.deed={','.join(ENDS)}", "split=0,1", *LIMITS, "--dry-run"))
    assert "2 to run" in again.stderr  # those stopped from outside: nothing is known against them


def test_show_failed_names_reason_and_log(tmp_path):
    sweep(tmp_path, *misbehaving("model.deed=fail", "split=1"))
    shown = dgpbench(tmp_path, "show", "--failed", "--format", "csv").stdout
    place = shown.splitlines()[1].split(",")[-1]
    assert "RuntimeError: no luck today" in shown
    log = (tmp_path / place).read_text()
    assert "about to fail" in log and "1 inputs" not in log and "2 inputs" in log


@pytest.mark.slow
def test_retry_modes(tmp_path):
    mark = tmp_path / "mark"
    options = misbehaving("model.deed=fail", "split=0,1", f"model.mark={mark}")

    def starts(*more) -> list[str]:
        mark.write_text("")
        sweep(tmp_path, *options, *more)
        return sorted(line.split()[0] for line in mark.read_text().splitlines())

    assert starts("--retry", "none") == []
    assert starts() == ["0", "1"]
    assert starts() == []
    assert starts("--retry", "failed") == ["1"]
    assert starts("--retry", "all") == ["0", "1"]


@pytest.mark.slow
def test_a_killed_unit_is_tried_again_in_the_same_sweep(tmp_path):
    done = sweep(tmp_path, *misbehaving("model.deed=once", "split=0,1", f"model.mark={tmp_path / 'mark'}"))
    assert done.returncode == 0 and "trying again" in done.stderr
    assert [record["status"] for record in records(tmp_path).values()] == ["done", "done"]


def waiting_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def start(folder, *args):
    return subprocess.Popen(
        command("sweep", *data(folder), *args),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def children_of(mark) -> set[int]:
    return {int(line.split()[1]) for line in mark.read_text().splitlines()} if mark.exists() else set()


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_sweep_ends_its_units_and_goes_on_later(number, tmp_path):
    mark = tmp_path / "mark"
    slow = misbehaving("split=0,1,2,3", "model.seconds=30", f"model.mark={mark}", "launcher.workers=2")
    running = start(tmp_path, *slow)
    waiting_for(lambda: len(children_of(mark)) == 2)
    assert sum(unit["status"] == "running" for unit in status(tmp_path)) == 2
    running.send_signal(number)
    _, text = running.communicate(timeout=20)
    assert running.returncode == 128 + number and "the same command goes on" in text, text
    assert not any(alive(pid) for pid in children_of(mark))
    assert {unit["status"] for unit in status(tmp_path)} == {"interrupted", "missing"}


@pytest.mark.slow
def test_workers_end_when_the_sweep_is_killed_and_status_sees_it(tmp_path):
    mark = tmp_path / "mark"
    slow = misbehaving("split=0,1,2", "model.seconds=30", f"model.mark={mark}", "launcher.workers=2")
    running = start(tmp_path, *slow)
    waiting_for(lambda: len(children_of(mark)) == 2)
    running.kill()
    running.communicate()
    waiting_for(lambda: not any(alive(pid) for pid in children_of(mark)), 10)
    states = [unit["status"] for unit in status(tmp_path)]
    assert states.count("stale") == 2 and states.count("missing") == 1
    assert "has gone without a word" in dgpbench(tmp_path, "status").stdout
    assert os.listdir(tmp_path / "results/.leases")
    assert "3 to run" in sweep(tmp_path, *slow, "--dry-run").stderr


@pytest.mark.slow
def test_a_unit_that_runs_elsewhere_is_waited_for_and_taken_up_when_let_go(tmp_path):
    mark = tmp_path / "mark"
    words = misbehaving("split=0,1", "model.seconds=3", f"model.mark={mark}", "launcher.workers=2")
    first = start(tmp_path, *words)
    waiting_for(lambda: len(children_of(mark)) == 2)
    first.kill()  # its workers take a moment to end
    first.communicate()
    second = sweep(tmp_path, *words)
    assert second.returncode == 0 and "2 units: 2 done" in second.stdout, second.stderr
    third = start(tmp_path, *words, "--retry", "all")
    waiting_for(lambda: len(children_of(mark)) == 6)
    beside = sweep(tmp_path, *words)  # done before, and still so while they are run once more
    assert beside.returncode == 0
    assert third.wait(30) == 0 and len(children_of(mark)) == 6
