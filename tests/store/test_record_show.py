"""dgpbench show: filters, groups, formats."""

import argparse
import csv
import io
import json
import math

import pytest
from store_units import make_cfg, make_record

from dgpbench.cli.show import add_parser, main
from dgpbench.errors import UserError
from dgpbench.store.scan import scan
from dgpbench.store.summary import per_record, print_table
from dgpbench.store.write import write_unit

LOGLIK = {"energy": [-1.0, -1.2, -0.8], "concrete": [-3.0, -3.5, -3.1]}


@pytest.fixture
def results(tmp_path):
    for dataset, values in LOGLIK.items():
        for split, value in enumerate(values):
            metrics = {"test_loglik": value, "test_crps": 1.0 + split}
            write_unit(tmp_path, make_record(make_cfg(dataset, split=split), metrics=metrics))
    reason = "bound is NaN at step 7"
    write_unit(tmp_path, make_record(make_cfg("energy", split=3), "diverged", reason=reason, metrics={}))
    write_unit(tmp_path, make_record(make_cfg("energy", num_inducing=50), metrics={"test_loglik": -9.0}))
    return tmp_path


def show(capsys, results, *words):
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers(dest="verb"))
    assert main(parser.parse_args(["show", "--results", str(results), *words])) == 0
    return capsys.readouterr().out


def rows(capsys, results, *words):
    return json.loads(show(capsys, results, "--format", "json", *words))


def test_groups_hold_one_config_each_with_mean_and_standard_error(capsys, results):
    table = rows(capsys, results)
    assert [(r["dataset"], r["settings"], r["done"], r["not_done"]) for r in table] == [
        ("concrete", "budget.steps=20000 model.jitter=1e-06 precision=float64", 3, ""),
        ("energy", "budget.steps=20000 model.jitter=1e-06 model.num_inducing=50 precision=float64", 1, ""),
        ("energy", "budget.steps=20000 model.jitter=1e-06 precision=float64", 3, "1 diverged"),
    ]
    energy = table[2]
    assert energy["test_loglik"] == pytest.approx(-1.0)
    assert energy["test_loglik_se"] == pytest.approx(math.sqrt(0.08 / 2 / 3))
    assert table[1]["test_loglik"] == -9.0 and table[1]["test_loglik_se"] is None
    assert energy["seconds"] == 12.5 and energy["train_seconds"] is None


def test_table_and_markdown_show_the_same_cells(capsys, results):
    text = show(capsys, results)
    markdown = show(capsys, results, "--format", "markdown")
    for cell in ("-1 (0.12)", "-3.2 (0.15)", "1 diverged", "model.num_inducing=50"):
        assert cell in text and cell in markdown
    assert markdown.splitlines()[1].startswith("| --- |") and len(markdown.splitlines()) == 5
    assert len(text.splitlines()) == 4


def test_each_record_and_csv(capsys, results):
    table = list(csv.DictReader(io.StringIO(show(capsys, results, "--each", "--format", "csv"))))
    assert len(table) == 8
    assert {r["test_loglik"] for r in table if r["dataset"] == "concrete"} == {"-3.0", "-3.5", "-3.1"}
    assert [r["reason"] for r in table if r["status"] == "diverged"] == ["bound is NaN at step 7"]


def test_failed_gives_reason_and_place(capsys, results):
    (row,) = rows(capsys, results, "--failed")
    assert row["status"] == "diverged" and row["reason"] == "bound is NaN at step 7"
    assert row["place"].startswith(str(results / "energy" / "dgp2-dsvi" / "clean" / "split3-"))
    assert "bound is NaN at step 7" in show(capsys, results, "--failed")


@pytest.mark.parametrize(
    "words, count",
    [
        (["dataset=energy"], 5),
        (["dataset=energy,concrete"], 8),
        (["dataset=en*"], 5),
        (["split=0"], 3),
        (["status=done"], 7),
        (["status=failed,diverged"], 1),
        (["model.num_inducing=50"], 1),
        (["split=0", "dataset=concrete"], 1),
        (["model=sgp"], 0),
        (["model.jitter=0.000001"], 8),
        (["experiment=null"], 8),
        (["model.layers=[gp,gp]"], 8),
    ],
)
def test_filters(capsys, results, words, count):
    assert len(rows(capsys, results, "--each", *words)) == count


def test_key_filters_take_the_first_digits(capsys, results):
    key = make_record(make_cfg("concrete", split=1))["key"]
    (row,) = rows(capsys, results, "--each", f"key={key[:8]}")
    assert (row["dataset"], row["split"]) == ("concrete", 1)


