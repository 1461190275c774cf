"""How busy links were, and what was held up by a full one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.testing import networks, workloads

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
    2.1 s on, or if decisions fall only at the ends of coflows, never.
    """
    jobs = once([(0, 1, 1), (0, 3, 1), (2, 3, 4)])
    found = rates(netsim.simulate(NET, jobs, allocator={"name": "maxmin", "decisions": "coflow"},
                                  observe_interval=interval, record=["links"]))
    assert found["egress-0"] == [(0, 2, 1)]
    assert found["ingress-3"] == [(0, 2, 1), (2, 8, 0.5)]
    sharing = rates(netsim.simulate(NET, jobs, observe_interval=interval, record=["links"]))
    assert sharing["egress-0"] == [(0, 2, 1)]
    if interval:
        assert sharing["ingress-3"] == [(0, 2, 1), (2, pytest.approx(2.1), 0.5),
                                        (pytest.approx(2.1), pytest.approx(5.05), 1)]
    else:
        assert sharing["ingress-3"] == [(0, 2, 1), (2, 5, 1)]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(deadline=None, max_examples=25, derandomize=True)
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
