"""What must be fast. A case builds an instance, runs it, and checks that its result can be true."""

from __future__ import annotations

import atexit
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import simpy

import netsim
from netsim.cluster import Contention
from netsim.jobs.plan import JobPlan, place_randomly
from netsim.models.mapping import heavy_edge
from netsim.models.servers import ServerKind
from netsim.predictors import Forecast
from netsim.results.tables import RECORDS
from netsim.schedulers.sjf_bco import SjfBco

__all__ = ["CASES", "Case", "Instance", "at_once", "poisson", "switch", "tree"]

TRACES = Path(os.environ.get("NETSIM_TRACES", Path(__file__).parents[3] / "shared" / "data"))
HOSTS = 128


@dataclass(frozen=True)
class Case:
    """One thing to time.

    Attributes
    ----------
    name : str
    build : callable
        ``build(smoke)`` returns what to time, and what checks its result.
    target : float
        CPU seconds in full, on one core of a server.
    beside : {"plain", "simpy"}
        Which reference it is measured against: compiled loops, or Python around SimPy.
    """

    name: str
    build: Callable[[bool], tuple[Callable[[], Any], Callable[[Any], None]]]
    target: float
    beside: str = "plain"


@dataclass(frozen=True)
class Instance:
    """Independent flows, as any simulator of flows could run them.

    Attributes
    ----------
    hosts : int
        They are between the first so many.
    start_s, src, dst, nbytes : ndarray
        One entry per flow, in the order in which they start. Bytes are whole.
    """

    hosts: int
    start_s: Any
    src: Any
    dst: Any
    nbytes: Any

    @property
    def together(self) -> bool:
        """Whether all flows start at once."""
        return not self.start_s.any()

    def jobs(self) -> netsim.Workload:
        """Return one job of one coflow if all flows start at once, else a job per flow."""
        if self.together:
            burst = netsim.Stage("burst", netsim.Flows(self.src, self.dst, self.nbytes))
            return netsim.Workload([netsim.JobSpec(0, hosts=range(self.hosts), stages=[burst])])
        return self.columns()

    def columns(self) -> netsim.Workload:
        """Return a job per flow."""
        return netsim.Workload.from_arrays(self.src, self.dst, self.nbytes, self.start_s)


def at_once(count: int, hosts: int = HOSTS) -> Instance:
    """Return flows that start at once."""
    src, dst, nbytes, _ = _peers(count, hosts)
    return Instance(hosts, np.zeros(count), src, dst, nbytes)


def poisson(count: int) -> Instance:
    """Return flows that arrive as a Poisson process and load the ports of `switch` by 70 %."""
    src, dst, nbytes, rng = _peers(count, HOSTS)
    gaps = rng.exponential(nbytes.mean() / (0.7 * 1.25e9 * HOSTS), count)
    return Instance(HOSTS, np.cumsum(gaps), src, dst, nbytes)


def _peers(count: int, hosts: int) -> tuple[Any, ...]:
    """Return what other simulators ran: uniform sources, other destinations, 10^U(6,9) bytes."""
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, hosts, count), rng.integers(0, hosts - 1, count)
    return src, dst + (dst >= src), np.round(10 ** rng.uniform(6, 9, count)), rng


def switch() -> netsim.Topology:
    """Return what most cases run on: a big switch."""
    return netsim.big_switch(HOSTS, "10Gbps")


def tree() -> netsim.Topology:
    """Return a fat-tree of as many hosts, in which all flows of a pair of hosts go one way."""
    network = netsim.fat_tree(8, "10Gbps")
    routes = network.routes
    network.routes = lambda src, dst, key: routes(src, dst, src * HOSTS + dst)
    return network


def _run(network: Any, workload: Any, allocator: Any = "maxmin", **options: Any
         ) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    return (lambda: netsim.simulate(network, workload, allocator=allocator, **options)), _bounded


def _all_end(result: netsim.Result) -> None:
    assert result.jobs["finish_s"].notna().all()


def _bounded(result: netsim.Result) -> None:
    """Every job ends, none sooner than its lower bound but for roundings."""
    jobs = result.jobs
    assert jobs["finish_s"].notna().all()
    least = jobs["lower_bound_s"] * (1 - 1e-9) - 1e-12 * jobs["finish_s"]
    assert (jobs["jct_s"] >= least).all()


