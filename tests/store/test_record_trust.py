"""Records of others: forged ones are refused, none runs code, none writes outside of the results folder."""

import json
import os
import shutil
from pathlib import Path

import pytest
from store_units import make_record
from test_record_hostile import no_longer_than, words

from dgpbench.cli import main
from dgpbench.config import compose, config_key, run_key
from dgpbench.experiment import run_unit
from dgpbench.store import read
from dgpbench.store.record import dumps
from dgpbench.store.scan import Unit, scan
from dgpbench.store.verify import file_problems


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    run_unit(compose(words(folder)))
    return folder


@pytest.fixture
def theirs(original, tmp_path, monkeypatch):
    """A results folder of someone else; ours is another."""
    folder = tmp_path / "theirs"
    shutil.copytree(original, folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DGPBENCH_RESULTS", str(tmp_path / "ours"))
    return folder / "results"


def forge(results, change, keys=True):
    """Change the record's config as a forger who knows the format would: new keys, place and checksum."""
    (unit,) = scan(results)
    record = json.loads(json.dumps(dict(unit.record)))
    change(record)
    if keys:
        record["key"] = run_key(record["config"], record["data_hash"])
        record["config_key"] = config_key(record["config"], record["data_hash"])
    place = unit.folder.with_name(f"split{record['split']}-{record['key'][:8]}")
    unit.folder.rename(place)
    (place / "record.json").write_text(dumps(record))
    return place


COMMAND = "os.system"


def test_no_record_runs_code(theirs, tmp_path, capsys, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "system", lambda *args: calls.append(args))
    forge(theirs, lambda record: record["config"]["model"].update(_target_=COMMAND))
    assert main(["merge", str(theirs)]) == 1
    assert "model._target_=os.system is code of others" in capsys.readouterr().err
    assert not (tmp_path / "ours").exists() or not scan(tmp_path / "ours")
    for _ in ("model", "inference"):
        assert main(["rescore", "--results", str(theirs)]) == 1
        assert "is code of others; if you trust it, add --allow os" in capsys.readouterr().err
        forge(theirs, lambda record: record["config"]["inference"].update(_target_=COMMAND))
    assert not calls and len(scan(theirs)) == 1


@pytest.mark.parametrize("section", ["model", "inference"])
def test_verify_imports_nothing_that_a_record_names(theirs, tmp_path, section):
    (tmp_path / "trap.py").write_text("open('caught', 'w').close()\nclass Trap: fields = {}\n")
    forge(theirs, lambda record: record["config"][section].update(_target_="trap.Trap"))
    for command in (["verify"], ["show"], ["show", "--each"], ["rescore"], ["gc"]):
        main([*command, "--results", str(theirs)])
    main(["merge", str(theirs)])
    assert not (tmp_path / "caught").exists()
    assert main(["verify", "--results", str(theirs)]) == 0  # its keys and files agree


@pytest.mark.parametrize(
    "target",
    [
        *("subprocess.run", "dgpbench.models.base.import_module", "dgpbench.sweep.process.Child"),
        *("dgpbench.models..Path", "dgpbench.models.baselines.linear.BayesianLinear.fit", "", 7, ["a"]),
    ],
)
def test_targets_that_are_not_models_of_ours(theirs, capsys, target):
    forge(theirs, lambda record: record["config"]["model"].update(_target_=target))
    assert main(["rescore", "--results", str(theirs)]) == 1
    assert "is code of others" in capsys.readouterr().err


def test_a_package_that_the_user_names_is_allowed(theirs, tmp_path, capsys):
    (tmp_path / "somebodys_models.py").write_text(
        "from dgpbench.models.baselines.linear_models import BayesianLinear\n"
        "class Mine(BayesianLinear): pass\n"
    )
    forge(theirs, lambda record: record["config"]["model"].update(_target_="somebodys_models.Mine"))
    assert main(["merge", str(theirs), "--allow", "somebodys_models"]) == 0
    assert main(["merge", str(theirs), "--allow", "somebodys"]) == 1
    assert main(["rescore"]) == 1 and main(["rescore", "--allow", "somebodys_models"]) == 0
    assert main(["verify"]) == 0


FORGERIES = {
    "a better metric, not sealed": lambda r: r["metrics"].update(test_rmse=0.01),
    "a key of its own": lambda r: r.update(key="1" * 64),
    "another config": lambda r: r["config"]["protocol"].update(test_samples=9),
    "other data": lambda r: r.update(data_hash="2" * 64),
    "no data": lambda r: r.update(data_hash=None),
    "a setting that is none": lambda r: r["config"]["protocol"].update(test_samples="many"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_records_are_refused(theirs, tmp_path, capsys, name):
    if "not sealed" in name:
        (path,) = theirs.glob("*/*/*/*/record.json")
        path.write_text(path.read_text().replace('"test_rmse": ', '"test_rmse": 0'))
    else:
        forge(theirs, FORGERIES[name], keys=False)
    assert main(["verify", "--results", str(theirs)]) == 1
    assert main(["merge", str(theirs)]) == 1
    assert not scan(tmp_path / "ours")
    assert main(["rescore", "--results", str(theirs)]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err


def test_metrics_that_do_not_follow_from_predictions(theirs, capsys):
    forge(theirs, lambda record: record["metrics"].update(test_rmse=0.01))
    assert main(["verify", "--results", str(theirs)]) == 1
    assert "test_rmse is 0.01, but predictions.parquet gives" in capsys.readouterr().out


def test_merge_follows_no_links_and_keeps_our_logs(theirs, tmp_path):
    (unit,) = scan(theirs)
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    (unit.folder / "log.txt").symlink_to(secret)
    assert main(["merge", str(theirs)]) == 0
    (ours,) = scan(tmp_path / "ours")
    assert not (ours.folder / "log.txt").exists()
    shutil.rmtree(tmp_path / "ours")
    (unit.folder / "log.txt").unlink()
    (unit.folder / "log.txt").write_text("their log")
    ours.folder.mkdir(parents=True)
    (ours.folder / "log.txt").write_text("our log")
    assert main(["merge", str(theirs)]) == 0
    assert (ours.folder / "log.txt").read_text() == "our log"
    victim = tmp_path / "victim"
    shutil.rmtree(tmp_path / "ours")
    ours.folder.mkdir(parents=True)
    (ours.folder / "log.txt").symlink_to(victim)
    assert main(["merge", str(theirs)]) == 0 and not victim.exists()


@pytest.mark.parametrize("kind", ["link", "fifo", "missing", "other"])
def test_merge_takes_no_unit_whose_files_are_not_those_named(theirs, tmp_path, capsys, kind):
    (unit,) = scan(theirs)
    path = unit.folder / "params.npz"
    content = path.read_bytes()
    path.unlink()
    if kind == "link":
        (tmp_path / "elsewhere.npz").write_bytes(content)
        path.symlink_to(tmp_path / "elsewhere.npz")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "other":
        path.write_bytes(content + b"x")
    with no_longer_than(20):
        assert main(["merge", str(theirs)]) == 1
        assert main(["rescore", "--results", str(theirs)]) == 1
        assert main(["verify", "--results", str(theirs)]) == 1
    assert not scan(tmp_path / "ours") and not list((tmp_path / "ours").glob("**/.tmp*"))


def test_copies_are_equal_to_the_byte(theirs, tmp_path):
    assert main(["merge", str(theirs)]) == 0
    (one,), (other,) = scan(theirs), scan(tmp_path / "ours")
    for name in one.record["files"]:
        assert read.companion(one, name) == read.companion(other, name)


def test_parameters_of_another_shape_are_one_line(theirs, capsys):
    import hashlib
    import io

    import numpy as np

    (unit,) = scan(theirs)
    for values in ({"nothing": np.zeros(3)}, {"weights": np.full((1, 1), 1e300)}):
        buffer = io.BytesIO()
        np.savez(buffer, **values)
        (unit.folder / "params.npz").write_bytes(buffer.getvalue())
        entry = {"sha256": hashlib.sha256(buffer.getvalue()).hexdigest(), "bytes": 1}
        forge(theirs, lambda record, e=entry: record["files"].update({"params.npz": e}))
        assert main(["rescore", "--results", str(theirs)]) == 1
        assert capsys.readouterr().err.count("dgpbench: error:") == 1


def test_a_record_sends_nobody_to_an_address_of_its_own(theirs, capsys):
    source = {"kind": "file", "path": "example.invalid/x.csv", "reader": "text", "options": {}}

    def change(record):
        record["config"]["dataset"].update(name="mine", sources=[source])
        record["dataset"] = "mine"

    forge(theirs, change)
    assert main(["rescore", "--results", str(theirs)]) == 1
    assert "addresses to fetch it from; if you trust them, add --allow mine" in capsys.readouterr().err


NO_PARAMETERS = "it is done, but has no params.npz"


@pytest.mark.parametrize("evaluate, problems", [("validation", []), ("test", [NO_PARAMETERS])])
def test_trials_of_tune_have_no_parameters_and_other_runs_do(evaluate, problems):
    record = make_record() | {"config": {"protocol": {"evaluate": evaluate}}}
    assert list(file_problems(Unit(record, Path("record.json")))) == problems
