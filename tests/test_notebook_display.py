"""What notebooks show: a short text and at most a screen of rows; policies by which to index."""

from __future__ import annotations

import numpy as np
import pytest

import netsim
from netsim.errors import InputError, UnknownNameError

NET = netsim.big_switch(40, "1Gbps", latency="1us")
JOBS = netsim.Workload([netsim.JobSpec(k, name="<b>", hosts=range(40), stages=[
    netsim.Stage("a", [(k, 39, 1e6)])]) for k in range(30)])


@pytest.fixture(scope="module")
def compared():
    return netsim.compare(NET, JOBS, ["maxmin", "sebf", "aalo:queues=3"])


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    return netsim.sweep(NET, JOBS, allocator=["maxmin", "sebf"], seed=[1, 2],
                        folder=tmp_path_factory.mktemp("sweep") / "s")


@pytest.mark.parametrize(("make", "words"), [
    (lambda: NET, ["egress-0", "capacity (Gbps)", "the first 12 of 80 rows"]),
    (lambda: JOBS, ["arrival_s", "&lt;b&gt;", "the first 12 of 30 rows"]),
    (lambda: netsim.simulate(NET, JOBS), ["jct_s", "the first 12 of 30 rows"]),
    (lambda: netsim.compare(NET, JOBS, ["maxmin", "sebf"]), [
        "sebf", "total JCT (s)", "lower bound"]),
    (lambda: netsim.Cluster(gpus=[8] * 20 + [4], nic="25Gbps"), [
        "21 servers, 164 GPUs", "NIC (Gbps)", ">25<", "the first 12 of 21 rows"]),
    (lambda: netsim.Simulation(NET, JOBS), [
        "0 of 30 coflows done", "running", "the first 12 of 30 rows"])])
def test_a_table_of_at_most_a_screen(make, words):
    thing = make()
    html = thing._repr_html_()
    assert html.count("<tr") <= 14
    assert "<b>" not in html
    assert all(word in html for word in words)
    assert len(repr(thing)) < 100


def test_of_a_view_an_allocation_and_a_sweep(swept):
    view = netsim.Simulation(NET, JOBS, allocator="sebf").run(until=1e-3).view()
    assert "remaining" in view._repr_html_()
    assert view._repr_html_().count("<tr") <= 14
    assert repr(netsim.Allocation(order=np.arange(30))) == (
        "<Allocation of order: [0, 1, 2, 3, 4, 5, ...]>")
    for given in (netsim.Allocation(order=np.arange(30)), netsim.Allocation(weights=1.0),
                  netsim.Allocation(order=np.arange(30), leftover="maxmin")):
        html = given._repr_html_()
        assert html.count("<tr") <= 14
        assert ("the first 12 of 30 rows" in html) == (given.weights is None)
    assert swept._repr_html_().count("<tr") == 1 + 4


def test_a_simulation_shows_its_jobs_as_they_are_now():
    """At 1 Gbps the 30 flows of 1 MB into one port take 240 ms; looking at them changes nothing."""
    run = netsim.Simulation(NET, JOBS, allocator="fifo").run(until=0.1)
    html = run._repr_html_()
    assert "the first 12 of 18 rows" in html
    assert ">done<" not in html
    assert run.run().result().jobs.equals(netsim.simulate(NET, JOBS, allocator="fifo").jobs)


def test_comparisons_are_indexed_by_policy(compared):
    assert list(compared) == ["maxmin", "sebf", "aalo (queues=3)"]
    assert len(compared) == 3
    assert compared["sebf"] is compared.results["sebf"]
    assert compared["aalo:queues=3"] is compared["aalo (queues=3)"]
    assert [each in compared for each in ("aalo:queues=3", "fifo", 0)] == [True, False, False]
    with pytest.raises(UnknownNameError, match="'fifo'"):
        compared["fifo"]


def test_sweeps_are_indexed_by_policy(swept):
    assert swept["sebf"]["seed"].tolist() == [1, 2]
    with pytest.raises(UnknownNameError, match="'fifo'"):
        swept["fifo"]
    assert list(swept) == ["maxmin", "sebf"]
    assert len(swept) == 2
    assert [each in swept for each in ({"name": "sebf"}, "fifo", 0)] == [True, False, False]
    seeds = netsim.sweep(NET, JOBS, allocator="sebf", seed=[1, 2], progress=False)
    for look in (iter, len, lambda sweep: "sebf" in sweep, lambda sweep: sweep["sebf"]):
        with pytest.raises(InputError, match="this sweep varied seeds alone, but no policies"):
            look(seeds)


def test_a_comparison_of_several_seeds_is_a_sweep():
    with pytest.raises(InputError, match=r"netsim.sweep\(network, workload, .* seed=\[1, 2\]\)"):
        netsim.compare(NET, JOBS, ["maxmin", "sebf"], seed=[1, 2])
