"""The same table in every format, and OpenML's caches as scikit-learn itself reads them."""

import gzip
import hashlib
import json

import numpy as np
import pandas as pd
import pytest

import dgpbench
from dgpbench.config import compose
from dgpbench.data import load_split
from dgpbench.data.readers import file_table as tables
from dgpbench.data.readers.file_table import read_table
from dgpbench.data.readers.openml import cached
from dgpbench.errors import UserError

N = 40


def frame() -> pd.DataFrame:
    """Columns of each kind, with missing values in all inputs, and texts with quotes and delimiters."""
    rng = np.random.RandomState(1)
    area = [1234.5 if i == 3 else None if i == 7 else round(v, 2) for i, v in enumerate(rng.rand(N) * 99)]
    days = pd.Timestamp("2020-01-31 06:30") + pd.to_timedelta(np.arange(N), "D")
    town = np.array(["Köln", "Ulm, Neu", 'it\'s; 50% "up"', None], dtype=object)[rng.randint(0, 4, N)]
    return pd.DataFrame(
        {
            "area": area,
            "rooms": pd.array([None if i == 5 else i % 6 for i in range(N)], dtype="Int64"),
            "town": town,
            "sold": days.where(np.arange(N) != 2),
            "garden": pd.array([None if i == 4 else bool(i % 3) for i in range(N)], dtype="boolean"),
            "price": np.round(rng.randn(N) * 100, 3),
        }
    )  # fmt: skip


def arff(data: pd.DataFrame) -> str:
    towns = sorted({t for t in data["town"] if t is not None})
    quoted = {t: "'" + t.replace("'", "\\'") + "'" for t in towns}
    head = ["% a comment", "@RELATION houses", "@ATTRIBUTE area NUMERIC", "@attribute rooms integer"]
    head += [f"@attribute town {{{','.join(quoted.values())}}}", "@attribute 'sold' string"]
    head += ["@attribute garden {true,false}", '@attribute "price" real', "", "@DATA"]
    lines = []
    for _, row in data.iterrows():
        cells = [
            *("?" if pd.isna(row[c]) else repr(float(row[c])) for c in ("area", "rooms")),
            "?" if row["town"] is None else quoted[row["town"]],
            "?" if pd.isna(row["sold"]) else f"'{row['sold']}'",
            "?" if pd.isna(row["garden"]) else str(row["garden"]).lower(),
            repr(float(row["price"])),
        ]
        lines.append(", ".join(cells))
    return "\n".join([*head, *lines, "% the end", ""])


def german(data: pd.DataFrame) -> str:
    """Decimal commas, thousands with points, currency, days first."""

    def number(value, digits):
        return "" if pd.isna(value) else f"{value:,.{digits}f}".translate(str.maketrans(",.", ".,"))

    text = data.assign(
        area=[number(v, 2) for v in data["area"]],
        price=[number(v, 3) + " €" for v in data["price"]],
        sold=data["sold"].dt.strftime("%d.%m.%Y %H:%M"),
        garden=data["garden"].map({True: "yes", False: "no"}),
    )
    return text.to_csv(index=False, sep=";")


def written(folder) -> dict:
    """Files of the table by name."""
    data = frame()
    data.to_csv(folder / "a.csv", index=False)
    data.to_csv(folder / "a.csv.gz", index=False)
    data.to_csv(folder / "a.tsv", index=False, sep="\t", na_rep="NA")
    data.to_csv(folder / "pipe.txt", index=False, sep="|")
    data.to_csv(folder / "bom.csv", index=False, encoding="utf-8-sig")
    data.to_csv(folder / "latin.csv", index=False, encoding="latin-1")
    data.to_csv(folder / "utf16.csv", index=False, encoding="utf-16")
    (folder / "german.csv").write_text(german(data), encoding="utf-8")
    data.to_parquet(folder / "a.parquet")
    data.set_index("area").reset_index().to_feather(folder / "a.feather", compression="zstd")
    data.to_excel(folder / "a.xlsx", index=False)
    (folder / "a.arff").write_text(arff(data), encoding="utf-8")
    return {path.name: path for path in sorted(folder.iterdir())}


