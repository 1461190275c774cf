"""Measurements for some of SJF-BCO's statements; see ``papers/sjf-bco.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from netsim.cluster import Cluster, RingLayout, ring_stages
from netsim.network import big_switch
from netsim.results.result import Result
from netsim.simulation.simulation import simulate
from netsim.traces import read_workload
from netsim.workload import JobSpec

#: Jobs of the workload by their GPUs (Section 7).
_MIX = {1: 80, 2: 14, 4: 26, 8: 30, 16: 8, 32: 2}


def spread(result: Result) -> Mapping[str, float]:
    """Measure the spread of jobs over servers, its cost, and makespans over bounds of Section 6."""
    jobs, summary = result.jobs, result.summary()
    ran = (jobs["finish_s"] - jobs["start_s"]) * jobs["gpus"]
    alone = np.minimum(jobs["lower_bound_s"], ran / jobs["gpus"]) * jobs["gpus"]
    several = jobs["gpus"] > 1
    return {"servers_per_job": float(jobs["servers"][several].mean()),
            "extra": float(1 - alone.sum() / ran.sum()),
            "of_theorem_5": summary["makespan_s"] / summary["makespan_bound_s"]
            / summary["theorem_5"] if "theorem_5" in summary else np.nan,
            "of_lemma_3": summary["makespan_s"] / (
                jobs["gpus"].max() * result.gpus.groupby(["server", "gpu"])
                .apply(lambda own: (own["end_s"] - own["start_s"]).sum()).max())}


def over_plan(result: Result) -> Mapping[str, float]:
    """Divide the makespan by that of the plan."""
    summary = result.summary()
    return {"over_plan": summary["makespan_s"] / summary["plan_makespan_s"]}


def _iteration_s(rings: int = 1, *, of: Mapping[str, Any] | None = None, **allocator: Any) -> float:
    """Simulate the iteration time of each of some rings on two servers that send 1 MB/s."""
    layouts = [RingLayout([(0, k), (1, k)]) for k in range(rings)]
    jobs = [JobSpec(k, iterations=10, hosts=ring.servers, ranks=2,
                    stages=ring_stages(ring, 3e6, **(of or {})))
            for k, ring in enumerate(layouts)]
    done = simulate(big_switch(2, "1MB/s"), jobs,
                    allocator={"name": "ring-contention", "count": "running", **allocator})
    return float(done.jobs["jct_s"].iloc[0]) / 10


def model(seed: int) -> pd.DataFrame:
    """Check the paper's model on small jobs: a row per ``check``, 1 if it is as the paper says.

    Gradients have 3 MB, and servers send 1 MB/s. So w workers on as many servers exchange for
    6 (w-1)/w seconds; two of them for 3 s.
    """
    del seed
    steps = ring_stages(RingLayout([(0, 0), (1, 0), (2, 0)]), 3e6, stepwise=True)
    one_server = ring_stages(RingLayout([(0, 0), (0, 1)]), 3e6, intra=1e9)
    pattern = {"name": "parameter-server", "servers": 1, "sizes": "split"}
    served = simulate(
        big_switch(4, "1MB/s"), [JobSpec(0, pattern=pattern, ranks=4, nbytes=3e6)],
        record=["coflows"]).coflows["bytes"].sum()
    # Iterations of 3.3 s in slots of 10 s: three in each, so that ten take four slots.
    held, halved = (simulate(
        Cluster(gpus=[1, 1], nic="1MB/s", intra="1GB/s"), [JobSpec(
            0, pattern="ring-all-reduce", ranks=2, nbytes=3e6, compute_s=0.3, iterations=10)],
        scheduler="fifo", execution={"name": "rar-contention", **options})
        for options in ({"slot": 10.0}, {"time": "continuous", "xi1": 0.5, "k_min": 0}))
    counted = pd.Series([job.ranks for job in read_workload("sjf-bco-160", seed=0)])
    return pd.DataFrame([{"check": name, "value": float(value)} for name, value in {
        "worker bytes": _received(3) / (2 * 3e6 * 2 / 3),
        "steps": len(steps) / (2 * (3 - 1)),
        "server bytes": served / (2 * 3 * 3e6),
        "independent": _received(64) / _received(32),
        "theorem 5": _of_counterexample(),
        "contention": _iteration_s(2) / (2 * 3.0),
        "square": _iteration_s(2, alpha=1.0, degradation="power") / (2 ** 2 * 3.0),
        "linear": _iteration_s(2, alpha=0.5) / ((2 + 0.5) * 3.0),
        "xi1": float(halved.jobs["jct_s"].iloc[0]) / 10 / (0.5 * 3.0 + 0.3),
        "iteration": _iteration_s(of={"compute_s": 0.7, "reduction": 3e6, "server_s": 0.25})
        / (3.0 + 0.5 + 2 * 0.25 + 0.7),
        "one server": one_server[-1].compute_s / (3e6 / 1e9),
        "slots": float(held.jobs["jct_s"].iloc[0]) / (4 * 10.0),
        "gang": float((held.gpus["end_s"] - held.gpus["start_s"]).min()
                      / held.jobs["jct_s"].iloc[0]),
        "beside": _beside(),
        "jobs": len(counted),
        "mix": float((counted.value_counts().sort_index() == pd.Series(_MIX)).mean())}.items()])


def _beside() -> float:
    """Simulate the mean JCT with communications by AdaDUAL, over the best of never and always."""
    racks = Cluster(servers=8, gpus=4, nic="10Gbps", intra="300GB/s")
    jobs = [JobSpec(k, arrival_s=2 * k, pattern="ring-all-reduce", ranks=[2, 4, 8, 6][k % 4],
                    nbytes=[500e6, 100e6, 250e6][k % 3], compute_s=0.15, iterations=60)
            for k in range(24)]
    mean = {beside: simulate(
        racks, jobs, scheduler="ada-srsf", execution="fabric", placement="least-busy-servers",
        allocator={"name": "adadual", "alpha": 0.3, "beside": beside}).summary()["jct_mean_s"]
        for beside in ("adaptive", "never", "always")}
    return float(mean["adaptive"] / min(mean["never"], mean["always"]))


def _received(workers: int) -> float:
    """The bytes that a worker of a ring receives in an all-reduce of 3 MB."""
    flows = ring_stages(RingLayout([(k, 0) for k in range(workers)]), 3e6)[-1].flows
    assert flows is not None
    return float(flows.nbytes[flows.dst == 1].sum())


def _of_counterexample() -> float:
    """Simulate a makespan over the bound of Theorem 5: jobs of 10, 10 and 20 s on two GPUs.

    All is known exactly, so that the bound is the least possible makespan, 20 s.
    """
    jobs = [JobSpec(k, pattern="ring-all-reduce", ranks=1, compute_s=0.1, iterations=10 * seconds,
                    estimate_s=seconds) for k, seconds in enumerate((10, 10, 20))]
    summary = simulate(Cluster(gpus=[2]), jobs, scheduler="sjf-bco").summary()
    return float(summary["makespan_s"] / (summary["theorem_5"] * 20.0))
