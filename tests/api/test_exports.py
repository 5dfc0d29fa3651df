"""`show --export` and `merge`: records to a file and back."""

import pandas as pd
import pytest
from own_files import regression, write_csv, write_ridge

import dgpbench
from dgpbench import cli

WORDS = ("dataset=csv", "dataset.path=own.csv", "dataset.target=y")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DGPBENCH_RESULTS", "DGPBENCH_DATASETS", "DGPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    write_csv(tmp_path / "own.csv", regression())
    folders = [write_ridge(tmp_path)]
    dgpbench.run(*WORDS, "model=linear")
    dgpbench.run(*WORDS, "model=ridge", "model.penalty=2", config_dirs=folders)
    dgpbench.run(*WORDS, "model=ridge", "model.penalty=13", config_dirs=folders, check=False)
    return tmp_path


@pytest.mark.parametrize("name", ["shared.parquet", "deep/shared.jsonl.gz"])
def test_what_is_exported_is_taken_in_elsewhere(place, capsys, name):
    assert cli.main(["show", "--export", name]) == 0
    capsys.readouterr()
    assert cli.main(["merge", name, "--results", "elsewhere"]) == 0
    assert capsys.readouterr().out == "3 taken in\n"
    ours = dgpbench.results().sort_values("key").reset_index(drop=True)
    theirs = dgpbench.results(folder="elsewhere").sort_values("key").reset_index(drop=True)
    pd.testing.assert_frame_equal(ours.drop(columns="path"), theirs.drop(columns="path"))
    assert cli.main(["merge", name, "--results", "elsewhere"]) == 0
    assert capsys.readouterr().out in ("3 here already\n", "2 here already, 1 taken in\n")


def test_a_parquet_export_reads_as_a_table(place):
    assert cli.main(["show", "model=ridge", "--export", "shared.parquet"]) == 0
    table = pd.read_parquet("shared.parquet")
    assert sorted(table["model.penalty"]) == [2, 13] and table.test_loglik.notna().sum() == 1
    assert str(place) not in table.to_csv()


@pytest.mark.parametrize(
    "words, text",
    [
        (["show", "--export", "x.csv"], "give a name that ends in .jsonl.gz or .parquet"),
        (["show", "--export", "folder.parquet"], "a folder; give a file in it"),
        (["show", "--export", "own.csv/x.parquet"], "cannot export to"),
        (["show", "--export", "/proc/x/y.parquet"], "cannot export to"),
        (["merge", "own.csv"], "is no export"),
        (["merge", "bad.parquet"], "was not written by `show --export`, or is damaged"),
        (["merge", "other.parquet"], "was not written by `show --export`, or is damaged"),
    ],
)
def test_bad_places_and_files_are_one_line(place, capsys, words, text):
    (place / "folder.parquet").mkdir()
    (place / "bad.parquet").write_text("x")
    pd.DataFrame({"record": ["{}"]}).to_parquet("other.parquet")
    assert cli.main(words) == 2
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1 and text in error[0]