def _at_once(count: int, hosts: int = HOSTS) -> Callable[[bool], Any]:
    return lambda smoke: _run(switch(), at_once(count // 10 if smoke else count, hosts).jobs())


def _poisson(count: int) -> Callable[[bool], Any]:
    return lambda smoke: _run(switch(), poisson(count // 100 if smoke else count).jobs())


def _story(smoke: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """From a table of flows to a figure and a report: `story.py`, of 120 runs of 400 jobs."""
    rng = np.random.default_rng(1)
    place = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    rows = [f"{0.02 * job:.2f},{job},{src},3,{int(10 ** rng.uniform(6, 9))}"
            for job in range(10 if smoke else 400) for src in range(3)]
    (place / "flows.csv").write_text("\n".join(("start_s,job,src,dst,bytes", *rows)))

    def tell() -> Any:
        given = {"flows_csv": place / "flows.csv", "folder": Path(tempfile.mkdtemp(dir=place)),
                 "seeds": range(1 if smoke else 5)}
        story = Path(__file__).parent / "story.py"
        return runpy.run_path(str(story), init_globals=given)["found"]

    def whole(found: Any) -> None:
        assert len(found.table) == (24 if smoke else 120)
        assert not found.missing

    return tell, whole


def _arrays(smoke: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """From arrays to a result."""
    network, flows = switch(), poisson(1_000 if smoke else 100_000)
    return (lambda: netsim.simulate(network, flows.columns())), _bounded


def _fat_tree(smoke: bool) -> Any:
    network = netsim.fat_tree(4 if smoke else 16, "10Gbps")
    return _run(network, at_once(100 if smoke else 10_000, network.hosts).jobs())


def _all_to_all(smoke: bool) -> Any:
    """60 jobs of 2 to 16 workers, 100 iterations each: 1.3 million flows."""
    rng = np.random.default_rng(2)
    jobs = []
    for k in range(60):
        ranks = int(rng.integers(2, 17))
        src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
        stage = netsim.Stage("a", netsim.Flows(src, dst, rng.integers(1e6, 50e6, len(src)) * 1.0))
        jobs.append(netsim.JobSpec(k, hosts=rng.permutation(HOSTS)[:ranks], stages=[stage],
                                   iterations=2 if smoke else 100))
    return _run(switch(), jobs)


def ring_jobs(hosts: int, jobs: int, coflows: int) -> netsim.Workload:
    """Return jobs that arrive within 10 s, of 0.05 to 0.5 s of computation per iteration."""
    rng = np.random.default_rng(1)
    return netsim.Workload([
        netsim.JobSpec(k, rng.uniform(0, 10), ranks=8, nbytes=rng.uniform(20e6, 200e6),
                       pattern="ring-all-reduce", compute_s=rng.uniform(0.05, 0.5),
                       iterations=coflows // jobs) for k in range(jobs)], seed=1)


def _ring(allocator: str) -> Callable[[bool], Any]:
    """A hundredth of a million coflows on 1,000 hosts."""
    def build(smoke: bool) -> Any:
        size = (64, 64, 640) if smoke else (1000, 1000, 10_000)
        return _run(netsim.big_switch(size[0], "10Gbps"), ring_jobs(*size), allocator)
    return build


def _trace(allocator: Any, record: tuple[str, ...] = ("jobs", "coflows"), interval: str = "0s"
           ) -> Callable[[bool], Any]:
    """Tiresias' 60 jobs, the real ones where there are any, else synthetic ones."""
    def build(smoke: bool) -> Any:
        return _run(switch(), _trace_workload(smoke), allocator, record=record,
                    observe_interval=interval)
    return build


def _forks(part: float) -> Callable[[bool], Any]:
    """A hundred forks of the trace under Parrot, after a part of it."""
    def build(smoke: bool) -> Any:
        workload, network = _trace_workload(smoke), switch()
        end = netsim.simulate(network, workload, allocator="parrot").jobs["finish_s"].max()
        sim = netsim.Simulation(network, workload, allocator="parrot").run(until=part * end)
        return (lambda: [sim.fork() for _ in range(100)]), lambda forks: None
    return build


def _trace_workload(smoke: bool) -> netsim.Workload:
    options = {"iterations": 2, "arrival_scale": 0.01} if smoke else {}
    real = TRACES / "tiresias" / "60_job.csv"
    source = real if real.is_file() and not smoke else "parrot-60-full"
    return netsim.read_workload(source, seed=1, **options)


def _flows_between_hosts(job: netsim.JobSpec, network: netsim.Topology, seed: int
                         ) -> list[tuple[str, float, netsim.Flows]]:
    """Return the name, the computation and the flows of each stage of a job, in order."""
    plan = JobPlan(job, network, place_randomly(job, network, 0), seed, network.capacity)
    graph = plan.graph(0)
    return [(stage.name, stage.compute_s,
             netsim.Flows(plan.hosts[stage.flows.src], plan.hosts[stage.flows.dst],
                          stage.flows.nbytes))
            for stage in map(graph.stages.__getitem__, graph.dag.sequence)]


def _scripted(smoke: bool) -> Any:
    """The same jobs as SimPy processes that a user would write, under Parrot."""
    workload, network = _trace_workload(smoke), switch()
    flows = {job.id: _flows_between_hosts(job, network, workload.seed) for job in workload.jobs}

    def training(env: simpy.Environment, fabric: netsim.Fabric, job: netsim.JobSpec) -> Any:
        yield env.timeout(job.arrival_s)
        handle = fabric.job(job.name)
        for _ in range(job.iterations):
            for name, compute_s, sent in flows[job.id]:
                if compute_s:
                    yield env.timeout(compute_s)
                yield fabric.coflow(sent, job=handle, name=name)
        handle.end()

    def run() -> netsim.Result:
        env = simpy.Environment()
        fabric = netsim.Fabric(env, network, allocator="parrot")
        for job in workload.jobs:
            env.process(training(env, fabric, job))
        env.run()
        return fabric.result()
    return run, _all_end


def _facebook(allocator: str) -> Callable[[bool], Any]:
    """The Facebook coflow trace where there is one, else the sample of its format."""
    def build(smoke: bool) -> Any:
        real = TRACES / "coflow-benchmark" / "FB2010-1Hr-150-0.txt"
        workload = netsim.read_workload(real if real.is_file() and not smoke else "coflow-sample")
        return _run(netsim.read_network("coflow-benchmark-150-1g"), workload, allocator)
    return build


def _observed(allocator: str) -> Callable[[bool], Any]:
    """60 jobs whose events are noticed every millisecond."""
    def build(smoke: bool) -> Any:
        workload = netsim.read_workload("parrot-60", **({"iterations": 1} if smoke else {}))
        return _run(switch(), workload, allocator, observe_interval="1ms")
    return build


def _many(allocator: str, count: int, most: int) -> Callable[[bool], Any]:
    """Jobs of one coflow of up to `most` flows, all at once."""
    def build(smoke: bool) -> Any:
        rng = np.random.default_rng(1)
        jobs = []
        for k in range(count // 20 if smoke else count):
            flows = int(rng.integers(min(2, most), most + 1))
            src = rng.integers(0, HOSTS, flows)
            dst = (src + rng.integers(1, HOSTS, flows)) % HOSTS
            burst = netsim.Flows(src, dst, np.round(10 ** rng.uniform(6, 8, flows)))
            jobs.append(netsim.JobSpec(k, hosts=range(HOSTS), stages=[netsim.Stage("a", burst)]))
        return _run(switch(), netsim.Workload(jobs), allocator)
    return build


def _two_stages(smoke: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """10,000 jobs at once that compute, send a flow, compute, and send another."""
    rng = np.random.default_rng(0)

    def stage(name: str, **options: Any) -> netsim.Stage:
        flow = (int(rng.integers(0, 64)), int(rng.integers(64, 128)), rng.uniform(1e5, 1e6))
        return netsim.Stage(name, [flow], compute_s=rng.uniform(0.1, 1), **options)

    return _run(switch(), [
        netsim.JobSpec(k, hosts=range(HOSTS), stages=[stage("a"), stage("b", after=["a"])])
        for k in range(300 if smoke else 10_000)])


def _permutation(smoke: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Each of 50,000 hosts sends to the next: flows that have no link in common."""
    hosts = 1_000 if smoke else 50_000
    src = np.arange(hosts)
    nbytes = np.random.default_rng(1).uniform(1e6, 1e8, hosts)
    return _run(netsim.big_switch(hosts, "10Gbps"),
                netsim.Workload.from_arrays(src, (src + 1) % hosts, nbytes, 0.0))


def _wide(smoke: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """One coflow of 100,000 flows."""
    return _run(switch(), at_once(2_000 if smoke else 100_000).jobs(), "sebf")


def _two_links(smoke: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """40,000 Poisson flows from one host to another, at a load of 80 %."""
    count = 1_000 if smoke else 40_000
    rng = np.random.default_rng(1)
    nbytes = rng.exponential(1e6, count)
    at_s = np.cumsum(rng.exponential(1e6 / 1.25e9 / 0.8, count))
    network = netsim.big_switch(2, "10Gbps")

    def run() -> Any:
        src = np.zeros(count, int)
        return netsim.simulate(network, netsim.Workload.from_arrays(src, src + 1, nbytes, at_s))
    return run, _bounded


def _collective(name: str) -> Callable[[bool], Any]:
    """A collective of 1,024 ranks in steps, with latency, on a switch."""
    def build(smoke: bool) -> Any:
        ranks = 128 if smoke else 1024
        network = netsim.big_switch(ranks, "400Gbps", latency="1us")
        job = netsim.JobSpec(0, pattern=name, ranks=ranks, nbytes=1e9, hosts=range(ranks))
        return (lambda: netsim.simulate(network, [job], record=("jobs",))), _bounded
    return build


def _llm(gpus: int, iterations: int) -> Callable[[bool], Any]:
    """Llama-65B on servers of 8 GPUs, the network and the job made as well."""
    def build(smoke: bool) -> Any:
        servers, times = (16, 1) if smoke else (gpus // 8, iterations)

        def run() -> netsim.Result:
            job = netsim.llm_job("llama-65b", tp=8, pp=8, dp=servers // 8, zero=1,
                                 global_batch=servers, sequence_parallel=True, iterations=times)
            return netsim.simulate(netsim.gpu_cluster(servers), [job], record=("jobs",))
        return run, _bounded
    return build


def _simai(smoke: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """SimAI's example of 9,216 GPUs, whose groups and activations contend for the NICs."""
    real = TRACES / "simai" / "workload_analytical.txt"
    whole = real.is_file() and not smoke
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.txt"
        small.write_text("HYBRID_TRANSFORMER model_parallel_NPU_group: 2 ep: 1 pp: 2 all_gpus: 16\n"
                         "1\nlayer -1 9 ALLREDUCE 8000 9 NONE 0 9 REDUCESCATTER 8000 0\n")
        workload = netsim.read_workload(real if whole else small, pipeline="send",
                                        nvlink="360GiB/s", nic="48.5GiB/s",
                                        **({"efficiency": "."} if whole else {}))
    network = netsim.gpu_cluster(1152 if whole else 2, 8, "360GiB/s", "48.5GiB/s", rails=1, spine=0)
    return _run(network, workload, "maxmin", record=("jobs",))


def _llm_jobs(allocator: str) -> Callable[[bool], Any]:
    """Four jobs of Llama-65B on 256 GPUs each, whose servers take turns on a cluster's."""
    def build(smoke: bool) -> Any:
        gpus, times = (16, 1) if smoke else (256, 10)
        servers = 4 * gpus // 8
        job = netsim.llm_job("llama-65b", tp=8, pp=2 if smoke else 8, dp=1 if smoke else 4, zero=1,
                             global_batch=32, sequence_parallel=True, iterations=times)
        hosts = np.arange(servers * 8).reshape(-1, 4, 8)
        jobs = [replace(job, id=k, arrival_s=0.1 * k, hosts=hosts[:, k].ravel().tolist())
                for k in range(4)]
        return _run(netsim.gpu_cluster(servers), jobs, allocator)
    return build


def _sprayed(smoke: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """A permutation of 8,192 hosts as one coflow, with latency, on a sprayed leaf-spine of 4:1."""
    leaves = 8 if smoke else 128
    network = netsim.leaf_spine(leaves, 64, 64, "100Gbps", oversubscription=4, latency="500ns",
                                routing="spray")
    hosts = np.arange(network.hosts)
    flows = netsim.Flows(hosts, np.random.default_rng(1).permutation(network.hosts),
                         np.full(network.hosts, 1e6))
    job = netsim.JobSpec(0, stages=[netsim.Stage("permutation", flows)], hosts=hosts.tolist())
    return (lambda: netsim.simulate(network, [job], record=("jobs",))), _bounded


def _section_7(servers: int, times: int, smoke: bool) -> tuple[Any, list[Any]]:
    """So many times the 160 jobs of SJF-BCO's Section 7, on so many servers."""
    rng = np.random.default_rng(1)
    counts = np.array([80, 14, 26, 30, 8, 2]) * times // (8 if smoke else 1)
    ranks = rng.permutation(np.repeat([1, 2, 4, 8, 16, 32], counts))
    jobs = [netsim.JobSpec(k, pattern="ring-all-reduce", ranks=int(gpus), nbytes=0.625e9,
                           compute_s=rng.uniform(0.01, 0.0425),
                           iterations=int(rng.integers(1000, 6001)))
            for k, gpus in enumerate(ranks)]
    return netsim.Cluster(gpus=rng.choice([4, 8, 16, 32], servers).tolist(), intra="1000TB/s"), jobs


_LIGHT = {"k_min": 0, "xi1": 7e-5, "xi2": 7e-5}


def _search(smoke: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """The whole search for a schedule, and its run under the contention model."""
    cluster, jobs = _section_7(20, 1, smoke)

    def run() -> Any:
        return netsim.simulate(cluster, jobs, scheduler="sjf-bco:horizon=1200",
                               execution={"name": "rar-contention", **_LIGHT})
    return run, lambda result: _check_jobs(result, len(jobs))


def _plan(smoke: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """2,000 jobs on 200 servers, at one limit and one kappa."""
    cluster, jobs = _section_7(200, 12, smoke)
    scheduler = SjfBco()
    planner = scheduler.planner(cluster, jobs, Contention(**_LIGHT))

    def check(plan: Any) -> None:
        assert plan is not None
        assert len(plan.order) == len(jobs)
    return (lambda: scheduler.plan_at(planner, 20_000, 4)), check


def _preempting(scheduler: str) -> Callable[[bool], Any]:
    """Jobs of 1 to 8 GPUs that offer 2,000 GPUs 95 % of what they can do, by formula."""
    def build(smoke: bool) -> Any:
        rng, count = np.random.default_rng(1), 2_000 if smoke else 100_000
        ranks = rng.choice([1, 2, 4, 8], count, p=[0.6, 0.15, 0.15, 0.1])
        seconds = np.round(rng.lognormal(6.5, 1.5, count)) + 1
        gap_s = (ranks * seconds).mean() / (0.95 * 2_000)
        arrival = np.cumsum(rng.exponential(gap_s, count))
        jobs = [netsim.JobSpec(k, at, int(long), pattern="ring-all-reduce", ranks=int(wide),
                               nbytes=0, compute_s=1.0, estimate_s=long)
                for k, (at, long, wide) in enumerate(zip(arrival.tolist(), seconds.tolist(),
                                                         ranks.tolist(), strict=True))]
        cluster = netsim.Cluster(servers=250, gpus=8)

        def run() -> Any:
            return netsim.simulate(cluster, jobs, scheduler=scheduler, execution="asrpt",
                                   record=["jobs"])
        return run, lambda result: _check_jobs(result, len(jobs))
    return build


def _recurrent(scheduler: str) -> Callable[[bool], Any]:
    """Jobs that recur, of many models, on 250 servers of 8 GPUs, by the time of an iteration."""
    def build(smoke: bool) -> Any:
        jobs = netsim.read_workload(format="recurrent", jobs=2_000 if smoke else 150_000, train=0,
                                    seed=1, mean_interarrival="4s")
        cluster = netsim.Cluster(servers=250, gpus=8)

        def run() -> Any:
            return netsim.simulate(cluster, jobs, scheduler=scheduler, execution="asrpt",
                                   record=["jobs"])
        return run, lambda result: _check_jobs(result, len(jobs))
    return build


def _forest(smoke: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """A forest learns from jobs that recur, and predicts a quarter as many."""
    jobs = netsim.read_workload(format="recurrent", jobs=2_000 if smoke else 125_000, seed=1)

    def run() -> Any:
        return Forecast("random-forest", jobs.history).predict_jobs(jobs.jobs)

    def check(found: Any) -> None:
        assert len(found) == len(jobs)
        assert (found >= 0).all()
        assert (found > 0).mean() > 0.5
    return run, check


def _check_jobs(result: Any, count: int) -> None:
    assert result.jobs["finish_s"].notna().sum() == count


def _command(*words: str) -> Callable[[bool], Any]:
    """Build a new interpreter's run, the same in both sizes."""
    def build(_: bool) -> Any:
        return (lambda: subprocess.run([sys.executable, *words], check=True,
                                       stdout=subprocess.DEVNULL)), lambda _: None
    return build


def _heavy_edge(smoke: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Jobs of 8 stages of 8 replicas, each on other counts, and with nothing remembered."""
    stages = [netsim.ModelStage(8, "10ms", "20ms", "1MB" if s else 0, "1MB" if s < 7 else 0,
                                "100MB") for s in range(8)]
    rng = np.random.default_rng(3)
    jobs = []
    for number in range(10 if smoke else 100):
        cuts = np.sort(rng.choice(63, 7 + number % 40, replace=False) + 1)
        counts = np.diff(np.concatenate(([0], cuts, [64])))
        jobs.append((netsim.ParallelModel(stages), counts.tolist()))
    kind = ServerKind(64, "100Gbps", "300GB/s")

    def check(found: list[Any]) -> None:
        for mapped, (_, counts) in zip(found, jobs, strict=True):
            assert mapped.placement.sum(axis=1).tolist() == counts
            assert mapped.placement.sum(axis=0).tolist() == [8] * 8

    return lambda: [heavy_edge(model, counts, kind) for model, counts in jobs], check


def _edge_cloud(scheduler: str, servers: int, jobs: int, **options: Any
                ) -> Callable[[bool], Any]:
    """Edge servers of 2 or 8 workers, and jobs with the literal parameters of A_online's paper."""
    def build(smoke: bool) -> Any:
        count, wanted = (20, 60) if smoke else (servers, jobs)
        system = netsim.draw_edge_cloud(count, types=9, ps=4, seed=7)
        workload = netsim.draw_edge_jobs(wanted, servers=count, types=9, seed=7)

        def check(result: Any) -> None:
            _check_jobs(result, len(workload))
            assert (result.jobs["jct_s"] >= result.jobs["lower_bound_s"] * (1 - 1e-9)).all()
        return (lambda: netsim.simulate(system, workload, scheduler=scheduler, **options)), check
    return build


CASES = {case.name: case for case in (
    Case("import", _command("-c", "import netsim"), 0.5, "simpy"),
    Case("help", _command("-m", "netsim", "--help"), 0.3, "simpy"),
    Case("at-once-1k", _at_once(1_000), 0.02),
    Case("at-once-10k", _at_once(10_000), 0.35),
    Case("at-once-100k", _at_once(100_000), 6.0),
    Case("eight-hosts-100k", _at_once(100_000, 8), 1.0),
    Case("poisson-10k", _poisson(10_000), 0.25),
    Case("poisson-100k", _poisson(100_000), 2.5),
    Case("arrays-100k", _arrays, 1.0),
    Case("fat-tree-10k", _fat_tree, 10.0),
    Case("all-to-all", _all_to_all, 15.0),
    Case("trace-parrot", _trace("parrot"), 2.5, "simpy"),
    Case("trace-parrot-10ms", _trace("parrot", interval="10ms"), 2.5, "simpy"),
    Case("trace-parrot-recorded", _trace("parrot", ("jobs", "coflows", "decisions", "links")), 4.0,
         "simpy"),
    Case("trace-aalo", _trace("aalo-lbsf"), 5.0, "simpy"),
    Case("trace-aalo-recorded", _trace("aalo-lbsf", RECORDS), 8.0, "simpy"),
    Case("trace-lccf", _trace("lccf"), 5.0, "simpy"),
    Case("trace-srpt", _trace("srpt"), 5.0, "simpy"),
    Case("trace-own-order", _trace("own_policies:LeastAttained"), 3.0, "simpy"),
    Case("trace-own-compiled", _trace("own_policies:attained_by_width"), 0.7, "simpy"),
    Case("trace-100-forks-at-1-percent", _forks(0.01), 0.2, "simpy"),
    Case("trace-100-forks-at-99-percent", _forks(0.99), 0.2, "simpy"),
    Case("trace-maxmin", _trace("maxmin"), 15.0),
    Case("trace-maxmin-per-coflow", _trace({"name": "maxmin", "decisions": "coflow"}), 6.0),
    Case("ring-maxmin", _ring("maxmin"), 6.0),
    Case("ring-parrot", _ring("parrot"), 6.0),
    Case("cluster-search", _search, 1.5),
    Case("cluster-2000-jobs", _plan, 2.0),
    *(Case(f"recurrent-{scheduler.partition(':')[0]}", _recurrent(scheduler), 15.0)
      for scheduler in ("a-srpt-perfect", "spjf:predictor=perfect", "spwf:predictor=perfect",
                        "wcs-duration:predictor=perfect", "wcs-workload:predictor=perfect",
                        "wcs-subtime")),
    *(Case(f"preempt-100000-jobs-{scheduler}", _preempting(scheduler), 30.0)
      for scheduler in ("srtf", "tiresias")),
    Case("forest-100000-jobs", _forest, 20.0),
    Case("heavy-edge-100-jobs", _heavy_edge, 0.2),
    *(Case(f"edge-{scheduler}", _edge_cloud(scheduler, 100, 300), 2.0)
      for scheduler in ("a-online", "a-online-e", "srtf", "tiresias-l", "batch", "cloud-only")),
    Case("edge-on-fabric", _edge_cloud("a-online", 100, 300, transport="fabric"), 20.0),
    *(Case(f"edge-1000-servers-{scheduler}", _edge_cloud(scheduler, 1_000, 5_000), 60.0)
      for scheduler in ("a-online", "a-online-e", "srtf", "tiresias-l")),
    Case("facebook-maxmin", _facebook("maxmin"), 3.0),
    *(Case(f"facebook-{name}", _facebook(name), target) for name, target in (
        ("sincronia", 1.5), ("sebf", 3.0), ("aalo", 4.5), ("aalo:weights=strict", 3.5),
        ("srtf", 5.0), ("coflow-fair", 15.0))),
    *(Case(f"facebook-{name}", _facebook(name), 15.0) for name in ("scf", "lcf", "ncf", "fifo")),
    *(Case(f"observed-1ms-{name}", _observed(name), target) for name, target in (
        ("maxmin", 0.65), ("coflow-fair", 2.2), ("srtf", 0.6), ("sebf", 1.5), ("aalo", 2.5))),
    Case("many-2000-sincronia", _many("sincronia", 2_000, 8), 3.0),
    Case("many-4000-sebf", _many("sebf", 4_000, 1), 2.0),
    Case("many-4000-aalo", _many("aalo", 4_000, 1), 2.0),
    Case("two-stages-10k", _two_stages, 2.0),
    Case("permutation-50k", _permutation, 10.0),
    Case("collective-ring-1024", _collective("all-reduce"), 0.5),
    Case("collective-all-to-all-1024", _collective("all-to-all"), 1.0),
    Case("llm-1024-gpus", _llm(1024, 10), 10),
    Case("llm-65536-gpus", _llm(65536, 1), 60),
    Case("llm-4-jobs-parrot", _llm_jobs("parrot"), 6),
    Case("llm-4-jobs-sebf", _llm_jobs("sebf"), 12),
    Case("simai-9216-gpus", _simai, 10),
    Case("sprayed-permutation-8192", _sprayed, 0.2),
    Case("wide-sebf-100k", _wide, 10.0),
    Case("two-links-40k", _two_links, 0.1),
    Case("story-120-runs", _story, 90.0),
    Case("scripted-parrot", _scripted, 5.3),
)}
