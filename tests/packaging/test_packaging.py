"""The command works from a wheel, from a bare clone and from any folder, and conf/ comes with it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CONF = sorted(p.relative_to(ROOT) for p in (ROOT / "conf").rglob("*.yaml"))


def call(*command: str, cwd, **environment: str) -> str:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and not k.startswith("DGPBENCH_")}
    done = subprocess.run(command, cwd=cwd, env={**env, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling is not installed: no wheel can be built")
    folder = tmp_path_factory.mktemp("wheel")
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    return next(folder.glob("*.whl"))


def test_the_wheel_has_conf_licence_and_entry_point(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entry = next(n for n in names if n.endswith("entry_points.txt"))
        assert "dgpbench = dgpbench.cli:entry" in archive.read(entry).decode()
    assert {f"dgpbench/{path.as_posix()}" for path in CONF} <= names
    papers = (
        "published.csv",
        "sources.yaml",
        "specs/5.1.yaml",
        "figures/figures.yaml",
        "commands/__init__.py",
    )
    assert {f"dgpbench/papers/{name}" for name in papers} <= names
    assert "dgpbench/report/page/page.css" in names
    reference = {path.name for path in (ROOT / "results" / "reference").iterdir()}
    assert {f"dgpbench/reference/{name}" for name in reference} <= names and "cells.txt" in reference
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(
        name.startswith(("tests/", "benchmarks/", "results/", "datasets/", "conf/")) for name in names
    )


@pytest.mark.parametrize("where", ["wheel", "clone"])
def test_runs_from_any_folder(where, request, tmp_path):
    if where == "wheel":
        home = tmp_path / "site"
        with zipfile.ZipFile(request.getfixturevalue("wheel")) as archive:
            archive.extractall(home)
    else:
        home = ROOT
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = (sys.executable, "-m", "dgpbench")
    assert "usage: dgpbench COMMAND" in call(*command, "--help", cwd=elsewhere, PYTHONPATH=str(home))
    cfg = yaml.safe_load(call(*command, "run", "--cfg", "model=dgp4", cwd=elsewhere, PYTHONPATH=str(home)))
    assert cfg["model"]["layers"] == ["gp"] * 4
    tables = call(*command, "tables", "5.1", "--no-reference", cwd=elsewhere, PYTHONPATH=str(home))
    assert "published" in tables  # a command that a part of the package registers
    code = "import dgpbench.config as c; print(c.conf_dir())"
    found = call(sys.executable, "-c", code, cwd=elsewhere, PYTHONPATH=str(home)).strip()
    assert Path(found) == (home / "dgpbench" / "conf" if where == "wheel" else ROOT / "conf")
    assert list(elsewhere.iterdir()) == []


def test_the_installed_command_if_there_is_one(tmp_path):
    script = Path(sys.executable).parent / "dgpbench"
    if not script.exists():
        pytest.skip("dgpbench is not installed in this environment")
    assert call(str(script), "--version", cwd=tmp_path).startswith("dgpbench ")


def test_constraints_cover_what_the_package_asks_for():
    import tomllib

    from packaging.markers import default_environment
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pins = [Requirement(line) for line in lines]
    needed = project["dependencies"] + project["optional-dependencies"]["dev"]
    for version in ("3.11", "3.12", "3.13"):
        env = {**default_environment(), "python_version": version}
        valid = {canonicalize_name(p.name): p for p in pins if not p.marker or p.marker.evaluate(env)}
        assert len(valid) == len([p for p in pins if not p.marker or p.marker.evaluate(env)])
        for requirement in map(Requirement, needed):
            if requirement.marker and not requirement.marker.evaluate(env):
                continue
            (pin,) = valid[canonicalize_name(requirement.name)].specifier
            assert pin.operator == "==" and requirement.specifier.contains(pin.version), (
                version,
                requirement,
            )


def test_the_lock_of_the_docs_is_complete():
    """Each package that the extra asks for is pinned, with hashes."""
    import re

    extra = re.search(r"^docs = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S)[1]
    names = {re.match(r"[\w-]+", text)[0] for text in re.findall(r'"([^"]+)"', extra)}
    lines = (ROOT / ".ci/constraints-docs.txt").read_text().splitlines()[1:]
    pins = {line.partition("==")[0] for line in lines}
    assert names == {"mkdocs-material", "mkdocstrings", "nbclient", "ipykernel"} and names <= pins
    lock = (ROOT / ".ci/requirements-docs.lock").read_text()
    assert all(f"{line} \\\n    --hash=sha256:" in lock for line in lines)


def test_ci_runs_the_tests():
    script = ROOT / ".ci" / "run"
    assert "make test" in script.read_text() and os.access(script, os.X_OK)


def test_one_version_everywhere():
    from dgpbench import __version__

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == __version__
    assert f"dgpbench {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_names_of_test_modules_are_unique():
    """Test folders are no packages: two modules of one name stop the whole run, though each folder passes."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert sorted(names) == sorted(set(names))
