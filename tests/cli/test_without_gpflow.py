"""On Python 3.13 GPflow is installed separately: what needs it says so in one line, the rest runs."""

import sys

import pytest

from dgpbench.cli import main
from dgpbench.errors import UserError, import_gpflow


@pytest.fixture
def without(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "gpflow", None)  # import gpflow raises ModuleNotFoundError


@pytest.mark.usefixtures("without")
def test_models_of_gpflow_name_the_command(capsys):
    words = ["dataset=step", "dataset.n=40", "paths.datasets=data", "budget.steps=2"]
    assert main(["run", "model=gpr", *words]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "dgpbench: error: GPflow is not installed; run: pip install --no-deps gpflow==2.11.2"
    assert main(["run", "model=linear", *words[:-1]]) == 0


@pytest.mark.usefixtures("without")
def test_another_missing_module_is_not_taken_for_gpflow(monkeypatch):
    with pytest.raises(UserError, match="GPflow is not installed"):
        import_gpflow()
    monkeypatch.delitem(sys.modules, "gpflow")
    monkeypatch.setitem(sys.modules, "check_shapes", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "gpflow"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match="check_shapes"):
        import_gpflow()
