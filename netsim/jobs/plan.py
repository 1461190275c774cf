"""A job routed on a network: the coflows of its stages, and its lower bound.

Stages that name the ranks on which they compute become operations. At the end: the bytes that jobs
send, and that pairs of their ranks exchange in an iteration.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any
from zlib import crc32

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.streams import stream
from netsim.base.values import as_list
from netsim.errors import InputError
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.fold import Crossing, fold
from netsim.jobs.graph import Dag, OperationGraph, StageGraph, alone, alone_s
from netsim.jobs.longest_path import longest_path
from netsim.jobs.patterns import is_ranked_pattern, make_pattern, model_stages
from netsim.network import Topology
from netsim.workload import Flows, IterationProfile, JobSpec, Operations, Sending, Stage, Workload
from netsim.workload.job import JobColumns, is_ranked
from netsim.workload.operations import Programs


# --- operations ----------------------------------------------------------------------------
def has_operations(job: JobSpec) -> bool:
    """Whether the ranks of a job compute, or its iterations overlap; see `operations_of`."""
    return (job.operations is not None or is_ranked(job.stages)
            or (job.pattern is not None and is_ranked_pattern(job.pattern)))


def count_operations(job: JobSpec) -> int:
    """Return the number of operations of a job that has operations."""
    made = operations_of(job) if job.operations is None else job.operations
    assert made is not None
    return len(made)


def operations_of(job: JobSpec) -> Operations | None:
    """Return the operations of a job's ranks; None if its iterations follow one another."""
    if job.operations is not None:
        made = job.operations
        return made.whole if isinstance(made, Programs) else made
    return _converted(tuple(job.stages), job.ranks) if is_ranked(job.stages) else None


