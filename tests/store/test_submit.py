"""Records of others: taken where everything agrees, refused with the reason where something was made up."""

import copy
import gzip
import math
from pathlib import Path

import pytest
from offered import SCALE, honest, keyed, packed

from dgpbench.cli import main
from dgpbench.config import compose, deviations
from dgpbench.data import load_split
from dgpbench.papers.paper_table import load_tables
from dgpbench.store.claims import division
from dgpbench.store.record import dumps_line
from dgpbench.store.scan import packed_units
from dgpbench.store.submit import check

REFERENCE = Path(__file__).resolve().parents[2] / "results/reference"


def better(record):
    record["metrics"]["test_loglik"] = -2.0
    return record


def renamed(record):
    record["config"]["model"]["num_inducing"] = 500
    return record


def other_data(record):
    return keyed({**record, "data_hash": "a" * 64})


def trained_on_test_rows(record):
    record["sizes"] = {**record["sizes"], "n_train": 506, "n_test": 51}
    return record


def longer(record):
    record["training"]["steps"] = 100_000
    return record


def shifted(record):
    """All metrics moved together, as if the targets had another deviation."""
    for name in ("test_loglik", "test_loglik_kde"):
        record["metrics"][name] += 1.0
    for name in ("test_rmse", "test_crps"):
        record["metrics"][name] /= math.e
    return record


def impossible(record):
    record["metrics"]["test_coverage95"] = 1.2
    return record


def with_code(record):
    record["config"]["model"]["_target_"] = "mine.Model"
    return keyed(record)


def with_metrics(**changed):
    """A forgery that changes metrics; the standardised value follows, as a careful forger would have it."""

    def forge(record):
        for name, value in changed.items():
            record["metrics"][name] = value
            if f"{name}_std" in record["metrics"]:
                logs = name.startswith("test_loglik") and value is not None
                scaled = value + SCALE if logs else value and value / math.exp(SCALE)
                record["metrics"][f"{name}_std"] = scaled
        return record

    return forge


def with_fields(**changed):
    return lambda record: {**record, **changed}


def with_config(group, **changed):
    def forge(record):
        record["config"][group] |= changed
        return keyed({**record, group: record["config"][group]["name"]})

    return forge


def with_sizes(**changed):
    return lambda record: {**record, "sizes": {**record["sizes"], **changed}}


def one_metric(record):
    return {**record, "metrics": {"test_loglik": 5.0}}


def of_another_experiment(record):
    record["config"]["experiment"] = "dsvi2017_dgp2"
    return keyed({**record, "experiment": "dsvi2017_dgp2"})


def clean_run_of_an_experiment(record):
    """A run of no experiment that is given the name of one."""
    words = ["model=sgp", "inference=dsvi", "dataset=boston", "budget.growth=none", "budget.max_steps=null"]
    cfg = compose([*words, "budget.steps=20000", "threads=1"]) | {"experiment": "dsvi2017_linear"}
    names = {"experiment": "dsvi2017_linear", "model": "sgp", "inference": "dsvi", "protocol": "clean"}
    return keyed({**record, **names, "config": cfg})


