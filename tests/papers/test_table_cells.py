"""Which records a cell takes, and what it counts: checked on hand-made records."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from report_units import config, data_hash, plain_units, record, unit, units, write

from dgpbench.config import config_key
from dgpbench.errors import UserError
from dgpbench.papers import specs
from dgpbench.papers.paper_cells import Records, cell_key
from dgpbench.papers.paper_table import build, load_tables, tables_of
from dgpbench.papers.views import comparison, rule_notes
from dgpbench.report.result_table import missing_commands as commands
from dgpbench.report.result_table import missing_summary as summary
from dgpbench.report.result_table import run_command
from dgpbench.store.scan import scan

ROOT = Path(__file__).resolve().parents[2]
GP = "dsvi2017_sgp"


def table_of(found, name="S7", variants=()):
    return build(specs.load(name, variants), Records(found))


def test_a_stray_variant_with_another_m_is_not_mixed_in():
    found = units(GP, "energy", [-1.0, -2.0, -3.0])
    found += units(GP, "energy", [-9.0, -9.0], overrides=["model.num_inducing=50"])
    found += units("dsvi2017_sgp_shared", "energy", [-5.0])
    table = table_of(found)
    assert table.cells["energy", "SGP"].values == {0: -1.0, 1: -2.0, 2: -3.0}
    shown = {(v.name, tuple(v.values.values())) for v in table.variants}
    assert shown == {("dsvi2017_sgp model.num_inducing=50", (-9.0, -9.0)), ("dsvi2017_sgp_shared", (-5.0,))}
    assert {v.column for v in table.variants} == {"SGP"}
    shared = table_of(found, variants=["shared"])
    assert shared.cells["energy", "SGP"].values == {0: -5.0}


def test_records_count_by_key_whatever_experiment_they_name():
    made = record(GP, "energy", 0, {"test_loglik": -1.0}) | {"experiment": None}
    made.config["experiment"] = None
    found = [unit(GP, "energy", 1, {"test_loglik": -2.0})]
    found.append(type(found[0])(made, found[0].path))
    assert table_of(found).cells["energy", "SGP"].values == {0: -1.0, 1: -2.0}


def test_counts_of_done_failed_missing_and_records_without_the_metric():
    found = units(GP, "boston", [-2.0, -2.5])
    found.append(unit(GP, "boston", 2, status="diverged", reason="not finite: bound"))
    found.append(unit(GP, "boston", 3, {"test_rmse": 1.0}))
    found.append(unit(GP, "boston", 4, status="interrupted", reason="stopped by signal 15"))
    cell = table_of(found).cells["boston", "SGP"]
    assert cell.count == "2/20, 1 failed"
    assert cell.failed == {2: "diverged: not finite: bound"}
    assert cell.lacking == [3]
    assert cell.missing == list(range(4, 20))


def test_commands_of_what_is_missing():
    cells = table_of(units(GP, "boston", [-2.0, -2.5])).cells
    lacking = [cells["boston", "SGP"], cells["energy", "SGP"]]
    assert run_command(lacking[0], 2) == "dgpbench run experiment=dsvi2017_sgp dataset=boston split=2"
    assert commands(lacking) == ["dgpbench sweep experiment=dsvi2017_sgp dataset=boston,energy"]
    few = units(GP, "boston", [-2.0, -2.5, None] + [-2.0] * 17)
    (command,) = commands([table_of(few).cells["boston", "SGP"]])
    assert command == "dgpbench sweep experiment=dsvi2017_sgp dataset=boston split=2"
    single = table_of([], "2.3").cells["year", "SGP"]
    assert commands([single]) == [
        "dgpbench sweep experiment=dsvi2017_sgp budget.steps=100000 dataset=song split=0"
    ]


def test_columns_that_share_runs_share_a_command_and_count_them_once():
    """Table 4.2: test, train and variance of one run are three columns."""
    table = table_of([], "4.2")
    lines = summary(table.cells.values())
    assert sum("experiment=mnist_density_cvae_opt dataset.per_class=2 " in line for line in lines) == 1
    (line,) = [line for line in lines if "gp_opt dataset.per_class=2 " in line]
    assert line.startswith(
        "GP-CDE opt. test, GP-CDE opt. train, GP-CDE opt. variance: 1 in 3 cells, dgpbench "
    )
    assert len(commands(table.cells.values())) == len(set(commands(table.cells.values()))) == table.expected


def test_seeds_of_one_split_count_once_with_their_mean():
    found = [
        unit(GP, "energy", 0, {"test_loglik": value}, seed=seed) for seed, value in enumerate((-1.0, -3.0))
    ]
    found.append(unit(GP, "energy", 0, seed=2, status="failed", reason="x"))
    found.append(unit(GP, "energy", 1, {"test_loglik": -4.0}))
    cell = table_of(found).cells["energy", "SGP"]
    assert cell.values == {0: -2.0, 1: -4.0}
    assert cell.count == "2/20"


def test_records_of_other_data_are_a_variant():
    own = units(GP, "energy", [-1.0, -1.5])
    other = units(GP, "energy", [-7.0], data=data_hash("energy, changed"))
    table = table_of(own + other)
    assert table.cells["energy", "SGP"].values == {0: -1.0, 1: -1.5}
    assert [v.name for v in table.variants] == ["dsvi2017_sgp, other data or version"]


def test_the_data_that_the_catalogue_states_win():
    stated = config(GP, "energy")["dataset"]["data_sha256"]
    table = table_of(units(GP, "energy", [-1.0, -1.5]) + units(GP, "energy", [-7.0], data=stated))
    assert table.cells["energy", "SGP"].values == {0: -7.0}


@pytest.mark.parametrize("dataset", ["boston", "protein", "winered"])
@pytest.mark.parametrize("overrides", [(), ("budget.steps=100000",)])
def test_composing_once_per_experiment_gives_the_keys_of_composing_each(dataset, overrides):
    place = specs.load("S7").places["boston", "DGP 3"]
    place = replace(place, overrides=overrides)
    whole = config("dsvi2017_dgp3", dataset, overrides)
    known = (("name", dataset), ("task", whole["dataset"]["task"]))
    assert cell_key(place.words, (), known, "0" * 64) == config_key(whole, "0" * 64)


def test_a_single_split_table_takes_split_0_and_its_overrides():
    long = units(GP, "song", [-3.7, -9.9], overrides=["budget.steps=100000"])
    table = table_of(long + units(GP, "song", [-1.0]), "2.3")
    cell = table.cells["year", "SGP"]
    assert cell.values == {0: -3.7} and cell.count == "1/1"
    assert table.cells["airline", "SGP"].count == "0/1"  # its own test rows
    absent = table.cells["taxi", "SGP"]
    assert absent.absent == "no dataset taxi in the catalogue" and absent.published.value == -7.24
    other = table.cells["year", "SGP 500"]
    assert other.missing == [0]


def test_what_is_chosen_of_a_dataset_belongs_to_the_cell():
    """Rows of table 4.2 differ in dataset.per_class alone; one class of a set is no cell of all of them."""
    name = "mnist_density_cvae_fixed"
    found = [
        unit(name, "mnist_images", 0, {"test_loglik": value}, overrides=[f"dataset.per_class={count}"])
        for count, value in ((2, -100.0), (4, -40.0))
    ]
    words = ["dataset.per_class=256", "dataset.label=1"]
    found.append(unit(name, "mnist_images", 0, {"test_loglik": 7.0}, overrides=words))
    cells = table_of(found, "4.2").cells
    shown = {
        row: cells[row, "CVAE fixed test"].values for row, column in cells if column == "CVAE fixed test"
    }
    assert shown == {
        "2 per class": {0: -100.0},
        "4 per class": {0: -40.0},
        "256 per class": {},
        "512 per class": {},
    }


def test_a_table_without_minus_infinity_compares_with_the_number():
    made = unit(
        "mnist_density_cvae_opt",
        "mnist_images",
        0,
        {"test_loglik": -1000.5},
        overrides=["dataset.per_class=2"],
    )
    shown = [[entry.text for entry in line.entries] for line in comparison(table_of([made], "4.2")).lines]
    assert [line[2:4] for line in shown if line[0] == "CVAE opt. test"] == [["-1000.5", "-1296.6"]]


def test_an_experiment_that_does_not_exist_says_so_and_keeps_the_published_number():
    tree = {
        "title": "t",
        "units": "u",
        "metric": "test_loglik",
        "rows": ["boston"],
        "published": {"source": "salimbeni2017dsvi", "table": "S7"},
        "columns": [{"label": "X", "experiment": "not_there", "published": {"model": "sgp100"}}],
    }
    cell = build(specs.parse("t", tree), Records([])).cells["boston", "X"]
    assert cell.absent == "no experiment not_there yet" and cell.count == ""
    assert (cell.published.value, cell.published.error) == (-2.47, 0.05)


@pytest.mark.slow
def test_scaled_metrics_and_halved_intervals():
    table = table_of([], "matthews4.3")
    cell = table.cells["thyroid", "KL"]
    assert (
        cell.place.scale == -1
        and cell.published.value == 0.11
        and (cell.published.printed_error, cell.published.error) == (0.05, 0.025)
    )


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ("baselines", "Dropout 2016: standard deviation over the splits, though headed standard errors"),
        ("ustyuzhaninov1", "standard deviation over ten trials"),
    ],
)
def test_a_printed_error_that_is_no_standard_error_has_a_note(table, error):
    notes = rule_notes(table_of([], table), ("ours", "published"))
    assert f"published error: {error}; comparisons turn it into a standard error" in notes


def test_corrupt_old_and_duplicated_records_are_named_and_the_rest_stands(tmp_path, capsys):
    good = write(tmp_path, record(GP, "energy", 0, {"test_loglik": -1.0}))
    broken = write(tmp_path, record(GP, "energy", 1, {"test_loglik": -2.0}))
    broken.write_text(broken.read_text()[:300])
    old = write(tmp_path, record(GP, "energy", 2, {"test_loglik": -3.0}))
    old.write_text(old.read_text().replace('"schema": 2', '"schema": 0'))
    twin = good.parent.with_name("split0-twin") / good.name
    twin.parent.mkdir()
    twin.write_text(good.read_text())
    (table,) = load_tables(["S7"], tmp_path)
    assert table.cells["energy", "SGP"].values == {0: -1.0}
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 3
    for path, word in ((broken, "cannot be read"), (old, "schema 0"), (twin, "same key")):
        assert any(str(path) in line and word in line for line in warnings), (path, warnings)


def test_reference_records_stand_behind_ones_own(tmp_path):
    from dgpbench.store.reference import export

    export(units(GP, "energy", [-1.0, -2.0]), tmp_path / "reference" / "x.jsonl.gz")
    write(tmp_path, record(GP, "energy", 1, {"test_loglik": -2.5}))
    (table,) = tables_of([specs.load("S7")], scan(tmp_path), tmp_path)
    assert table.cells["energy", "SGP"].values == {0: -1.0, 1: -2.5}


def test_unknown_tables_and_variants_are_refused_with_the_nearest():
    with pytest.raises(UserError, match="no table or dataset '5.11'; did you mean '5.1'"):
        specs.load("5.11")
    with pytest.raises(UserError, match="no variant 'exakt'; did you mean 'exact'"):
        specs.load("5.1", ["exakt"])
    with pytest.raises(UserError, match="unknown field 'metrc'"):
        specs.parse(
            "t", {"title": "t", "units": "u", "metrc": "x", "rows": ["a"], "columns": [{"label": "b"}]}
        )
    tree = {"title": "t", "units": "u", "rows": ["boston"], "columns": [{"label": "b"}]}
    with pytest.raises(UserError, match="baseline must be one of: b"):
        specs.parse("t", {**tree, "baseline": "c"})
    with pytest.raises(UserError, match="unknown field 'modle'; did you mean 'model'"):
        specs.parse("t", {**tree, "columns": [{"label": "b", "published": {"modle": "x"}}]})
    several = {**tree, "published": {"source": "salimbeni2017dsvi", "table": "S7"}}
    with pytest.raises(UserError, match="9 published cells fit"):
        build(specs.parse("t", {**several, "columns": [{"label": "b", "published": {}}]}), Records([]))
    with pytest.raises(UserError, match="columns is missing"):
        specs.parse("t", {"title": "t", "units": "u", "rows": ["a"]})
    with pytest.raises(UserError, match="cannot read the table none.yaml"):
        specs.load("none.yaml")


def test_the_own_table_of_the_docs(tmp_path):
    text = (ROOT / "docs" / "latex-tables.md").read_text(encoding="utf-8")
    path = tmp_path / "depth.yaml"
    path.write_text(text.split("```yaml\n")[1].split("```")[0])
    found = units(GP, "energy", [-1.0, -2.0]) + units(
        GP, "energy", [-1.5], overrides=["model.num_inducing=50"]
    )
    table = build(specs.load(str(path)), Records(found))
    assert table.cells["energy", "SGP"].values == {0: -1.0, 1: -2.0}
    assert table.cells["energy", "SGP M=50"].values == {0: -1.5}
    assert table.variants == []


@pytest.mark.slow
def test_every_spec_names_things_that_can_be_had():
    """Published cells exist where a spec names them; its baseline and footers are columns and rules."""
    for name in specs.names():
        table = table_of([], name)
        spec = table.spec
        assert all(isinstance(text, str) for text in (spec.title, spec.units, *spec.notes))
        assert all(change["about"] for change in spec.variants.values())
        named = [cell for cell in table.cells.values() if cell.place.published]
        found = [cell for cell in named if cell.published]
        assert not named or len(found) > 0.7 * len(named), name
        for variant in spec.variants:
            assert specs.load(name, [variant]).chosen == (variant,)


def test_step_times_come_from_perf_and_are_medians(tmp_path):
    cell = {
        "reason": None,
        "status": "ok",
        "case": "a-sgp",
        "system": "dgpbench-float64",
        "step_ms": [30.0, 20.0, 70.0],
    }
    bad = {**cell, "case": "a-dgp2", "status": "nan", "reason": "the bound is not finite", "step_ms": []}
    path = tmp_path / "perf.json"
    path.write_text(json.dumps({"cells": [cell, bad]}))
    table = build(specs.load("2.4"), Records([]), (tmp_path / "none.json", path))
    assert table.ours("SGP", "CPU float64").mean == pytest.approx(0.030)
    assert table.cells["SGP", "CPU float64"].count == "3/3"
    assert table.cells["SGP", "CPU float64"].published.value == 0.14
    assert table.cells["DGP 2", "CPU float64"].failed == {0: "nan: the bound is not finite"}
    assert commands([table.cells["DGP 3", "CPU float64"]]) == [
        "python -m benchmarks --cases a-dgp3 --systems dgpbench-float64"
    ]
    assert table.cells["SGP", "GPU"].absent and table.cells["SGP", "GPU"].published.value == 0.018


@pytest.mark.parametrize("text", ["{", "[1]", '{"cells": [{"case": "a-sgp"}]}', '{"cells": 3}'])
def test_a_file_that_holds_no_step_times_is_refused(text, tmp_path):
    path = tmp_path / "perf.json"
    path.write_text(text)
    with pytest.raises(UserError, match="holds no step times .*; measure again: python -m benchmarks"):
        build(specs.load("2.4"), Records([]), (path,))


def test_columns_of_plain_overrides(tmp_path):
    """A table of one's own needs no experiment: a column with a model among its overrides is run as given."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_text("defaults: [_gp, _self_]\nname: mine\nlayers: [gp]\n")
    tree = {
        "title": "t",
        "units": "nat",
        "metric": "test_loglik",
        "rows": ["boston"],
        "columns": [
            {"label": "small", "overrides": ["model=sgp", "model.num_inducing=20"]},
            {"label": "mine", "overrides": ["model=mine"]},
            {"label": "theirs"},
        ],
    }
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(tree))
    found = plain_units(["model=sgp", "model.num_inducing=20"], "boston", [-1.0, -3.0])
    spec = specs.load(str(file), config_dirs=[str(tmp_path)])
    table = build(spec, Records(found))
    assert table.ours("boston", "small").mean == -2.0 and table.cells["boston", "small"].expected == 20
    assert table.cells["boston", "mine"].expected == 20
    assert table.cells["boston", "theirs"].absent == "from print only, dgpbench does not run it"
    command = commands([table.cells["boston", "mine"]])
    assert command == [f"dgpbench sweep --config-dir {tmp_path} model=mine dataset=boston"]
    without = build(specs.load(str(file)), Records(found)).cells["boston", "mine"]
    assert "unknown model 'mine'" in without.absent


def test_a_misspelt_metric_in_an_own_table_is_refused():
    tree = {
        "title": "t",
        "units": "u",
        "rows": ["boston"],
        "columns": [{"label": "a", "experiment": "dsvi2017_sgp"}],
    }
    with pytest.raises(UserError, match="table own: no metric 'test_logik'; did you mean 'test_loglik'"):
        specs.parse("own", tree | {"metric": "test_logik"})
