"""Installed packages bring models, datasets and inference by entry points."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = """
from dgpbench.config import compose
from dgpbench.config.tree import options
cfg = compose(["model=theirs", "dataset=tiny", "model.width=4"])
assert "their_package" not in __import__("sys").modules
again = compose(["model=theirs", "dataset=tiny"], cfg["paths"]["config_dirs"])
folders = cfg["paths"]["config_dirs"]
print(cfg["model"]["width"], again["model"]["width"], folders, "theirs" in options("model"))
"""


@pytest.fixture
def installed(tmp_path):
    """A folder as pip leaves it: a package with conf/ in it, and its entry points."""

    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    write("their_package/__init__.py", "class Model:\n    def __init__(self, cfg): ...\n")
    model = "# Theirs.\n_target_: their_package.Model\nname: theirs\nwidth: 3\n"
    write("their_package/conf/model/theirs.yaml", model)
    write("their_package/conf/dataset/tiny.yaml", "name: tiny\ntask: regression\npath: tiny.csv\n")
    points = "[dgpbench.models]\ntheirs = their_package\n[dgpbench.datasets]\ntiny = their_package\n"
    write(
        "their_package-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n"
    )
    write("their_package-1.0.dist-info/entry_points.txt", points)
    return tmp_path


def python(folder: Path, *words: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    return subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True)


def test_a_package_brings_its_own(installed):
    done = python(installed, "-c", CODE)
    assert done.stdout.strip() == "4 3 [] True" and not done.stderr, done.stderr


def test_a_promise_without_a_file_is_told_of_and_built_in_names_stay_ours(installed):
    points = installed / "their_package-1.0.dist-info" / "entry_points.txt"
    points.write_text("[dgpbench.models]\nabsent = their_package\n")
    done = python(installed, "-m", "dgpbench", "run", "--cfg", "model=sgp")
    assert done.returncode == 0 and "name: sgp" in done.stdout
    assert "no file their_package/conf/model/absent.yaml" in done.stderr
    (installed / "their_package/conf/model/dgp2.yaml").write_text("name: dgp2\n")
    points.write_text("[dgpbench.models]\ntheirs = their_package\n")
    done = python(installed, "-m", "dgpbench", "run", "--cfg")
    assert done.returncode == 2 and "is named like a built-in model" in done.stderr


def test_a_package_brings_a_metric(installed):
    points = installed / "their_package-1.0.dist-info" / "entry_points.txt"
    points.write_text("[dgpbench.plugins]\ntheirs = their_package.scores\nabsent = their_package.none\n")
    (installed / "their_package" / "scores.py").write_text(
        "from dgpbench.evaluate.metric_table import metric\n\n"
        "@metric('test_own', 'Own score', better='lower')\ndef own(y, mean):\n    return 0.0\n"
    )
    code = "from dgpbench.evaluate.metric_table import find_metric; print(find_metric('own').better)"
    done = python(installed, "-c", code)
    assert done.stdout.strip() == "lower", done.stderr
    assert "absent = their_package.none is left out: it declares no kernel" in done.stderr
