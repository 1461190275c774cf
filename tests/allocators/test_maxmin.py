"""Sharing without coflows: max-min fairness, with weights."""

import pytest

import netsim
from netsim import JobSpec, Stage, Workload

MB = 1e6


def one_coflow(job, flows, **options):
    stage = Stage("only", [(src, dst, mb * MB) for src, dst, mb in flows], **options)
    return JobSpec(job, stages=[stage], hosts=range(4))


@pytest.mark.parametrize("decisions", ["flow", "coflow"])
def test_flows_share_in_proportion_to_their_coflows_weights(decisions):
    """Weights 3 and 1 on one port of 1 MB/s, 3 MB each: 3/4 MB/s until 4; then 2 MB are left.

    The second ends at 4 + 2 = 6. With equal weights both have 1/2 MB/s and end at 6.
    """
    jobs = Workload([one_coflow(0, [(0, 1, 3)], weight=3), one_coflow(1, [(0, 2, 3)])])
    net = netsim.big_switch(4, MB)
    policy = {"name": "maxmin", "decisions": decisions}
    weighted = netsim.simulate(net, jobs, allocator=policy | {"weights": "coflow"})
    assert weighted.jobs["finish_s"].tolist() == pytest.approx([4, 6])
    assert netsim.simulate(net, jobs, allocator=policy).jobs["finish_s"].tolist() == [6, 6]


@pytest.mark.parametrize(("decisions", "ends"), [("flow", [5, 4]), ("coflow", [6, 5])])
def test_a_flow_that_ends_gives_its_weight_back(decisions, ends):
    """A, weight 2: 1 MB to host 1 and 3 MB to host 2. B, weight 1: 1 MB. All leave host 0.

    A has 2/5 MB/s per flow, B 1/5. At 5/2 A's short flow ends, with 2 MB of the long one and
    1/2 MB of B left. Shared anew at 2/3 and 1/3: B ends at 5/2 + 3/2 = 4, when 1 MB is left
    of A: at 5. Not shared anew: B at 5, then 1 MB of A at 6.
    """
    jobs = Workload([one_coflow(0, [(0, 1, 1), (0, 2, 3)], weight=2),
                     one_coflow(1, [(0, 3, 1)])])
    policy = {"name": "maxmin", "decisions": decisions, "weights": "coflow"}
    found = netsim.simulate(netsim.big_switch(4, MB), jobs, allocator=policy)
    assert found.jobs["finish_s"].tolist() == pytest.approx(ends)
