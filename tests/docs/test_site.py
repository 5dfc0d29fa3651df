"""The documentation site builds without a warning and loads nothing; the notebooks run from top to bottom."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(path.name for path in (ROOT / "examples").glob("*.ipynb"))


def call(*arguments: str) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("DGPBENCH_")}
    env |= {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def pages(nav) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    items = nav.values() if isinstance(nav, dict) else nav
    return [page for item in items for page in pages(item)]


def test_every_page_is_in_the_navigation():
    nav = pages(yaml.safe_load((ROOT / ".ci/mkdocs.yml").read_text())["nav"])
    assert len(nav) == len(set(nav))
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in nav if not page.startswith("examples/")} == written
    examples = {Path(page).stem for page in nav if page.startswith("examples/")}
    assert examples == {Path(name).stem for name in NOTEBOOKS}


@pytest.mark.slow
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs", reason="make docs installs it")
    call("-m", "mkdocs", "build", "-f", ".ci/mkdocs.yml", "--site-dir", str(tmp_path))
    for path in tmp_path.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]+)", text)
        loaded += re.findall(r"<link[^>]*\shref=\"([^\"]+)", text)
        assert not [url for url in loaded if re.match(r"(https?:)?//", url)], path
    reference = (tmp_path / "python-api.html").read_text(encoding="utf-8")
    assert "Train and evaluate one model on one split" in reference  # from the docstring of run
    assert all(f'id="dgpbench.{name}"' in reference for name in ("run", "load", "compare", "tune", "active"))
    assert (tmp_path / "examples" / "one_model.html").is_file()


@pytest.mark.slow
def test_the_notebooks_run(tmp_path):
    pytest.importorskip("nbclient", reason="make docs installs it")
    pytest.importorskip("ipykernel", reason="make docs installs it")
    call(".ci/notebooks.py", str(tmp_path))
    for name in NOTEBOOKS:
        cells = json.loads((tmp_path / name).read_text())["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        assert outputs and not [o for o in outputs if o["output_type"] == "error"], name
        stored = json.loads((ROOT / "examples" / name).read_text())["cells"]
        assert [c["source"] for c in stored] == [c["source"] for c in cells]
        assert sum(bool(c.get("outputs")) for c in stored) == sum(bool(c.get("outputs")) for c in cells)
