"""`dgpbench predict`: new rows in, mean, sd, quantiles or class probabilities out."""

import csv
import io
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "api"))
from own_files import regression, write_csv  # noqa: E402

import dgpbench  # noqa: E402
from dgpbench import cli  # noqa: E402


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DGPBENCH_RESULTS", "DGPBENCH_DATASETS", "DGPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    write_csv(tmp_path / "own.csv", regression())
    words = ("dataset=csv", "dataset.path=own.csv", "dataset.target=y", "dataset.drop=[z]", "model=linear")
    return dgpbench.run(*words)


def table(text: str) -> dict[str, np.ndarray]:
    header, *rows = csv.reader(io.StringIO(text))
    return {
        name: np.array(column, float) for name, column in zip(header, zip(*rows, strict=True), strict=True)
    }


def predicted(capsys, *words: str) -> dict[str, np.ndarray]:
    assert cli.main(["predict", *words]) == 0
    return table(capsys.readouterr().out)


def test_columns_go_by_name_in_any_order_with_others_beside_them(run, capsys, tmp_path):
    new = regression(7, seed=5)
    X = np.stack([new[name] for name in "abc"], 1)
    expected = dgpbench.load(run).predict(X)
    write_csv(tmp_path / "new.csv", {"c": new["c"], "id": range(7), "a": new["a"], "b": new["b"]})
    for name in (run.key[:8], str(run.folder)):
        found = predicted(capsys, name, "new.csv")
        assert list(found) == ["mean", "sd", "q2.5", "q25", "q50", "q75", "q97.5"]
        np.testing.assert_allclose(found["mean"], expected.mean, rtol=1e-9)
        np.testing.assert_allclose(found["q97.5"], expected.quantiles[:, 4], rtol=1e-9)
    (tmp_path / "bare.csv").write_text("\n".join(",".join(map(str, row)) for row in X) + "\n")
    np.testing.assert_allclose(predicted(capsys, run.key[:8], "bare.csv")["sd"], expected.sd, rtol=1e-9)


