"""The experiments of docs/reproduce-a-paper.md run as the page says."""

import docs_page
import pytest

PAGE = "reproduce-a-paper.md"


@pytest.mark.slow
@pytest.mark.long
def test_the_matrix_runs(tmp_path):
    docs_page.write(PAGE, tmp_path)
    for arguments in docs_page.commands(PAGE):
        if "--config-dir" in arguments:
            docs_page.run(arguments, tmp_path)
    deep, *swept = docs_page.records(tmp_path)
    assert deep["experiment"] == "depth_deep_natural" and deep["deviations"] == []
    assert deep["config"]["model"]["layers"] == ["gp", "gp"] and deep["config"]["model"]["num_inducing"] == 10
    assert deep["config"]["inference"]["natgrad"]["gamma"] == 0.05 and deep["config"]["budget"]["steps"] == 60
    names = sorted((record["experiment"], record["split"]) for record in swept)
    assert names == [(name, split) for name in ("depth_linear", "depth_shallow_adam") for split in (0, 1)]
    assert all(record["status"] == "done" for record in (deep, *swept))
    one = docs_page.run(["_complete", "run", "--config-dir", ".", "experiment=depth_"], tmp_path)
    assert len(one.split()) == 5
