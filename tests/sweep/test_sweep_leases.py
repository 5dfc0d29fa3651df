"""Leases: one holder, seen as dead when it is, whatever clocks do."""

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time

import pytest

from dgpbench.sweep import lease as leasing

KEY = "ab" * 32


def path_of(results):
    return results / leasing.LEASES / f"{KEY[:32]}.json"


def test_one_holder_until_released(tmp_path):
    ours = leasing.take(tmp_path, KEY, os.getpid(), job="12_3")
    assert ours.host == socket.gethostname() and ours.pid == os.getpid() and ours.job == "12_3"
    assert leasing.take(tmp_path, KEY, os.getpid()) is None
    ((seen, alive),) = leasing.leases(tmp_path)
    assert seen == ours and alive and "job 12_3" in seen.describe()
    leasing.release(tmp_path, ours)
    assert list(leasing.leases(tmp_path)) == [] and leasing.take(tmp_path, KEY, os.getpid()) is not None


def test_a_dead_holder_of_this_host_is_stale_at_once(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    first = leasing.take(tmp_path, KEY, dead.pid)
    assert [alive for _, alive in leasing.leases(tmp_path)] == [True]
    dead.kill()
    dead.wait()
    assert [alive for _, alive in leasing.leases(tmp_path)] == [False]
    second = leasing.take(tmp_path, KEY, os.getpid())
    assert second is not None and second.token != first.token
    leasing.release(tmp_path, first)  # a late release of the first holder takes nothing away
    leasing.renew(tmp_path, first, {"step": 1})
    assert leasing.read(path_of(tmp_path)) == second


def test_the_number_of_a_dead_process_used_again_is_not_taken_for_it(tmp_path):
    lease = leasing.take(tmp_path, KEY, os.getpid())
    path_of(tmp_path).write_text(json.dumps(lease.__dict__ | {"started": "1"}))
    assert [alive for _, alive in leasing.leases(tmp_path)] == [False]


def elsewhere(tmp_path, age: float, **more):
    """A lease of another host whose last heartbeat was `age` seconds ago."""
    lease = leasing.take(tmp_path, KEY, os.getpid())
    path_of(tmp_path).write_text(
        json.dumps(lease.__dict__ | {"host": "far-away", "token": "0123456789abcdef"} | more)
    )
    stamp = time.time() - age
    os.utime(path_of(tmp_path), (stamp, stamp))
    return [alive for _, alive in leasing.leases(tmp_path)]


def test_heartbeats_of_another_host(tmp_path):
    assert elsewhere(tmp_path, 1.0) == [True]
    assert leasing.take(tmp_path, KEY, os.getpid()) is None


def test_another_host_without_heartbeats_is_stale(tmp_path):
    assert elsewhere(tmp_path, leasing.STALE + 5) == [False]
    assert leasing.take(tmp_path, KEY, os.getpid()) is not None


def test_a_heartbeat_from_the_future_is_stale_too(tmp_path):
    assert elsewhere(tmp_path, -86400.0) == [False]  # the clock went back a day since
    assert leasing.take(tmp_path, KEY, os.getpid()) is not None


def test_a_requeued_job_takes_over_from_its_first_life_on_another_host(tmp_path):
    assert elsewhere(tmp_path, 1.0, job="7_1") == [True]
    assert leasing.take(tmp_path, KEY, os.getpid(), job="7_2") is None
    assert leasing.take(tmp_path, KEY, os.getpid(), job="7_1") is not None


def test_renewal_moves_the_heartbeat_and_tells_progress(tmp_path):
    lease = leasing.take(tmp_path, KEY, os.getpid())
    os.utime(path_of(tmp_path), (0, 0))
    leasing.renew(tmp_path, lease, {"step": 5, "steps": 10})
    assert abs(path_of(tmp_path).stat().st_mtime - time.time()) < 60
    assert leasing.read(path_of(tmp_path)).progress == {"step": 5, "steps": 10}


def _race(results, barrier, wins) -> None:
    barrier.wait()
    if leasing.take(results, KEY, os.getpid()) is not None:
        with wins.get_lock():
            wins.value += 1
    barrier.wait()  # all have tried while all are alive


@pytest.mark.slow
def test_eight_at_once_and_one_wins(tmp_path):
    context = multiprocessing.get_context("fork")
    for _ in range(6):
        barrier, wins = context.Barrier(8), context.Value("i", 0)
        racers = [context.Process(target=_race, args=(tmp_path, barrier, wins)) for _ in range(8)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert wins.value == 1  # also from the second round on, where a stale lease lies in the way
        assert [p.name for p in (tmp_path / leasing.LEASES).iterdir()] == [path_of(tmp_path).name]


def test_a_claim_whose_maker_was_killed_is_dropped_at_once(tmp_path):
    """It is named after the lease that it was to replace, and its maker's process tells that it is dead."""
    dead = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    first = leasing.take(tmp_path, KEY, dead.pid)
    host, started = socket.gethostname(), leasing.process_start(dead.pid)
    mark = path_of(tmp_path).with_name(f".tmp-claim-{KEY[:32]}-{first.token}")
    mark.write_text(f"{host} {os.getpid()} {leasing.process_start(os.getpid())}")
    dead.kill()
    dead.wait()
    assert leasing.take(tmp_path, KEY, os.getpid()) is None  # its maker lives: it is at it
    mark.write_text(f"{host} {dead.pid} {started}")
    assert leasing.take(tmp_path, KEY, os.getpid()) is not None and not mark.exists()


def test_waiting_for_a_unit_that_cannot_be_taken_costs_no_processor_time(tmp_path, monkeypatch):
    from types import SimpleNamespace

    from dgpbench.sweep import pool as pools

    made = object.__new__(pools.Pool)
    made.elsewhere, made.queue, made.told, looks = pools.deque([0]), pools.deque(), True, []
    made.observer = SimpleNamespace(
        look=lambda indices: {i: SimpleNamespace(status="stale") for i in indices}
    )
    monkeypatch.setattr(pools.time, "sleep", looks.append)
    for _ in range(5):
        assert made._wait_elsewhere(time.monotonic())
        made.elsewhere, made.queue = made.queue, pools.deque()
    assert looks == [pools.TICK] * 5
