"""Seconds that a run needed, apart from those it waited for a core."""

from dataclasses import replace

import pytest
from store_units import make_record


def record(device="cpu AMD EPYC", wall_seconds=50.0, **training):
    return replace(make_record(), device=device, wall_seconds=wall_seconds, training=training)


@pytest.mark.parametrize(
    ("found", "share", "seconds"),
    [
        (record(seconds=40.0, cpu_seconds=10.0), 0.25, 10.0),
        (record(seconds=40.0, cpu_seconds=75.0), 1.0, 40.0),  # two cores: the clock's seconds
        (record(seconds=40.0), 1.0, 40.0),  # processor time was not kept
        (record("gpu A100", seconds=40.0, cpu_seconds=10.0), 1.0, 40.0),  # the processor waits for the GPU
        (record(None, seconds=40.0, cpu_seconds=10.0), 1.0, 40.0),
        (record(), 1.0, 50.0),  # training was not timed: the whole run
        (record(wall_seconds=None), 1.0, None),
        (record(seconds=0.0, cpu_seconds=0.0), 1.0, 0.0),
        (record(seconds=40.0, cpu_seconds=-1.0), 1.0, 40.0),
    ],
)
def test_waiting_does_not_count(found, share, seconds):
    assert found.core_share == share
    assert found.core_seconds == seconds
