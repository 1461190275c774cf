"""Parameter servers whose workers wait for each other (BSP), a little (SSP), or never (TAP)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import JobSpec, Workload
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.patterns import make_pattern
from netsim.studies.convert import explicit
from tests.examples import examples

RECORD = ("jobs", "coflows", "computations")
NET = netsim.big_switch(8, 1.0)


def job(staleness, workers=2, servers=1, nbytes=0.0, sizes="split", **named):
    pattern = {"name": "parameter-server", "servers": servers, "sizes": sizes,
               "staleness": staleness}
    named = {"compute_s": 1.0, "iterations": 5} | named
    return JobSpec(0, pattern=pattern, ranks=workers + servers, nbytes=nbytes,
                   hosts=range(workers + servers), **named)


def begins(result):
    """When each worker begins to compute, in each iteration; shape (workers, iterations)."""
    return result.computations.pivot(index="rank", columns="iteration", values="start_s").to_numpy()


def pushed(result):
    """When each worker has pushed, in each iteration; shape (workers, iterations)."""
    table = result.coflows[result.coflows["stage"].str.startswith("push-")]
    return table.pivot(index="stage", columns="iteration", values="finish_s").to_numpy()


@pytest.mark.parametrize("nbytes", [0.0, 1e-15])
@pytest.mark.parametrize("staleness", [1, 2, 3, 9, "unbounded"])
def test_a_slow_worker_holds_up_a_fast_one_after_s_iterations(staleness, nbytes):
    """Worker 0 computes for 1 s and worker 1 for 3 s; to send takes no time.

    Worker 1 begins iteration k at 3k, whatever the staleness. Worker 0 begins it at k under TAP,
    which is its own speed. Under SSP it also waits for iteration k - s - 1 of worker 1, pushed at
    3 (k - s): it begins at max(k, 3 (k - s)), and so, from 3s/2 on, every 3 s, as under BSP. With
    1e-15 bytes the fabric runs the job by itself, and without any a process does.
    """
    made = job(staleness, nbytes=nbytes)
    found = begins(netsim.simulate(NET, [made], stragglers={1: 3}, record=RECORD))
    k = np.arange(5.0)
    bound = -np.inf if staleness == "unbounded" else 3 * (k - staleness)
    assert found == pytest.approx(np.array([np.maximum(k, bound), 3 * k]), abs=1e-12)


def test_bsp_goes_at_the_pace_of_the_slowest():
    """Iterations of 3 s + 1 s + 1 s, as each of two workers pushes, and pulls, half a byte."""
    found = netsim.simulate(NET, [job(0, nbytes=0.5)], stragglers={1: 3}, record=RECORD)
    assert found.jobs["jct_s"].tolist() == [5 * (3 + 1 + 1)]
    assert len(found.coflows) == 2 * 5


def test_tap_pushes_and_pulls_alone():
    """Worker 0 computes for 1 s, sends 1 B for 1 s and pulls it for 1 s: 3 s an iteration.

    Worker 1 takes 4 + 1 + 1 = 6 s. Worker 0 pushes in [1, 2) and [4, 5) of 6 s, and pulls in [2, 3)
    and [5, 6). Worker 1 pushes in [4, 5) and pulls in [5, 6). So both share the server's ports from
    4 to 5 at 1/2 B/s, until 6, and from 6 to 8; worker 1 begins at 0 and 8.
    """
    found = begins(netsim.simulate(NET, [job("unbounded", nbytes=1.0, iterations=2)],
                                   stragglers={1: 4}, record=RECORD))
    assert found.tolist() == [[0, 3], [0, 8]]


@pytest.mark.parametrize("options", [{}, {"sizes": "uniform"}, {"compute_s": 0.0}])
def test_a_staleness_of_zero_is_bsp_to_the_last_bit(options):
    made = job(0, 3, 2, 7.0, **options)
    pattern = {name: value for name, value in made.pattern.items() if name != "staleness"}
    plain = JobSpec(0, pattern=pattern, ranks=5, nbytes=7.0, hosts=range(5), iterations=5,
                    compute_s=made.compute_s)
    one, other = (netsim.simulate(NET, [each], record=RECORD) for each in (made, plain))
    assert one.coflows.equals(other.coflows)
    assert one.jobs.equals(other.jobs)


@settings(max_examples=examples(40), deadline=None)
@given(staleness=st.sampled_from([1, 2, 4, "unbounded"]), workers=st.integers(1, 4),
       servers=st.integers(1, 2), iterations=st.integers(1, 6), seed=st.integers(0, 9),
       slow=st.lists(st.sampled_from([1.0, 1.5, 4.0]), min_size=4, max_size=4),
       nbytes=st.sampled_from([0.0, 0.5, 20.0]), compute_s=st.sampled_from([0.0, 1.0]),
       allocator=st.sampled_from(["maxmin", "parrot", "sebf", "aalo"]))
def test_the_lead_never_exceeds_the_staleness(staleness, workers, servers, iterations, seed, slow,
                                              nbytes, compute_s, allocator):
    """Whoever is in iteration k, all have pushed in iteration k - s - 1; all send what BSP does."""
    given = [Workload([job(each, workers, servers, nbytes, "uniform", iterations=iterations,
                           compute_s=compute_s)], seed=seed) for each in (staleness, 0)]
    found, bsp = (netsim.simulate(NET, each, stragglers=dict(enumerate(slow[:workers])),
                                  allocator=allocator, record=RECORD) for each in given)
    assert found.jobs["bytes"][0] == pytest.approx(bsp.jobs["bytes"][0])
    begun, done = begins(found), pushed(found)
    assert begun.shape == done.shape == (workers, iterations)
    assert (np.diff(begun) >= 0).all()
    for k in range(iterations):
        if staleness != "unbounded" and k > staleness:
            assert begun[:, k].min() >= done[:, k - staleness - 1].max() * (1 - 1e-9)
    made = (done[:, :, None, None] <= begun * (1 + 1e-9)).sum(axis=1)  # iterations, at each begin
    lead = np.arange(iterations) - made.min(axis=0)
    assert staleness == "unbounded" or lead.max() <= staleness


@pytest.mark.parametrize("staleness", [4, 5, 7])
def test_a_bound_that_never_holds_is_none(staleness):
    """With 5 iterations, nobody can be more than 4 ahead."""
    one, other = (netsim.simulate(NET, [job(each, 3, 2, 7.0, "uniform")], stragglers={1: 4},
                                  record=RECORD) for each in (staleness, "unbounded"))
    assert one.jobs.equals(other.jobs)
    assert begins(one).tolist() == begins(other).tolist()


def test_more_staleness_is_sooner_where_the_slow_worker_changes_nothing():
    """Worker 1 pushes for long, and worker 0 pulls for long: the more it may lead, the sooner."""
    ends = [netsim.simulate(NET, [job(each, 3, 2, 40.0, "uniform", iterations=8)],
                            stragglers={1: 4}).jobs["jct_s"][0]
            for each in (0, 1, "unbounded")]
    assert ends[0] > ends[1] >= ends[2]


def test_drawn_stages_run_alike():
    """What `explicit` makes of a job is what runs; and so is a job that is submitted."""
    late = replace(job(1, 3, 2, 7.0, "uniform"), id=1, arrival_s=5.0)
    given = Workload([job(2, 3, 2, 7.0, "uniform"), late], seed=3)
    runs = [netsim.simulate(NET, each, record=RECORD).coflows
            for each in (given, explicit(given), explicit(given, NET))]
    later = netsim.Simulation(NET, Workload(given.jobs[:1], seed=3), record=RECORD)
    later.submit(late)
    for coflows in (*runs[1:], later.run().result().coflows):
        assert coflows.equals(runs[0])


def test_on_a_cluster_each_worker_needs_a_host():
    given = [JobSpec(0, pattern="parameter-server:staleness=1", ranks=4, nbytes=1e6, iterations=3)]
    gpus = netsim.Cluster(topology=netsim.gpu_cluster(2, 2, "80Mbps", "8Mbps"))
    assert netsim.simulate(gpus, given).jobs["coflows"][0] == 2 * 2 * 3
    with pytest.raises(InputError, match=r"job 0: its ranks compute, .*needs a host for each GPU"):
        netsim.simulate(netsim.Cluster(servers=2, gpus=2), given)


def test_iterations_that_overlap_have_the_same_sizes():
    with pytest.raises(InputError, match="job 0: redraw: its iterations overlap"):
        netsim.simulate(NET, [job(1, redraw=True)])
    assert netsim.simulate(NET, [job(1, redraw=True, iterations=1)]).jobs["jct_s"][0] == 1


@pytest.mark.parametrize(("staleness", "error", "message"), [
    (-1, InputError, "staleness must be a whole number of at least 0, not -1"),
    (1.5, InputError, "staleness must be a whole number of at least 0, not 1.5"),
    (True, InputError, "staleness must be a whole number of at least 0, not True"),
    ("tap", UnknownNameError, "unknown staleness 'tap'; choose from: a whole number, unbounded")])
def test_refused(staleness, error, message):
    with pytest.raises(error, match=message):
        make_pattern({"name": "parameter-server", "staleness": staleness})


def test_a_pattern_of_ranks_must_say_so():
    class Rounds:
        ranked = True

        def stages(self, ranks, nbytes, rng):
            return [netsim.Stage("pass", ranks=[0], after_previous=["pass"]),
                    netsim.Stage("send", [(0, 1, nbytes)], after=["pass"], after_previous=["send"])]

    class Unsaid(Rounds):
        ranked = False

    netsim.testing.check_pattern(Rounds(), ranks=[2, 3])
    named = {"ranks": 2, "nbytes": 3.0, "compute_s": 1.0, "iterations": 4, "hosts": [0, 1]}
    run = netsim.simulate(NET, [JobSpec(0, pattern=Rounds(), **named)])
    assert run.jobs["jct_s"].tolist() == [1 + 4 * 3]
    with pytest.raises(InputError, match="patterns that say ranked = True may have"):
        netsim.simulate(NET, [JobSpec(0, pattern=Unsaid(), **named)])
    with pytest.raises(AssertionError, match=r"has ranks that compute, or .* without saying so"):
        netsim.testing.check_pattern(Unsaid(), ranks=[2, 3])
