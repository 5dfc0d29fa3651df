"""The Python examples of the guides run."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["predict.md", "tune.md", "active-learning.md"])
def test_the_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DGPBENCH_RESULTS", "DGPBENCH_DATASETS", "DGPBENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    names: dict = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    if page == "predict.md":
        assert names["run"].metrics["test_loglik"] is not None and names["found"].mean.shape == (3,)
        assert names["probs"].shape == (60, 2) and names["intervals"].shape == (60, 2)
        assert (names["same"].predict(names["X"]) == names["mean"]).all()
    elif page == "active-learning.md":
        assert sorted(set(names["steps"].labels)) == [3, 4, 5, 6, 7] and len(names["steps"]) == 10
    else:
        assert names["study"].refits[0].status == "done"
