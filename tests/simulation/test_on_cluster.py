"""Jobs on a cluster, from the front door: by the contention model, and as coflows."""

import numpy as np
import pytest

import netsim
from netsim import Cluster, JobSpec, Workload
from netsim.errors import InputError, UnknownNameError

CONTINUOUS = {"name": "rar-contention", "time": "continuous", "xi2": "1ms"}


def ring(place, ranks, iterations=20, compute_s=0.02, **others):
    return JobSpec(place, pattern="ring-all-reduce", ranks=ranks, iterations=iterations,
                   nbytes=10e6, compute_s=compute_s, **others)


def crowded(seed=0, jobs=12):
    """Servers of 2 GPUs and jobs of up to 4, so that most jobs share NICs."""
    rng = np.random.default_rng(seed)
    listed = [ring(k, int(rng.integers(1, 5)), int(rng.integers(5, 30)),
                   float(rng.uniform(0.01, 0.03))) for k in range(jobs)]
    return Cluster(servers=5, gpus=2, nic=1e9, intra=10e9), Workload(listed, "crowded")


def test_results_say_who_had_which_gpus_and_when():
    """Two servers of 2 GPUs: a pair on each server, and a third that waits for both."""
    cluster = Cluster(gpus=[2, 2], nic=1e9, intra=1e9)
    jobs = [ring(7, 2, 10, 0.01), ring(8, 2, 5, 0.01), ring(9, 3, 10, 0.01)]
    result = netsim.simulate(cluster, Workload(jobs), scheduler="fifo", execution={
        "name": "rar-contention", "time": "continuous"})
    # Within a server 10 ms + 10 MB over 1 GB/s; three of them 10 ms + 4/3 of that.
    assert result.jobs["start_s"].tolist() == pytest.approx([0, 0, 0.2])
    assert result.jobs["finish_s"].tolist() == pytest.approx([0.2, 0.1, 0.2 + 0.7 / 3])
    assert result.jobs["queue_s"].tolist() == pytest.approx([0, 0, 0.2])
    assert result.jobs[["gpus", "servers"]].to_numpy().tolist() == [[2, 1], [2, 1], [3, 2]]
    assert result.jobs["placement"].tolist() == ["0:2", "1:2", "0:2 1:1"]
    assert result.gpus[["job", "server", "gpu"]].to_numpy().tolist() == [
        [7, 0, 0], [7, 0, 1], [8, 1, 0], [8, 1, 1], [9, 0, 0], [9, 0, 1], [9, 1, 0]]
    assert result.jobs["lower_bound_s"].tolist() == pytest.approx([0.2, 0.1, 0.7 / 3])
    summary = result.summary()
    # 2 x 0.2 + 2 x 0.1 + 3 x 0.7/3 GPU seconds of 4 GPUs over 0.2 + 0.7/3 s.
    makespan = 0.2 + 0.7 / 3
    assert summary["gpu_utilisation"] == pytest.approx((0.6 + 0.7) / (4 * makespan))
    assert summary["queue_mean_s"] == pytest.approx(0.2 / 3)
    # The third waits until 0.2; from 0.1 on two GPUs are idle.
    assert summary["idle_while_waiting"] == pytest.approx(2 * 0.1 / (4 * makespan))


@pytest.mark.parametrize("scheduler", ["sjf-bco", "ff", "ls", "rand", "fifo", "sjf"])
@pytest.mark.parametrize("seed", range(3))
def test_on_the_fabric_the_contention_model_takes_the_model_s_time(scheduler, seed):
    """With ring-contention that counts running jobs, starts and ends are those of the model.

    Jobs only exchange: if they computed, too, a job that starts while another computes would slow
    that down in the model, which has no phases within an iteration.
    """
    cluster, jobs = crowded(seed)
    exchanging = Workload([ring(job.id, job.ranks, job.iterations, 0.0) for job in jobs])
    model = {"alpha": 0.5, "time": "continuous"}
    by_model = netsim.simulate(cluster, exchanging, scheduler=scheduler, seed=seed,
                               execution={"name": "rar-contention"} | model)
    assert (by_model.jobs["servers"] > 1).sum() > 3
    on_fabric = netsim.simulate(
        cluster, exchanging, scheduler=scheduler, seed=seed, execution={"name": "fabric"} | model,
        allocator={"name": "ring-contention", "count": "running", "alpha": 0.5})
    for column in ("start_s", "finish_s", "queue_s"):
        np.testing.assert_allclose(on_fabric.jobs[column], by_model.jobs[column], rtol=1e-9,
                                   atol=1e-9)
    assert on_fabric.jobs["placement"].tolist() == by_model.jobs["placement"].tolist()


