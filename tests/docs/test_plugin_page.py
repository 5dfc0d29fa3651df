"""docs/add-kernel-likelihood-metric-dataset.md shows the files of examples/plugins, and its commands run."""

import docs_page
import pandas as pd
import pytest

PAGE = "add-kernel-likelihood-metric-dataset.md"


def test_the_page_shows_the_example_files():
    shown = docs_page.files(PAGE)
    assert list(shown) == ["mae.py", "laplace.py", "likelihood/laplace.yaml", "spectral_mixture.py"]
    for name, text in shown.items():
        assert text == (docs_page.ROOT / "examples" / "plugins" / name).read_text(encoding="utf-8"), name


@pytest.mark.slow
def test_the_commands(tmp_path):
    docs_page.write(PAGE, tmp_path)
    run, compare, *others, _ = docs_page.commands(PAGE)
    assert "absolute error" in docs_page.run(run, tmp_path)
    (record,) = docs_page.records(tmp_path)
    rows = pd.read_parquet(record["folder"] / "predictions.parquet")
    error = (rows["y"] - rows["mean"]).abs().mean()
    assert record["metrics"]["test_mae"] == pytest.approx(error, rel=1e-6)
    assert docs_page.run(compare, tmp_path).count("3/3") == 2
    for arguments in others:
        docs_page.run(arguments, tmp_path)
    *_, likelihood, kernel = docs_page.records(tmp_path)
    assert likelihood["config"]["likelihood"]["name"] == "laplace"
    assert kernel["config"]["model"]["kernel"] == "spectral_mixture+linear"
