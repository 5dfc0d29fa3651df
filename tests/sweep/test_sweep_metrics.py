"""The metrics that end a sweep: means of what is done, as `show` prints them."""

from dgpbench.config import compose, config_key, run_key
from dgpbench.store.record import build_record
from dgpbench.store.write import write_unit
from dgpbench.sweep.state import State
from dgpbench.sweep.status_table import done_units, print_metrics

HASH = "cd" * 32


def states(folder, values) -> dict[int, State]:
    cfg = compose(["model=sgp", "dataset=energy", "budget.steps=30"])
    found = {}
    for split, value in enumerate(values):
        unit = cfg | {"split": split}
        made = build_record(
            unit,
            key=run_key(unit, HASH),
            config_key=config_key(unit, HASH),
            status="done",
            data_hash=HASH,
            metrics={"test_loglik": value, "test_rmse": 2.0},
            training={"seconds": 3.0},
            wall_seconds=5.0,
        )
        found[split] = State("done", folder=write_unit(folder, made).folder)
    return found


def test_means_over_splits_with_seconds(tmp_path, capsys):
    found = states(tmp_path, [-1.0, -1.2]) | {7: State("failed", "no luck"), 8: State("missing")}
    print_metrics(found)
    blank, head, line = capsys.readouterr().out.splitlines()
    assert blank == "" and head.split()[-2:] == ["train_seconds", "seconds"]
    expected = [
        "energy",
        "sgp",
        "standard",
        "clean",
        "budget.steps=30",
        "2",
        "-1.1",
        "(0.1)",
        "2",
        "(0)",
        "3",
        "5",
    ]
    assert line.split() == expected


def test_nothing_done_prints_nothing(tmp_path, capsys):
    print_metrics({0: State("missing"), 1: State("failed", "no luck")})
    assert capsys.readouterr().out == ""
    found = states(tmp_path, [-1.0])
    (found[0].folder / "record.json").write_text("{")
    assert done_units(found) == []
