"""dataset.prepare=auto: messy tables against a matrix worked out by hand and scikit-learn."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dgpbench.config import compose
from dgpbench.data import load_split
from dgpbench.data.prepare import Recipe, fit
from dgpbench.data.readers.column_types import parse_day, parse_number, read_columns, unique_names
from dgpbench.data.readers.file_table import read_table
from dgpbench.data.readers.user_file import read_prepared
from dgpbench.errors import UserError

MESSY = """\
id,town, area ,sold,garden,kind,copy,note,price
a1,Ulm,"1,200",2020-01-01,yes,x,"1,200",,"$1,000"
a2,Bonn,NA,2020-07-02,no,x,NA,,2000
a3, Ulm ,80.5,?,no,x,80.5,-,3000.5
a4,Köln,100,2019-12-31T12:00,,x,100,,4000
a5,,100,2020-01-01,yes,x,100,,
a6,Bonn,40,2020-01-01,yes,x,40,,5000
a7,Bonn,90.25,2020-01-01,,x,90.25,,7000
a8,Ulm,60,2020-01-01,no,x,60,,6000
"""


def table(columns) -> dict:
    return {c.name: c.texts() if c.kind == "text" else c.values for c in columns}


@pytest.fixture
def split(config, tmp_path):
    """split(text, ...) -> the Split of a file under prepare=auto; by default its first six rows train."""

    def make(content, name="my.csv", train_rows=6, index=0, **settings):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        dataset = {"name": "csv", "path": str(path), "prepare": "auto", "train_rows": train_rows, **settings}
        return load_split(config(dataset, index))

    return make


def test_a_messy_file_becomes_the_matrix_worked_out_by_hand(split):
    found = split(MESSY, target="price")
    assert found.recipe.names == [
        *("town=Bonn", "town=Köln", "town=Ulm", "area", "area missing"),
        *("sold", "sold year sin", "sold year cos", "sold week sin", "sold week cos"),
        *("sold day sin", "sold day cos", "sold missing", "garden", "garden missing"),
    ]
    # Row a5 has no price and is dropped. Training rows are a1 to a4, a6 and a7. Medians: area of 1200, 80.5,
    # 100, 40 and 90.25 is 90.25; days of 18262, 18445, 18261.5, 18262 and 18262 are 18262 in the middle;
    # garden of 1, 0, 0 and 1 is 0.5. 2020-01-01 was a Wednesday and 2020-07-02 a Thursday, day 183 of 366.
    # 2019-12-31 at noon is 364.5 of 365 days, 1.5 of 7 days and half a day.

    def waves(*phases):
        return [f(2 * np.pi * p) for p in phases for f in (np.sin, np.cos)]

    first, second = waves(0, 2 / 7, 0), waves(0.5, 3 / 7, 0)
    noon = waves(364.5 / 365, 1.5 / 7, 0.5)
    expected = [
        [0, 0, 1, 1200, 0, 18262, *first, 0, 1, 0],
        [1, 0, 0, 90.25, 1, 18445, *second, 0, 0, 0],
        [0, 0, 1, 80.5, 0, 18262, *first, 1, 0, 0],
        [0, 1, 0, 100, 0, 18261.5, *noon, 0, 0.5, 1],
        [1, 0, 0, 40, 0, 18262, *first, 0, 1, 0],
        [1, 0, 0, 90.25, 0, 18262, *first, 0, 0.5, 1],
        [0, 0, 1, 60, 0, 18262, *first, 0, 0, 0],
    ]
    np.testing.assert_allclose(found.X, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.Y[:, 0], [1000, 2000, 3000.5, 4000, 5000, 7000, 6000])
    mean, std = np.mean(expected[:6], 0), np.std(expected[:6], 0)
    np.testing.assert_allclose(found.X_test[0], (np.array(expected[6]) - mean) / std, rtol=1e-9, atol=1e-9)
    lines = "\n".join(found.recipe.lines())
    assert "dropped 1 row of 8 without a target" in lines
    assert "id: dropped: 6 different texts in 6 training rows" in lines
    assert "kind: dropped: it has one value only" in lines and "copy: dropped: the same as area" in lines
    assert "note: dropped: it has no values" in lines and "area: number; missing values become 90.25" in lines


def random_table(n=120, seed=0) -> pd.DataFrame:
    rng = np.random.RandomState(seed)
    frame = pd.DataFrame(
        {
            "a": np.round(rng.randn(n), 3),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], n),
            "street": rng.choice([f"street {i}" for i in range(30)], n),
            "day": pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.randint(0, 900, n), "D"),
            "open": rng.choice(["yes", "no"], n),
            "y": rng.randn(n),
        }
    )
    for name in ("a", "town", "street", "day", "open"):
        frame[name] = frame[name].astype(object).where(rng.rand(n) > 0.15, None)
    return frame


def test_scikit_learn_fitted_on_the_training_rows_gives_the_same(split):
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

    frame = random_table()
    found = split(frame.to_csv(index=False), train_rows=None, index=3, target="y")
    X = dict(zip(found.recipe.names, found.X.T, strict=True))
    train = found.rows_train
    number = frame[["a"]].astype(float)
    imputed = SimpleImputer(strategy="median", add_indicator=True).fit(number.iloc[train]).transform(number)
    np.testing.assert_array_equal(np.stack([X["a"], X["a missing"]], 1), imputed)
    towns = frame[["town"]].fillna("")
    hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(towns.iloc[train]).transform(towns)
    columns = [X[f"town={name}"] for name in ("missing", "Bonn", "Kiel", "Ulm")]
    np.testing.assert_array_equal(np.stack(columns, 1), hot)
    streets = frame["street"].to_numpy()
    known = sorted({s for s in streets[train] if s is not None})
    encoder = OrdinalEncoder(categories=[known], handle_unknown="use_encoded_value", unknown_value=np.nan)
    codes = encoder.fit([[known[0]]]).transform(frame[["street"]].fillna("").to_numpy())
    filled = np.where(np.isnan(codes), np.nanmedian(codes[train]), codes)
    np.testing.assert_array_equal(X["street"], filled[:, 0])
    np.testing.assert_array_equal(X["street missing"], np.isnan(codes[:, 0]))


def test_values_of_test_rows_change_nothing_in_training(split):
    frame = random_table()
    first = split(frame.to_csv(index=False), train_rows=80, target="y")
    other = frame.copy()
    other.loc[80:, "a"] = [1e6, None] * 20
    other.loc[80:, "town"] = ["Rome", None, "Ulm", "Paris"] * 10
    other.loc[80:, "street"] = [f"new {i}" for i in range(40)]
    other.loc[80:, "day"] = pd.Timestamp("1999-01-01 13:00")
    other.loc[80:, "open"] = "yes"
    second = split(other.to_csv(index=False), train_rows=80, target="y")
    assert first.data_hash != second.data_hash
    assert first.recipe == second.recipe
    assert first.X_train.tobytes() == second.X_train.tobytes()
    assert first.x_mean.tobytes() == second.x_mean.tobytes()
    assert not np.array_equal(first.X_test, second.X_test)
    row = dict(zip(second.recipe.names, second.X[80], strict=True))
    assert row["a"] == 1e6 and {row[f"town={t}"] for t in ("Bonn", "Kiel", "Ulm", "missing")} == {0.0}


def test_equal_columns_are_found_by_training_rows_alone():
    frame = pd.DataFrame({"a": list("uvuvuvxx"), "b": list("uvuvuvwy"), "n": [1, 2, 3, 4, 5, 6, 7, 8]})
    train = np.arange(6)
    uses = [column.use for column in fit(read_columns(frame), train).columns]
    assert uses == ["one_hot", "dropped", "number"]
    assert [column.use for column in fit(read_columns(frame), np.arange(8)).columns][:2] == ["one_hot"] * 2


def test_validation_rows_do_not_enter_the_recipe(config, tmp_path):
    frame = random_table()
    frame.to_csv(tmp_path / "a.csv", index=False)
    cfg = config({"name": "csv", "path": str(tmp_path / "a.csv"), "prepare": "auto"}, validation=0.2)
    found = load_split(cfg)
    values = frame["a"].astype(float).to_numpy()
    fill = {column.name: column.fill for column in found.recipe.columns}["a"]
    assert fill == np.nanmedian(values[found.rows_train])
    assert len(found.rows_valid) == 22
    both = np.concatenate([found.rows_train, found.rows_valid])
    assert fill != np.nanmedian(values[both])  # so that the test can tell them apart


@pytest.mark.parametrize("name", ["my.csv", "my.xlsx", "my.parquet"])
def test_new_rows_are_prepared_bit_for_bit_as_the_training_rows(split, tmp_path, name):
    frame = random_table()
    if name == "my.csv":
        found = split(frame.to_csv(index=False), target="y")
    else:
        content = tmp_path / f"made-{name}"
        frame["a"], frame["day"] = frame["a"].astype(float), pd.to_datetime(frame["day"])
        frame.to_excel(content, index=False) if name == "my.xlsx" else frame.to_parquet(content)
        found = split(content.read_bytes(), name, target="y")
    recipe = Recipe.from_document(json.loads(json.dumps(found.recipe.document())))
    assert recipe == found.recipe
    X, notes = read_prepared(tmp_path / name, recipe)
    assert X.tobytes() == np.ascontiguousarray(found.X).tobytes()
    shuffled = read_table(tmp_path / name).frame[["y", "open", "town", "day", "street", "a"]].iloc[::-1]
    assert recipe.apply(shuffled)[0].tobytes() == np.ascontiguousarray(found.X[::-1]).tobytes()


def test_new_categories_missing_values_and_columns_are_told(split, tmp_path):
    frame = random_table()
    frame["a"] = np.arange(120) % 7 + 0.5  # never missing
    recipe = split(frame.to_csv(index=False), train_rows=100, target="y").recipe
    new = pd.DataFrame(
        {"a": ["x", "2.5"], "town": ["Rome", "Ulm"], "day": ["?", "2022-01-01"],
             "street": [None, frame["street"][:9].dropna().iloc[0]],
         "open": ["maybe", "no"], "other": [1, 2]}
    )  # fmt: skip
    X, notes = recipe.apply(new)
    row = dict(zip(recipe.names, X[0], strict=True))
    assert row["a"] == 3.5 and row["open missing"] == row["day missing"] == row["street missing"] == 1.0
    assert not any(row[f"town={t}"] for t in ("Ulm", "Bonn", "Kiel", "missing"))
    assert len(notes) == 2
    assert any("a: 1 of 2 rows are missing or no number; they become 3.5" in note for note in notes)
    assert any("town: 1 of 2 rows have a category that no training row has" in note for note in notes)
    with pytest.raises(UserError, match="no column 'town', an input of this run"):
        recipe.apply(new.drop(columns="town"))


def test_stored_recipes_that_do_not_fit_are_refused(split):
    good = split(random_table().to_csv(index=False), target="y", train_rows=100).recipe.document()
    assert Recipe.from_document(good)

    def broken(i, **change):
        columns = [dict(c) for c in good["columns"]]
        columns[i] |= change
        return good | {"columns": columns}

    names = [column["name"] for column in good["columns"]]
    a, town, street, day = (names.index(name) for name in ("a", "town", "street", "day"))
    bad = [
        None, [], {}, good | {"version": 2}, good | {"version": True}, good | {"columns": []},
        good | {"more": 1}, good | {"notes": [1]}, good | {"columns": good["columns"] * 2},
        broken(a, fill=None), broken(a, fill="0"), broken(a, fill=float("nan")), broken(a, use="date"),
        broken(a, use="exec"), broken(a, kind="object"), broken(a, style="dmy"), broken(a, indicator=1),
        broken(a, categories=["x"]), broken(a, cycles=["year"]), broken(a, name=3),
        broken(a, name="x" * 2000),
        broken(a, extra=1), broken(town, categories=[]), broken(town, categories=["b", "a"]),
        broken(town, categories=["a", "a"]), broken(town, categories=[1, 2]), broken(town, use="number"),
        broken(town, categories=[f"{i:03}" for i in range(21)]), broken(street, fill=1e9),
        broken(street, fill=0.3), broken(street, fill=-1.0), broken(day, cycles=["hour"]),
        broken(day, cycles=["week", "year"]),
        {"version": 1, "columns": [{"name": "a", "kind": "text", "use": "dropped"}], "notes": []},
    ]  # fmt: skip
    for document in bad:
        with pytest.raises((ValueError, TypeError)):
            Recipe.from_document(document)


@pytest.mark.parametrize(
    "text, point, comma",
    [
        ("1234.5", 1234.5, None), ("1,234", 1234, 1.234), ("1.234", 1.234, 1234),
        ("1,234,567.8", 1234567.8, None),
        ("1.234.567,8", None, 1234567.8), ("0,125", None, 0.125), ("-$1,234.50", -1234.5, None),
        ("€ 5", 5, 5), ("1.234,56 €", None, 1234.56), ("12 %", 12, 12), ("1 234,5", None, 1234.5),
        ("1'234.5", 1234.5, None), ("1\u202f234\xa0567", 1234567, 1234567), ("−3", -3, -3),
        ("1e-3", 1e-3, 1e-3),
        (".5", 0.5, None), ("1_000", None, None), ("12 rooms", None, None),
        ("inf", None, None), ("1e999", None, None),
        ("", None, None), ("1,23,456", None, None), ("--5", None, None), ("0x10", None, None),
        ("5 USD", 5, 5),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(text, point, comma):
    for style, expected in (("point", point), ("comma", comma)):
        found = parse_number(text, style)
        assert np.isnan(found) if expected is None else found == expected


@pytest.mark.parametrize(
    "text, order, expected",
    [
        ("1970-01-01", "dmy", 0), ("2020-01-31", "mdy", 18292), ("2020/01/31", "dmy", 18292),
        ("2020-01-31T06:00:00Z", "dmy", 18292.25), ("2020-01-31 06:00+06:00", "dmy", 18292),
        ("31.01.2020", "dmy", 18292), ("31/1/20", "dmy", 18292), ("1/31/2020", "mdy", 18292),
        ("1/31/2020", "dmy", None), ("1/31/2020 6:00 PM", "mdy", 18292.75), ("12/31/69", "mdy", 36524),
        ("12/31/70", "mdy", 364), ("31 Jan 2020", "dmy", 18292), ("January 31, 2020", "dmy", 18292),
        ("31-Jan-2020", "dmy", 18292), ("2020-02-30", "dmy", None), ("2020-01-31 25:00", "dmy", None),
        ("31-Foo-2020", "dmy", None), ("20200131", "dmy", None), ("1960-01-01", "dmy", -3653),
    ],
)  # fmt: skip
def test_dates_as_people_write_them(text, order, expected):
    found = parse_day(text, order)
    assert np.isnan(found) if expected is None else found == expected


def kinds(delimiter=",", **columns):
    return {c.name: c for c in read_columns(pd.DataFrame(columns, dtype=object), delimiter)}


def test_the_way_of_writing_is_that_of_the_whole_column_and_file():
    found = kinds(a=["1,234", "2,345"] * 3, b=["1.5", "2.25"] * 3)
    assert found["a"].style == "point" and found["a"].values[0] == 1234
    found = kinds(";", a=["1,234", "2,345"] * 3, b=["1,5", "12,25"] * 3)
    assert found["a"].style == "comma" and found["a"].values[0] == 1.234
    found = kinds(";", a=["1.234", "2.345"] * 3, b=["x", "y"] * 3)
    assert found["a"].values[0] == 1.234 and "read as 1.234" in found["a"].note
    found = kinds(";", a=["1.234", "2.345"] * 3, b=["0,5", "1,5"] * 3)
    assert found["a"].values[0] == 1234
    found = kinds(a=["5"] * 97 + ["1,5"] * 3)  # a few decimals decide
    assert found["a"].style == "comma" and found["a"].values[-1] == 1.5
    found = kinds(a=[1.234, "n/a", "x", *[2.345] * 20], b=["0,5"] * 23)  # a sheet's number is no text
    assert found["a"].values[0] == 1.234 and found["a"].missing == 2 and "e.g. 'x'" in found["a"].note


def test_kinds_of_columns():
    found = kinds(
        d=["31/12/2020", "01/02/2020"] * 5, m=["12/31/2020", "01/02/2020"] * 5, o=["01/02/2020"] * 10,
        s=["Yes", "no"] * 5, one=["yes"] * 10, t=["a", "?"] * 5, n=["1", "NULL"] * 5, mix=["1", "a"] * 5,
    )  # fmt: skip
    assert [found[c].kind for c in ("d", "m", "o", "s", "one", "t", "n", "mix")] == [
        *("date", "date", "date", "switch", "text", "text", "number", "text")
    ]
    assert found["d"].style == "dmy" and found["m"].style == "mdy"
    assert found["m"].values[1] == found["d"].values[1] - 30  # 2 January, 1 February
    assert "month/day/year fits too" in found["o"].note and not found["d"].note
    assert found["t"].levels == ("a",) and found["t"].missing == 5
    assert unique_names(["a", "", " a", None, "a"]) == ["a", "column 1", "a (2)", "column 3", "a (3)"]


def test_limits_of_categories_are_those_of_the_training_rows():
    frame = pd.DataFrame(
        {
            "hot": [f"c{i % 20}" for i in range(1000)],
            "missing": [f"c{i % 20}" if i % 21 else None for i in range(1000)],
            "ordinal": [f"c{i % 200}" for i in range(1000)],
            "names": [f"c{i % 201}" for i in range(1000)],
            "long": ["x" * (i % 5) * 100 + "y" for i in range(1000)],
        }
    )
    recipe = fit(read_columns(frame), np.arange(1000))
    assert [c.use for c in recipe.columns] == ["one_hot", "ordinal", "ordinal", "dropped", "dropped"]
    frame["number"] = np.arange(1000)
    for rows, use in ((39, "dropped"), (40, "one_hot")):  # at most half as many categories as rows
        assert fit(read_columns(frame), np.arange(rows)).columns[0].use == use
    with pytest.raises(UserError, match="no input column is left to learn from: names dropped: 201"):
        fit(read_columns(frame[["names"]]), np.arange(1000))


def test_text_targets_are_classes_and_stray_ones_are_errors(tmp_path, paths):
    frame = random_table()
    path = tmp_path / "a.csv"
    words = [
        "dataset=csv",
        f"dataset.path={path}",
        "dataset.prepare=auto",
        f"paths.datasets={tmp_path / 'd'}",
    ]

    def task(target, *more):
        frame.to_csv(path, index=False)
        return compose([*words, f"dataset.target={target}", *more])["dataset"]["task"]

    assert task("town") == "multiclass" and task("open") == "binary" and task("a") == "regression"
    frame["k"] = np.arange(120) % 3
    assert task("k") == "regression" and task("k", "dataset.task=auto") == "multiclass"
    cfg = compose([*words, "dataset.target=town"])
    found = load_split(cfg)
    assert found.classes == ("Bonn", "Kiel", "Ulm") and len(found.X) == frame["town"].notna().sum()
    with pytest.raises(UserError, match="the target is text .Bonn, Kiel, Ulm."):
        load_split(compose([*words, "dataset.target=town", "dataset.task=regression"]))
    frame["k"] = frame["k"].astype(object).where(frame.index != 7, "lots")
    with pytest.raises(UserError, match="target 'k' has 1 value that cannot be read as numbers, e.g. 'lots'"):
        task("k")
    assert task("k", "dataset.task=multiclass") == "multiclass"


def test_rows_and_splits_are_those_of_the_file_without_rows_that_have_no_target(split):
    frame = random_table()
    frame.loc[[3, 50], "y"] = None
    found = split(frame.to_csv(index=False), train_rows=None, index=4, target="y")
    order = np.arange(118)
    np.random.RandomState(4).shuffle(order)
    np.testing.assert_array_equal(found.rows_train, order[:106])
    np.testing.assert_array_equal(found.Y[:, 0], frame["y"].dropna())


def test_settings_that_cannot_be_combined(config, split, tmp_path):
    (tmp_path / "a.csv").write_text(MESSY)
    own = {"name": "csv", "path": str(tmp_path / "a.csv"), "prepare": "auto"}
    for dataset, protocol, message in (
        (own | {"prepare": "all"}, {}, "choose none or auto"),
        (own | {"level": "kind"}, {}, "does not support dataset.level"),
        (own, {"split_rule": "extrapolate"}, "orders rows by their inputs"),
        (own, {"split_rule": "cover", "test_rows": 2}, "orders rows by their inputs"),
    ):
        with pytest.raises(UserError, match=message):
            load_split(config(dataset, **protocol))
    with pytest.raises(UserError, match="two columns are called 'y'"):
        split("x,y,y\n" + "1,2,3\n2,3,4\n" * 5, target="y")


def test_without_prepare_one_message_tells_all_problems(config, tmp_path):
    (tmp_path / "a.csv").write_text(MESSY)
    with pytest.raises(UserError) as caught:
        load_split(config({"name": "csv", "path": str(tmp_path / "a.csv"), "target": "price"}))
    text = str(caught.value)
    assert "\n" not in text and "line 2, column 1 ('id') is 'a1'" in text
    for part in (
        "'town' is text (3 different values)", "'town' has 1 missing value;", "'sold' holds dates",
        "'area' has values such as '1,200'", "the target 'price' has 1 missing value;",
        "dataset.prepare=auto",
    ):  # fmt: skip
        assert part in text


def test_names_of_prepared_inputs_are_in_the_warnings(split):
    rows = "\n".join(f"{i},{'ab'[i % 2]},{i * i % 7}" for i in range(40))
    found = split("t,c,y\n" + rows, train_rows=None)
    assert any("input 0 (t) counts the rows" in trap for trap in found.traps)
    assert replace(found, recipe=None).recipe is None
