"""Exit codes and messages; `run` with a stand-in for the experiment."""

import errno
import json
import signal
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml
from cli_process import dgpbench

from dgpbench import cli
from dgpbench.errors import Interrupted, UserError

METRICS = {
    "test_loglik": -0.5912,
    "test_loglik_std": 1.72,
    "test_rmse": 0.00042,
    "test_coverage95": 0.95,
    "test_kl_to_truth": None,
}


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Replaces dgpbench.experiment; `calls` has what it was given, `act` is what it does."""
    module = ModuleType("dgpbench.experiment")
    state = SimpleNamespace(calls=[], status="done", reason=None, before=False, error=None)

    def run_unit(cfg, *, force=False, reporter=None, trial=None):
        state.calls.append((cfg, force))
        reporter.plan([("data", "energy [691 rows]"), ("inference", "dsvi")])
        reporter.start(100, None)
        reporter.update(50, -123.456, 80.0, 65.0)
        if state.error:
            raise state.error
        seconds = dict.fromkeys(("training_seconds", "evaluate_seconds", "wall_seconds"))
        record = SimpleNamespace(
            status=state.status, reason=state.reason, metrics=METRICS, done=state.status == "done", **seconds
        )
        return SimpleNamespace(record=record, path=Path("results/x/record.json")), state.before

    module.run_unit = run_unit
    monkeypatch.setitem(sys.modules, "dgpbench.experiment", module)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    return state


def test_run_shows_plan_progress_table_and_path(stand_in, capsys):
    assert cli.main(["run", "model=sgp", "--force", "budget.steps=100"]) == 0
    cfg, force = stand_in.calls[0]
    assert (cfg["model"]["name"], cfg["budget"]["steps"], force) == ("sgp", 100, True)
    out, err = capsys.readouterr()
    assert "data       energy [691 rows]" in err
    assert "step 50/100  bound -123.456  80 steps/s  1:05 left" in err
    rows = [line.split() for line in out.splitlines()]
    assert ["log-likelihood", "-0.5912", "1.7200"] in rows and ["RMSE", "0.00042"] in rows
    assert out.splitlines()[-1] == "record: results/x/record.json" and "kl_to_truth" not in out


def test_quiet_prints_the_result_only(stand_in, capsys):
    assert cli.main(["run", "-q"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and "log-likelihood" in out


def test_a_run_done_before_is_said_to_be(stand_in, capsys):
    stand_in.before = True
    assert cli.main(["run"]) == 0
    assert "this run is done; --force runs it again" in capsys.readouterr().err


@pytest.mark.parametrize("status", ["failed", "diverged", "timeout", "oom"])
def test_a_run_that_did_not_succeed_exits_1_with_its_reason(stand_in, capsys, status):
    stand_in.status, stand_in.reason = status, "the bound is\nnot finite"
    assert cli.main(["run"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"dgpbench: run {status}: the bound is not finite; record: results/x/record.json"


@pytest.mark.parametrize(
    "error, code, text",
    [
        (UserError("no such\nthing"), 2, "dgpbench: error: no such thing"),
        (Interrupted(signal.SIGINT, 7), 130, "the same command resumes it"),
        (Interrupted(signal.SIGTERM, 7), 143, "the same command resumes it"),
        (KeyboardInterrupt(), 130, "the same command starts or resumes the run"),
        (OSError(errno.ENOSPC, "No space left on device", "/r/x"), 2, "No space left on device: /r/x"),
        (PermissionError(errno.EACCES, "Permission denied", "/r"), 2, "Permission denied: /r"),
        (OSError(errno.EROFS, "Read-only file system"), 2, "Read-only file system"),
    ],
)
def test_ways_to_end(stand_in, capsys, error, code, text):
    stand_in.error = error
    assert cli.main(["run"]) == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert text in last


def test_an_unknown_bug_is_not_hidden(stand_in):
    stand_in.error = ZeroDivisionError("bug")
    with pytest.raises(ZeroDivisionError):
        cli.main(["run"])


def test_the_current_folder_can_hold_a_users_model(stand_in, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(tmp_path)])
    cli.main(["run"])
    assert sys.path[-1] == str(tmp_path)  # last: it stands in for no other module


BAD = {
    "rnu": "unknown command 'rnu'; did you mean 'run'?",
    "run --model dgp3": "unknown argument '--model'; overrides are written model=VALUE",
    "run modle=dgp2": "unknown key 'modle'; did you mean 'model'?",
    "run model.num_inducing=-1": "model.num_inducing must be a whole number at least 1",
    "run --config-dir nowhere": "--config-dir nowhere is no folder",
    "completion tcsh": "invalid choice: 'tcsh'",
    "rescore dataset=energy": "no finished run in results matches",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_exits_2_with_one_line(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DGPBENCH_RESULTS", raising=False)
    assert cli.main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("dgpbench: error: ") and BAD[command] in err


def test_cfg_prints_what_would_run(capsys):
    assert cli.main(["run", "--cfg", "experiment=dsvi2017_dgp2", "model=dgp3"]) == 0
    cfg = yaml.safe_load(capsys.readouterr().out)
    assert cfg["model"]["layers"] == ["gp", "gp", "gp"] and cfg["experiment"] == "dsvi2017_dgp2"
    json.dumps(cfg)


def test_as_a_process(tmp_path):
    done = dgpbench("run", "dataset=kin8mn", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and list(tmp_path.iterdir()) == []
    assert done.stderr.startswith("dgpbench: error: unknown dataset 'kin8mn'; did you mean 'kin8nm'?")
    assert dgpbench("--version").stdout.startswith("dgpbench 0.")


def test_run_help_lists_groups_options_and_fields():
    topics = ([], ["models"], ["settings"], ["experiments"], ["datasets"])
    pages = [dgpbench("run", "--help", *topic).stdout for topic in topics]
    lines = ("model=", "Deep GP of three layers.", "model.num_inducing=100", "dsvi2017_sgp_shared", "kin8nm")
    for text, line in zip(pages, lines, strict=True):
        assert line in text, line
    assert "paths.results=results" in pages[2]