def test_the_level_of_each_row_stands_before_its_prediction(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = regression(40)
    data["fidelity"] = np.arange(40) % 2
    write_csv(tmp_path / "own.csv", data)
    words = ("dataset=csv", "dataset.path=own.csv", "dataset.target=y", "dataset.drop=[z]", "model=linear")
    run = dgpbench.run(*words, "dataset.level=fidelity")
    new = regression(4, seed=5)
    new["fidelity"] = np.array([1, 0, 0, 1])
    write_csv(tmp_path / "new.csv", new)
    found = predicted(capsys, run.key[:8], "new.csv")
    assert list(found)[:3] == ["fidelity", "mean", "sd"]
    np.testing.assert_array_equal(found["fidelity"], [1, 0, 0, 1])


def test_parquet_levels_and_an_output_file(run, capsys, tmp_path):
    import pandas as pd

    new = regression(4, seed=6)
    pd.DataFrame({name: new[name] for name in "cab"}).to_parquet("new.parquet")
    words = (run.key[:8], "new.parquet", "--quantiles", "0.1,0.9", "-o", "out.csv")
    assert cli.main(["predict", *words]) == 0
    assert capsys.readouterr().out == "4 predictions: out.csv\n"
    found = table((tmp_path / "out.csv").read_text())
    X = np.stack([new[name] for name in "abc"], 1)
    np.testing.assert_allclose(found["q90"], dgpbench.load(run).predict(X, (0.9,)).quantiles[:, 0], rtol=1e-9)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


@pytest.mark.parametrize(
    "text, options, words",
    [
        ("a,b\n1,2\n", (), "no column 'c', an input of this run"),
        ("1,2\n", (), "has 2 columns, this run 3 inputs (a, b, c)"),
        ("a,b,c\n1,2,x\n", (), "line 2, column 3 ('c') is 'x', not a number"),
        ("a,b,c\n1,,3\n", (), "line 2, column 2 ('b') is empty"),
        ("a,b,c\n", (), "has a header and no rows"),
        ("", (), "new.csv is empty"),
        (None, (), "new.csv: no such file"),
        ("a,b,c\n1,2,3\n", ("--quantiles", "0,1"), "levels between 0 and 1"),
        ("a,b,c\n1,2,3\n", ("--quantiles", "half"), "levels between 0 and 1"),
        ("a,b,c\n1,2,3\n", ("-o", "."), "is a folder; give a file"),
        ("a,b,c\n1,2,3\n", ("-o", "no/out.csv"), "no folder no"),
    ],
)
def test_bad_files_are_one_line(run, capsys, tmp_path, text, options, words):
    if text is not None:
        (tmp_path / "new.csv").write_text(text)
    assert cli.main(["predict", run.key[:8], "new.csv", *options]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and words in error


@pytest.fixture
def rents(tmp_path, monkeypatch):
    """A table that needs preparation, and a run on it."""
    monkeypatch.chdir(tmp_path)
    for name in ("DGPBENCH_RESULTS", "DGPBENCH_DATASETS", "DGPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    rng = np.random.default_rng(0)
    towns = rng.choice(["Ulm", "Bonn", "Kiel"], 40)
    lines = [f"a{i};{town};{'?' if i % 9 == 0 else i % 6};{i * 10}.000 €" for i, town in enumerate(towns)]
    (tmp_path / "rents.csv").write_text("\n".join(["flat;town;rooms;rent", *lines]), encoding="utf-8")
    words = ("dataset=csv", "dataset.path=rents.csv", "dataset.target=rent", "dataset.prepare=auto")
    return dgpbench.run(*words, "model=linear")


def test_new_rows_of_a_prepared_table(rents, capsys, tmp_path):
    import pandas as pd

    assert cli.main(["predict", rents.key[:8], "rents.csv"]) == 0
    found = table(capsys.readouterr().out)
    frame = pd.read_csv("rents.csv", sep=";")
    fitted = dgpbench.load(rents)
    np.testing.assert_allclose(found["mean"], fitted.predict(frame).mean, rtol=1e-9)
    test = np.random.RandomState(0).permutation(40)[36:]  # the rule of the splits
    recorded = pd.read_parquet(rents.folder / "predictions.parquet").sort_values("row")
    np.testing.assert_array_equal(recorded["row"], np.sort(test))
    np.testing.assert_allclose(found["mean"][np.sort(test)], recorded["mean"], rtol=1e-9)
    (tmp_path / "new.csv").write_text("rooms,town\n2,Ulm\n,Rome\n")
    assert cli.main(["predict", rents.key[:8], "new.csv"]) == 0
    out = capsys.readouterr()
    assert out.err == "note: town: 1 of 2 rows have a category that no training row has, e.g. 'Rome'\n"
    assert len(table(out.out)["mean"]) == 2
    with pytest.warns(UserWarning, match="1 of 2 rows have a category"):
        fitted.predict(pd.DataFrame({"rooms": [2, None], "town": ["Ulm", "Rome"]}))
    (tmp_path / "bad.csv").write_text("rooms,city\n2,Ulm\n")
    assert cli.main(["predict", rents.key[:8], "bad.csv"]) == 2
    assert "bad.csv has no column 'town', an input of this run" in capsys.readouterr().err


def test_a_record_with_a_recipe_of_another_kind_predicts_nothing(rents, capsys):
    import json

    from dgpbench.store.record import validate_record

    record = json.loads((rents.folder / "record.json").read_text())
    del record["checksum"]
    validate_record(record)
    steps = record["details"]["prepare"]
    assert [step["use"] for step in steps["columns"]] == ["dropped", "one_hot", "number"]
    record["details"]["prepare"] = steps | {"columns": [step | {"use": "eval"} for step in steps["columns"]]}
    with pytest.raises(ValueError, match="details.prepare"):
        validate_record(record)
    rents.record["details"]["prepare"] = steps | {"columns": steps["columns"][:2]}  # one input fewer
    with pytest.raises(dgpbench.UserError, match="its recipe does not fit its model"):
        dgpbench.load(rents)
    del rents.record["details"]["prepare"]
    with pytest.raises(dgpbench.UserError, match="its recipe cannot be used"):
        dgpbench.load(rents)


def test_columns_of_a_frame_go_by_name(run):
    import pandas as pd

    new = regression(5, seed=3)
    X = np.stack([new[name] for name in "abc"], 1)
    fitted = dgpbench.load(run)
    by_name = fitted.predict(pd.DataFrame({name: new[name] for name in ("c", "y", "a", "b")}))
    np.testing.assert_array_equal(by_name.mean, fitted.predict(X).mean)


def test_the_plan_lists_every_column_and_the_key_has_the_recipe(rents, capsys):
    from dgpbench.config.keys import run_key, settings

    words = ["dataset=csv", "dataset.path=rents.csv", "dataset.target=rent", "model=linear"]
    assert cli.main(["run", *words, "dataset.prepare=auto", "--force"]) == 0
    plan = capsys.readouterr().err
    for text in ("flat: dropped", "town: one-hot, 3 categories", "rooms: number; missing values become"):
        assert f"prepare   {text}" in plan
    config = rents.config
    assert settings(config)["dataset.prepare"] == "auto"
    assert rents.key == run_key(config, rents.record["data_hash"])
    without = config | {"dataset": config["dataset"] | {"prepare": "none"}}
    older = config | {"dataset": {k: v for k, v in config["dataset"].items() if k != "prepare"}}
    assert run_key(without, "0" * 64) == run_key(older, "0" * 64) != run_key(config, "0" * 64)
