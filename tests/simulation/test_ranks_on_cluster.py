"""Jobs whose ranks compute, on clusters: GPUs by scheduler and placement, times by hand."""

from contextlib import nullcontext

import numpy as np
import pytest

import netsim
from netsim import Cluster, JobSpec, Simulation, Stage
from netsim.engine.view import Decision
from netsim.errors import InputError

RECORD = ("jobs", "coflows", "computations")
TINY = {"layers": 8, "hidden": 64, "ffn": 256, "heads": 8, "vocab": 1024, "sequence": 32}
GPUS = netsim.gpu_cluster(4, 4, "1GB/s", "100MB/s")

#: A pass of 2 s, and a reduction of 3 s under the next pass: 2 + 3 n seconds for n iterations.
OVERLAPPED = [Stage("pass", compute_s=2, ranks=[0, 1], after_previous=["pass"]),
              Stage("reduce", [(0, 1, 3.0), (1, 0, 3.0)], after=["pass"],
                    after_previous=["reduce"])]


def llm(number, **given):
    return netsim.llm_job(TINY, id=number, tp=2, pp=2, dp=2, global_batch=4, iterations=3,
                          forward_s=(0.001, 0.002, 0.001), **given)


def overlapped(number=0, iterations=4, **given):
    return JobSpec(number, iterations=iterations, stages=OVERLAPPED, **given)


def pair(servers=2):
    """Servers of one GPU, whose ports send a byte per second."""
    return Cluster(servers, 1, nic=1.0)


def run(cluster, jobs, **given):
    return netsim.simulate(cluster, jobs, execution="fabric", **({"record": RECORD} | given))


@pytest.mark.parametrize("others", [[], [JobSpec(5, pattern="ring-all-reduce", ranks=4, nbytes=0)]])
@pytest.mark.parametrize("given", [{"scheduler": "fifo"}, {"placement": "consolidated"}])
def test_the_default_execution_can_run_them(others, given):
    """By a formula only rings run; a workload with other jobs runs on the fabric."""
    jobs = [llm(0), *others]
    result = netsim.simulate(GPUS, jobs, **given)
    assert result.run["execution"]["name"] == "fabric"
    assert result.jobs["finish_s"].tolist() == (
        netsim.simulate(GPUS, jobs, execution="fabric", **given).jobs["finish_s"].tolist())


def test_the_default_execution_of_rings_is_by_their_formula():
    ring = JobSpec(0, pattern="ring-all-reduce", ranks=4, nbytes=1e6)
    result = netsim.simulate(GPUS, [ring], scheduler="fifo")
    assert result.run["execution"]["name"] == "rar-contention"


def test_allocators_are_compared_under_the_default_execution():
    """Bandwidth is shared without `execution`, so that allocators may be given and varied."""
    result = netsim.sweep(network=Cluster(topology=GPUS), workload=[llm(0)], scheduler="fifo",
                          allocator=["maxmin", "sebf"])
    assert len(result.table) == 2


# --- times --------------------------------------------------------------------------------------


def test_jobs_one_after_the_other_take_what_each_takes_alone():
    """Each needs all GPUs: the second begins where the first ends, at T, and ends at 2 T."""
    network = netsim.gpu_cluster(2, 4, "1GB/s", "100MB/s")
    alone = netsim.simulate(network, [llm(0)]).jobs["jct_s"][0]
    jobs = run(Cluster(topology=network), [llm(0), llm(1)]).jobs
    assert jobs["start_s"].tolist() == pytest.approx([0, alone], rel=1e-12)
    assert jobs["finish_s"].tolist() == pytest.approx([alone, 2 * alone], rel=1e-9)
    assert jobs["placement"].tolist() == ["0:4 1:4"] * 2


@pytest.mark.parametrize("allocator", ["maxmin", "sebf", "parrot"])
def test_jobs_side_by_side_are_those_on_the_network_with_the_same_hosts(allocator):
    """First fit gives them GPUs 0 to 7 and 8 to 15, where jobs on the network say these hosts."""
    listed = [llm(0), llm(1, arrival_s=0.001)]
    placed = [llm(0, hosts=range(8)), llm(1, arrival_s=0.001, hosts=range(8, 16))]
    cluster = run(Cluster(topology=GPUS), listed, allocator=allocator)
    network = netsim.simulate(GPUS, placed, allocator=allocator, record=RECORD)
    columns = ["coflow", "job", "iteration", "stage", "valid_s", "finish_s", "bytes"]
    assert cluster.coflows[columns].equals(network.coflows[columns])
    assert cluster.computations.equals(network.computations)
    assert cluster.jobs["lower_bound_s"].tolist() == pytest.approx(
        network.jobs["lower_bound_s"].tolist())


