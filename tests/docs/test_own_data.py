"""The guide docs/own-data.md: its commands run, and their numbers are right."""

import docs_page
import numpy as np
import pytest

pytestmark = pytest.mark.slow

PAGE = "own-data.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The file the page speaks of, the page's yaml, after all its commands."""
    place = tmp_path_factory.mktemp("your_dataset")
    rng = np.random.RandomState(0)
    area, rooms, age = rng.uniform(30, 200, 60), rng.randint(1, 7, 60), rng.uniform(0, 90, 60)
    price = 2.5 * area + 12.0 * rooms - 0.7 * age + 9.0 * rng.randn(60)
    table = np.column_stack([np.arange(60), area, rooms, age, price])
    header = "id,area,rooms,age,price"
    np.savetxt(place / "houses.csv", table, fmt="%.6f", delimiter=",", header=header, comments="")
    docs_page.write(PAGE, place)
    printed = [docs_page.run(arguments, place, notes=True) for arguments in docs_page.commands(PAGE)]
    assert "houses" in printed[3]
    shown = docs_page.outputs(PAGE)
    assert len(shown) == 7 and not set(shown) - set(docs_page.masked(printed[1]))
    return place


def test_both_ways_have_the_same_numbers(folder):
    by_path, _, by_name, _ = docs_page.records(folder)
    assert (by_path["dataset"], by_name["dataset"]) == ("csv", "houses")
    assert by_path["metrics"] == by_name["metrics"]
    assert by_path["data_hash"] == by_name["data_hash"] and by_path["key"] != by_name["key"]
    assert by_name["sizes"] == {"n_train": 54, "n_test": 6, "inputs": 3, "outputs": 1}


def test_the_table_that_is_prepared(folder):
    record = docs_page.records(folder)[1]
    assert record["sizes"] == {"n_train": 7, "n_test": 1, "inputs": 9, "outputs": 1}
    used = {column["name"]: column["use"] for column in record["details"]["prepare"]["columns"]}
    assert used == {
        "flat": "dropped",
        "town": "one_hot",
        "area": "number",
        "let since": "date",
        "garden": "number",
    }


def test_a_set_of_a_catalogue(folder):
    record = docs_page.records(folder)[3]
    assert record["dataset"] == "bonn" and record["sizes"]["inputs"] == 2  # area and rooms
    assert record["config"]["dataset"]["title"] == "House prices in bonn, 2002"


def test_record_equals_direct_computation(folder):
    """Ridge regression in closed form, with the record's own alpha and beta."""
    record = docs_page.records(folder)[2]
    table = np.loadtxt(folder / "houses.csv", delimiter=",", skiprows=1)[:, 1:]
    order = np.arange(60)
    np.random.RandomState(0).shuffle(order)
    train, test = order[:54], order[54:]
    mean, std = table[train].mean(0), table[train].std(0)
    scaled = (table - mean) / std
    F = np.column_stack([scaled[:, :3], np.ones(60)])
    with np.load(record["folder"] / "params.npz") as file:
        alpha, beta = file["alpha"], file["beta"]
    precision = alpha * np.eye(4) + beta * F[train].T @ F[train]
    predicted = F[test] @ np.linalg.solve(precision, beta * F[train].T @ scaled[train, 3])
    error = (predicted - scaled[test, 3]) * std[3]
    assert record["metrics"]["test_rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-9)
    assert record["metrics"]["test_rmse"] < 20.0  # the noise is 9
