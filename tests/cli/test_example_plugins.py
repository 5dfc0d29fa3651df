"""The plug-ins of examples/plugins, through every command that a user would give them to."""

import re
import shutil
from pathlib import Path

import pytest
from cli_process import ROOT, dgpbench

from dgpbench.store.scan import scan

EXAMPLES = ROOT / "examples" / "plugins"
SMALL = ["budget.steps=5", "model.num_inducing=5", "protocol.draws=50", "protocol.test_samples=5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("own")
    shutil.copytree(EXAMPLES, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def ran(folder: Path, *words: str, code: int = 0) -> str:
    done = dgpbench(*words, cwd=folder)
    assert done.returncode == code, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.mark.slow
def test_likelihood_and_kernel_run_and_name_their_code(folder):
    own = ["likelihood=laplace", "model.kernel=spectral_mixture+linear", "model=sgp", "dataset=step"]
    out = ran(folder, "run", "--config-dir", ".", "--no-check", *own, *SMALL)
    assert "laplace, kernels spectral_mixture+linear" in out and "mean absolute error" in out
    (unit,) = [unit for unit in scan(folder / "results", reference=False) if unit.record.model == "sgp"]
    config = unit.record.config
    assert config["likelihood"]["_target_"] == "laplace.Laplace"
    assert config["model"]["kernels"] == {
        "spectral_mixture": {"_target_": "spectral_mixture.SpectralMixture"}
    }
    assert "code of laplace, spectral_mixture" in ran(folder, "submit", "--check", str(unit.path), code=1)
    assert "1 record is consistent" in ran(folder, "submit", "--check", "--config-dir", ".", str(unit.path))


@pytest.mark.slow
@pytest.mark.long
def test_metric_and_figures_in_every_command(folder):
    for model in ("linear", "knn"):
        for split in (0, 1):
            ran(folder, "run", "-q", "--config-dir", ".", f"model={model}", "dataset=step", f"split={split}")
    assert "test_mae" in ran(folder, "show", "--metric", "mae", "model=linear")
    words = ["--config-dir", ".", "model=linear,knn", "dataset=step", "split=0,1", "--metric", "mae"]
    out = ran(folder, "compare", *words, "--plot", "gains")
    assert (
        "lower is better" in out and "differences of logarithms" in out and "figure-compare-gains.png" in out
    )
    assert "residuals.png" in ran(folder, "plot", "--config-dir", ".", "--kind", "residuals", "model=linear")
    ran(folder, "report", "-q", "--config-dir", ".")
    pages = [path.read_text(encoding="utf-8") for path in (folder / "report").rglob("*.html")]
    assert any('value="test_mae" data-better="lower"' in page for page in pages)
    assert any("Residuals" in page for page in pages)
    tuned = ["model=knn", "dataset=step", "model.k=1,5", "--trials", "2", "--metric", "mae"]
    assert "best first, by validation mae" in ran(folder, "tune", "--config-dir", ".", *tuned)
    assert "agree with their configs" in ran(folder, "verify", "--config-dir", ".")
    (unit, *_) = [unit for unit in scan(folder / "results", reference=False) if unit.record.model == "knn"]
    text = unit.path.read_text(encoding="utf-8")
    assert '"test_mae"' in text
    assert "there is no metric test_mae" in ran(folder, "submit", "--check", "results", code=1)


@pytest.mark.slow
def test_check_plugin(folder, tmp_path):
    out = ran(folder, "check-plugin", ".")
    assert re.search(r"\d+ passed$", out, re.M) and "BROKEN" not in out
    (tmp_path / "wrong.py").write_text(
        (EXAMPLES / "mae.py").read_text(encoding="utf-8").replace("np.abs(y - mean).mean()", "'small'")
    )
    out = ran(tmp_path, "check-plugin", "wrong.py", code=1)
    assert "metric test_mae returned a str, expected a number or None" in out
    assert "declares nothing" in ran(tmp_path, "check-plugin", str(EXAMPLES / "likelihood"), code=2)