def split_of(path, folder, *more):
    quoted = f"'{path}'"
    words = ["dataset=csv", f"dataset.path={quoted}", "dataset.target=price", "dataset.prepare=auto"]
    return load_split(compose([*words, f"paths.datasets='{folder / 'datasets'}'", "split=2", *more]))


def test_each_format_gives_the_same_arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = tmp_path / "files"
    files.mkdir()
    found = {name: split_of(path, tmp_path) for name, path in written(files).items()}
    assert len(found) == 12
    run = dgpbench.run(
        "model=linear", "dataset.target=price", "dataset.prepare=auto", "split=2", data=frame()
    )
    found["DataFrame"] = load_split(run.config)
    expected = found["a.csv"]
    assert expected.dim == 16 and expected.recipe.names[:4] == [
        "area",
        "area missing",
        "rooms",
        "rooms missing",
    ]
    assert expected.X[3, 0] == 1234.5
    for name, split in found.items():
        assert split.recipe.names == expected.recipe.names, name
        assert split.X.tobytes() == expected.X.tobytes(), name
        assert split.Y.tobytes() == expected.Y.tobytes(), name
    same = {name: split.data_hash for name, split in found.items()}
    assert same["a.csv"] == same["a.xlsx"] == same["a.parquet"] == same["DataFrame"] == same["german.csv"]
    assert any("was read as Latin-1" in note for note in found["latin.csv"].recipe.notes)


def test_numbers_of_a_sheet_need_no_preparation_and_equal_those_of_csv(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.RandomState(0)
    data = pd.DataFrame(np.round(rng.randn(30, 3), 4), columns=["a", "b", "y"])
    data["a"] = np.arange(30) % 2 == 0
    for name, write in (("a.xlsx", data.to_excel), ("a.feather", None), ("a.csv", data.astype(float).to_csv)):
        data.to_feather(name) if write is None else write(name, index=False)
        cfg = compose(["dataset=csv", f"dataset.path={name}", "dataset.target=y"])
        split = load_split(cfg)
        np.testing.assert_array_equal(split.X, data[["a", "b"]].astype(float))
        assert split.recipe is None
    data.loc[4, "b"] = None
    data.to_excel("a.xlsx", index=False)
    with pytest.raises(UserError, match="'b' has 1 missing value; add dataset.prepare=auto"):
        load_split(compose(["dataset=csv", "dataset.path=a.xlsx", "dataset.target=y"]))


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", "a,b\n1,2\n3\n", "line 3: 1 columns where 2 are expected"),
        ("a.csv", "\n \n", "only blank lines"),
        ("a.xlsx", "no zip", "damaged file"),
        ("a.xls", "no sheet", "damaged file"),
        ("a.parquet", "no", "not a Parquet file"),
        ("a.feather", "no", "not a Feather file"),
        ("a.ods", "x", "OpenDocument sheet; save it as .xlsx or .csv"),
        ("a.arff", "@relation a\n@attribute a numeric\n1\n", "no @data line"),
        ("a.arff", "@attribute a\n@data\n1\n", "write @attribute NAME TYPE"),
        ("a.arff", "@attribute a real\n@attribute b real\n@data\n{0 1}\n", "line 4: sparse ARFF"),
        ("a.arff", "@attribute a real\n@attribute b real\n@data\n1,2\n1,2,3\n", "line 5: 3 columns where 2"),
        ("a.arff", "@attribute a real\n@attribute b real\n@data\n1,'2\n", "line 4: cannot read"),
        ("a.arff", "@attribute a real\n@attribute b real\n@data\n1,\n", None),
    ],
)
def test_damaged_files_are_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    if message is None:
        assert read_table(tmp_path / name).frame.shape == (1, 2)
        return
    with pytest.raises(UserError, match=message) as caught:
        read_table(tmp_path / name)
    assert name in str(caught.value) and "\n" not in str(caught.value)