def expert_counts(workload: Workload) -> dict[str, int]:
    """Count the tokens that routers send to experts in all iterations, if loads are uneven."""
    routed = dropped = 0
    for job in () if isinstance(workload.jobs, JobColumns) else workload.jobs:
        if job.operations is not None:
            variants = job.operations.variants or (job.operations,)
            for k, each in enumerate(variants):
                times = -((k - job.iterations) // len(variants))
                routed, dropped = routed + times * each.tokens[0], dropped + times * each.tokens[1]
    return {"routed_tokens": routed, "dropped_tokens": dropped} if routed else {}


@lru_cache(maxsize=64)
def _converted(stages: tuple[Stage, ...], ranks: int) -> Operations:
    """Make operations of stages: a computation on each rank of a stage, then its coflow.

    By default, a stage without `after` waits for those stages of the previous iteration that no
    other stage has waited for.
    """
    rows: list[tuple[int, float, int, str, str]] = []
    sendings: list[Sending] = []
    begins: dict[str, list[int]] = {}
    ends: dict[str, list[int]] = {}
    after: list[tuple[int, int]] = []
    for stage in stages:
        first = len(rows)
        rows += [(rank, stage.compute_s, -1, stage.stream, stage.name) for rank in stage.ranks]
        begins[stage.name] = ends[stage.name] = list(range(first, len(rows)))
        if stage.flows is None and stage.ranks:
            continue
        sends = -1
        if stage.flows is not None:
            sends = len(sendings)
            sendings.append(Sending(stage.flows, stage.steps, stage.weight, stage.deadline_s,
                                    stage.overhead_s, stage.continues))
        own = len(rows)
        rows.append((-1, 0.0 if stage.ranks else stage.compute_s, sends, stage.stream, stage.name))
        after += [(own, computed) for computed in begins[stage.name]]
        begins[stage.name], ends[stage.name] = begins[stage.name] or [own], [own]
    waited = {parent for stage in stages for parent in stage.after}
    last = [stage.name for stage in stages if stage.name not in waited]
    after_previous: list[tuple[int, int]] = []
    for stage in stages:
        previous = stage.after_previous or (() if stage.after else last)
        for pairs, parents in ((after, stage.after), (after_previous, previous)):
            pairs += [(begin, end) for begin in begins[stage.name] for parent in parents
                      for end in ends[parent]]
    return Operations.make(rows, after, after_previous, sendings, ranks)


# --- stages --------------------------------------------------------------------------------

#: Powers of ten, more than ids have digits; and, for CRC-32, 32 ones and the effect of each byte.
_TENS = 10 ** np.arange(17)

_ONES = 0xFFFFFFFF

_CRC32 = np.array([crc32(bytes([byte])) ^ crc32(b"\0") for byte in range(256)], np.int64)


class JobPlan:
    """The stage graph of each iteration of a job on a network, and the job's lower bound.

    `capacity` is the highest capacity of each link during the run; only the lower bound uses it, as
    changes are not known before they happen. `placed` adapts the stages of an iteration to the
    hosts, keeping their number of coflows. `taken` marks the links that other jobs use, or that
    change: if given, one rank represents all ranks that do the same on other links, if that is
    exact (see `netsim.jobs.fold`).
    """

    def __init__(self, spec: JobSpec, network: Topology, hosts: Sequence[int] | Ints, seed: int,
                 capacity: Floats, placed: Callable[[tuple[Stage, ...]], tuple[Stage, ...]] = tuple,
                 taken: Bools | None = None) -> None:
        self.spec = spec
        self.hosts = np.asarray(hosts, dtype=np.int64)
        self.network = network  # for `reroute`, another one may be assigned
        self._seed = seed
        self._placed = placed
        self._taken = taken
        # The least seconds of a coflow alone; this is exact on ideal networks without changes.
        self.least = alone_s
        if network.wire.timed or not np.array_equal(capacity[:network.links], network.usable):
            self.least = partial(RoutedCoflow.least_s, capacity=capacity,
                                 latency=network.wire.latency)
        #: The graphs of the iterations in turn, of which there is mostly one; None if sizes are
        #: redrawn.
        self._fixed = None if spec.redraw else self._graphs()
        self._alone_s: float | None = None

    def graph(self, iteration: int) -> Any:
        """Return the graph of an iteration; mostly, all are the same."""
        return self._draw(iteration) if self._fixed is None else self._fixed[
            iteration % len(self._fixed)]

    @property
    def period(self) -> int:
        """Number of iterations after which graphs repeat: 1 if all are the same."""
        return self.spec.iterations if self._fixed is None else len(self._fixed)

    def reroute(self) -> None:
        """Recompute the job's routes, after routes of the network have changed."""
        if self._fixed is not None:
            self._fixed, self._alone_s = self._graphs(), None

    def _graphs(self) -> tuple[StageGraph | OperationGraph, ...]:
        made = self.spec.operations
        if made is None or not made.variants:
            return (self._draw(),)
        variants = made.whole.variants if isinstance(made, Programs) else made.variants
        return tuple(map(self._of_operations, variants))

    def _of_operations(self, operations: Operations) -> OperationGraph:
        return OperationGraph(operations, tuple(
            self._routed(each, f"sending {k}") for k, each in enumerate(operations.sendings)))

    def _draw(self, *iteration: int) -> StageGraph | OperationGraph:
        if self._taken is not None and (folded := self._fold(self._taken)) is not None:
            return folded
        if (operations := operations_of(self.spec)) is not None:
            return self._of_operations(operations)
        stages = self._placed(timed_stages(self.spec, self._seed, *iteration))
        routed: dict[int, RoutedCoflow] = {}  # by the flows that many stages may share
        return StageGraph(stages, tuple(self._demand(stage, routed) for stage in stages),
                          Dag.of(stages))

    def _fold(self, taken: Bools) -> OperationGraph | None:
        """Return the operations of one rank of each class, if these represent all ranks."""
        programs = self.spec.operations
        if not isinstance(programs, Programs) or not programs.identical:
            return None
        if not programs.families:
            return OperationGraph(programs.folded, (), programs)
        crossing = Crossing.of(programs, self.network, self.hosts, _keys(self.spec, programs))
        routed = fold(programs, crossing, self.network, lambda family: self._routed(
            programs.families[family].sending(0),
            f"sending {programs.first_sending[family]}"), taken)
        return None if routed is None else OperationGraph(programs.folded, routed, programs)

    def _demand(self, stage: Stage, routed: dict[int, RoutedCoflow]) -> RoutedCoflow | None:
        if stage.flows is None:
            return None
        sending = Sending(stage.flows, stage.steps, stage.weight, stage.deadline_s,
                          stage.overhead_s, stage.continues)
        made = self._routed(sending, stage.name, routed.get(id(stage.flows)))
        routed[id(stage.flows)] = made
        return made

    def _routed(self, sending: Sending, name: str, like: RoutedCoflow | None = None
                ) -> RoutedCoflow:
        """Route a coflow; the name decides which of several paths its flows take."""
        deadline_s = math.inf if sending.deadline_s is None else sending.deadline_s
        return RoutedCoflow.of(sending.flows, self.network, self.hosts,
                               key=ecmp_key(self.spec.id, name),
                               weight=self.spec.weight * sending.weight,
                               deadline_s=deadline_s, overhead_s=sending.overhead_s,
                               steps=sending.steps, continues=sending.continues, like=like)

    @property
    def simulated_ranks(self) -> int:
        """The number of simulated ranks, if these represent all ranks; otherwise 0."""
        fixed = None if self._fixed is None else self._fixed[0]
        if not (isinstance(fixed, OperationGraph) and fixed.programs is not None):
            return 0
        return len(np.unique(fixed.operations.rank[fixed.operations.rank >= 0]))

    def links(self) -> Ints:
        """Return the links that the job may use."""
        if self._fixed is None:  # other flows in each iteration
            return np.arange(self.network.links)
        links = [coflow.loads["link"] for graph in self._fixed for coflow in graph.routed]
        return np.unique(np.concatenate([np.empty(0, np.int64), *links]))

    def lower_bound(self) -> float:
        """Compute the least possible JCT, that of the job alone on the network, in seconds.

        For a chain of stages, it is the sum of all least times of coflows (Gammas on networks
        without latency) and compute times (LB in the Parrot paper); for a DAG, the longest path
        through them.
        """
        return self.alone_s() if self.least is alone_s else self._seconds(self.least)

    def alone_s(self) -> float:
        """Compute the JCT of the job alone at the network's nominal capacities, in seconds."""
        if self._alone_s is None:
            self._alone_s = self._seconds(alone_s)
        return self._alone_s

    def _seconds(self, least: Callable[[RoutedCoflow], float]) -> float:
        """Compute the JCT if each coflow takes its least time."""
        iterations, fixed = self.spec.iterations, self._fixed
        if fixed is None:
            return float(sum(self.graph(iteration).length(released=iteration == 0, least=least)
                             for iteration in range(iterations)))
        graph = fixed[0]
        if isinstance(graph, OperationGraph):
            seconds = np.stack([each.least_s(least) for each in fixed
                                if isinstance(each, OperationGraph)])
            return max(float(ends.max()) for ends in longest_path(
                graph.operations, seconds, iterations))
        first = graph.length(released=True, least=least)
        if iterations == 1:
            return first
        return first + (iterations - 1) * graph.length(released=False, least=least)

    def communication_s(self, first: int = 0) -> float:
        """Sum the Gammas of all coflows from iteration `first` on, in seconds."""
        if self._fixed is None or self.period > 1:
            return sum(self.graph(iteration).gamma_s
                       for iteration in range(first, self.spec.iterations))
        return (self.spec.iterations - first) * self._fixed[0].gamma_s

    def profile(self, iteration: int, gpus: int) -> IterationProfile:
        """Return what the job computes and sends on its GPUs in an iteration, if it is alone."""
        return alone(self.graph(iteration), gpus).profile(gpus, self.network.usable)

    def predicted_s(self, iterations: float, first: int = 0) -> float:
        """Sum the Gammas of the iterations from `first` to a predicted number, in seconds.

        All are taken to be like the first.
        """
        return max(iterations - first, 0.0) * float(self.graph(first).gamma_s)


def links_of(spec: JobSpec, programs: Programs, network: Topology, hosts: Ints) -> Ints:
    """Return the links that a job of programs uses."""
    if not programs.families:
        return np.empty(0, np.int64)
    return np.unique(Crossing.of(programs, network, hosts, _keys(spec, programs)).links)


def _keys(spec: JobSpec, programs: Programs) -> Ints:
    """Return the ECMP key of the first flow of each sending."""
    sendings = sum(family.groups for family in programs.families)
    return np.array([ecmp_key(spec.id, f"sending {k}") for k in range(sendings)], np.int64)


def ecmp_key(job: int, stage: str) -> int:
    """Return the ECMP key of the first flow of a stage; later flows have consecutive keys."""
    return crc32(f"{job}/{stage}".encode()) << 20


def ecmp_keys(jobs: Ints, stage: str) -> Ints:
    """Compute `ecmp_key` for many jobs, with one vectorized checksum of their digits.

    >>> ecmp_keys(np.array([7, 1203]), "push") == [ecmp_key(7, "push"), ecmp_key(1203, "push")]
    array([ True,  True])
    """
    digits = 1 + np.searchsorted(_TENS[1:], jobs, "right")
    sums = np.full(len(jobs), _ONES)
    for place in range(int(digits.max(initial=0)) - 1, -1, -1):
        after = _crc32_of_next(sums, ord("0") + jobs // _TENS[place] % 10)
        sums = np.where(place < digits, after, sums)
    for byte in f"/{stage}".encode():
        sums = _crc32_of_next(sums, byte)
    return (sums ^ _ONES) << 20


def _crc32_of_next(sums: Ints, byte: int | Ints) -> Ints:
    """Add another byte to checksums that are not yet inverted."""
    return _CRC32[(sums ^ byte) & 255] ^ (sums >> 8)


def draw_stages(spec: JobSpec, seed: int, *iteration: int) -> tuple[Stage, ...]:
    """Return a job's stages: its explicit ones, those of its model, or drawn by its pattern.

    Flows are between ranks. Draws depend only on the workload's seed and the job's id, and on the
    iteration if given. Jobs whose ranks compute are refused.
    """
    if operations_of(spec) is not None:
        raise InputError(f"job {spec.id}: its ranks compute, or its iterations overlap, which "
                         "stages of an iteration cannot express")
    if spec.model is not None:
        return model_stages(spec.model)
    if spec.pattern is None:
        return tuple(spec.stages)
    return drawn_stages(spec, stream(seed, "sizes", spec.id, *iteration))


def drawn_stages(spec: JobSpec, rng: np.random.Generator) -> tuple[Stage, ...]:
    """Draw the stages of a job's pattern, and check them."""
    assert spec.pattern is not None
    what = f"job {spec.id}: the result of its pattern"
    try:
        drawn = make_pattern(spec.pattern).stages(spec.ranks, spec.nbytes, rng)
    except InputError as error:
        raise InputError(f"job {spec.id}: {error}") from error
    stages = as_list(drawn, what, Stage, "Stage")
    if not stages or any(stage.coflow_id is not None for stage in stages):
        raise InputError(f"{what} must be one or more stages without a coflow_id, "
                         f"not {reprlib.repr(stages)}")
    if is_ranked(stages) and not is_ranked_pattern(spec.pattern):
        raise InputError(f"{what} must be stages without ranks and after_previous, which jobs "
                         "with explicit stages and patterns that say ranked = True may have, not "
                         f"{reprlib.repr(stages)}")
    return stages


def with_drawn_ranks(spec: JobSpec, seed: int) -> JobSpec:
    """Return a job with the stages that its pattern draws, if ranks compute in them.

    The job's own computation then becomes that of each rank, before the first stages. Iterations
    overlap, so that sizes cannot be redrawn in each.
    """
    if spec.pattern is None or not is_ranked_pattern(spec.pattern):
        return spec
    if spec.redraw and spec.iterations > 1:
        raise InputError(f"job {spec.id}: redraw: its iterations overlap, and so have the same "
                         "sizes")
    stages = drawn_stages(spec, stream(seed, "sizes", spec.id, *([0] if spec.redraw else [])))
    return replace(spec, stages=delayed(stages, spec.compute_s), pattern=None, nbytes=0.0,
                   compute_s=0.0, redraw=False)


def timed_stages(spec: JobSpec, seed: int, *iteration: int) -> tuple[Stage, ...]:
    """Return the stages of `draw_stages`, with the job's own computation before the first ones."""
    return delayed(draw_stages(spec, seed, *iteration), spec.compute_s)


def delayed(stages: tuple[Stage, ...], compute_s: float) -> tuple[Stage, ...]:
    """Add `compute_s` seconds of computation to the stages that have no parents.

    If ranks compute, only to stages with ranks.
    """
    if not compute_s:
        return stages
    ranked = is_ranked(stages)
    return tuple(stage if stage.after or (ranked and not stage.ranks)
                 else replace(stage, compute_s=stage.compute_s + compute_s) for stage in stages)


def place_randomly(spec: JobSpec, network: Topology, seed: int) -> Ints:
    """Return the hosts of a job; draw a distinct one for each rank if it has none.

    Names of hosts must be numbers already; see `netsim.jobs.fitting`. The draw depends only on the
    seed and the job's id, and not on other jobs.
    """
    if spec.hosts is not None:
        return _as_array(spec.hosts)
    return stream(seed, "placement", spec.id).permutation(network.hosts)[:spec.ranks]


@lru_cache(maxsize=256)
def _as_array(hosts: tuple[int, ...]) -> Ints:
    """Convert hosts to an array; cached, so that jobs on the same hosts share one."""
    array = np.array(hosts, dtype=np.int64)
    array.setflags(write=False)
    return array


# --- bytes ---------------------------------------------------------------------------------

#: There is a number for each pair of ranks.
MOST_RANKS = 4096


def traffic_of(job: JobSpec) -> Floats:
    """Sum the bytes that each pair of ranks exchanges in an iteration, in both directions together.

    The result is symmetric, with 0 on the diagonal; see `check_traffic` for the jobs that it takes.
    """
    check_traffic(job)
    between = np.zeros((job.ranks, job.ranks))
    for flows, count in _sent(job):
        np.add.at(between, (flows.src, flows.dst), flows.nbytes * count)
    between += between.T
    np.fill_diagonal(between, 0.0)
    return between


def bytes_of(workload: Workload) -> Floats:
    """Compute the bytes that each job of a workload sends in all its iterations."""
    jobs = workload.jobs
    if isinstance(jobs, JobColumns):
        columns = jobs.columns
        return np.add.reduceat(columns.nbytes, np.cumsum(columns.counts) - columns.counts)
    return np.array([_bytes_of_job(job, workload.seed) for job in jobs])


def _bytes_of_job(job: JobSpec, seed: int) -> float:
    """Return the bytes that a job sends; draw those of its pattern."""
    job = with_drawn_ranks(job, seed)
    if job.operations is not None or job.stages:
        return job.iterations * sum(count * float(flows.nbytes.sum())
                                    for flows, count in _sent(job))
    if job.redraw:
        return sum(_of_stages(draw_stages(job, seed, k)) for k in range(job.iterations))
    return job.iterations * _of_stages(draw_stages(job, seed))


def _of_stages(stages: tuple[Stage, ...]) -> float:
    return sum(float(stage.flows.nbytes.sum()) for stage in stages if stage.flows is not None)


def _sent(job: JobSpec) -> list[tuple[Flows, float]]:
    """Return what a job without a pattern sends in a mean iteration, and how often each."""
    programs = job.operations
    if programs is not None and (variants := programs.variants):
        made_in = [variants[iteration % len(variants)] for iteration in range(job.iterations)]
        return [(flows, count / job.iterations) for made in made_in
                for flows, count in _sent(replace(job, operations=made))]
    if isinstance(programs, Programs):  # need not be expanded
        times = np.zeros(len(programs.families))
        for row in programs.rows:
            if row.family >= 0:
                times[row.family] += row.size / programs.families[row.family].groups
        return [(family.flows, float(count)) for family, count in zip(
            programs.families, times, strict=True)]
    made = operations_of(job)
    if made is None:
        return [(stage.flows, 1) for stage in job.stages if stage.flows is not None]
    counts = np.bincount(made.sends[made.sends >= 0], minlength=len(made.sendings))
    return [(each.flows, int(count)) for each, count in zip(made.sendings, counts, strict=True)]


def check_traffic(job: JobSpec) -> None:
    """Check that a job has at most `MOST_RANKS` ranks, and no pattern that draws flows later."""
    if job.pattern is not None:
        raise InputError(f"job {job.id} has the pattern {job.pattern!r}, with flows that are "
                         "drawn when it runs; only those of explicit stages, and of ranks that "
                         "compute, are known before")
    if job.ranks > MOST_RANKS:
        raise InputError(f"job {job.id} has {job.ranks:,} ranks; pairs are counted of up to "
                         f"{MOST_RANKS:,}")
