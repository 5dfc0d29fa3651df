"""The Ray launcher where there is no Ray, and its parts; tests/cluster has a real one."""

import importlib.util
from types import SimpleNamespace

import pytest
from sweep_tools import data, sweep, write_data

from dgpbench.errors import UserError
from dgpbench.sweep import ray as ray_launcher
from dgpbench.sweep.launch import Watcher
from dgpbench.sweep.planner import make_plan
from dgpbench.sweep.pool import record_outcome
from dgpbench.sweep.state import Observer


@pytest.fixture
def plan(tmp_path, monkeypatch):
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ["launcher=ray", "launcher.bundle=2", "launcher.cpus=3", "launcher.memory=4", "split=0,1,2"]
    return make_plan([*data(tmp_path), "model=linear,sgp", *words], fetch=True, note=print)


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed here")
def test_without_ray_one_line_says_how_to_get_it(tmp_path):
    done = sweep(tmp_path, "model=linear", "split=0", "launcher=ray")
    assert done.returncode == 2 and "launcher=ray needs Ray; pip install 'dgpbench[ray]'" in done.stderr


def test_an_address_where_nothing_listens_is_told_at_once():
    with pytest.raises(UserError, match=r"launcher.address=127.0.0.1:1 \(Connection refused\); start one"):
        ray_launcher._check_address("127.0.0.1:1")
    ray_launcher._check_address("auto")
    ray_launcher._check_address(None)


def test_bundles_hold_units_of_one_config(plan):
    assert ray_launcher._bundles(plan, range(6)) == [[0, 1], [2], [3, 4], [5]]


def test_a_unit_that_no_node_can_hold_is_refused(plan):
    node = {"Alive": True, "Resources": {"CPU": 4.0, "memory": 8e9}}
    cluster = lambda *nodes: SimpleNamespace(nodes=lambda: list(nodes))  # noqa: E731
    ray_launcher._check_feasible(cluster(node), plan)
    for lacking in ({"CPU": 2.0, "memory": 8e9}, {"CPU": 4.0, "memory": 4e9}):
        with pytest.raises(UserError, match="no node of the Ray cluster has 3 CPUs, 0 GPUs and 4 GB"):
            ray_launcher._check_feasible(cluster({"Alive": True, "Resources": lacking}), plan)
    with pytest.raises(UserError, match="nodes: none"):
        ray_launcher._check_feasible(cluster(node | {"Alive": False}), plan)


def test_a_task_that_ray_loses_for_good_leaves_a_record_for_each_unit(plan):
    def get(task):
        raise RuntimeError("the node died")

    observer = Observer(plan)
    ray_launcher._ended(
        SimpleNamespace(get=get), None, [0, 1], plan, observer, Watcher(plan, [0, 1], quiet=True)
    )
    states = observer.look([0, 1, 2])
    assert [states[i].status for i in (0, 1, 2)] == ["interrupted", "interrupted", "missing"]
    assert states[0].reason == "its Ray task failed (RuntimeError: the node died)"


def test_a_record_that_is_seen_late_is_waited_for(plan, monkeypatch):
    observer, looks, real = Observer(plan), [], Observer.look

    def look(self, indices=None):
        looks.append(1)
        if len(looks) == 2:
            record_outcome(plan, 0, "failed", "no luck")
        return real(self, indices)

    monkeypatch.setattr(observer, "look", look.__get__(observer))
    watcher = Watcher(plan, [0], quiet=True)
    ray_launcher._ended(SimpleNamespace(get=lambda task: None), None, [0], plan, observer, watcher)
    assert watcher.ends == {"failed": 1}
