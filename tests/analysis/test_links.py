"""How busy links were, and what was held up by a full one."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.errors import InputError
from netsim.testing import networks, workloads
from tests.examples import examples

MB = 1e6
NET = netsim.big_switch(4, MB)
HOSTS = 4
POLICIES = ["maxmin", {"name": "maxmin", "decisions": "coflow"}, "parrot", "sebf", "aalo",
            {"name": "sebf", "decisions": "coflow", "work_conservation": "none"}]


def once(*coflows, hosts=4, arrival=0.0):
    """A workload of coflows, lists of (src, dst, MB), a job each."""
    return Workload([JobSpec(job, arrival, hosts=range(hosts),
                             stages=[Stage("c", [(s, d, mb * MB) for s, d, mb in flows])])
                     for job, flows in enumerate(coflows)])


def rates(result):
    """Each link's intervals and the MB/s that it carried in them."""
    rows = result.links
    carried = rows["bytes"] / (rows["end_s"] - rows["start_s"]) / MB
    return {link: [(start, end, pytest.approx(rate)) for start, end, rate
                   in zip(rows["start_s"][of], rows["end_s"][of], carried[of], strict=True)]
            for link, of in rows.groupby("link", observed=True).groups.items()}


# --- the record ----------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [0, 0.7])
def test_a_row_ends_where_a_flow_does(interval):
    """Two flows of 1 MB share egress 0 until 2 s; a flow of 4 MB shares ingress 3 with one of them.

    Of the 4 MB 3 are then left. They have all of ingress 3 at once, or from the observation at
    2.1 s on, or if decisions fall only at the ends of coflows, never; a row ends at the observation
    even so.
    """
    jobs = once([(0, 1, 1), (0, 3, 1), (2, 3, 4)])
    found = rates(netsim.simulate(NET, jobs, allocator={"name": "maxmin", "decisions": "coflow"},
                                  observe_interval=interval, record=["links"]))
    assert found["egress-0"] == [(0, 2, 1)]
    noticed = [(2, pytest.approx(2.1), 0.5), (pytest.approx(2.1), 8, 0.5)]
    assert found["ingress-3"] == [(0, 2, 1), *(noticed if interval else [(2, 8, 0.5)])]
    sharing = rates(netsim.simulate(NET, jobs, observe_interval=interval, record=["links"]))
    assert sharing["egress-0"] == [(0, 2, 1)]
    if interval:
        assert sharing["ingress-3"] == [(0, 2, 1), (2, pytest.approx(2.1), 0.5),
                                        (pytest.approx(2.1), pytest.approx(5.05), 1)]
    else:
        assert sharing["ingress-3"] == [(0, 2, 1), (2, 5, 1)]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(deadline=None, max_examples=examples(25), derandomize=True)
@given(networks(min_hosts=HOSTS, max_hosts=HOSTS), workloads(HOSTS),
       st.sampled_from([0.0, 0.1, 0.3]))
def test_no_flow_ends_inside_a_row(policy, network, workload, interval):
    result = netsim.simulate(network, workload, allocator=policy, observe_interval=interval,
                             record=["links", "flows"])
    ends = np.sort(result.flows["finish_s"].to_numpy())
    tolerance = 1e-9 + 2e-6 * interval
    after = np.searchsorted(ends, result.links["start_s"] + tolerance)
    before = np.searchsorted(ends, result.links["end_s"] - tolerance)
    assert (before <= after).all()


def test_rows_have_the_capacity_of_their_time():
    """1 MB/s until 2 s, then half of it until 6 s: 4 MB."""
    result = netsim.simulate(NET, once([(0, 1, 4)]), record=["links"],
                             events=[{"at": 2, "link": "egress-0", "capacity": MB / 2}])
    rows = result.links.set_index(["link", "start_s"])["capacity"] / MB
    assert rows.to_dict() == {("egress-0", 0): 1, ("ingress-1", 0): 1,
                              ("egress-0", 2): 0.5, ("ingress-1", 2): 1}


