"""Student's t beside SciPy's."""

import pytest
from scipy import stats

from dgpbench.papers.verdict import NORMAL, Gap, upper_tail


@pytest.mark.parametrize("freedom", [0.7, 1.0, 2.0, 3.4, 19.0, 250.5, 1e4, 1e7])
def test_upper_tail(freedom):
    close = 1e-9 if freedom < 1e5 else 1e-6  # logs of gamma functions cancel
    for t in (0.0, 1e-9, 0.3, 1.0, 1.97, 2.5, 4.0, 14.0, 300.0):
        assert upper_tail(t, freedom) == pytest.approx(stats.t.sf(t, freedom), rel=close, abs=1e-300)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("freedom", [1.0, 2.0, 2.7, 9.0, 40.0])
def test_within_ends_at_the_quantile(k, freedom):
    edge = stats.t.ppf(NORMAL[k], freedom)
    assert Gap(-0.999 * edge * 0.2, 0.2, freedom).within(k)
    assert not Gap(1.001 * edge * 0.2, 0.2, freedom).within(k)
    assert not Gap(1.001 * k * 0.2, 0.2, float("inf")).within(k)