FORGERIES = {
    better: "do not follow from their standardised values",
    renamed: "its key is not that of its config and data",
    other_data: "its data are not those that the catalogue states for boston",
    trained_on_test_rows: "557 rows, and the data have 506",
    longer: "it took 100,000 training steps, and its budget is 20,000",
    shifted: "another deviation of the targets than the catalogue's",
    impossible: "test_coverage95 is 1.2",
    with_code: "it ran code of mine; only models and methods of dgpbench are taken",
    with_metrics(
        test_loglik=47.6, test_loglik_kde=47.5
    ): "test_loglik_std is 49.8177, and cannot be above 5.99",
    with_metrics(test_loglik_kde=47.5): "test_loglik_kde_std is 49.7177, and cannot be above 20",
    with_metrics(test_rmse=0.0, test_crps=0.0): "test_rmse is 0, and must be above 0",
    with_metrics(test_crps=0.0): "test_crps is 0, and must be above 0",
    with_metrics(test_rmse=0.01, test_crps=1.9): "test_crps is over 100 times test_rmse",
    one_metric: "it has no test_loglik_std, test_rmse, test_rmse_std, test_crps",
    with_metrics(test_loglik=None): "it has no test_loglik, test_loglik_std",
    with_metrics(test_loglik_kde=None, test_loglik_kde_std=1.0): "it has test_loglik_kde in one unit only",
    with_metrics(test_skill=9.0): "there is no metric test_skill",
    with_metrics(test_coverage95=0.95): "test_coverage95 is 0.95, which is no share of 51 test rows",
    with_metrics(test_coverage95=30 / 51): "its PIT histogram has 0.784 between 0.1 and 0.9",
    with_metrics(test_pit_ks=0.3): "test_pit_ks is 0.3, and its PIT histogram gives 0.0176 to 0.118",
    with_fields(details={}): "it has no details.pit_histogram",
    with_fields(details={"pit_histogram": [0.1] * 10}): "details.pit_histogram is none of 51 test rows",
    with_sizes(n_test=1): "it was tested on 1 rows, and its protocol gives 51",
    with_sizes(n_train=450): "it was trained on 450 rows, and its protocol gives 455",
    with_sizes(inputs=14): "it has 14 inputs, and the data have 13",
    with_fields(sizes={"n_train": 455}): "it does not say how many rows, inputs and outputs",
    with_fields(
        wall_seconds=1e-9
    ): "it ran for 1e-09 seconds, which is too short for any run of 20,000 steps",
    with_fields(
        wall_seconds=0.015
    ): "it ran for 0.015 seconds, which is too short for any run of 20,000 steps",
    with_fields(wall_seconds=None): "it does not say how long it ran",
    with_fields(training={}): "it does not say how many training steps it took",
    with_fields(finished="1926-11-16T11:29:00+00:00"): "it finished in 1926",
    with_fields(finished="2126-11-16T11:29:00+00:00"): "it finishes in the future",
    with_fields(notes=["x" * 1000] * 10_000): "its notes are longer than 20,000 characters",
    with_fields(notes=["x" * 3000]): "notes holds a text longer than 2,000 characters",
    with_fields(notes=["\x1b[2Jall verified"]): "notes holds control characters",
    with_fields(versions={"python": "\x1b]0;owned\x07"}): "versions holds control characters",
    with_fields(details={"a": [0.5] * 200_000}): "it is larger than 256 kB without its trace",
    with_fields(reason="none"): "it is done and has a reason why it is not",
    with_fields(
        deviations=["model.layers=[5] (experiment: [])"]
    ): "said to deviate by model.layers=[5], which",
    of_another_experiment: "its model is sgp, that of experiment dsvi2017_dgp2 is dgp2, and it does not",
    with_config("model", name="best of all"): "there is no model best of all; only models of dgpbench",
    with_config("model", name="dgp3"): "it has 1 GP layers, and dgp3 has 3; name the model that has so many",
    with_config("model", name="random_forest"): "its model is no random_forest, which is dgpbench.models.",
    with_config("model", _target_="dgpbench.models.none.Thing"): "its model is no sgp, which is",
    with_config("inference", name="magic"): "there is no inference magic of model sgp",
    with_config("protocol", name="=cmd"): "there is no protocol =cmd",
    with_config("dataset", task="counts"): "dataset.task is not that of the catalogue",
    with_config("dataset", image=[1, 1]): "dataset.image is not that of the catalogue",
    with_sizes(outputs=2): "it has 2 outputs, and the data have 1",
    with_metrics(test_accuracy=1.0): "test_accuracy is no metric of boston",
    with_metrics(test_auc=1.0): "test_auc is no metric of boston",
    with_metrics(test_kl_to_truth=0.0): "test_kl_to_truth is no metric of boston",
    with_metrics(test_loglik_mc_se=1e300): "test_loglik_mc_se is 1e+300, and no run gives more than 1e+15",
    with_metrics(
        test_rmse=1e-250, test_crps=1e-250
    ): "test_rmse_std is 1.08858e-251, and numbers of 16 digits give no less",
    with_fields(
        training={"steps": 20000, "seconds": 100.0, "cpu_seconds": 1e-9}
    ): "training.cpu_seconds is 1e-09",
    with_fields(
        training={"steps": 20000, "seconds": 1e-3}, steps_per_second=2e7
    ): "training.seconds is 0.001, which is too short for 20,000 steps",
    with_fields(
        training={"steps": 20000, "seconds": 1e-3, "resumed_from": [10000]}, wall_seconds=0.005
    ): "it ran for 0.005 seconds, which is too short",
    with_fields(
        training={"steps": 20000, "seconds": 1.0, "resumed_from": [30000]}
    ): "it says that it resumed from step 30,000, and that it took 20,000",
    with_fields(wall_seconds=1e30): "it ran for 1e+30 seconds, and would have begun before 2017",
    with_fields(evaluate_seconds=121.0): "it was evaluated for longer than it ran",
    with_fields(git_commit="<script>"): "git_commit is no commit",
    with_fields(finished="0001-01-01T00:00:00+14:00"): "field finished is no time",
    with_fields(training={"steps": "20000"}): "field training.steps is not what it should be",
    with_fields(training={"steps": 20000, "cpu_seconds": "1"}): "field training.cpu_seconds is not what it",
    clean_run_of_an_experiment: "its model is sgp, that of experiment dsvi2017_linear is linear, and it",
}