# --- utilisation ---------------------------------------------------------------------------


def watched(workload, network=NET, **options):
    return netsim.simulate(network, workload, record=["coflows", "links"], **options)


def table(result, *links):
    return netsim.link_utilisation(result).set_index("link").loc[list(links)]


def test_utilisation_is_of_the_makespan():
    """From 1 to 4 s: flows 0->1 of 1 MB and 2->1 of 2 MB share ingress 1 until 3 s.

    Egress 0 carries 1/2 MB/s for 2 s, egress 2 that and 1 MB/s in the last.
    """
    result = watched(once([(0, 1, 1)], [(2, 1, 2)], arrival=1))
    found = table(result, "egress-0", "egress-2", "ingress-1", "egress-3")
    assert found["bytes"].tolist() == pytest.approx([1 * MB, 2 * MB, 3 * MB, 0])
    assert found["utilisation"].tolist() == pytest.approx([1 / 3, 2 / 3, 1, 0])
    assert found["busy"].tolist() == pytest.approx([2 / 3, 1, 1, 0])
    assert found["full"].tolist() == pytest.approx([0, 1 / 3, 1, 0])
    assert found["peak"].tolist() == pytest.approx([0.5, 1, 1, 0])
    assert netsim.share_at_bottleneck(result) == pytest.approx(1)


def test_what_nobody_has_noticed_is_idle():
    """As above from 0, seen every 0.7 s: the end at 2 s is noticed at 2.1, and 0.95 MB are left.

    They end at 3.05 s. Ingress 1 is full but for 0.1 s, egress 2 for the last 0.95.
    """
    result = watched(once([(0, 1, 1)], [(2, 1, 2)]), observe_interval=0.7)
    found = table(result, "egress-0", "egress-2", "ingress-1")
    assert found["busy"].tolist() == pytest.approx([2 / 3.05, 1, 1])
    assert found["full"].tolist() == pytest.approx([0, 0.95 / 3.05, 2.95 / 3.05])
    assert found["utilisation"].tolist() == pytest.approx([1 / 3.05, 2 / 3.05, 3 / 3.05])
    assert netsim.share_at_bottleneck(result) == pytest.approx(2.95 / 3.05)


def test_a_link_is_held_against_the_capacity_that_it_has():
    """4 MB at 1 MB/s until 1 s, not at all until 2 s, at 1/2 MB/s until 6 s, then at 2 MB/s.

    The last MB is limited by ingress 1, 1 MB/s: 1 s. Egress 0 is full from 0 to 1 and 2 to 6.
    """
    events = [{"at": at, "link": "egress-0", "capacity": rate * MB}
              for at, rate in ((1, 0), (2, 0.5), (6, 2))]
    found = table(watched(once([(0, 1, 4)]), events=events), "egress-0", "ingress-1")
    assert found["utilisation"].tolist() == pytest.approx([5.5 / 7, 4 / 7])
    assert found["full"].tolist() == pytest.approx([5 / 7, 2 / 7])
    assert found["busy"].tolist() == pytest.approx([6 / 7, 6 / 7])
    assert found["peak"].tolist() == pytest.approx([1, 1])


def test_a_run_that_was_stopped_counts_until_then():
    """Of 4 MB one has arrived by 2 s: the port is full for 1 s of 2, from the arrival on."""
    jobs = Workload([JobSpec(0, stages=[Stage("wait", compute_s=1)]),
                     JobSpec(1, 1.0, stages=[Stage("c", [(0, 1, 4 * MB)])], hosts=range(4))])
    result = watched(jobs, until=2)
    assert table(result, "egress-0")["full"].tolist() == pytest.approx([0.5])


def test_nothing_was_carried():
    computing = Workload([JobSpec(0, stages=[Stage("wait", compute_s=1)])])
    found = netsim.link_utilisation(watched(computing))
    assert found["link"].tolist() == list(NET.link_names)
    assert (found.drop(columns="link") == 0).all(axis=None)
    assert netsim.share_at_bottleneck(watched(computing)) == 0
    in_no_time = watched(once([(0, 1, 0)]))
    assert np.isnan(netsim.share_at_bottleneck(in_no_time))
    assert netsim.link_utilisation(in_no_time)["busy"].isna().all()


