"""Fuzzing: whatever the bytes, a reader answers in its own words: no traceback, no hang, no write outside.

`make test` runs a few hundred examples of each, `make test-fuzz` DGPBENCH_FUZZ times as many.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).resolve().parents[1] / "store"))
from store_units import make_record

from dgpbench.cli import main
from dgpbench.config import compose
from dgpbench.data.loader import load_split
from dgpbench.engine import checkpoint
from dgpbench.errors import UserError
from dgpbench.store.record import FIELDS, dumps
from dgpbench.store.scan import parse, scan
from dgpbench.sweep import lease
from dgpbench.sweep.plan import load_plan
from dgpbench.sweep.planner import make_plan

TIMES = int(os.environ.get("DGPBENCH_FUZZ", "1"))


def examples(number):
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    options = {"deadline": None, "suppress_health_check": quiet, "database": None, "derandomize": TIMES == 1}
    return settings(max_examples=number * TIMES, **options)


odd = st.sampled_from(["\ud800", "../x", "\x1b[2J", "=1+1", 10**30, 2**63])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | odd
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)
GOOD = make_record(training={"trace": [[1, 0.5, -1.0]], "seconds": 1.0}, notes=["a note"])
TEXT = dumps(GOOD).encode()


def broken(content: bytes):
    """A text with some bytes replaced, removed, inserted or doubled."""
    place = st.integers(0, len(content))

    def edit(start, length, new):
        return content[:start] + new + content[start + length :]

    return st.builds(edit, place, st.integers(0, 40), st.binary(max_size=12)) | st.binary(max_size=200)


@examples(400)
@given(broken(TEXT))
def test_bytes_are_a_record_or_a_value_error(content):
    try:
        assert parse(content) == GOOD  # only what is not part of the record can have changed
    except ValueError:
        pass


@pytest.mark.slow
@examples(400)
@given(st.dictionaries(st.sampled_from([*FIELDS, "colour"]), values, min_size=1, max_size=3))
def test_a_record_with_any_fields_can_be_shown_or_is_refused(tmp_path, capsys, fields):
    """Sealed by a forger. What passes the checks must pass through every view as well."""
    try:
        content = dumps({**GOOD, **fields}).encode()
        record = parse(content)
    except (ValueError, TypeError):
        return
    folder = tmp_path / "results/energy/dgp2-dsvi/clean/split0-00000000"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.json").write_bytes(content)
    assert len(scan(tmp_path / "results")) == 1
    for words in (["show"], ["show", "--each", "--format", "csv"], ["show", "--format", "markdown"]):
        assert main([*words, "--metric", "all", "--results", str(tmp_path / "results")]) == 0
    assert parse(dumps(record).encode()) == record


@pytest.mark.slow
@pytest.mark.long
@examples(200)
@given(
    st.dictionaries(st.sampled_from(["key", "host", "pid", "started", "job", "token", "progress"]), values)
)
def test_any_lease_is_one_or_none(tmp_path, fields):
    good = {"key": "0" * 64, "host": "h", "pid": 7, "started": "1", "job": None, "token": "0" * 16}
    folder = tmp_path / ".leases"
    folder.mkdir(exist_ok=True)
    path = folder / f"{'0' * 32}.json"
    path.write_text(json.dumps(good | {"progress": {}} | fields))
    before = sorted(tmp_path.parent.rglob("*"))
    for held, _ in lease.leases(tmp_path):
        assert held.describe().isprintable()
    taken = lease.take(tmp_path, "0" * 64, os.getpid())
    if taken is not None:
        lease.release(tmp_path, taken)
    assert set(tmp_path.parent.rglob("*")) <= set(before)


@pytest.fixture(scope="module")
def plan_text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    (folder / "data.csv").write_text("".join(f"{i},{i * i % 7}\n" for i in range(20)))
    words = ["dataset=csv", f"dataset.path={folder / 'data.csv'}", "model=linear", "split=0,1"]
    paths = [f"paths.results={folder / 'results'}", f"paths.datasets={folder / 'datasets'}"]
    return make_plan([*words, *paths], fetch=True, note=lambda text: None).save().read_bytes()


@examples(300)
@given(data=st.data())
def test_bytes_are_a_plan_or_one_line(tmp_path, plan_text, data):
    changed = json.loads(plan_text)
    if data.draw(st.booleans()):
        content = data.draw(broken(plan_text))
    else:
        node = changed
        for _ in range(data.draw(st.integers(0, 3))):  # somewhere inside
            inner = [k for k in (node if isinstance(node, dict) else range(len(node)))]
            inner = [k for k in inner if isinstance(node[k], (dict, list)) and node[k]]
            if not inner:
                break
            node = node[data.draw(st.sampled_from(inner))]
        names = list(node) if isinstance(node, dict) else list(range(len(node)))
        node[data.draw(st.sampled_from(names))] = data.draw(values)
        content = json.dumps(changed).encode()
    (tmp_path / "plan.json").write_bytes(content)
    try:
        plan = load_plan(tmp_path / "plan.json")
        for index in range(len(plan.units)):
            assert plan.folder(index).is_relative_to(plan.results) and plan.label(index)
    except UserError as error:
        assert "\n" not in " ".join(str(error).split())


@examples(150)
@given(data=st.data())
def test_bytes_are_a_checkpoint_or_none(tmp_path, data):
    checkpoint.save(tmp_path, "k", {"step": np.arange(3), "weights": np.ones((4, 4))})
    good = (tmp_path / checkpoint.NAME).read_bytes()
    (tmp_path / checkpoint.NAME).write_bytes(data.draw(broken(good)))
    found = checkpoint.load(tmp_path, "k")
    if found is not None and set(found) == {"step", "weights"}:
        np.testing.assert_array_equal(found["step"], np.arange(3))  # a zip file has checksums of its own
    assert checkpoint.key_of(tmp_path) in (None, "k")


cells = st.text("0123456789.,;-+eE \t\"'nax=\r\n\0é", max_size=12) | st.floats().map(str)
rows = st.lists(st.lists(cells, min_size=1, max_size=4).map(",".join), max_size=12).map("\n".join)
PROTOCOL = compose(["protocol=clean"])["protocol"]


@pytest.mark.slow
@examples(300)
@given(text=rows | st.text(max_size=200), again=st.integers(0, 6))
def test_any_text_is_a_table_or_one_line(tmp_path, text, again):
    path = tmp_path / "own.csv"
    path.write_text("\n".join([text] * (again + 1)), encoding="utf-8", errors="surrogatepass")
    paths = {"results": str(tmp_path / "results"), "datasets": str(tmp_path / "datasets"), "mirror": None}
    dataset = {"name": "csv", "path": str(path), "task": "regression"}
    try:
        split = load_split({"dataset": dataset, "protocol": PROTOCOL, "split": 0, "seed": 0, "paths": paths})
        assert np.isfinite(split.X_train).all() and np.isfinite(split.X_test).all()
        assert np.isfinite(split.Y_train).all() and np.isfinite(split.Y_test).all()
    except UserError as error:
        assert str(error)
    assert {p.name for p in tmp_path.iterdir()} <= {"own.csv", "datasets"}


FIELDS_GIVEN = ["model", "dataset", "split", "seed", "budget.steps", "model.layers", "dataset.name", "x", ""]
names = st.sampled_from(FIELDS_GIVEN)
words = st.builds("{}={}".format, names, st.text(max_size=12) | values.map(str)) | st.text(max_size=16)


@examples(25)
@given(st.lists(words, min_size=1, max_size=2))
def test_any_words_are_a_config_or_one_line(overrides):
    try:
        assert isinstance(compose(overrides), dict)
    except UserError as error:
        assert str(error)
