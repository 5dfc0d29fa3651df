"""What a run was, and the command that repeats it: composing that command gives the run's own key again."""

import shlex
from dataclasses import replace

import pytest

from dgpbench.config import compose, config_key
from dgpbench.store.differences import command, differences
from dgpbench.store.record import build_record

HASH = "ab" * 32


def record_of(*words):
    cfg = compose(list(words))
    key = config_key(cfg, HASH)
    return build_record(cfg, key=key, config_key=key, status="done", data_hash=HASH)


@pytest.mark.parametrize(
    "words, expected",
    [
        ((), []),
        (("model=linear", "dataset=boston", "budget.steps=7"), []),  # nothing is optimised: no step counts
        (("model=dgp3", "budget.steps=300"), ["budget.steps=300"]),
        (("inference=dsvi", "precision=float64"), ["precision=float64"]),
        (
            ("model.num_inducing=20", "likelihood=student_t"),
            ["likelihood=student_t", "model.num_inducing=20"],
        ),
        (
            ("model=lv_gp", "inference=iwvi", "inference.importance_samples=7"),
            ["inference.importance_samples=7"],
        ),
        (("protocol=iwvi2019", "protocol.splits=3"), ["protocol.splits=3"]),
        (("inference=joint",), []),
        (("inference=sghmc", "budget.steps=600"), ["budget.steps=600"]),
        (("model=sgp", "inference=sgpmc", "budget.steps=50"), ["budget.steps=50"]),
        (("model=gpmc", "budget.steps=50"), ["budget.steps=50"]),
        (
            ("inference=sghmc", "budget.steps=600", "inference.burn_in=10"),
            ["budget.steps=600", "inference.burn_in=10", "inference.thinning=25"],
        ),
        (("dataset=arm8", "dataset.n=500"), ["dataset.n=500"]),
        (("model.layer_overrides.0.kernel=matern52",), ["model.layer_overrides.0.kernel=matern52"]),
    ],
)
def test_differences_and_command(words, expected):
    record = record_of(*words)
    assert differences(record) == expected
    typed = shlex.split(command(record))
    assert typed[:2] == ["dgpbench", "run"] and all(word in typed for word in expected)
    assert config_key(compose(typed[2:]), HASH) == record["config_key"]


def test_an_experiment_is_named_with_its_deviations():
    record = record_of("experiment=dsvi2017_sgp", "dataset=boston")
    record = replace(record, deviations=["budget.steps=10 (experiment: 20000)"])
    assert differences(record) == ["experiment=dsvi2017_sgp", "budget.steps=10"]


def test_an_option_that_is_not_here_any_more(tmp_path):
    """A user's own model whose folder has gone: the other settings are still told."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("defaults: [_gp, _self_]\nname: mine\nlayers: [gp]\n")
    cfg = compose(["model=mine", "budget.steps=9", "model.num_inducing=30"], [tmp_path])
    key = config_key(cfg, HASH)
    record = build_record(cfg, key=key, config_key=key, status="done", data_hash=HASH)
    assert differences(record) == ["budget.steps=9", "model.num_inducing=30"]
    assert f"--config-dir {tmp_path}" in command(record)
    (tmp_path / "model" / "mine.yaml").unlink()
    assert "budget.steps=9" in differences(record)