def test_tables_too_large_for_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_CELLS", 100)
    data = pd.DataFrame({"a": range(60), "b": range(60)})
    for name, write in (("a.csv", data.to_csv), ("a.xlsx", data.to_excel), ("a.parquet", data.to_parquet),
                        ("a.feather", data.to_feather)):  # fmt: skip
        write(tmp_path / name)
        with pytest.raises(UserError, match="more than 100 cells"):
            read_table(tmp_path / name)


@pytest.mark.parametrize(
    "text, named, columns",
    [
        ("a,b\n1,2\n", True, ["a", "b"]),
        ("1,2\n3,4\n", False, ["column 0", "column 1"]),
        ("town,2019,2020\nUlm,1,2\nBonn,3,4\n", False, ["column 0", "column 1", "column 2"]),
        ("Ulm,1,2\nBonn,3,4\n", False, ["column 0", "column 1", "column 2"]),
        ('"price, in EUR";"a, b, c"\n1;2\n', True, ["price, in EUR", "a, b, c"]),
        ("1,5;2,5\n3,5;4,5\n", False, ["column 0", "column 1"]),
        ("a b\n1 2\n", True, ["a", "b"]),
        ('a,b\n"two\nlines",2\n', True, ["a", "b"]),
        ("id,x,x,\n1,2,3,4\n", True, ["id", "x", "x (2)", "column 3"]),
    ],
)
def test_delimiters_and_headers(tmp_path, text, named, columns):
    (tmp_path / "a.csv").write_text(text)
    found = read_table(tmp_path / "a.csv")
    assert found.named is named and list(found.frame.columns) == columns
    assert len(found.frame) == text.count("\n") - named - text.count("two\n")
    if text.startswith("town"):
        assert list(read_table(tmp_path / "a.csv", wanted=["2020"]).frame.columns) == ["town", "2019", "2020"]


def sklearn_cache(home, number=9, target="price", content=None):
    """Files as fetch_openml leaves them behind."""
    content = (content or arff(frame())).encode()
    root = home / "openml" / "openml.org"
    kinds = {"area": "numeric", "rooms": "numeric", "town": "nominal", "sold": "string", "garden": "nominal"}
    features = [
        {"index": str(i), "name": name, "data_type": kind, "is_target": str(name == target).lower(),
         "is_ignore": str(name == "rooms").lower(), "is_row_identifier": "false",
         "number_of_missing_values": "0"}
        for i, (name, kind) in enumerate([*kinds.items(), ("price", "numeric")])
    ]  # fmt: skip
    description = {
        "id": str(number), "name": "houses", "version": "1", "format": "ARFF", "status": "active",
        "description": "Houses.",
        "file_id": "77", "url": "https://api.openml.org/data/v1/download/77/houses.arff",
        "default_target_attribute": target, "ignore_attribute": "rooms",
        "md5_checksum": hashlib.md5(content).hexdigest(),
    }  # fmt: skip
    files = {
        f"api/v1/json/data/{number}": json.dumps({"data_set_description": description}).encode(),
        f"api/v1/json/data/features/{number}": json.dumps({"data_features": {"feature": features}}).encode(),
        f"api/v1/json/data/qualities/{number}": json.dumps({"data_qualities": {"quality": []}}).encode(),
        "data/v1/download/77/houses.arff": content,
    }
    for name, text in files.items():
        path = root / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text))
    return root / "data/v1/download/77/houses.arff.gz"