def test_iterations_overlap_on_servers_of_one_gpu():
    """2 + 3 x 4 s, and twice the computation on a straggler: 4 s per pass, 4 x 4 + 3 s."""
    assert run(pair(), [overlapped()]).jobs["finish_s"][0] == 14
    slow = run(pair(), [overlapped()], stragglers={1: 2})
    assert slow.jobs["finish_s"][0] == 19
    assert slow.computations.groupby("rank")["finish_s"].first().tolist() == [2, 4]


def test_jobs_of_all_kinds_share_a_cluster():
    """A pattern of 4 ranks, and two language models: ends on one set of GPUs do not overlap."""
    ring = JobSpec(2, pattern="ring-all-reduce", ranks=12, nbytes=1e6, iterations=2)
    result = run(Cluster(topology=GPUS), [llm(0), ring, llm(1)], placement="least-busy-servers")
    assert result.jobs["finish_s"].notna().all()
    held = result.gpus.sort_values(["server", "gpu", "start_s"])
    for _, rows in held.groupby(["server", "gpu"]):
        assert (rows["start_s"].to_numpy()[1:] >= rows["end_s"].to_numpy()[:-1] - 1e-12).all()


def test_heavy_edge_maps_ranks_by_their_bytes():
    """Ranks 0 and 2 exchange most, then 1 and 3: a pair on each server."""
    stages = [Stage("a", [(0, 2, 9e6), (1, 3, 7e6), (0, 1, 1e6)], ranks=[0], compute_s=1)]
    cluster = Cluster(topology=netsim.gpu_cluster(2, 2, "1GB/s", "1MB/s"))
    first, mapped = (run(cluster, [JobSpec(0, stages=stages)], placement=name)
                     for name in ("first-fit", "mapped"))
    assert mapped.gpus["server"].tolist() == [0, 1, 0, 1]  # by rank
    assert mapped.gpus["gpu"].tolist() == [0, 0, 1, 1]
    # 9 MB and 7 MB leave ranks 0 and 1 through their NICs, or 1 MB does.
    assert first.jobs["finish_s"][0] == pytest.approx(1 + 9)
    assert mapped.jobs["finish_s"][0] == pytest.approx(1 + 1)


def test_language_models_are_mapped_onto_what_is_free():
    """Two of 8 GPUs on servers of 4: of ranks 0 to 3 and 4 to 7 all are on one server.

    They are the first stage of the pipeline and the second, between which the least is sent.
    """
    result = run(Cluster(topology=GPUS), [llm(0), llm(1)], placement="mapped:servers=most")
    servers = result.gpus["server"].to_numpy().reshape(4, 4)
    assert (servers == servers[:, :1]).all()
    assert sorted(servers[:, 0]) == [0, 1, 2, 3]
    assert result.jobs["finish_s"].notna().all()


# --- estimates ----------------------------------------------------------------------------------


def test_the_shortest_by_its_lower_bound_goes_first():
    """Jobs of 2 + 3 n s, of 1, 4 and 1 iterations: 5 s, 5 s until 10, then 14 s until 24.

    By estimates of their own, 1 and 2 s, the last two go before the first.
    """
    jobs = [overlapped(0, 1), overlapped(1, 4), overlapped(2, 1)]
    found = run(pair(), jobs, scheduler="sjf:by=time").jobs
    assert found["finish_s"].tolist() == [5, 24, 10]
    told = [overlapped(0, 1), overlapped(1, 4, estimate_s=1), overlapped(2, 1, estimate_s=2)]
    assert run(pair(), told, scheduler="sjf:by=time").jobs["finish_s"].tolist() == [24, 14, 19]


def test_remaining_time_is_by_the_lower_bound_too():
    """A job of 14 s runs; one of 5 s comes at 1 and takes its GPUs, as 5 < 13.

    Nothing of the long one is kept, which had made no iteration: 6 + 14.
    """
    jobs = run(pair(), [overlapped(0, 4), overlapped(1, 1, arrival_s=1)], scheduler="srtf").jobs
    assert jobs["finish_s"].tolist() == [20, 6]
    assert jobs["preemptions"].tolist() == [1, 0]


# --- preemption and faults ----------------------------------------------------------------------


class Interrupts:
    """Starts the first job at once, takes its GPUs at 6 s, and gives them back at 10 s."""

    def decide(self, view):
        gpus = np.arange(2)
        if view.now == 0:
            return Decision([(0, gpus)], wake_at=6)
        if view.now == 6:
            return Decision(preempt=[0], wake_at=10)
        return Decision([(0, gpus)] if view.pending and view.now >= 10 else [])


