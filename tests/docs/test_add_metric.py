"""The metric of docs/add-kernel-likelihood-metric-dataset.md is computed and recorded."""

import docs_page
import pandas as pd
import pytest

PAGE = "add-kernel-likelihood-metric-dataset.md"


@pytest.mark.slow
def test_the_metric(tmp_path):
    docs_page.write(PAGE, tmp_path)
    run, _ = docs_page.commands(PAGE)
    assert "test_mae" in docs_page.run(run, tmp_path)
    (record,) = docs_page.records(tmp_path)
    rows = pd.read_parquet(record["folder"] / "predictions.parquet")
    error = (rows["y"] - rows["mean"]).abs().mean()
    assert record["metrics"]["test_mae"] == pytest.approx(error, rel=1e-6)
    assert 0 < record["metrics"]["test_mae_std"] != record["metrics"]["test_mae"]