@pytest.mark.parametrize(
    "words, message",
    [
        (["datset=energy"], "no field 'datset' to filter by; did you mean 'dataset'?"),
        (["model.num_inducin=3"], "did you mean 'model.num_inducing'?"),
        (["energy"], "filter 'energy' is not of the form field=value"),
        (["dataset="], "not of the form field=value"),
        (["status=broken"], "no status 'broken'; allowed: diverged, done"),
        (["--metric", "test_logik"], "no metric 'test_logik' in these records; did you mean 'test_loglik'?"),
        (["--sort", "test_loglikk"], "no column 'test_loglikk' to sort by; did you mean 'test_loglik'?"),
    ],
)
def test_bad_words_are_one_clear_line(capsys, results, words, message):
    with pytest.raises(UserError) as caught:
        show(capsys, results, *words)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_metrics_and_sorting(capsys, results):
    table = rows(capsys, results, "--metric", "test_crps,test_loglik", "--sort", "test_loglik")
    assert [r["test_loglik"] for r in table] == pytest.approx([-9.0, -3.2, -1.0])
    assert table[0]["test_crps"] is None and table[1]["test_crps"] == 2.0
    table = rows(capsys, results, "--metric", "all", "--sort", "test_crps", "--reverse", "--each")
    assert [r["test_crps"] for r in table] == [3.0, 3.0, 2.0, 2.0, 1.0, 1.0, None, None]


def test_empty_and_missing_folders(capsys, tmp_path, monkeypatch):
    assert show(capsys, tmp_path) == f"no records in {tmp_path}\n"
    assert rows(capsys, tmp_path) == []
    with pytest.raises(UserError, match="no results folder"):
        show(capsys, tmp_path / "nowhere")
    write_unit(tmp_path / "there", make_record())
    monkeypatch.setenv("DGPBENCH_RESULTS", str(tmp_path / "there"))
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    main(parser.parse_args(["show"]))
    assert "energy" in capsys.readouterr().out


def test_differences_are_told_in_every_format(capsys, results):
    each = rows(capsys, results, "--each", "split=0")
    told = {row["key"]: row["settings"] for row in each}
    assert sorted(told.values()) == [
        "budget.steps=20000 model.jitter=1e-06 model.num_inducing=50 precision=float64",
        *["budget.steps=20000 model.jitter=1e-06 precision=float64"] * 2,
    ]
    table = list(csv.DictReader(io.StringIO(show(capsys, results, "--each", "--format", "csv"))))
    assert {row["settings"] for row in table} == set(told.values())


def test_no_word_is_broken_at_80_columns(capsys, results):
    """Settings wrap between words, paths stand below the table, whole."""
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers(dest="verb"))
    args = parser.parse_args(["show", "--each", "--results", str(results)])
    units = scan(results)
    print_table(per_record(units, ["test_loglik"], args.config_dir), width=80)
    text = capsys.readouterr().out
    words = set(text.split())
    assert {"model.num_inducing=50", "precision=float64", "budget.steps=20000"} <= words
    assert {str(unit.folder) for unit in units} <= words
    assert "protocol clean" in text.splitlines()[0]


def test_an_own_file_goes_by_its_file_name(capsys, tmp_path):
    cfg = make_cfg("csv")
    cfg["dataset"] |= {"path": "/data/prices.csv", "target": "y"}
    write_unit(tmp_path, make_record(cfg))
    (row,) = rows(capsys, tmp_path)
    assert row["dataset"] == "prices.csv"


def test_export_onto_a_folder_or_nowhere_is_one_line(capsys, results):
    for place, message in (
        (results, "cannot export to .*; give a name that ends in"),
        ("/proc/x/y.jsonl.gz", "cannot export to .*; give a place that can be written"),
    ):
        with pytest.raises(UserError, match=message):
            show(capsys, results, "--export", str(place))


def test_samplers_have_columns_of_how_their_chains_mix(capsys, results):
    """The worst of the splits; of what is no number, nothing."""
    assert "rhat" not in rows(capsys, results)[0]
    for split, (effective, rhat) in enumerate([(80.0, 1.01), (50.0, 1.3), (60.0, "?")]):
        chains = {"chains": 1, "draws": 100, "effective": effective, "rhat": rhat}
        made = make_record(
            make_cfg("yacht", split=split),
            metrics={"test_loglik": 0.0},
            training={"checks": {"chains": chains}},
        )
        write_unit(results, made)
    (mean,) = rows(capsys, results, "dataset=yacht")
    assert mean["effective"] == 50.0 and mean["rhat"] == 1.3
    each = rows(capsys, results, "dataset=yacht", "--each")
    assert [row["rhat"] for row in each] == [1.01, 1.3, None]
    assert rows(capsys, results, "--sort", "test_loglik")[0]["effective"] is None