def test_utilisation_survives_the_disk(tmp_path):
    result = watched(once([(0, 1, 1)], [(2, 1, 2)]))
    again = netsim.load_result(result.save(tmp_path / "r"))
    pd.testing.assert_frame_equal(netsim.link_utilisation(again), netsim.link_utilisation(result))


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(deadline=None, max_examples=examples(15), derandomize=True)
@given(networks(min_hosts=HOSTS, max_hosts=HOSTS), workloads(HOSTS))
def test_utilisation_is_bytes_over_what_could_be_carried(policy, network, workload):
    """Without events, that is capacity x makespan; and full <= utilisation <= busy <= 1."""
    result = watched(workload, network, allocator=policy)
    found, span = netsim.link_utilisation(result), result.summary()["makespan_s"]
    if not span:
        return
    np.testing.assert_allclose(found["utilisation"], found["bytes"] / network.capacity / span,
                               rtol=1e-9, atol=1e-12)
    columns = found[["full", "utilisation", "busy"]].to_numpy()
    assert (np.diff(columns, axis=1) >= -1e-5).all()
    assert (columns <= 1 + 1e-9).all()
    assert found["full"].max() - 1e-9 <= netsim.share_at_bottleneck(result) <= 1 + 1e-9


# --- coflows at a bottleneck ---------------------------------------------------------------


class Slow(netsim.Allocator):
    """Gives half of what there is until 1 s, and then all, but to job 1 always a quarter."""

    def allocate(self, view):
        part = 0.5 if view.now < 1 else 1.0
        return netsim.Allocation(shares=np.where(view.job == 1, 0.25, part),
                                 revisit_at=1.0 if view.now < 1 else np.inf)


def test_a_coflow_waits_for_a_full_link_or_for_the_policy():
    """Job 0, 1.5 MB from 0 to 1, has egress 0 half until 1 s and fully until 2 s: one half.

    Job 1, 1 MB from 2 to 3 at 1/4 MB/s, has none. Job 2 has no bytes.
    """
    jobs = once([(0, 1, 1.5)], [(2, 3, 1)], [(0, 1, 0)])
    result = watched(jobs, allocator=Slow)
    found = netsim.coflows_at_bottleneck(result, NET, jobs)
    assert found["at_bottleneck"].tolist() == [0.5, 0, pytest.approx(np.nan, nan_ok=True)]
    assert list(found.columns[:-1]) == list(result.coflows.columns)


def test_links_are_those_of_the_path_that_was_taken():
    """Of two spines a flow between leaves crosses one; which one, its job and place say.

    16 jobs of 1 MB each in turn, alone and at full rate: each is at a bottleneck throughout,
    which is so only if its own spine is looked at: the ports are ten times as fast.
    """
    net = netsim.leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, capacity=10 * MB, uplink=MB)
    jobs = Workload([JobSpec(job, 10.0 * job, stages=[Stage("c", [(0, 1, MB)])], hosts=range(2))
                     for job in range(16)])
    result = watched(jobs, net)
    assert netsim.coflows_at_bottleneck(result, net, jobs)["at_bottleneck"].tolist() == (
        pytest.approx([1] * 16))
    spines = netsim.link_utilisation(result).query("bytes > 0 and peak > 0.9")
    assert len(spines) == 4


