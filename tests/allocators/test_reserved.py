"""Static shares: a coflow takes gamma over its share, and nobody else matters."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.errors import AllocationError, InputError, UnknownNameError
from netsim.testing import make_view, networks, workloads
from tests.examples import examples

MB = 1e6
NET = netsim.big_switch(4, MB)
HOSTS = 4


def job(number, flows, weight=1.0, arrival=0.0):
    stage = Stage("only", [(src, dst, mb * MB) for src, dst, mb in flows], weight=weight)
    return JobSpec(number, arrival, stages=[stage], hosts=range(4))


def ccts(*jobs, shares):
    policy = {"name": "reserved", "shares": shares}
    return netsim.simulate(NET, Workload(jobs), allocator=policy).coflows["cct_s"].tolist()


def test_one_share_for_all():
    """A: 3 MB out of host 0, 1 MB of it into host 1; gamma 3. B: 1 MB from 0 to 3; gamma 1.

    At a quarter of 1 MB/s: 12 s and 4 s, though B could have had more, and A once B has ended.
    """
    jobs = job(0, [(0, 1, 1), (0, 2, 2)]), job(1, [(0, 3, 1)])
    assert ccts(*jobs, shares=0.25) == pytest.approx([12, 4])


def test_each_coflow_its_weight():
    """Half and a quarter of one port: 2 MB in 4 s and 1 MB in 4 s; a quarter stays idle."""
    assert ccts(job(0, [(0, 1, 2)], 0.5), job(1, [(0, 2, 1)], 0.25), shares="weight") == [4, 4]


def test_part_of_a_nic():
    """2 replicas, one on each of 2 servers of 4 GPUs, reserve 1/4 of the NICs.

    They sum h = 3 MB of parameters in a ring: D = 2(k-1)h/k = 3 MB leave each server, in
    D * g/(x * B) = 3 * 4/1 = 12 s.
    """
    assert ccts(job(0, [(0, 1, 3), (1, 0, 3)], weight=1 / 4), shares="weight") == [12]


@settings(deadline=None, max_examples=examples(60))
@given(networks(min_hosts=HOSTS, max_hosts=HOSTS), workloads(HOSTS))
def test_no_job_depends_on_another(network, workload):
    """Each job, alone on the network, ends when it does among the others."""
    policy = {"name": "reserved", "shares": 1 / 32}
    together = netsim.simulate(network, workload, allocator=policy).jobs
    for spec, finish in zip(workload, together["finish_s"], strict=True):
        alone = netsim.simulate(network, replace(workload, jobs=(spec,)), allocator=policy).jobs
        assert alone["finish_s"][0] == pytest.approx(finish, rel=1e-9)


@settings(deadline=None, max_examples=examples(60))
@given(networks(min_hosts=HOSTS, max_hosts=HOSTS), workloads(HOSTS, chains=True))
def test_a_coflow_takes_gamma_over_its_share(network, workload):
    policy = {"name": "reserved", "shares": 1 / 8}
    coflows = netsim.simulate(network, workload, allocator=policy).coflows
    np.testing.assert_allclose(coflows["cct_s"], 8 * coflows["gamma_s"], rtol=1e-9, atol=1e-12)


def test_more_than_the_whole_of_a_link_is_refused():
    """Of ingress 1, link 5, 0.5 + 0.75 + 0.25, though the second sends little there: 3/2 > 1."""
    view = make_view(NET, [[(0, 1, 4.0)], [(0, 1, 1.0), (2, 3, 9.0)], [(2, 1, 1.0)]],
                     weight=[0.5, 0.75, 0.25], now=1.5)
    policy = netsim.make_allocator({"name": "reserved", "shares": "weight"})
    with pytest.raises(AllocationError, match=r"allocator reserved at t = 1.5 s: the coflows that "
                       r"use link 5 have the shares 0.5, 0.75, 0.25, which add up to more than 1"):
        policy.allocate(view)
    jobs = Workload([job(k, [(0, 1, 1)]) for k in range(9)])
    with pytest.raises(AllocationError, match=r"the shares 0\.2, .* 0\.2 and 4 more, which"):
        netsim.simulate(NET, jobs, allocator={"name": "reserved", "shares": 0.2})


def test_the_whole_of_a_link_is_not_too_much():
    """Ten tenths are 1 but for a rounding."""
    assert ccts(*(job(k, [(0, 1, 1)]) for k in range(10)), shares=0.1) == pytest.approx([10] * 10)


@pytest.mark.parametrize("shares", [0, -0.5, 1.5, float("nan"), True, None, [0.5]])
def test_refused(shares):
    with pytest.raises(InputError, match=r"shares must be a number in \(0, 1\], not "):
        netsim.make_allocator({"name": "reserved", "shares": shares})


def test_unknown_shares():
    with pytest.raises(UnknownNameError, match=r"unknown shares 'weights' \(did you mean 'weight'"):
        netsim.make_allocator({"name": "reserved", "shares": "weights"})


def test_parts_of_gpus_are_refused_only_where_rates_do_not_fit():
    """Of ingress 1, 0.5 of its capacity and 0.75/9 + 0.25: 5/6; by ``"weight"`` that is refused."""
    coflows = [[(0, 1, 4.0)], [(0, 1, 1.0), (2, 3, 9.0)], [(2, 1, 1.0)]]
    policy = netsim.make_allocator({"name": "reserved", "shares": "gpus"})
    assert policy.reserves_gpus
    assert not netsim.make_allocator("reserved").reserves_gpus
    fits = make_view(NET, coflows, weight=[0.5, 0.75, 0.25])
    assert policy.allocate(fits).shares.tolist() == [0.5, 0.75, 0.25]
    too_much = make_view(NET, coflows, weight=[0.75, 0.75, 0.25], now=1.5)
    with pytest.raises(AllocationError, match=r"reserved at t = 1.5 s: the parts of link 5 of the "
                                              r"GPUs add up to 1\.083\d*, by the shares 0\.75"
                       ):
        policy.allocate(too_much)
