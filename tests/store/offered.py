"""Records as somebody may offer them: honest ones, and the keys that a careful forger would give."""

import gzip
import math

from dgpbench.config import compose
from dgpbench.config.keys import config_key, run_key
from dgpbench.store.record import build_record, dumps_line

SCALE = math.log(9.1863)  # of boston's targets


def keyed(record):
    """The same record with the keys of its config and data: what a careful forger would do."""
    cfg, data = record["config"], record["data_hash"]
    return {**record, "key": run_key(cfg, data), "config_key": config_key(cfg, data)}


def honest(split=0):
    cfg = compose(["experiment=dsvi2017_sgp", "dataset=boston", f"split={split}", "threads=1"])
    metrics = {"test_loglik": -2.4, "test_loglik_std": -2.4 + SCALE, "test_coverage95": 48 / 51}
    metrics |= {"test_loglik_kde": -2.5, "test_loglik_kde_std": -2.5 + SCALE, "test_loglik_mc_se": 0.001}
    for name, value in (("test_rmse", 2.9), ("test_crps", 1.5)):
        metrics |= {name: value, f"{name}_std": value / math.exp(SCALE)}
    metrics |= {"test_pit_ks": 0.05, "shapiro_w_median": 0.99}
    record = build_record(
        cfg,
        key="0" * 64,
        config_key="0" * 64,
        status="done",
        metrics=metrics,
        details={"pit_histogram": [6 / 51, *[5 / 51] * 9]},
        data_hash=cfg["dataset"]["data_sha256"],
        sizes={"n_train": 455, "n_test": 51, "inputs": 13, "outputs": 1},
        training={"steps": 20000, "seconds": 100.0},
        wall_seconds=120.0,
        steps_per_second=200.0,
        threads=1,
    )
    return keyed(record)


def packed(path, *records):
    path.write_bytes(gzip.compress("".join(dumps_line(record) for record in records).encode()))
    return path
