"""Table, plot and command from a stored perf.json."""

import io
import json

import pytest
from bench_sample import stored

from benchmarks import tables
from benchmarks.__main__ import main


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "perf.json").write_text(json.dumps(stored()))
    return tmp_path


def test_rows():
    times_a, ratios_a, times_b, ratios_b, times_c, _, details = tables.tables(stored())
    assert times_a.header == ["system", "SGP", "SGP500", "DGP2", "DGP3", "DGP4", "DGP5"]
    rows = {row[0]: row[1:] for row in times_a.rows}
    assert rows["dgpbench mixed"] == ["5.00", "60.0", "10.0", "15.0", "20.0", "25.0"]
    assert rows["gpflux float32"] == ["15.0", "180", "NaN", "NaN", "NaN", "NaN"]
    assert rows["gpflow float64"] == ["30.0", "360", "–", "–", "–", "–"]
    pairs = {row[0]: row[1:] for row in ratios_a.rows}
    assert pairs["dgpbench mixed against gpflux float64"] == ["4.00x"] * 6
    assert pairs["dgpbench mixed against gpflux float32"][:3] == ["3.00x", "3.00x", "–"]
    assert len(details.rows) == 12 * 7 + 8 + 5 + 4  # own layers in (b), twice
    assert {row[0]: row[1] for row in times_c.rows}["iwvi mixed"] == "40.0"
    assert details.rows[1][:5] == ["a-sgp", "dgpbench mixed", "5.00", "2.50", "10.0"]
    assert details.rows[1][7:] == ["3.2", "812"]


def test_replot_writes_table_and_picture(folder, capsys):
    pytest.importorskip("matplotlib")
    assert main(["--replot", "-o", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "GFLOP/s: float64 60.0 to 60.0, float32 120.0 to 120.0" in " ".join(out.split())
    text = (folder / "perf.md").read_text()
    assert "| dgpbench mixed | 5.00 | 60.0 | 10.0 | 15.0 | 20.0 | 25.0 |" in text
    assert "(a) M=100: 2.00x (worst a-sgp 2.00x), target 2.2x: not met" in text
    assert "LV-GP-GP IWVI, K=5, float64: 2.50x the step of VI, at most 3x wanted: met" in text
    assert "LV-GP-GP IWVI, K=5, mixed: 4.00x the step of VI, at most 3x wanted: not met" in text
    picture = (folder / "perf.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 20_000


def test_the_terminal_shows_everything_in_80_columns():
    from rich.console import Console

    text = io.StringIO()
    tables.show(stored(), Console(file=text, width=80))
    lines = text.getvalue().splitlines()
    assert any("dgpbench float64" in line and "50.0" in line for line in lines)
    assert max(map(len, lines)) <= 80 and "…" not in text.getvalue()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--cases", "c-dgp2"], "unknown case 'c-dgp2'"),
        (["--systems", "gpflax"], "unknown system 'gpflax'"),
        (["--rounds", "0"], "must be positive"),
        (["--replot"], "no {folder}/none/perf.json; measure first"),
        (["--peers-python", "nowhere"], "--peers-python nowhere: no folder"),
    ],
)
def test_bad_input_is_one_line(args, message, tmp_path, capsys):
    assert main([*args, "-o", str(tmp_path / "none")]) == 2
    err = capsys.readouterr().err
    assert message.format(folder=tmp_path) in err and err.count("\n") == 1
    assert not (tmp_path / "none").exists()


def test_a_file_of_another_kind_is_refused(tmp_path, capsys):
    for text in ("[1]", '{"schema": 99}', "{"):
        (tmp_path / "perf.json").write_text(text)
        assert main(["--replot", "-o", str(tmp_path)]) == 2
        assert "measure again" in capsys.readouterr().err