MEASURED = {"name": "table", "values": [1, 2.4, 5]}


@pytest.mark.parametrize("degradation", [MEASURED, {"name": "power", "alpha": 0.5}])
@pytest.mark.parametrize("scheduler", ["rand", "fifo"])
def test_so_it_does_with_another_degradation(scheduler, degradation):
    cluster, jobs = crowded()
    exchanging = Workload([ring(job.id, job.ranks, job.iterations, 0.0) for job in jobs])
    model = {"time": "continuous", "degradation": degradation}
    by_model = netsim.simulate(cluster, exchanging, scheduler=scheduler,
                               execution={"name": "rar-contention"} | model)
    on_fabric = netsim.simulate(
        cluster, exchanging, scheduler=scheduler, execution={"name": "fabric"} | model, allocator={
            "name": "ring-contention", "count": "running", "degradation": degradation})
    for column in ("start_s", "finish_s"):
        np.testing.assert_allclose(on_fabric.jobs[column], by_model.jobs[column], rtol=1e-9)
    usual = netsim.simulate(cluster, exchanging, scheduler=scheduler,
                            execution={"name": "rar-contention", "time": "continuous"})
    assert (by_model.jobs["finish_s"] != usual.jobs["finish_s"]).any()


@pytest.mark.parametrize("scheduler", ["sjf-bco", "ff", "ls", "rand", "fifo"])
@pytest.mark.parametrize("time", ["slotted", "continuous"])
def test_a_function_of_one_s_own_equals_the_one_it_copies(scheduler, time):
    """To the last bit, plans and bounds included."""
    cluster, jobs = crowded()

    def linear(k, alpha):
        return k + alpha * (k - 1)

    def run(**options):
        return netsim.simulate(cluster, jobs, scheduler=scheduler, execution={
            "name": "rar-contention", "time": time, "alpha": 0.3} | options)

    usual, own = run(), run(degradation=linear)
    assert own.jobs.equals(usual.jobs)
    assert own.run["counts"] == usual.run["counts"]


@pytest.mark.parametrize("allocator", ["maxmin", "parrot", "aalo", "sebf", "ring-contention"])
@pytest.mark.parametrize("topology", [None, netsim.leaf_spine(leaves=5, spines=2, hosts_per_leaf=1,
                                                              capacity=1e9)])
def test_any_scheduler_on_any_allocator_and_topology(allocator, topology):
    """All jobs end, none before it could; the bytes are those of rings between servers."""
    cluster, jobs = crowded()
    cluster = Cluster(gpus=[2] * 5, nic=1e9, intra=10e9, topology=topology)
    for scheduler in ("sjf-bco", "fifo"):
        result = netsim.simulate(cluster, jobs, scheduler=scheduler, allocator=allocator,
                                 execution={"name": "fabric", "time": "continuous"})
        found = result.jobs
        assert (found["jct_s"] - found["queue_s"] >= found["lower_bound_s"] * (1 - 1e-9)).all()
        ranks, servers = found["ranks"].to_numpy(), found["servers"].to_numpy()
        edges = np.where(servers > 1, servers, 0)
        np.testing.assert_allclose(
            found["bytes"], found["iterations"] * edges * 2 * 10e6 * (ranks - 1) / ranks)
        assert found["coflows"].tolist() == np.where(servers > 1, found["iterations"], 0).tolist()


