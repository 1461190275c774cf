"""Crux's choice of paths: jobs of the highest GPU intensity first, each the least congested."""

import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.errors import InputError
from netsim.jobs.crux import choose_paths

MB = 1e6
#: Two leaves of four hosts, with a link of 1 MB/s to each of two spines.
NET = netsim.leaf_spine(2, 2, 4, "1MB/s", oversubscription=2)


def job(number, src, dst, compute_s=0.0, nbytes=MB):
    return JobSpec(number, 0.0, 4, hosts=(src, dst), stages=[
        Stage("all", [(0, 1, nbytes)], compute_s=compute_s)])


def spine(network, src, dst):
    return network.link_names[network.route(src, dst)[1]]


def jct_s(network, jobs):
    return netsim.simulate(network, jobs, allocator="maxmin").jobs["jct_s"].tolist()


def test_jobs_that_collide_by_ecmp_are_separated():
    """Jobs of 1 s per iteration; ids are counted up until hashes collide, as half of them do."""
    pairs = (Workload([job(k, 0, 4), job(k + 1, 1, 5)]) for k in range(100))
    jobs = next(each for each in pairs if jct_s(NET, each) == [8, 8])
    chosen = choose_paths(NET, jobs)
    assert jct_s(chosen, jobs) == [4, 4]
    assert spine(chosen, 0, 4) != spine(chosen, 1, 5)
    assert NET.given is None


@pytest.mark.parametrize("intense", range(3))
def test_jobs_choose_by_intensity(intense):
    """Three jobs on two spines: one computes for 8 s, the others for 0.1 s and k/10 s."""
    jobs = Workload([job(k, k, 4 + k, compute_s=8.0 if k == intense else 0.1 + k / 10)
                     for k in range(3)])
    chosen = choose_paths(NET, jobs)
    own, *others = (spine(chosen, k, 4 + k) for k in sorted(range(3), key=lambda k: k != intense))
    # It sends for a ninth of the time. The second job takes the other spine; for the third, that
    # of the first is less congested.
    second, third = sorted((k for k in range(3) if k != intense), reverse=True)
    assert spine(chosen, second, 4 + second) != own == spine(chosen, third, 4 + third)
    assert len({own, *others}) == 2


def test_flows_of_a_job_are_spread():
    """Of four equal flows, each spine has two."""
    stages = [Stage("all", [(k, 4 + k, MB) for k in range(4)])]
    jobs = Workload([JobSpec(0, hosts=range(8), stages=stages)])
    chosen = choose_paths(NET, jobs)
    assert jct_s(chosen, jobs) == [2]
    assert sorted(spine(chosen, k, 4 + k) for k in range(4)) == sorted(
        2 * ["leaf-0->spine-0", "leaf-0->spine-1"])


@pytest.mark.parametrize("network", [netsim.big_switch(8, MB), netsim.leaf_spine(
    2, 2, 4, MB, routing="spray"), NET.with_paths({(0, 4): NET.route(0, 4)})])
def test_networks_without_a_choice(network):
    with pytest.raises(InputError, match='by routing = "ecmp"'):
        choose_paths(network, Workload([job(0, 0, 4)]))