@pytest.mark.parametrize("forge", FORGERIES)
def test_a_forged_record_is_refused_with_the_reason(tmp_path, forge):
    forged = forge(copy.deepcopy(honest()))
    taken, (refusal,) = check(packed(tmp_path / "x.jsonl.gz", forged, honest(1)), [])
    assert [unit.record["split"] for unit in taken] == [1]
    assert FORGERIES[forge] in refusal.reason and refusal.place.endswith("line 1")


def longer_than_it_grows(record):
    """The default budget grows with the rows, to 13,576 steps on kin8nm."""
    record["config"]["budget"] |= {"steps": 5000, "growth": "sqrt", "max_steps": 20_000}
    record["sizes"]["n_train"], record["training"]["steps"] = 455, 5001
    return keyed(record)


def more_rows_than_allowed(record):
    record["config"]["protocol"]["train_rows"] = 100
    return keyed(record)


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (longer_than_it_grows, "it took 5,001 training steps, and its budget is 5,000"),
        (more_rows_than_allowed, "it was trained on 455 rows, and its protocol allows 100"),
    ],
)
def test_budgets_that_grow_and_rows_that_are_limited(tmp_path, forge, reason):
    _, (refusal,) = check(packed(tmp_path / "x.jsonl.gz", forge(copy.deepcopy(honest()))), [])
    assert reason in refusal.reason


def test_another_name_of_the_same_protocol_is_no_fault(tmp_path):
    """dsvi2017 and clean divide alike, and names are in no key."""
    cfg = compose(["experiment=dsvi2017_sgp", "protocol=clean", "dataset=boston", "threads=1"])
    record = {**honest(), "config": cfg, "protocol": "clean", "deviations": deviations(cfg)}
    taken, refused = check(packed(tmp_path / "x.jsonl.gz", keyed(record)), [])
    assert not refused and taken[0].record["deviations"] == []


def test_runs_that_may_end_early_and_whole_data_are_taken(tmp_path):
    """A converged budget, a classic by L-BFGS, the posterior of all rows, few training rows."""
    records = [copy.deepcopy(honest(split)) for split in range(4)]
    converged, classic, whole, few = records
    converged["config"]["budget"]["stop"] = "converged"
    classic["config"]["model"]["own_training"] = True
    for record in (converged, classic):
        record["training"]["steps"], record["steps_per_second"] = 10_000, 100.0
    cfg = compose(["experiment=dsvi2017_sgp", "protocol=whole", "dataset=boston", "threads=1"])
    whole |= {"config": cfg, "protocol": "whole", "deviations": deviations(cfg), "split": 0}
    whole["sizes"] |= {"n_train": 506, "n_test": 506}
    whole["metrics"]["test_coverage95"] = 480 / 506
    whole["details"] = {"pit_histogram": [*[51 / 506] * 6, *[50 / 506] * 4]}
    few["config"]["protocol"]["train_rows"], few["sizes"] = 100, {**few["sizes"], "n_train": 100}
    taken, refused = check(packed(tmp_path / "x.jsonl.gz", *map(keyed, records)), [])
    assert not refused and len(taken) == 4


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (["dataset=boston", "protocol=clean"], (455, 51)),
        (["dataset=boston", "protocol=extrapolate"], (253, 253)),
        (["dataset=boston", "protocol=clean", "protocol.max_test=20", "protocol.train_rows=100"], (100, 20)),
        (["dataset=boston", "protocol=clean", "protocol.validation=0.1"], (409, 51)),
        (["dataset=boston", "protocol=whole"], (506, 506)),
        (
            ["dataset=boston", "protocol=cover", "protocol.test_rows=100", "protocol.train_rows=400"],
            (400, 100),
        ),
        (["dataset=mf_sine"], None),
        (["dataset=mnist_images"], None),
    ],
)
def test_rows_follow_from_the_protocol_as_the_data_are_divided(words, rows):
    """The same numbers as those of load_split, without reading data; none where data must be read."""
    cfg = compose(words)
    dataset = cfg["dataset"] | ({"n": None} if cfg["dataset"].get("level") is not None else {})
    assert division(dataset, cfg["protocol"]) == rows
    if rows:
        split = load_split(cfg)
        assert (split.n_train, split.n_test) == rows