def test_arrivals_are_queued_for():
    cluster, jobs = crowded()
    later = Workload([ring(job.id, job.ranks, job.iterations, job.compute_s,
                           arrival_s=0.05 * job.id) for job in jobs])
    for execution in (CONTINUOUS, CONTINUOUS | {"name": "fabric"}):
        result = netsim.simulate(cluster, later, scheduler="fifo", execution=execution)
        assert (result.jobs["queue_s"] >= 0).all()
        assert (np.diff(result.jobs["start_s"]) >= 0).all()


@pytest.mark.parametrize(("placement", "one", "other"), [
    ("first-fit", [(0, 2)], [(0, 0), (0, 1)]),
    ("least-loaded", [(0, 2)], [(0, 3), (1, 0)]),
    ("least-busy-servers", [(1, 0)], [(0, 2), (0, 3)]),
])
def test_placements(placement, one, other):
    """Servers of 4 and 2 GPUs; a pair is promised 2 s each, then one 6 s; a pair comes later.

    The first pair has gone by then, but its GPUs remain promised. Least loaded, of 2, 2, 6, 0 and
    0, 0, are the last of server 0 and the first of server 1. Where servers count, they have been
    promised 1 and 0 s per GPU when the one comes, 1 and 3 when the other pair does.
    """
    cluster = Cluster(gpus=[4, 2], nic=1e9)
    jobs = [ring(0, 2, 1, estimate_s=2), ring(1, 1, 5000, estimate_s=6),
            ring(2, 2, arrival_s=10)]
    result = netsim.simulate(cluster, jobs, scheduler="fifo", placement=placement)
    held = {job: list(zip(rows["server"], rows["gpu"], strict=True))
            for job, rows in result.gpus.groupby("job")}
    assert held == {0: [(0, 0), (0, 1)], 1: one, 2: other}
    assert result.run["placement"]["name"] == placement


def test_random_placement_is_that_of_the_seed():
    cluster, jobs = crowded()
    found = [netsim.simulate(cluster, jobs, scheduler="sjf", placement="random", seed=seed,
                             execution=CONTINUOUS).jobs for seed in (0, 0, 1)]
    assert found[0].equals(found[1])
    assert found[0]["placement"].tolist() != found[2]["placement"].tolist()


class Last:
    """A placement of a user's own."""

    def scope(self, cluster, job, load):
        return np.arange(cluster.total)[::-1]

    def choose(self, cluster, job, candidates, load):
        return candidates[:job.ranks]


def test_a_placement_of_one_s_own():
    cluster, _ = crowded()
    result = netsim.simulate(cluster, [ring(0, 3)], placement=Last())
    assert result.jobs["placement"].tolist() == ["3:1 4:2"]
    assert result.run["placement"]["name"].endswith(":Last")


def test_a_run_that_is_stopped():
    """One server of 2 GPUs, jobs of 1 s and 2 GPUs, stopped in the middle of the second."""
    cluster = Cluster(gpus=[2], intra=300e9)
    jobs = [ring(k, 2, 50, 0.02 - 10e6 / 300e9) for k in range(3)]
    for execution in ("rar-contention:time=continuous", "fabric"):
        result = netsim.simulate(cluster, jobs, until=1.5, execution=execution)
        assert result.run["stopped_at_s"] == 1.5
        np.testing.assert_allclose(result.jobs["start_s"], [0, 1, np.nan])
        np.testing.assert_allclose(result.jobs["finish_s"], [1, np.nan, np.nan])
        assert result.jobs["placement"].tolist() == ["0:2", "0:2", ""]
        assert result.summary()["gpu_utilisation"] == pytest.approx(1)
        assert result.summary()["jobs_finished"] == 1


def test_links_that_degrade():
    """Two servers of 1 GPU; 10 MB each way at 1 GB/s, at a tenth from 15 ms on: 5 MB are left."""
    cluster = Cluster(gpus=[1, 1], nic=1e9)
    result = netsim.simulate(cluster, [ring(0, 2, 1, 0.01)], execution="fabric", events=[
        {"at": "15ms", "link": "egress-0", "capacity": 1e8}])
    assert result.jobs["finish_s"].tolist() == pytest.approx([0.01 + 0.005 + 0.05])


