"""A real Ray (`ray start --head`): one unit fails, one is killed, one loses its Ray worker and resumes."""

import psutil
from cluster_units import STEPS, UNITS
from sweep_tools import data, dgpbench, metrics, records, started, training


def test_fail_kill_lose_the_worker_resume_and_nothing_twice(tmp_path, ray_cluster):
    python, address, token = ray_cluster
    where = ["launcher=ray", f"launcher.address={address}", "launcher.poll=1"]
    arguments = ["sweep", *data(tmp_path), *UNITS, *where]
    with started(tmp_path, *arguments, python=python, **token) as first:
        killed = training(tmp_path)
        assert killed["job"].startswith("ray ")
        psutil.Process(killed["pid"]).kill()  # its supervisor sees it and tries again
        lost = training(tmp_path, but=[killed["job"]])
        psutil.Process(lost["pid"]).parent().kill()  # Ray sees it and tries again
        table, told = first.communicate(timeout=400)
    print(told, table)  # for docs/clusters.md
    assert first.returncode == 1 and "8 units: 7 done, 1 failed" in table
    found = records(tmp_path)
    assert found["stub_fail", 1, 0]["reason"].startswith("RuntimeError: no luck today (")
    resumed = [r["training"]["resumed_from"] for r in found.values() if r["training"].get("resumed_from")]
    assert len(resumed) == 2 and all(0 < steps[0] < STEPS for steps in resumed)  # from their checkpoints

    second = dgpbench(tmp_path, *arguments, python=python, **token)
    assert "0 to run" in second.stderr and second.returncode == 1

    calm = tmp_path / "calm"
    calm.mkdir()
    (calm / "data.csv").write_bytes((tmp_path / "data.csv").read_bytes())
    dgpbench(calm, "sweep", *data(calm), *UNITS, "threads=1", seconds=300)
    assert metrics(calm) == metrics(tmp_path)


def test_no_cluster_at_the_address_is_one_clear_line(tmp_path, ray_cluster):
    done = dgpbench(
        tmp_path,
        "sweep",
        *data(tmp_path),
        "model=linear",
        "split=0",
        "launcher=ray",
        "launcher.address=127.0.0.1:1",
        python=ray_cluster[0],
    )
    assert done.returncode == 2 and "no Ray cluster at launcher.address=127.0.0.1:1" in done.stderr
