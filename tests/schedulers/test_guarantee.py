"""Theorem 5 of SJF-BCO: what it claims, computed by hand; and an instance for which it is wrong."""

import pytest

from netsim import JobSpec
from netsim.cluster import Cluster, Contention
from netsim.schedulers.plan import guarantee_of
from netsim.schedulers.sjf_bco import SjfBco


def ring(place, ranks, iterations, compute_s=0.1, **others):
    return JobSpec(place, pattern="ring-all-reduce", ranks=ranks, iterations=iterations,
                   nbytes=10e6, compute_s=compute_s, **others)


def test_the_claim_by_hand():
    """Servers of 2 and 3 GPUs, b_e = 100 MB/s, b_i = 1 GB/s; jobs of 1 and 2 GPUs.

    The first takes 0.1 s per iteration wherever it is. The second exchanges 2 x 10 MB / 2 = 10 MB:
    0.11 s on one server; and on two with p = 3 jobs on a server, k = 3, 0.1 + 0.3 = 0.4 s. It is
    expected to take 0.1 s per iteration, 1/4 of its most; the first 0.2, twice its least.
    """
    cluster = Cluster(gpus=[2, 3], nic=1e8, intra=1e9)
    jobs = [ring(0, 1, 100, estimate_s=20), ring(1, 2, 100, estimate_s=10)]
    model = Contention()
    claimed = guarantee_of(SjfBco().planner(cluster, jobs, model))
    assert (claimed.low, claimed.high) == pytest.approx((0.25, 2))
    assert claimed.largest == 2
    assert claimed.spread == pytest.approx(0.4 / 0.11)
    assert claimed.ratio == pytest.approx(2 * (0.4 / 0.11) * 2 / 0.25)
    halved = SjfBco(u=2)
    again = guarantee_of(halved.planner(cluster, jobs, model), halved.u)
    assert again.ratio == pytest.approx(claimed.ratio)
    assert halved.plan(cluster, jobs, model).counts["theorem_5"] == pytest.approx(claimed.ratio)


def test_theorem_5_is_wrong_for_three_jobs_on_two_gpus():
    """Jobs of 10, 10 and 20 s on a GPU each, all of it known: the theorem claims the optimum, 20.

    n_g = 1, no job's time depends on its place, and l = u = 1. But jobs of one size go in the order
    given, each to the GPU promised least: the first two side by side, the third after one of them.
    """
    cluster = Cluster(gpus=[2])
    jobs = [ring(place, 1, seconds * 10, estimate_s=seconds)
            for place, seconds in enumerate((10, 10, 20))]
    plan = SjfBco().plan(cluster, jobs, Contention())
    assert plan.counts["theorem_5"] == pytest.approx(1)
    assert plan.makespan_s == 30  # and 20 where the third has a GPU of its own


def test_another_degradation():
    """A ring of two that only exchanges, at the same rate on one server and on two: f(1) = 1.

    With another job on its servers, each takes f(2) = 4 times as long: varphi = 4. Estimates are
    those without contention: u = 1, l = 1/4. So n_g varphi u / l = 2 x 4 x 4.
    """
    cluster = Cluster(gpus=[2, 2], nic=1e9, intra=1e9)
    jobs = [JobSpec(k, pattern="ring-all-reduce", ranks=2, nbytes=1e9, iterations=10,
                    estimate_s=10) for k in range(2)]
    model = Contention(time="continuous", degradation={"name": "table", "values": [1, 4]})
    assert SjfBco().plan(cluster, jobs, model).counts["theorem_5"] == pytest.approx(32)
