"""Records: what they hold, what is refused, old schemas."""

import json

import numpy as np
import pytest
from store_units import digest, make_cfg, make_record

from dgpbench.store import record as migrate
from dgpbench.store import record as schema
from dgpbench.store.record import FIELDS, build_record, dumps, validate_record


def test_a_record_has_all_fields_and_survives_json():
    record = make_record(sizes={"n_train": np.int64(10)}, training={"trace": np.array([[1.0, np.nan]])})
    assert list(record) == list(FIELDS)
    written = json.loads(dumps(record))
    assert len(written.pop("checksum")) == 64 and written == record
    assert record["sizes"] == {"n_train": 10} and record["training"] == {"trace": [[1.0, None]]}
    assert record["dataset"] == "energy" and record["model"] == "dgp2" and record["schema"] == 2
    assert len(dumps(record).splitlines()) == len(FIELDS) + 3


def test_a_done_record_has_finite_metrics():
    with pytest.raises(ValueError, match="metric test_rmse of a done record is nan"):
        make_record(metrics={"test_rmse": float("nan")})
    diverged = make_record(status="diverged", metrics={"test_rmse": float("nan")})
    assert diverged["metrics"] == {"test_rmse": None}
    assert make_record(metrics={"test_loglik_kde": None})["metrics"] == {"test_loglik_kde": None}


@pytest.mark.parametrize(
    "change, words",
    [
        ({"status": "finished"}, "status is finished"),
        ({"key": "abc"}, "key is not 64"),
        ({"split": "0"}, "split is str"),
        ({"split": True}, "split is bool"),
        ({"config": []}, "config is list"),
        ({"schema": 3}, "schema is 3"),
        ({"colour": 1}, "unknown field colour"),
    ],
)
def test_wrong_records_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        validate_record({**make_record(), **change})


def test_missing_fields_are_named():
    record = dict(make_record())
    del record["metrics"]
    with pytest.raises(ValueError, match="metrics is missing"):
        validate_record(record)
    with pytest.raises(ValueError, match="unknown field colour"):
        build_record(make_cfg(), key=digest(1), config_key=digest(2), status="done", colour=1)


def test_old_schemas_are_migrated_step_by_step(monkeypatch):
    """A version 0 record named its metrics `scores` and had no notes."""

    def to_version_1(record):
        record["metrics"] = record.pop("scores")
        return {**record, "notes": []}

    monkeypatch.setattr(migrate, "MIGRATIONS", {0: to_version_1} | migrate.MIGRATIONS)
    now = make_record()
    kept = {k: v for k, v in now.items() if k not in ("metrics", "notes")}
    old = {**kept, "schema": 0, "scores": now["metrics"]}
    before = dict(old)
    new = migrate.migrate(old)
    validate_record(new)
    assert new == now and old == before
    assert migrate.migrate(now) == now


def test_a_record_of_version_1_lacks_what_its_evaluation_took():
    now = make_record()
    added = ("predict_seconds", "evaluate_seconds", "peak_memory_bytes")
    old = {k: v for k, v in now.items() if k not in added} | {"schema": 1}
    with pytest.raises(ValueError, match="predict_seconds is missing"):
        validate_record(old)
    new = migrate.migrate(old)
    validate_record(new)
    assert new == now and [new[name] for name in added] == [None] * 3


def test_schemas_that_cannot_be_migrated():
    with pytest.raises(ValueError, match="newer dgpbench"):
        migrate.migrate({"schema": schema.SCHEMA_VERSION + 1})
    with pytest.raises(ValueError, match="no migration"):
        migrate.migrate({"schema": -1})
    with pytest.raises(ValueError, match="schema is missing"):
        migrate.migrate({})
