"""Text of others where it is shown: terminal, Markdown, spreadsheets, figures."""

import csv
import io

from dgpbench.plain_text import csv_value, markdown, visible


def test_control_characters_are_written_out():
    assert visible("a\x1b[2Jb\a\u202ec") == "a\\x1b[2Jb\\x07\\u202ec"
    assert visible("two\nlines\r\n of text") == "two lines of text"
    assert visible("naïve ∞") == "naïve ∞" and visible("\ud800") == "\\ud800"
    assert visible("x" * 600, 500) == "x" * 496 + " ..."


def test_markdown_stays_text():
    assert markdown("a|b <script> [x](y) `c` \\") == "a\\|b &lt;script&gt; \\[x\\](y) \\`c\\` \\\\"


def test_no_cell_is_a_formula():
    for text in ("=1+1", "+1", "-cmd", "@x"):
        assert csv_value(text) == f"'{text}"
    assert csv_value("\tx") == "'\\tx"
    assert [csv_value(v) for v in (-1.5, 3, None, "dgp2", "a=b")] == [-1.5, 3, None, "dgp2", "a=b"]


def test_show_writes_no_formula_and_no_escape(tmp_path, capsys):
    import sys
    from pathlib import Path

    sys.path.append(str(Path(__file__).resolve().parents[1] / "store"))
    from store_units import make_record

    from dgpbench.cli import main
    from dgpbench.store.write import write_unit

    reason = "=cmd|' /C calc'!A0 \x1b]0;title\x07 " + "y" * 3000
    write_unit(tmp_path, make_record(status="failed", metrics={}, reason=reason))
    for form in ("table", "markdown", "csv", "json"):
        assert main(["show", "--failed", "--format", form, "--results", str(tmp_path)]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out.replace("\\u001b", "")
        if form == "csv":
            (row,) = csv.DictReader(io.StringIO(out))
            assert row["reason"].startswith("'=cmd") and len(row["reason"]) < 2100
        if form == "table":
            assert "y" * 600 not in out


def test_a_dollar_sign_in_a_name_is_no_formula():
    from dgpbench.report.charts.picture import Picture

    def paint(figure, theme):
        axes = figure.subplots()
        axes.plot([1, 10, 100], [1, 2, 3], label="$\\nonsense{$")
        axes.set_xscale("log")
        axes.set_title("$x^{$ and $y$")
        axes.legend()

    image = Picture("x", "a $\\broken{ title$", None, paint, (3, 2)).image()
    assert image.startswith(b"\x89PNG")