def test_a_result_is_kept(tmp_path):
    result = netsim.simulate(*crowded(), scheduler="ff", execution=CONTINUOUS)
    result.save(tmp_path / "r")
    again = netsim.load_result(tmp_path / "r")
    assert again.gpus.equals(result.gpus)
    assert again.jobs.equals(result.jobs)
    assert again.summary() == result.summary()


def test_clusters_are_swept():
    cluster, jobs = crowded()
    found = netsim.sweep(cluster, jobs, scheduler=["sjf-bco", {"name": "ff", "order": "by_size"}],
                         execution=CONTINUOUS, seed=range(2))
    assert found.table["scheduler"].tolist() == ["sjf-bco"] * 2 + ["ff (order=by_size)"] * 2
    assert (found.table["gpu_utilisation"] > 0).all()


@pytest.mark.parametrize(("keywords", "message"), [
    ({"scheduler": "sjfbco"}, r"unknown scheduler 'sjfbco' \(did you mean 'sjf-bco'\?\)"),
    ({"scheduler": {"name": "ff", "lam": 2}}, "unknown option of scheduler 'ff' 'lam'"),
    ({"scheduler": 3}, "3 is no scheduler: it needs a method decide, or begin"),
    ({"execution": "analytic"}, "unknown execution 'analytic'"),
    ({"execution": {"name": "fabric", "beta": 1}}, "unknown option of execution 'fabric' 'beta'"),
    ({"execution": {"name": "fabric", "alpha": -1}}, "alpha must be a finite number of at least 0"),
    ({"placement": "best-fit"}, "unknown placement 'best-fit'"),
    ({"placement": {"name": "random", "lam": 2}}, "unknown option of placement 'random' 'lam'"),
    ({"placement": "least-busy-servers:lam=0.5"}, "lam must be a finite number of at least 1"),
    ({"placement": 3}, "3 is no placement: it needs methods scope and choose"),
    ({"scheduler": "ff", "placement": "random"},
     "scheduler 'ff' needs no placement: it chooses GPUs itself; a placem"),
    ({"scheduler": "builtins:list"}, "scheduler 'builtins:list' cannot|is no scheduler"),
    ({"scheduler": "nowhere.to:Find"}, "scheduler 'nowhere.to:Find' cannot be loaded"),
    ({"scheduler": "builtins:dict"}, "scheduler 'builtins:dict' cannot be made"),
    ({"events": [{"at": 1, "link": 0, "capacity": 0}]}, "needs no link events: an event cha"),
    ({"until": -1}, "until"), ({"observe_interval": -5}, "observe_interval"),
    ({"allocator": "nonsense", "execution": "fabric"}, "unknown allocator 'nonsense'"),
    ({"allocator": "parrot"}, "allocator: allocators share the links of the network, which jobs"),
    ({"observe_interval": "1s"}, "observe_interval: allocators share the links of the network"),
    ({"record": ["coflow"]}, "unknown record 'coflow'"),
])
def test_bad_input(keywords, message):
    with pytest.raises((InputError, UnknownNameError), match=message):
        netsim.simulate(*crowded(), **keywords)


def test_jobs_that_are_no_rings_and_networks_that_are_no_clusters():
    cluster, jobs = crowded()
    other = JobSpec(0, pattern="all-to-all", ranks=2, nbytes=1e6)
    with pytest.raises(InputError, match="job 0 is no ring: it has the pattern 'all-to-all'"):
        netsim.simulate(cluster, [other], execution="rar-contention")
    with pytest.raises(InputError, match="scheduler: for jobs on a cluster or an edge-cloud; on "):
        netsim.simulate("big-switch-128-10g", jobs, scheduler="fifo")


def test_fragmentation_is_servers_over_as_few_as_could_be():
    """Servers of 2: a job of 3 on two of them is as good as can be, a pair on two is twice that."""
    cluster = Cluster(gpus=[2, 2, 2], nic=1e9)
    jobs = [ring(0, 3), ring(1, 2)]
    result = netsim.simulate(cluster, jobs, placement="first-fit")
    assert result.jobs["placement"].tolist() == ["0:2 1:1", "1:1 2:1"]
    assert result.summary()["fragmentation"] == 1.5
