"""The same job in every way that can run it: its tables are the same, to the last bit.

Independent coflows are columns, the fabric runs graphs by itself, and a process runs what may be
stopped. Two of these have two forms: a graph is a chain, for which the fabric has a fast path, or
one of operations; and a process goes through stages or through operations.

Where a coflow begins some time after its stage, sums are not the same to the last bit: see
`test_overheads_are_rounded_in_another_order`. With latency, the last bit of a chain's times may be
another than that of a process, which is at the instants of SimPy's clock: see
`test_latency_may_change_the_last_bit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import netsim
from netsim import JobSpec, Stage, simulate
from netsim.allocators import make_allocator
from netsim.network import Topology
from netsim.results.result import Result
from netsim.workload.columns import Flows
from netsim.workload.operations import Operations, Sending
from tests.jobs.test_graphs import BY_PROCESSES, OF_STOPS, drawn_operations
from tests.pairs import paired

HOSTS = 4
ALLOCATORS = ["maxmin", "sebf", "aalo", "parrot"]
#: Networks without overheads: see the last test.
NETWORKS = {"ideal": netsim.big_switch(HOSTS, 10.0),
            "latency": netsim.big_switch(HOSTS, 10.0, latency=0.013),
            "two paths": netsim.leaf_spine(2, 2, 2, 10.0)}
LATE = netsim.big_switch(HOSTS, 10.0, latency=0.013, overhead=0.007)


# --- jobs, and their ways ------------------------------------------------------------------
def drawn(kind: str, seed: int, jobs: int = 4) -> list[JobSpec]:
    """Draw jobs that come at once or one by one, and share links."""
    rng = np.random.default_rng(seed)
    return [_drawn(kind, k, rng) for k in range(jobs)]


def _drawn(kind: str, number: int, rng: np.random.Generator) -> JobSpec:
    hosts, arrival_s = rng.permutation(HOSTS).tolist(), float(rng.choice([0, 0.1, 0.7]))
    iterations = 1 if kind == "single" else int(rng.integers(1, 4))
    if kind == "operations":
        return JobSpec(number, arrival_s, hosts=hosts, operations=drawn_operations(rng),
                       iterations=iterations, ranks=HOSTS)
    stages = [_stage(k, rng) for k in range(1 if kind == "single" else rng.integers(1, 4))]
    return JobSpec(number, arrival_s, hosts=hosts, stages=stages, iterations=iterations,
                   ranks=HOSTS)


def _stage(number: int, rng: np.random.Generator) -> Stage:
    width = int(rng.integers(1, 4))
    src = rng.integers(0, HOSTS, width)
    flows = Flows(src, (src + rng.integers(1, HOSTS, width)) % HOSTS, rng.uniform(1, 9, width))
    # The names are those by which operations choose a path.
    return Stage(f"sending {number}", flows, float(rng.choice([0, 0.1, 0.3])),
                 [f"sending {number - 1}"] if number else [], weight=float(rng.choice([1, 2])),
                 deadline_s=float(rng.choice([2.0, 5.0])))


class Given:
    """A pattern of given stages: a job with it is no column, as its flows are not known before."""

    def __init__(self, stages: Iterable[Stage]) -> None:
        self._stages = tuple(stages)

    def stages(self, ranks: int, nbytes: float, rng: np.random.Generator) -> tuple[Stage, ...]:
        return self._stages


def same(job: JobSpec) -> JobSpec:
    return job


def as_chain(job: JobSpec) -> JobSpec:
    return replace(job, stages=(), pattern=Given(job.stages), nbytes=1.0)


def as_graph(job: JobSpec) -> JobSpec:
    """Make each stage an operation that waits for the one before, and the first for the last."""
    rows = [(-1, stage.compute_s, k, "net", stage.name) for k, stage in enumerate(job.stages)]
    made = Operations.make(
        rows, [(k, k - 1) for k in range(1, len(rows))], [(0, len(rows) - 1)],
        [Sending(stage.flows, weight=stage.weight, deadline_s=stage.deadline_s)
         for stage in job.stages], HOSTS)
    return replace(job, stages=(), operations=made)


#: Of each kind of jobs, what makes them take a way, and whether events make them processes.
WAYS: dict[str, dict[str, tuple[Callable[[JobSpec], JobSpec], bool]]] = {
    "single": {"a column": (same, False), "a chain": (as_chain, False),
               "a graph": (as_graph, False), "a process of operations": (as_graph, True)},
    "chain": {"a chain": (same, False), "a graph": (as_graph, False),
              "a process of operations": (as_graph, True)},
    "operations": {"a graph": (same, False)}}


def results_of(kind: str, seed: int, network: Topology, **given: Any
               ) -> tuple[Result, dict[str, Result]]:
    """Run jobs as processes, and in all other ways."""
    jobs = drawn(kind, seed)

    def run(convert: Callable[[JobSpec], JobSpec], by_processes: bool) -> Result:
        return simulate(network, list(map(convert, jobs)), **given, record=(
            "coflows", "flows", "computations"), events=BY_PROCESSES if by_processes else ())

    return run(same, True), {name: run(*way) for name, way in WAYS[kind].items()}


def differences(one: Result, other: Result) -> dict[str, float]:
    """Return the columns that differ, and the largest difference in each."""
    found = {}
    for table in ("jobs", "coflows", "flows", "computations"):
        first, second = (getattr(each, table).drop(columns=OF_STOPS, errors="ignore")
                         for each in (one, other))
        assert list(first.columns) == list(second.columns)
        assert len(first) == len(second)
        for name in first.columns:
            if first[name].dtype.kind in "iuf":
                mine, its = first[name].to_numpy(), second[name].to_numpy()
                if not np.array_equal(mine, its, equal_nan=True):
                    found[f"{table}.{name}"] = float(np.nanmax(abs(its - mine)))
            else:
                assert first[name].astype(str).equals(second[name].astype(str)), name
    return found


# --- the same to the last bit --------------------------------------------------------------
#: What the fabric computes in another order for a job of operations: its least time is that of the
#: longest path through all iterations, one after the other; that of stages adds those of one
#: iteration, times their number.
OF_OPERATIONS = {"jobs.lower_bound_s"}


@pytest.mark.parametrize(("kind", "allocator", "network", "interval"),
                         paired(WAYS, ALLOCATORS, NETWORKS, [0, 0.05]))
def test_all_ways_are_the_same(kind: str, allocator: str, network: str, interval: float) -> None:
    for seed in range(3):
        expected, others = results_of(kind, seed, NETWORKS[network], allocator=allocator,
                                      observe_interval=interval)
        assert len(expected.coflows)
        for name, result in others.items():
            found = differences(expected, result)
            allowed = OF_OPERATIONS if kind == "chain" and name != "a chain" else set()
            assert found.keys() <= allowed, (seed, name, found)
            assert max(found.values(), default=0.0) < 1e-14
            assert result.run["decisions"] == expected.run["decisions"]


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("allocator", ["sebf", "aalo"])
def test_an_allocator_that_sees_running_jobs_makes_processes(kind: str, allocator: str) -> None:
    """It decides again as jobs begin and end, which changes nothing here."""
    class Seeing(type(make_allocator(allocator))):  # type: ignore[misc]
        sees_running = True

    jobs = drawn(kind, 7)
    seen = simulate(NETWORKS["ideal"], jobs, allocator=Seeing(),
                    record=("coflows", "flows", "computations"))
    expected, _ = results_of(kind, 7, NETWORKS["ideal"], allocator=allocator)
    assert not differences(expected, seen)


# --- but where coflows begin late ----------------------------------------------------------
#: Columns that may differ: of the validity, of the deadline, and all that follow from the begin.
OF_VALID = {"coflows.valid_s", "coflows.cct_s", "flows.valid_s"}
OF_DEADLINE = {"coflows.deadline_s"}
OF_BEGIN = {*OF_VALID, *OF_DEADLINE, *(
    f"{table}.{name}" for table in ("coflows", "flows") for name in (
        "begin_s", "start_s", "sent_s", "finish_s")), "jobs.start_s", "jobs.finish_s", "jobs.jct_s"}


@pytest.mark.parametrize("allocator", ALLOCATORS)
@pytest.mark.parametrize(("kind", "way", "differ"), [
    ("single", "a column", OF_VALID), ("single", "a chain", OF_VALID | OF_DEADLINE),
    ("single", "a graph", OF_DEADLINE), ("single", "a process of operations", set()),
    ("chain", "a chain", OF_BEGIN), ("chain", "a graph", OF_DEADLINE | OF_OPERATIONS),
    ("chain", "a process of operations", OF_OPERATIONS),
    ("operations", "a graph", OF_DEADLINE)])
def test_overheads_are_rounded_in_another_order(allocator: str, kind: str, way: str,
                                                differ: set[str]) -> None:
    """After an end at e, a process computes the begin of a coflow as (e + c) + o, with its stage's
    computation c and its overhead o. The fabric adds c + o, which it knows beforehand of a chain.

    From the begin b of a coflow without a process the record gets its validity back as b - o. Its
    deadline d after that is b + (d - o).
    """
    for seed in range(2):
        expected, others = results_of(kind, seed, LATE, allocator=allocator)
        found = differences(expected, others[way])
        assert found.keys() <= differ, seed
        assert max(found.values(), default=0.0) < 1e-12


def test_latency_may_change_the_last_bit():
    """A chain adds to the instant at which bytes arrive, a process to that of an event there.

    Three jobs compute 0.1 s, and then send 4/3 GB each over every edge of a ring of three, in four
    steps over two links of 10 us: at 1e10 B/s an iteration takes 0.1 s + 0.4 s + 80 us.
    """
    net = netsim.big_switch(4, "80Gbps", latency="10us")
    jobs = [JobSpec(k, ranks=3, hosts=[0, 1, 2], nbytes=1e9, compute_s=0.1, iterations=2,
                    pattern="ring-all-reduce") for k in range(3)]
    never = [{"at": 1e9, "host": 3, "kind": "fail", "restart": True}]
    chain, process = (simulate(net, jobs, events=events).jobs["finish_s"].to_numpy()
                      for events in ((), never))
    np.testing.assert_allclose(chain, 1.00016, rtol=1e-15)
    np.testing.assert_allclose(process, chain, rtol=4e-16)
