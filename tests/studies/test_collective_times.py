"""Collectives size by size."""

import math

import numpy as np
import pytest

import netsim
from netsim.collectives import ALGORITHMS
from netsim.errors import InputError
from netsim.studies.collective_times import sizes_between

SWITCH = netsim.big_switch(12, "80Gbps")


@pytest.mark.parametrize(("collective", "algorithm"), [
    (collective, algorithm) for collective, named in ALGORITHMS.items() for algorithm in named
    if collective != "barrier"])
@pytest.mark.parametrize("form", ["steps", "messages", "aggregate"])
def test_busbw_is_at_most_the_rate_of_the_ports(collective, algorithm, form):
    options = {"group": 3} if algorithm == "hierarchical" else {}
    table = netsim.collective_times(collective, SWITCH, 6, ["1kB", "1GB"], algorithm=algorithm,
                                    form=form, order=[4, 1, 5, 0, 2, 3], **options)
    assert table["bytes"].tolist() == [1e3, 1e9]
    assert (table["busbw"] <= 1e10 * (1 + 1e-9)).all()
    assert np.allclose(table["algbw"] * table["time_s"], table["bytes"])


def test_hosts_and_rules():
    """A rule takes the rate of the slowest port of the hosts: 1.5 S over 1 GB/s by ring."""
    slow = netsim.BigSwitch([1e10, 1e9, 1e10, 1e10, 1e10], [1e10] * 5)
    for hosts, time in (([0, 1, 2, 3], "1.5 ms"), ([0, 4, 2, 3], "150 us")):
        table = netsim.collective_times("all-reduce", slow, 4, "1MB", algorithm="fastest",
                                        hosts=hosts)
        assert table["algorithm"].tolist() == ["ring"]
        assert f"ring {time}" in table["why"].iloc[0]
    given = netsim.collective_times("all-reduce", SWITCH, 4, 1000, algorithm="fastest",
                                    costs={"rate": "10GB/s", "latency": "1ms"})
    assert given["algorithm"].tolist() == ["halving-doubling"]  # 4 steps, and fewer bytes


def test_a_matrix_and_a_barrier_have_one_time():
    """The largest column without the diagonal, 3 GB, over 10 GB/s; the largest row has 7."""
    table = netsim.collective_times("all-to-all", SWITCH, 2, matrix=[[4e9, "3GB"], [1e9, 0]])
    assert table[["bytes", "time_s", "busbw"]].iloc[0].tolist() == pytest.approx([7e9, 0.3, 1e10])
    assert len(netsim.collective_times("barrier", SWITCH, 3)) == 1


def test_usual_sizes():
    table = netsim.collective_times("send-recv", SWITCH, 2)
    assert table["bytes"].tolist() == [8.0 * 2**k for k in range(28)]
    own = netsim.collective_times("send-recv", SWITCH, 2, 1, pairs=[[1, 0]])
    assert math.isnan(own["busbw"][0])


def test_sizes_end_at_the_last_one():
    assert sizes_between(1, 100, 10) == [1, 10, 100]
    assert sizes_between(1, 99, 10) == [1, 10, 99]
    assert sizes_between("1kB", "1kB") == [1000]


def test_refused():
    with pytest.raises(InputError, match="13 ranks need a host each"):
        netsim.collective_times("all-reduce", SWITCH, 13)
    with pytest.raises(InputError, match="ranks must be"):
        netsim.collective_times("all-reduce", SWITCH, 0)
    with pytest.raises(InputError, match="greater than 0"):
        sizes_between(0, 1)
