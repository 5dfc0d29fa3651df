"""Bad input for classification: one line that says what is wrong and what to do, exit code 2, no record."""

import pytest

from dgpbench.cli import main

GOOD = ["yes", "no"] * 10
BROKEN = [
    ("missing", [*GOOD[:4], "", *GOOD[5:]], "", "line 6, column 3 ('kind') has no label; every row"),
    ("one", ["yes"] * 20, "", "every row has the label yes; classification needs two classes or more"),
    ("three", ["a", "b", "c", "a"] * 5, "", "has 3 classes (a, b, c) but dataset.task=binary; set"),
    ("number", [f"{i}.25" for i in range(20)], "", "label 0.25 is not a whole number; class labels are"),
    ("rare", ["yes"] + ["no"] * 19, "dataset.train_rows=15 dataset.task=binary", None),
    ("train", ["no"] * 15 + ["yes"] * 5, "dataset.train_rows=15", "trains on class no only; take"),
    ("task", GOOD, "dataset.task=classes", "dataset.task=classes is not allowed; dataset.task must be"),
    ("linear", GOOD, "model=linear", "model linear is for regression; dataset csv is binary: use model=log"),
    ("mdn", GOOD, "model=mdn", "model mdn is for regression; dataset csv is binary: use model=logistic"),
    ("cvae", GOOD, "model=cvae_50", "model cvae_50 is for regression; dataset csv is binary"),
]


@pytest.mark.parametrize("name,labels,words,message", BROKEN, ids=[case[0] for case in BROKEN])
def test_one_clear_line(name, labels, words, message, tmp_path, capsys):
    file = tmp_path / "own.csv"
    rows = "\n".join(f"{i},{i * i % 11},{label}" for i, label in enumerate(labels))
    file.write_text(f"a,b,kind\n{rows}\n")
    data = ["dataset=csv", f"dataset.path={file}", "dataset.target=kind", "dataset.task=binary"]
    given = {word.partition("=")[0]: word for word in [*data, "model=logistic", *words.split()]}
    paths = [f"paths.results={tmp_path / 'results'}", f"paths.datasets={tmp_path / 'data'}"]
    code = main(["run", *given.values(), *paths])
    err = capsys.readouterr().err
    records = list((tmp_path / "results").rglob("record.json"))
    if message is None:
        assert code == 0 and len(records) == 1
        return
    assert code == 2 and not records and "Traceback" not in err
    (line,) = [line for line in err.splitlines() if "error:" in line]
    assert message in line, line