def test_a_preempted_job_repeats_the_iterations_that_are_not_complete():
    """Of two iterations the first ends at 5; at 6 the second has sent 1 s of 3.

    Its pass (2 to 4 s) is lost too: 10 + 2 + 3 s.
    """
    result = run(pair(), [overlapped(iterations=2)], scheduler=Interrupts())
    jobs = result.jobs.iloc[0]
    assert jobs[["finish_s", "preemptions", "lost_bytes"]].tolist() == [15, 1, 2]
    assert result.coflows[["iteration", "valid_s", "finish_s"]].values.tolist() == [
        [0, 2, 5], [1, 12, 15]]
    assert result.other_coflows[["iteration", "end_s", "bytes", "why"]].values.tolist() == [
        [1, 6, 2, "withdrawn"]]


@pytest.mark.parametrize(("on_fault", "finish", "lost_bytes"), [
    ("iterations", 15, 2), ("checkpoint", 18, 8)])
def test_a_job_that_loses_a_server_goes_back_as_far_as_said(on_fault, finish, lost_bytes):
    """Lost at 6 s, repaired at 10 s: 2 + 3 s for the second iteration, or 2 + 3 x 2 for both.

    The coflow of the first iteration, 6 bytes, is then sent again, as the 2 of the second are.
    """
    events = [{"at": 6, "host": 0, "kind": "fail", "restart": True},
              {"at": 10, "host": 0, "kind": "repair"}]
    result = run(pair(), [overlapped(iterations=2)], events=events,
                 preemption={"on_fault": on_fault})
    jobs = result.jobs.iloc[0]
    assert jobs[["finish_s", "restarts", "lost_bytes"]].tolist() == [finish, 1, lost_bytes]
    assert result.coflows["iteration"].tolist() == [0, 1]
    assert result.coflows["finish_s"].iloc[-1] == finish


def test_links_that_change_reroute_its_coflows():
    """At half the rate from 3 s on, the reduction that began at 2 has 2 bytes left: 7 s."""
    events = [{"at": 3, "link": link, "capacity": 0.5} for link in ("ingress-0", "ingress-1")]
    result = run(pair(), [overlapped(iterations=1)], events=events)
    assert result.jobs["finish_s"][0] == 7


def test_a_run_can_be_held_forked_and_given_more_jobs():
    cluster, jobs = Cluster(topology=GPUS), [llm(0), llm(1)]
    whole = run(cluster, [*jobs, llm(2, arrival_s=0.05)])
    sim = Simulation(cluster, jobs, execution="fabric", record=RECORD).run(until=0.01)
    sim.submit(llm(2, arrival_s=0.05))
    other = sim.fork()
    for each in (sim, other):
        result = each.run().result()
        assert result.jobs.equals(whole.jobs)
        assert result.computations.equals(whole.computations)


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "message"), [
    ({"execution": "rar-contention"}, "needs rings: job 0 is no ring: it has ranks that compute"),
    ({"execution": "asrpt"}, "known iteration times: job 0 has ranks that compute"),
    ({"scheduler": "a-srpt-perfect"}, "known iteration times: job 0 has ranks that compute"),
    ({"preemption": {"keep": "fraction"}}, "keep must be 'iterations', not 'fraction'"),
    ({"placement": "mapped:mapping=random"}, "mapping 'random' is of replicas, of which job 0"),
])
def test_runs_that_cannot_be(given, message):
    with pytest.raises(InputError, match=message):
        netsim.simulate(Cluster(topology=GPUS), [llm(0)], **({"execution": "fabric"} | given))


def test_servers_of_several_gpus_need_a_host_for_each():
    with pytest.raises(InputError, match=r"job 0: .* a host for each GPU; .* up to 4\."):
        run(Cluster(2, 4), [llm(0)])


def test_a_job_that_is_submitted_is_refused_as_it_would_be_before():
    ring = JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes=1e6, iterations=9)
    sim = Simulation(Cluster(topology=GPUS), [ring], execution="fabric",
                     preemption={"keep": "fraction"}).run(until=0.001)
    with pytest.raises(InputError, match="ranks of job 1 compute"):
        sim.submit(llm(1, arrival_s=1))


@pytest.mark.parametrize(("other", "meets"), [
    ({}, True), ({"hosts": range(4, 12)}, True), ({"hosts": range(8, 16)}, False),
    ({"arrival_s": 60.0}, False)])
def test_jobs_that_compute_on_one_gpu_at_the_same_time_are_told(other, meets):
    """Each has ranks 0 to 7, on hosts of those numbers if none are given."""
    jobs = [llm(0), llm(1, **other)]
    with (pytest.warns(netsim.NetsimWarning, match=r"jobs 0 and 1 compute on host gpu-\d\.0 at")
          if meets else nullcontext()):
        netsim.simulate(GPUS, jobs)
    netsim.simulate(GPUS, jobs, scheduler="fifo", execution="fabric")
