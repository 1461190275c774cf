"""Runs that are held, forked and changed, and how their results are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import netsim
from netsim import Cluster, JobSpec, Stage, Workload

NET = netsim.big_switch(6, "8Mbps")

EVERYTHING = ("jobs", "coflows", "flows", "links", "decisions")


def flows(rng: np.random.Generator, count: int) -> list[tuple[int, int, float]]:
    """Draw flows between hosts of `NET`."""
    src, step = rng.integers(0, 6, count), rng.integers(1, 6, count)
    return [(int(a), int((a + by) % 6), float(nbytes)) for a, by, nbytes
            in zip(src, step, rng.uniform(1e5, 8e5, count), strict=True)]


def jobs_of_all_kinds(seed: int = 3, count: int = 8) -> Workload:
    """Return single coflows, chains, graphs of stages, and coflows without bytes, in turn."""
    rng = np.random.default_rng(seed)
    kinds = [
        lambda: (1, [Stage("one", flows(rng, 3))]),
        lambda: (4, [Stage("a", flows(rng, 3)), Stage("b", flows(rng, 2), after=["a"])]),
        lambda: (3, [Stage("a", flows(rng, 3)), Stage("b", flows(rng, 2)),
                     Stage("c", flows(rng, 2), after=["a", "b"], compute_s=0.1),
                     Stage("d", flows(rng, 1), after=["a"], finishes_before=["c"])]),
        lambda: (1, [Stage("none", [(0, 1, 0.0)])])]
    jobs = []
    for number in range(count):
        at = float(rng.uniform(0, 3))
        iterations, stages = kinds[number % 4]()
        jobs.append(JobSpec(number, at, hosts=range(6), iterations=iterations, stages=stages))
    return Workload(jobs)


CLUSTER = Cluster(gpus=[4, 4, 4], nic="1Gbps")


def rings(together: bool = False, count: int = 12) -> Workload:
    """Return rings for `CLUSTER`, all at 0 or over 20 s, and a history."""
    rng = np.random.default_rng(2)
    return Workload([JobSpec(
        number, 0.0 if together else float(rng.uniform(0, 20)), int(rng.integers(1, 9)),
        pattern="ring-all-reduce", ranks=int(rng.integers(1, 6)),
        nbytes=float(rng.uniform(1e6, 4e7)), compute_s=float(rng.uniform(0.01, 0.5)),
        group=number % 3, user=number % 2, estimate_s=float(rng.uniform(1, 9)))
        for number in range(count)],
        history=netsim.History([0, 0, 1, 2], [0, 1, 0, 1], [3.0, 4.0, 5.0, 6.0]))


def assert_same(one: netsim.Result, other: netsim.Result) -> None:
    """Check that all tables of two results are the same, to the last bit."""
    for name in ("jobs", "gpus", "coflows", "flows", "links", "decisions"):
        tables = [_table(result, name) for result in (one, other)]
        if tables[0] is None:
            assert tables[1] is None
        elif not tables[0].equals(tables[1]):  # a tenth of the time of what says where
            pd.testing.assert_frame_equal(*tables, check_exact=True, check_categorical=False)


def _table(result: netsim.Result, name: str) -> Any:
    try:
        return getattr(result, name)
    except netsim.NotRecordedError:
        return None
