"""`dgpbench run --help`: one screen, and a page for each kind of choice; a finished run again, at once."""

import os
import subprocess
import sys

import pytest
from cli_process import ROOT

from dgpbench.cli import main
from dgpbench.cli.run import TOPICS
from dgpbench.config.tree import options


def said(capsys, *argv):
    with pytest.raises(SystemExit) as done:
        main(["run", *argv])
    assert done.value.code == 0
    return capsys.readouterr().out


def test_help_is_one_screen_and_names_the_rest(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = said(capsys, "--help")
    assert len(text.splitlines()) <= 48
    for word in (*options("model"), *options("inference"), *TOPICS, "--force", "--cfg"):
        assert word in text


def test_every_topic_has_its_page(capsys):
    for topic, name in (
        ("models", "lv_gp_gp"),
        ("model", "dgp2"),
        ("datasets", "kin8nm"),
        ("experiments", "dsvi2017_dgp2"),
    ):
        assert f"  {name} " in said(capsys, "--help", topic)
    assert "model.num_inducing=100" in said(capsys, "-h", "settings")
    for topic in TOPICS:
        assert len(said(capsys, "--help", topic).splitlines()) > 2


def test_an_unknown_topic_is_one_line(capsys):
    assert main(["run", "--help", "modls"]) == 2
    assert "no help on 'modls'; did you mean 'models'?" in capsys.readouterr().err


SCRIPT = """
import sys
from dgpbench.cli import main
code = main(sys.argv[1:])
print([name for name in ("tensorflow", "gpflow", "hydra", "pandas") if name in sys.modules], code)
"""


@pytest.mark.slow
def test_a_finished_run_is_found_without_tensorflow(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DGPBENCH_CACHE": str(tmp_path / "cache")}
    words = ["run", "model=linear", "dataset=heteroscedastic", "dataset.n=60", "-q"]
    command = [sys.executable, "-c", SCRIPT, *words]
    runs = [subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True) for _ in range(2)]
    assert runs[0].stdout.splitlines()[-1].endswith(" 0"), runs[0].stderr
    assert runs[1].stdout.splitlines()[-1] == "[] 0", runs[1].stderr
    assert runs[1].stdout.splitlines()[:-1] == runs[0].stdout.splitlines()[:-1]


def test_a_finished_run_needs_no_model(tmp_path, monkeypatch):
    from dgpbench import experiment
    from dgpbench.config import compose

    words = ["model=linear", "dataset=heteroscedastic", "dataset.n=60", f"paths.results={tmp_path / 'r'}"]
    cfg = compose([*words, f"paths.datasets={tmp_path / 'd'}"])
    unit, before = experiment.run_unit(cfg)
    assert not before
    monkeypatch.setattr(experiment, "create", lambda cfg: pytest.fail("the model was made"))
    again, before = experiment.run_unit(cfg)
    assert before and again.record["key"] == unit.record["key"]