@pytest.fixture
def homes(tmp_path, monkeypatch):
    """Folders of both caches, empty."""
    monkeypatch.chdir(tmp_path)
    for name in ("SCIKIT_LEARN_DATA", "OPENML_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path / "SCIKIT_LEARN_DATA", tmp_path / "OPENML_CACHE_DIR"


def openml_split(number=9, *more):
    return load_split(compose(["dataset=openml", f"dataset.id={number}", *more]))


def test_the_cache_of_scikit_learn(homes):
    from sklearn.datasets import fetch_openml

    sklearn_cache(homes[0])
    theirs = fetch_openml(data_id=9, data_home=homes[0], parser="liac-arff", as_frame=True)  # no network
    split = openml_split()
    assert list(theirs.data.columns) == ["area", "town", "sold", "garden"]
    assert [c.name for c in split.recipe.columns] == list(theirs.data.columns)
    np.testing.assert_array_equal(split.Y[:, 0], theirs.target)
    area = np.where(theirs.data["area"].isna(), split.recipe.columns[0].fill, theirs.data["area"])
    np.testing.assert_array_equal(split.X[:, 0], area)
    names = split.recipe.names
    for town in theirs.data["town"].dropna().unique():
        np.testing.assert_array_equal(split.X[:, names.index(f"town={town}")], theirs.data["town"] == town)


def test_a_nominal_target_is_classes(homes):
    from dgpbench.store.differences import command, dataset_label

    sklearn_cache(homes[0], target="garden")
    cfg = compose(["dataset=openml", "dataset.id=9"])
    assert cfg["dataset"]["task"] == "binary" and load_split(cfg).classes == ("false", "true")
    run = dgpbench.run("dataset=openml", "dataset.id=9", "model=logistic")
    assert dataset_label(run.record.config) == "openml 9" and "dataset.id=9" in command(run.record)


@pytest.mark.parametrize("data", ["dataset.arff", "dataset_9.pq"])
def test_the_cache_of_openml_python(homes, data):
    folder = homes[1] / "org" / "openml" / "www" / "datasets" / "9"
    folder.mkdir(parents=True)
    content = arff(frame()).encode()
    folder.joinpath("description.xml").write_text(
        '<oml:data_set_description xmlns:oml="http://openml.org/openml">\n<oml:id>9</oml:id>'
        "<oml:format>ARFF</oml:format><oml:default_target_attribute>price</oml:default_target_attribute>"
        "<oml:ignore_attribute>rooms</oml:ignore_attribute><oml:ignore_attribute>sold</oml:ignore_attribute>"
        f"<oml:md5_checksum>{hashlib.md5(content).hexdigest()}</oml:md5_checksum>"
        "</oml:data_set_description>"
    )
    (folder / "dataset.pkl.py3").write_bytes(b"never read")
    if data.endswith("arff"):
        (folder / data).write_bytes(content)
    else:
        frame().to_parquet(folder / "x.parquet")
        (folder / "x.parquet").rename(folder / data)
    split = openml_split()
    sklearn_cache(homes[0])
    assert [c.name for c in split.recipe.columns] == ["area", "town", "garden"]
    np.testing.assert_array_equal(split.X, openml_split(9, "dataset.drop=[sold]").X)


def test_openml_datasets_that_cannot_be_had(homes):
    with pytest.raises(UserError, match="not in a local cache.*fetch_openml.data_id=9"):
        openml_split()
    for number in (0, "abc", "null"):
        with pytest.raises(UserError, match="dataset.id=.* is not allowed"):
            openml_split(number)
    data = sklearn_cache(homes[0])
    data.write_bytes(gzip.compress(arff(frame()).encode() + b"% more\n"))
    with pytest.raises(UserError, match="is not the file of OpenML dataset 9 .MD5."):
        cached(9)
    data.unlink()
    with pytest.raises(UserError, match="cached without its data"):
        cached(9)
    description = homes[0] / "openml/openml.org/api/v1/json/data/9.gz"
    for content in (b"x", b"[]", b'{"data_set_description": {"url": "https://a/../../../etc/passwd"}}'):
        description.write_bytes(gzip.compress(content))
        with pytest.raises(UserError, match="is not the description of OpenML dataset 9"):
            cached(9)
