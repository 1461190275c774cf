"""Observe intervals that are finer than the clock: events are noticed when they happen."""

import pytest

import netsim
from netsim.fabric.clock import Grid


@pytest.mark.parametrize("allocator", ["parrot", "sebf", "aalo", "maxmin"])
@pytest.mark.parametrize("interval", [1e-17, 1e-148, 1e-300])
def test_intervals_finer_than_the_clock(allocator, interval):
    """An event at 4 s would be noticed at tick 4e17, or later than whole numbers can say."""
    found, exact = (netsim.simulate("parrot-fig2", "parrot-fig2", allocator=allocator,
                                    observe_interval=each, until=1000).summary()["jct_total_s"]
                    for each in (interval, 0))
    assert found == pytest.approx(exact, rel=1e-12)


def test_the_grid_of_such_an_interval():
    class Clock:
        now = 3.0

    assert [Grid(1e-148, Clock()).observed(at) for at in (2.0, 4.0)] == [3.0, 4.0]
    assert Grid(1.0, Clock()).observed(3.5) == 4.0
