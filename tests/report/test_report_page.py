"""The report page as text; tests/browser looks at it in a real browser."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_units import record, units, write

from dgpbench.store.reference import export

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
from dgpbench.cli import main
print(main(sys.argv[1:]), [name for name in ("tensorflow", "gpflow") if name in sys.modules], file=sys.stderr)
"""
VOID = ("meta", "br", "img", "link", "input")


class Page(HTMLParser):
    """Tags must nest; collects attributes and text by section."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.found: list[tuple[str, dict]] = []
        self.feed(text)
        assert not self.stack

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag, (tag, self.getpos())


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("page")
    results = folder / "results"
    export(units("dsvi2017_sgp", "boston", [-2.2, -2.4]), results / "reference" / "x.jsonl.gz")
    write(
        results,
        record("dsvi2017_dgp2", "boston", 0, status="oom", reason='needs 99 GB <script>alert("x")</script>'),
    )
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        "report",
        "--results",
        str(results),
        "-o",
        str(folder / "deep" / "out"),
    ]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.stderr.splitlines()[-1] == "0 []", done.stderr  # without TensorFlow
    return (folder / "deep" / "out" / "index.html").read_text(encoding="utf-8")


def test_it_is_one_file_that_loads_nothing(text):
    page = Page(text)
    assert "default-src 'none'" in text
    for tag, attributes in page.found:
        assert tag not in ("link", "iframe", "object")
        assert tag != "script" or not attributes
        assert attributes.get("src", "data:").startswith("data:")
        assert attributes.get("href", "#").startswith("#")
    assert not re.findall(r"https?://|@import|url\(", text)


def test_what_a_cell_tells_is_escaped_and_linked_from_the_pages_folder(text):
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text
    cells = [attributes for tag, attributes in Page(text).found if tag == "td" and "data-links" in attributes]
    assert {"../../results/reference/x.jsonl.gz"} < {cell["data-links"] for cell in cells}
    failed = next(cell for cell in cells if "failed" in cell["class"])
    assert failed["data-detail"].startswith('split 0 oom: needs 99 GB <script>alert("x")</script>')
    assert re.fullmatch(
        r"\.\./\.\./results/boston/dgp2-dsvi/dsvi2017/split0-\w{8}/record\.json", failed["data-links"]
    )


def test_sections_tables_and_sources(text):
    page = Page(text)
    ids = [attributes["id"] for _, attributes in page.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {"overview", "t-S7", "figures", "figure-2.4", "published", "provenance", "table-5.1"} <= set(ids)
    assert "-2.30 (0.10)" in text and "7.45 (0.38)" in text and "ICML 2019" in text
    assert "no finished run with experiment=natgrad_fixed*" in text


def test_neither_tables_nor_figures_import_tensorflow(tmp_path):
    script = (
        "import sys; from dgpbench.cli import main\n"
        "assert main(['tables', 'S7', '--stats']) == 0\n"
        "assert 'matplotlib' not in sys.modules\n"
        f"assert main(['figures', 'ranks-S7', '-o', {str(tmp_path)!r}]) == 0\n"
        "print([name for name in ('tensorflow', 'gpflow', 'keras') if name in sys.modules], file=sys.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]", done.stderr
