"""The corrected test keeps its level between equally good learners; the plain t-test does not."""

import pytest

from benchmarks.null_comparisons import rejections


@pytest.mark.parametrize("splits", [3, 10, 20])
def test_the_corrected_test_keeps_its_level(splits):
    shares = rejections(400, splits)
    error = (0.05 * 0.95 / 400) ** 0.5
    assert shares["corrected t"] == shares["corrected P > 0.975"] < 0.05 + 2 * error
    if splits > 3:
        assert shares["plain t"] > 0.05 + 3 * error