@pytest.mark.slow
def test_all_records_that_come_with_dgpbench_verify():
    for path in sorted(REFERENCE.glob("*.jsonl.gz")):
        taken, refused = check(path, [])
        assert taken and not refused, (path.name, refused[:3])


def test_all_records_of_others_verify():
    """What a pull request adds to results/community/ is checked here once more."""
    for path in sorted((REFERENCE.parent / "community").glob("*.jsonl.gz")):
        taken, refused = check(path, [])
        assert taken and not refused, (path.name, refused[:3])


def test_a_broken_seal_and_a_second_copy_are_refused(tmp_path):
    line = dumps_line(honest())
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress((line.replace("-2.4,", "-1.4,", 1) + line + line).encode()))
    taken, refused = check(path, [])
    assert len(taken) == 1
    assert [r.reason.partition(":")[0] for r in refused] == [
        "its checksum does not fit",
        "a record of this key is here already",
    ]
    assert check(path, [honest()["key"]])[0] == []


def test_a_small_file_of_endless_lines_is_not_read_to_its_end(tmp_path, capsys):
    path = tmp_path / "community" / "x.jsonl.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(b"\n" * 100_000))
    taken, refused = check(path, [])
    assert not taken and len(refused) == 1001 and "the rest was not read" in refused[-1].reason
    assert list(packed_units(path.parent)) == []
    assert "1,000 of its lines are no records" in capsys.readouterr().err


def test_a_damaged_file_is_refused_from_the_damage_on(tmp_path):
    path = packed(tmp_path / "x.jsonl.gz", *map(honest, range(20)))
    content = path.read_bytes()
    path.write_bytes(content[:-400] + b"\0" * 40 + content[-360:])
    _, refused = check(path, [])
    assert "it cannot be read to its end: " in refused[-1].reason


def test_a_record_that_is_submitted_again_replaces_its_own(tmp_path, monkeypatch):
    """The command says that it was written."""
    monkeypatch.setattr("dgpbench.store.layout.packaged", lambda name="reference": None)
    results = tmp_path / "results"
    for loglik in (-2.4, -2.3):
        record = with_metrics(test_loglik=loglik)(honest())
        source = packed(tmp_path / "mine.jsonl.gz", record)
        assert main(["submit", str(source), "--results", str(results), "--name", "lab"]) == 0
    (unit,) = packed_units(results / "community")
    assert unit.record["metrics"]["test_loglik"] == -2.3


def test_submitted_records_stand_in_tables_as_consistent_not_re_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dgpbench.store.layout.packaged", lambda name="reference": None)
    source = packed(tmp_path / "mine.jsonl.gz", honest(), honest(1))
    results = tmp_path / "results"
    words = ["submit", str(source), "--results", str(results)]
    assert main([*words, "--check"]) == 0 and not results.exists()
    assert main([*words, "--name", "lab"]) == 0
    said = capsys.readouterr().out
    assert (
        "2 records are consistent (2 without predictions: metrics not recomputed)" in said
        and "community/lab.jsonl.gz; add that file by a pull request" in said
    )
    (table,) = load_tables(["S7"], results)
    assert table.cells["boston", "SGP"].values == {0: -2.4, 1: -2.4}
    assert main(["tables", "S7", "--results", str(results)]) == 0
    said = capsys.readouterr().out
    assert "boston SGP (2 of 2 records, metrics not recomputed)" in said and "-2.40 (0.00)‡ 2/20" in said
    assert main([*words, "--name", "again"]) == 1  # they are there
    assert "here already" in capsys.readouterr().err


def test_bad_words_are_one_line(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("x")
    for words, said in (
        ([str(tmp_path / "none")], "give a results folder"),
        ([str(tmp_path / "a.txt")], "give a results folder"),
        ([str(tmp_path)], "no records in"),
        ([str(tmp_path), "--name", "../x"], "is no name of a file"),
    ):
        assert main(["submit", *words]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
