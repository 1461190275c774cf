"""Ring all-reduces in place of parameter servers: by pencil, and against jobs with a PS.

In cases by pencil, gradients have 1 MB, the bandwidth of jobs is 1 MB/s, and a mini-batch computes
for 1 s. A ring of n workers then exchanges for 2 (n - 1) / n s: 1 s with two, and 4/3 s with three.
A PS takes 2 s.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import EdgeJob, EdgeWorkload
from netsim.edge.on_fabric.traffic import successors
from netsim.errors import InputError, NetsimError, UnknownNameError
from tests.edge.test_invariants import instances, unlimited
from tests.edge.test_on_fabric import MB, MODES, job, on_links, run, system
from tests.edge.test_whole_jobs_on_fabric import COSTS, COUNTS, SAME, SCHEDULERS
from tests.edge.test_whole_jobs_on_fabric import instances as wide_instances
from tests.examples import examples

#: Links that limit nothing.
WIDE = 9 * MB


def ring(number=0, **options):
    return job(number, **{"exchange": "ring", "gradient_bytes": MB} | options)


def in_rings(workload):
    return EdgeWorkload([replace(each, exchange="ring") for each in workload])


# --- jobs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "nbytes"), [(1, 0), (2, 10), (4, 15), (5, 16)])
def test_what_a_worker_sends(workers, nbytes):
    """2 (n - 1) steps of q / n bytes, where q = 10; with a PS it is 2 q."""
    given = {"id": 0, "chunks": workers, "compute_s": 1, "gradient_bytes": 10, "bandwidth": 5}
    found = EdgeJob(exchange="ring", **given)
    steps = sum(10 / workers for _ in range(2 * (workers - 1)))
    assert found.exchange_bytes(workers) == pytest.approx(steps) == pytest.approx(nbytes)
    assert found.exchange_s == nbytes / 5
    assert found.p0_s == found.chunk_s(workers) == 1 + nbytes / 5
    assert EdgeJob(**given).exchange_bytes(workers) == 20


def test_exchanges_have_names():
    with pytest.raises(UnknownNameError, match="unknown exchange of job 0 'rings'"):
        ring(exchange="rings")


def test_a_ring_goes_through_each_host_once():
    """Chunks 3 and 5 are on host 0, chunks 2 and 4 on host 1: 3, 5, 2, 4 and back to 3."""
    assert successors({2: 1, 3: 0, 4: 1, 5: 0}) == {3: 0, 5: 1, 2: 1, 4: 0}
    assert successors({7: 3}) == {7: 3}


# --- constant rates ------------------------------------------------------------------------


@settings(max_examples=examples(40), deadline=None)
@given(instances(), st.sampled_from(["a-online", "a-online-e", "cloud-only"]),
       st.sampled_from([0, 0.5]))
def test_at_constant_rates_it_is_a_ps_with_smaller_gradients(instance, scheduler, epsilon):
    """2 (D - 1) / D q / b is the time with a PS for gradients of (D - 1) / D q."""
    cloud, jobs = unlimited(instance[0]), instance[1]
    smaller = EdgeWorkload([replace(each, gradient_bytes=(
        each.chunks - 1) / each.chunks * each.gradient_bytes) for each in jobs])
    found, wanted = (netsim.simulate(cloud, each, scheduler=scheduler, epsilon=epsilon)
                     for each in (in_rings(jobs), smaller))
    for name in ("worker", "ready_s", "start_s", "finish_s", "alpha_s", "preemptions"):
        assert found.chunks[name].to_numpy(float) == pytest.approx(
            wanted.chunks[name].to_numpy(float)), name
    for name in ("bytes", "communication_s"):
        assert found.jobs[name].to_numpy() == pytest.approx(wanted.jobs[name].to_numpy()), name
    assert len(found.ps) == found.summary()["ps_shortages"] == 0


@pytest.mark.parametrize(("chunks", "gang", "seconds", "nbytes"), [
    (2, 2, 2, 2), (3, 2, 2 + 1, 2), (4, 2, 2 + 2, 4), (3, 3, 1 + 4 / 3, 4), (3, 1, 3, 0)])
@pytest.mark.parametrize("transport", ["constant", *(f"fabric:mode={mode}" for mode in MODES)])
def test_whole_jobs_form_rings_of_their_workers(transport, chunks, gang, seconds, nbytes):
    """Three chunks on two workers: one each in a ring of two, then the last one alone.

    n workers send 2 (n - 1) MB per mini-batch.
    """
    found = netsim.simulate(system(1, 1, 1, edge_links=WIDE), [ring(chunks=chunks, gang=gang)],
                            scheduler="srtf", transport=transport)
    assert found.jobs["jct_s"].tolist() == pytest.approx([seconds])
    assert found.jobs["bytes"].tolist() == pytest.approx([nbytes * MB])
    assert found.jobs["communication_s"].tolist() == pytest.approx([nbytes])
    assert found.jobs["lower_bound_s"].tolist() == [1]


@settings(max_examples=examples(50), deadline=None)
@given(wide_instances(), st.sampled_from(SCHEDULERS), st.sampled_from(MODES),
       st.sampled_from([0, 0.5]), st.sampled_from(COSTS))
def test_whole_jobs_on_wide_links_are_as_with_constant_rates(instance, scheduler, mode, epsilon,
                                                             costs):
    cloud, jobs = instance[0], in_rings(instance[1])
    options = {"scheduler": scheduler, "epsilon": epsilon, "preemption": costs}
    try:
        wanted = netsim.simulate(cloud, jobs, **options)
    except NetsimError:
        return  # storage is too small
    found = netsim.simulate(cloud, jobs, transport=f"fabric:mode={mode}", **options)
    for name, columns in SAME.items():
        one, other = (getattr(each, name)[columns].to_numpy(float) for each in (found, wanted))
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9, nan_ok=True), name
    one, other = found.summary(), wanted.summary()
    assert [one[name] for name in COUNTS] == [other[name] for name in COUNTS]


# --- links ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_chunk_joins_a_ring_and_leaves_it(mode):
    """Of two chunks of 6 mini-batches, one is there at 0 s and the other at 4 s.

    Alone, a mini-batch takes 1 s, together 2 s. So chunk 0 has 2 left at 4 s and ends at 8 s, when
    chunk 1 has 4 left, and ends at 12 s. Two mini-batches of two chunks are exchanged.
    """
    two = ring(chunks=2, minibatches=6, upload_s=[0, 4])
    found = run(system(1, 1, edge_links=WIDE), two, mode=mode)
    assert found.chunks["finish_s"].tolist() == pytest.approx([8, 12])
    assert found.jobs["bytes"].tolist() == pytest.approx([2 * 2 * MB])
    assert found.jobs["communication_s"].tolist() == pytest.approx([4 + 2 * 2])
    assert found.chunks["rate_ratio"].tolist() == pytest.approx([12 / 8, 12 / 8])
    # Where rates are constant, the ring counts as complete.
    constant = netsim.simulate(system(1, 1), [two], scheduler="a-online-e")
    assert constant.chunks["finish_s"].tolist() == [12, 16]
    assert constant.jobs["bytes"].tolist() == [6 * 2 * MB]


@pytest.mark.parametrize("mode", MODES)
def test_the_ring_shrinks_while_a_chunk_is_displaced(mode):
    """Two chunks of 6 mini-batches; at 4 s, after two of them, somebody takes worker 0 for 3 s.

    Until 7 s, chunk 1 trains alone on three mini-batches. Its last one takes 2 s in the ring,
    until 9 s. Then chunk 0 has 3 left, until 12 s.
    """
    found = run(system(1, 1, edge_links=WIDE), ring(0, chunks=2, minibatches=6),
                job(1, arrival_s=4, compute_s=3), mode=mode)
    assert found.chunks["finish_s"].tolist() == pytest.approx([12, 9, 7])
    assert found.chunks["preemptions"].tolist() == [1, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_each_server_carries_the_ring_once(mode):
    """Of three workers two are on server 0: it sends 4/3 MB and gets as much, as server 1 does.

    A mini-batch takes 1 + 4/3 s on links of 1 MB/s. The link of a PS elsewhere carries all
    three pushes, and then all three pulls: 1 + 3 + 3 s.
    """
    three = ring(chunks=3, minibatches=3)
    found = run(system(2, 1, 0, ps=[0, 0, 1]), three, mode=mode, record=["links"])
    assert found.jobs["finish_s"].tolist() == pytest.approx([3 * (1 + 4 / 3)])
    carried = found.links.groupby("link", observed=False)["bytes"].sum()
    for name in ("egress-0", "ingress-0", "egress-1", "ingress-1"):
        assert carried[name] == pytest.approx(3 * 4 / 3 * MB)
    assert carried["ingress-2"] == 0
    assert run(system(2, 1, 0, ps=[0, 0, 1]), replace(three, exchange="ps"),
               mode=mode).jobs["finish_s"].tolist() == pytest.approx([3 * 7])


@pytest.mark.parametrize("mode", MODES)
def test_the_slowest_link_sets_the_pace_of_a_ring(mode):
    """Server 1 has half a link: each mini-batch takes 1 + 2 s for both."""
    found = run(system(1, 1, edge_links=[WIDE, MB / 2]), ring(chunks=2, minibatches=3), mode=mode)
    assert found.chunks["finish_s"].tolist() == pytest.approx([9, 9])


@pytest.mark.parametrize("mode", MODES)
def test_a_ring_reaches_into_the_cloud(mode):
    """The third chunk is there after 2 s, over a WAN of 0.5 MB/s; until then two are in the ring.

    The first mini-batch takes 2 s, the two others 1 + 4/3 / 0.5 s. The chunk in the cloud then
    trains alone for one more.
    """
    three = ring(chunks=3, minibatches=3, upload_s=0, cloud_upload_s=2)

    class Split:
        """One chunk to each of two workers, and one to the cloud."""

        schedules = "chunks"

        def dispatcher(self, setting):
            return self

        def place(self, job, queues, storage):
            from netsim.edge.schedule import ChunkPlacement
            return ChunkPlacement(np.array([0, 1, -1]), np.zeros(3), np.zeros(3))

    found = run(system(1, 1, edge_links=WIDE, wan=MB / 2), three, mode=mode, scheduler=Split())
    both = 2 + 2 * (1 + 4 / 3 / 0.5)
    assert found.chunks["finish_s"].tolist() == pytest.approx([both, both, both + 1])


@pytest.mark.parametrize("mode", MODES)
def test_jobs_with_rings_and_with_servers_go_together(mode):
    """Three chunks of a job with a PS, and a ring of two, each with links that limit nothing."""
    with_ps = job(0, chunks=3, minibatches=2, gradient_bytes=MB)
    found = run(system(5, 5, edge_links=99 * MB), with_ps, ring(1, chunks=2, minibatches=2),
                mode=mode)
    assert found.jobs["finish_s"].tolist() == pytest.approx([2 * 3, 2 * 2])
    assert found.ps["job"].tolist() == [0]


@pytest.mark.parametrize("mode", MODES)
def test_a_job_with_a_ring_is_submitted(mode):
    """While another one trains: each takes 3 mini-batches of 2 s; the second one comes at 3 s."""
    simulation = netsim.Simulation(
        system(4, edge_links=WIDE), [ring(0, chunks=2, minibatches=3)], scheduler="a-online-e",
        transport=f"fabric:mode={mode}")
    simulation.run(until=2.5)
    simulation.submit(ring(1, chunks=2, minibatches=3, arrival_s=3))
    fork = simulation.fork()
    for each in (simulation, fork):
        each.run()
        assert each.result().jobs["finish_s"].tolist() == pytest.approx([6, 9])


@settings(max_examples=examples(40), deadline=None)
@given(instances(), st.sampled_from(["a-online", "cloud-only"]), st.sampled_from([0.5, 1e9]),
       st.sampled_from(MODES))
def test_what_holds_on_any_links(instance, scheduler, rate, mode):
    cloud, jobs = on_links(instance[0], rate), in_rings(instance[1])
    found = netsim.simulate(cloud, jobs, scheduler=scheduler, transport=f"fabric:mode={mode}")
    chunks, training = found.chunks, found.training
    assert (found.jobs["jct_s"] >= found.jobs["lower_bound_s"] - 1e-9).all()
    assert (chunks["start_s"] >= chunks["ready_s"] - 1e-9).all()
    for _, rows in training[training["server"] >= 0].groupby(["server", "worker"]):
        spans = rows.sort_values("start_s")[["start_s", "end_s"]].to_numpy()
        assert (spans[1:, 0] >= spans[:-1, 1] - 1e-9).all()  # one chunk at a time
    declared = np.array([each.chunks * (each.chunk_bytes + each.batches * each.exchange_bytes(
        each.chunks)) for each in jobs])
    assert (found.jobs["bytes"] <= declared * (1 + 1e-9)).all()
    if rate == 1e9 and mode == "fluid":  # no ring is longer than expected, and none waits
        assert (chunks["rate_ratio"] >= 1 - 1e-9).all()


@pytest.mark.parametrize("preemption", ["drop", "pause"])
def test_a_chunk_does_not_stop_within_a_mini_batch_of_its_ring(preemption):
    with pytest.raises(InputError, match=r"'fabric' needs exchanges with a PS: job 1 has exchange "
                                         r"'ring', whose .* leave preemption out"):
        run(system(1), job(), ring(1), mode="exact", preemption=preemption)
    assert run(system(1), ring(), preemption="pause").jobs["finish_s"].tolist() == [1]


def test_rings_in_files():
    cloud = netsim.draw_edge_cloud(3, types=1, seed=1)
    drawn = netsim.draw_edge_jobs(4, servers=3, types=1, exchange="ring", seed=1)
    assert {each.exchange for each in drawn} == {"ring"}
    read = netsim.read_edge_jobs("edge-jobs-300", cloud, jobs=4, exchange="ring", seed=1)
    assert [each.p0_s for each in read] == [each.p0_s for each in drawn]
