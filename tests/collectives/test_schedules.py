"""Options of collectives: what is refused, and why an algorithm is chosen."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.collectives import (
    ALGORITHMS,
    NcclCosts,
    SwitchCosts,
    aggregated_s,
    auto,
    bandwidths,
    fastest,
    schedule,
    split,
    stepwise_s,
)
from netsim.errors import InputError, UnknownNameError


@pytest.mark.parametrize(("given", "error", "message"), [
    (("all-reduse", 4), UnknownNameError, "all-reduse.*did you mean 'all-reduce'"),
    (("all-reduce", 4, "rign"), UnknownNameError, "algorithm of all-reduce 'rign'"),
    (("all-reduce", 0), InputError, "all-reduce: ranks must be .* at least 1, not 0"),
    (("all-reduce", 4, "tree", {"chunks": 0}), InputError, "all-reduce: chunks .* not 0"),
    (("all-reduce", 4, "ring", {"chunks": 2}), InputError, "by ring takes no chunks"),
    (("broadcast", 4, "tree", {"root": 4}), InputError, "root must be .* 0 to 3, not 4"),
    (("all-reduce", 6, "hierarchical"), InputError, "give group"),
    (("all-reduce", 6, "hierarchical", {"group": 4}), InputError, "6 ranks are no .* groups of 4"),
    (("all-reduce", 6, "hierarchical", {"group": 3, "inner": "tree"}), UnknownNameError, "inner"),
    (("all-reduce", 3, "ring", {"order": [0, 1, 1]}), InputError, r"order .* not \[0, 1, 1\]"),
    (("all-reduce", 3, "ring", {"order": 5}), InputError, "order .* not 5"),
    (("send-recv", 3, "direct", {"pairs": [[0, 3]]}), InputError, "pair 0 .* 0 to 2, not 3"),
    (("send-recv", 3, "direct", {"pairs": [[0, 1], [2, 2]]}), InputError, "pair 1 .* itself"),
    (("send-recv", 3, "direct", {"pairs": [0, 1]}), InputError, "pairs must be"),
    (("send-recv", 3, "direct", {"pairs": []}), InputError, "pairs must be"),
])
def test_refused(given, error, message):
    *positional, options = given if isinstance(given[-1], dict) else (*given, {})
    with pytest.raises(error, match=message):
        schedule(*positional, **options)


def test_a_unit_divides_the_size():
    with pytest.raises(InputError, match=r"unit must divide the size: 10 bytes .* of 4 bytes"):
        split(10, 3, unit=4)
    with pytest.raises(InputError, match="greater than 0, not 0"):
        split(10, 3, unit=0)


def test_steps_that_are_alike_are_one():
    """A ring of 1,024 ranks has 2,046 steps in two rounds; no message is listed."""
    made = schedule("all-reduce", 1024)
    assert (made.steps, len(made.rounds), made.messages_sent) == (2046, 2, 2046 * 1024)
    assert stepwise_s(made, made.sizes(1024.0), 1.0, 0.5, 0.25) == 2046 * 1.75


@given(st.sampled_from([(collective, algorithm) for collective, named in ALGORITHMS.items()
                        for algorithm in named if collective != "barrier"]),
       st.integers(2, 17), st.integers(1, 5), st.permutations(range(6)))
def test_busbw_is_at_most_the_rate_of_the_ports(which, ranks, chunks, order):
    """Whatever the algorithm, some port has to carry what busbw counts."""
    collective, algorithm = which
    takes = ALGORITHMS[collective][algorithm].options
    options = {name: value for name, value in (("chunks", chunks), ("group", 1)) if name in takes}
    if ranks == 6:
        options["order"] = order
    made = schedule(collective, ranks, algorithm, **options)
    sizes = made.sizes(1e6)
    for time in (stepwise_s(made, sizes, 1e9), aggregated_s(made, sizes, 1e9)):
        assert bandwidths(collective, ranks, 1e6, time).busbw <= 1e9 * (1 + 1e-12)


@given(st.sampled_from([(collective, algorithm) for collective, named in ALGORITHMS.items()
                        for algorithm in named]), st.integers(1, 17))
def test_aggregated_is_at_most_stepwise(which, ranks):
    """And equal but for trees and chains, with equal parts."""
    collective, algorithm = which
    options = {"group": 1} if algorithm == "hierarchical" else {}
    made = schedule(collective, ranks, algorithm, **options)
    sizes = made.sizes(1e6)
    steps, whole = (time(made, sizes, 1e9, 2e-6, 5e-6) for time in (stepwise_s, aggregated_s))
    assert whole <= steps * (1 + 1e-12)
    if "tree" not in algorithm and collective not in ("broadcast", "reduce"):
        assert whole == pytest.approx(steps, rel=1e-9)


def test_no_bandwidth():
    for found in (bandwidths("barrier", 4, 0.0, 1.0), bandwidths("all-reduce", 1, 1.0, 1.0),
                  bandwidths("all-reduce", 4, 1.0, 0.0),
                  bandwidths("send-recv", 4, 1.0, 1.0, pairs=[(0, 1)])):
        assert all(map(math.isnan, found))


def test_why():
    """All six times, the choice and the runner-up."""
    found = auto("all-reduce", 8, 1024, NcclCosts("370GB/s"))
    assert found.why.startswith("ring/LL, before double-tree/LL; predicted: double-tree/LL 15.23")
    assert found.why.count(" us") == 6
    assert auto("all-gather", 8, 1024, NcclCosts("370GB/s")).algorithm == "ring"
    assert auto("all-to-all", 8, 1024, NcclCosts("370GB/s")).algorithm == "direct"
    assert fastest("barrier", 8, 0, SwitchCosts("1GB/s")).algorithm == "dissemination"


def test_equal_times_are_of_the_first():
    """With two ranks all of `fastest` send S/2 twice."""
    assert fastest("all-reduce", 2, 1e6, SwitchCosts("1GB/s")).algorithm == "ring"


@pytest.mark.parametrize(("make", "message"), [
    (lambda: NcclCosts(0), "rate must be greater than 0"),
    (lambda: NcclCosts(1e9, generation="pascal"), "generation 'pascal'"),
    (lambda: NcclCosts(1e9, servers=0), "servers"),
    (lambda: NcclCosts(1e9, channels=0), "channels"),
    (lambda: SwitchCosts(1e9, latency=-1), "latency must be at least 0"),
    (lambda: SwitchCosts(1e9, overhead=math.inf), "overhead must be finite"),
    (lambda: auto("all-reduce", 2, 1, NcclCosts(1e9, servers=3)), "2 ranks .* 3 servers"),
])
def test_costs_that_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