def by_brute_force(result, network):
    """For each coflow, the time between instants in which a link of its was full, over its life."""
    rows = result.links[result.links["bytes"] >= (1 - 1e-6) * result.links["capacity"]
                        * (result.links["end_s"] - result.links["start_s"])]
    for coflow in result.coflows.itertuples():
        flows = result.flows[result.flows["coflow"] == coflow.coflow]
        links = {network.link_names[link] for flow in flows.itertuples()
                 for link in network.route(flow.src, flow.dst)}
        mine = rows[rows["link"].isin(links)]
        instants = np.unique(np.concatenate(
            (mine["start_s"], mine["end_s"], [coflow.valid_s, coflow.finish_s])))
        instants = instants[(instants >= coflow.valid_s) & (instants <= coflow.finish_s)]
        full = sum(b - a for a, b in pairwise(instants)
                   if ((mine["start_s"] <= a) & (mine["end_s"] >= b)).any())
        yield full / (coflow.finish_s - coflow.valid_s) if coflow.cct_s > 0 else np.nan


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(deadline=None, max_examples=examples(15), derandomize=True)
@given(networks(min_hosts=HOSTS, max_hosts=HOSTS), workloads(HOSTS), st.sampled_from([0.0, 0.3]),
       st.integers(0, 2))
def test_against_brute_force(policy, network, workload, interval, seed):
    result = netsim.simulate(network, workload, allocator=policy, observe_interval=interval,
                             seed=seed, record=["coflows", "flows", "links"])
    found = netsim.coflows_at_bottleneck(result, network, workload)["at_bottleneck"]
    np.testing.assert_allclose(found, list(by_brute_force(result, network)), atol=1e-9)


@settings(deadline=None, max_examples=examples(25), derandomize=True)
@given(networks(min_hosts=HOSTS, max_hosts=HOSTS), workloads(HOSTS))
def test_under_max_min_fairness_something_is_always_full(network, workload):
    """Every flow then crosses a full link: a coflow with bytes is at a bottleneck all its life."""
    result = watched(workload, network, allocator="maxmin")
    waits = {stage.name for job in workload for stage in job.stages if stage.finishes_before}
    found = netsim.coflows_at_bottleneck(result, network, workload)
    found = found[(found["cct_s"] > 0) & ~found["stage"].isin(waits)]
    assert found["at_bottleneck"].to_numpy() == pytest.approx(1)


def test_another_workload_is_noticed():
    result = watched(once([(0, 1, 1)], [(0, 1, 1)]))
    with pytest.raises(InputError, match="a coflow 'c' of job 1 in iteration 0 that the"):
        netsim.coflows_at_bottleneck(result, NET, once([(0, 1, 1)]))


def test_what_was_not_recorded_is_asked_for():
    result = netsim.simulate(NET, once([(0, 1, 1)]))
    for analyse in (netsim.link_utilisation, netsim.share_at_bottleneck,
                    lambda result: netsim.coflows_at_bottleneck(result, NET, once([(0, 1, 1)]))):
        with pytest.raises(InputError, match="links were not recorded; simulate with record="):
            analyse(result)
    links = netsim.simulate(NET, once([(0, 1, 1)]), record=["links"])
    with pytest.raises(InputError, match="coflows were not recorded; simulate with record="):
        netsim.coflows_at_bottleneck(links, NET, once([(0, 1, 1)]))


def test_utilisation_of_the_line_rate():
    """Half of a port of 2 MB/s can be used, and is; of one without efficiency, half of 2 MB/s."""
    net = netsim.big_switch(2, "16Mbps", efficiency={"egress-*": 0.5})
    result = netsim.simulate(net, netsim.Workload.from_arrays([0], [1], 3e6), record=["links"])
    assert result.links[["capacity", "line_rate"]].to_numpy().tolist() == [[1e6, 2e6], [2e6, 2e6]]
    used = netsim.link_utilisation(result).set_index("link")
    assert used.loc["egress-0", ["utilisation", "of_line_rate"]].tolist() == [1, 0.5]
    assert used.loc["ingress-1", ["utilisation", "of_line_rate"]].tolist() == [0.5, 0.5]
    assert used.loc["egress-1", ["utilisation", "of_line_rate"]].tolist() == [0, 0]
    plain = netsim.simulate(netsim.big_switch(2), netsim.Workload.from_arrays([0], [1], 3e6),
                            record=["links"])
    assert "line_rate" not in plain.links
    assert "of_line_rate" not in netsim.link_utilisation(plain)
