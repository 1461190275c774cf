"""Graphs of an iteration: stages with the longest path, or operations, routed on a network.

At the end: when a job that is alone on the network sends what in an iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, overload

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.values import parents_first, same
from netsim.fabric.graphs import OperationRows
from netsim.fabric.records import OPERATION
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.jobs.longest_path import longest_path
from netsim.workload import IterationProfile, Operations, Relation, Stage
from netsim.workload.operations import Programs

if TYPE_CHECKING:
    from netsim.fabric.clock import CoflowEvent

# --- stages --------------------------------------------------------------------------------

Places = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Dag:
    """Dependencies between the stages of an iteration, which are numbered by position."""

    after: Places  #: without duplicates, as `finishes_before`
    finishes_before: Places
    children: Places  #: the stages that start after each stage
    held: Places  #: the stages that cannot finish before each stage does
    sequence: tuple[int, ...]  #: a topological order
    #: The place of each stage by (length of the longest path to it, release, coflow id, position);
    #: stages without a `coflow_id` come after those with one.
    order: tuple[int, ...]
    __deepcopy__ = same

    @classmethod
    def of(cls, stages: Sequence[Stage]) -> Dag:
        """Make the dependencies of stages; cached, so that equal ones share one object."""
        by_id = sorted(range(len(stages)), key=lambda k: (
            math.inf if (own := stages[k].coflow_id) is None else own, k))
        return _dag(tuple([(stage.name, stage.after, stage.finishes_before, stage.release_s)
                           for stage in stages]), tuple(by_id))


@lru_cache(maxsize=256)
def _dag(stages: tuple[tuple[str, tuple[str, ...], tuple[str, ...], float], ...],
         by_id: tuple[int, ...]) -> Dag:
    names, after, finishes_before, release_s = zip(*stages, strict=True)
    place = {name: k for k, name in enumerate(names)}
    sequence = parents_first(names, [a + b for a, b in zip(after, finishes_before, strict=True)],
                             "an iteration")
    starts, ends = (tuple(tuple(place[name] for name in dict.fromkeys(parents))
                          for parents in relation) for relation in (after, finishes_before))
    depth = [0] * len(names)
    for k in sequence:
        depth[k] = 1 + max((depth[parent] for parent in starts[k] + ends[k]), default=-1)
    ranked = sorted(by_id, key=lambda k: (depth[k], release_s[k]))
    order = {k: rank for rank, k in enumerate(ranked)}
    return Dag(starts, ends, _inverse(starts), _inverse(ends), tuple(sequence),
               tuple(order[k] for k in range(len(names))))


def _inverse(relation: Places) -> Places:
    """Turn lists of parents into lists of children."""
    found: list[list[int]] = [[] for _ in relation]
    for child, parents in enumerate(relation):
        for parent in parents:
            found[parent].append(child)
    return tuple(map(tuple, found))


@dataclass(frozen=True, slots=True, eq=False)
class StageGraph:
    """The stages of one iteration, routed on a network."""

    stages: tuple[Stage, ...]
    demands: tuple[RoutedCoflow | None, ...]  #: None for a stage that only computes
    dag: Dag
    __deepcopy__ = same

    def runs_without_process(self) -> bool:
        """Whether the stages form a chain, all have flows, and there are no other constraints.

        `FabricProcess.run_graph` can run such a job.
        """
        dag, order = self.dag, self.dag.sequence
        behind = ((), *((k,) for k in order[:-1]))
        return (not any(dag.finishes_before)
                and all(dag.after[k] == after for k, after in zip(order, behind, strict=True))
                and all(demand is not None and len(demand.flows) for demand in self.demands)
                and not any(self.stages[k].release_s for k in order[1:]))

    def order_of(self, iteration: int, stage: int) -> int:
        """Return the place of a coflow among those of its job, which breaks ties."""
        return iteration * len(self.stages) + self.dag.order[stage]

    @property
    def routed(self) -> tuple[RoutedCoflow, ...]:
        """The coflows of a chain, in the order in which they are sent."""
        return tuple(demand for k in self.dag.sequence if (demand := self.demands[k]) is not None)

    @property
    def steps(self) -> Floats:
        """The seconds of computation before each of them."""
        return np.array([self.stages[k].compute_s for k in self.dag.sequence])

    @property
    def release_s(self) -> float:
        """Seconds from the job's arrival until the first stage of a chain may begin."""
        return self.stages[self.dag.sequence[0]].release_s

    @property
    def gamma_s(self) -> float:
        """Sum of the effective bottlenecks of all coflows, in seconds."""
        return sum(demand.gamma for demand in self.demands if demand is not None)

    def length(self, *, released: bool, least: Callable[[RoutedCoflow], float]) -> float:
        """Compute the longest path through compute times and `least` times of coflows, in seconds.

        It is the duration of the iteration alone on the network if parallel coflows do not share
        links. `released`: whether stages wait for their ``release_s``, as in the first iteration.
        """
        return max(self.ends(released=released, least=least))

    def ends(self, *, released: bool, least: Callable[[RoutedCoflow], float]) -> list[float]:
        """Compute when each stage ends on these paths."""
        ends = [0.0] * len(self.stages)
        alone = {demand: least(demand) for demand in dict.fromkeys(self.demands)
                 if demand is not None}
        for k in self.dag.sequence:
            stage, demand = self.stages[k], self.demands[k]
            start = max([ends[parent] for parent in self.dag.after[k]], default=0.0)
            if released:
                start = max(start, stage.release_s)
            end = start + stage.compute_s
            if demand is not None:
                end += alone[demand]
            ends[k] = max([end, *[ends[parent] for parent in self.dag.finishes_before[k]]])
        return ends


@dataclass(slots=True)
class Progress:
    """The progress of the stages of an iteration."""

    graph: StageGraph  #: whose stages these are
    left: int  #: the number of stages that have not completed
    blockers: list[int]  #: how many stages each stage waits for before it begins
    holders: list[int]  #: and before it completes
    #: The coflow and the end of stages whose own work is done, but which wait for others.
    held: dict[int, tuple[CoflowEvent | None, float]]
    held_until: list[float]  #: the latest end of the stages that held each stage
    computing: dict[int, float] = field(default_factory=dict)  #: when each computation ends
    #: For a stage that sent when the job was paused, the bytes left of each flow and the total
    #: bytes of all flows; for one that computed, the seconds left.
    paused: dict[int, tuple[Floats, float] | float] = field(default_factory=dict)
    spent_s: float = 0.0  #: in the iteration, when the job was paused
    sent_bytes: float = 0.0  #: by unfinished coflows when it was paused, without headers
    sent_on_wire: float = 0.0  #: and with headers

    @classmethod
    def of(cls, graph: StageGraph) -> Progress:
        """Make the state at the beginning of an iteration."""
        after = graph.dag.after
        return cls(graph, len(after), list(map(len, after)),
                   list(map(len, graph.dag.finishes_before)), {}, [0.0] * len(after))

    def __copy__(self) -> Progress:
        """Return an independent copy."""
        return replace(self, **{name: copy(getattr(self, name)) for name in (
            "blockers", "holders", "held", "held_until", "computing", "paused")})


# --- operations ----------------------------------------------------------------------------
class _Named(Sequence[Stage]):
    """Operations of all ranks as stages that only have names, for tables and messages.

    Given `programs`, each operation represents one of their rows.
    """

    __deepcopy__ = same

    def __init__(self, operations: Operations, programs: Programs | None) -> None:
        self._name = operations.name
        self._names = operations.names
        self._stages: dict[int, Stage] = {}
        self._first = None if programs is None else programs.first
        self._length = len(operations if programs is None else programs)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, which: int) -> Stage: ...

    @overload
    def __getitem__(self, which: slice) -> tuple[Stage, ...]: ...

    def __getitem__(self, which: int | slice) -> Stage | tuple[Stage, ...]:
        if isinstance(which, slice):
            return tuple(self[k] for k in range(len(self))[which])
        row = which if self._first is None else np.searchsorted(self._first, which, "right") - 1
        name = int(self._name[row])
        if name not in self._stages:
            self._stages[name] = Stage(self._names[name])
        return self._stages[name]


class _Demands(Sequence[RoutedCoflow | None]):
    """The coflow of each operation; None if it sends nothing."""

    __deepcopy__ = same

    def __init__(self, sends: Ints, routed: Sequence[RoutedCoflow]) -> None:
        self._sends, self._routed = sends, routed

    def __len__(self) -> int:
        return len(self._sends)

    def __getitem__(self, which):  # type: ignore[no-untyped-def]
        sends = self._sends[which]
        return None if sends < 0 else self._routed[sends]

    def __iter__(self) -> Iterator[RoutedCoflow | None]:
        return (self[k] for k in range(len(self)))


def _turns_of(made: Operations) -> Ints:
    return np.where(made.rank < 0, -1, made.rank * len(made.streams) + made.stream)


@lru_cache(maxsize=4)
def _in_order(made: Operations) -> bool:
    if made.holders:
        return False
    turn = _turns_of(made)
    place = np.empty(len(made), np.int64)
    place[made.sequence] = np.arange(len(made))
    computed = np.flatnonzero(turn >= 0)
    order = computed[np.lexsort((place[computed], turn[computed]))]
    follows = turn[order[1:]] == turn[order[:-1]]
    first, last = np.append(True, ~follows), np.append(~follows, True)
    return (_related(made.after, order[1:][follows], order[:-1][follows])
            and _related(made.after_previous, order[first], order[last])) if len(order) else True


def _related(relation: Relation, operations: Ints, others: Ints) -> bool:
    """Whether a relation contains all of some pairs."""
    count = len(relation.first) - 1
    pairs = np.repeat(np.arange(count), relation.counts) * count + relation.others
    return bool(np.isin(operations * count + others, pairs).all())


@dataclass(frozen=True, slots=True, eq=False)
class OperationLists:
    """The operations of an iteration as lists, for a process that goes through them one by one."""

    children: list[list[int]]  #: the operations that wait for each one in its iteration
    children_next: list[list[int]]  #: and in the next iteration
    blockers: list[int]  #: how many operations each one waits for
    blockers_first: list[int]  #: without those of the previous iteration
    #: The operations whose ``until`` each one is; see `netsim.operations.Operations`.
    holders: dict[int, list[int]]
    held: frozenset[int]  #: all operations in `holders`
    turn: list[int]  #: a number for a computation's rank and stream; else -1
    in_order: bool  #: see `OperationGraph.in_order`
    sends: list[int]  #: the number of a routed coflow, or -1
    __deepcopy__ = same


@lru_cache(maxsize=4)
def _lists_of(made: Operations) -> OperationLists:
    """Return operations as lists; jobs with equal operations share them."""
    first, holders = made.after.counts, made.holders
    return OperationLists(
        made.after.inverse().lists(), made.after_previous.inverse().lists(),
        (first + made.after_previous.counts).tolist(), first.tolist(), holders,
        frozenset(chain(*holders.values())), _turns_of(made).tolist(), _in_order(made),
        made.sends.tolist())


@lru_cache(maxsize=4)
def _rows_of(made: Operations) -> OperationRows:
    """Return operations as rows for the fabric; jobs with equal operations share them."""
    rows = np.zeros(len(made), OPERATION)
    rows["compute_s"], rows["sends"] = made.compute_s, made.sends
    rows["blockers_first"] = made.after.counts
    rows["blockers"] = made.after.counts + made.after_previous.counts
    children, nexts = made.after.inverse(), made.after_previous.inverse()
    rows["children"], rows["nexts"] = children.counts, nexts.counts
    rows["child"] = children.first[:-1] + nexts.first[:-1]
    # Children in this iteration come before those in the next.
    which = np.concatenate((np.repeat(2 * np.arange(len(made)), children.counts),
                            np.repeat(2 * np.arange(len(made)) + 1, nexts.counts)))
    others = np.concatenate((children.others, nexts.others))[np.argsort(which, kind="stable")]
    return OperationRows(rows, others, made.sequence[made.rank[made.sequence] >= 0])


@dataclass(frozen=True, slots=True, eq=False)
class OperationGraph:
    """The operations of the ranks of a job in an iteration, routed on a network.

    It has the interface of a `StageGraph`, with operations as stages.
    """

    operations: Operations
    routed: tuple[RoutedCoflow, ...]  #: the coflow of each distinct sending
    #: If given, each operation represents a row of them, that is, many equal operations:
    #: `copies` consecutive ones of all ranks, from its place in `places` on.
    programs: Programs | None = None
    stages: Sequence[Stage] = field(init=False)
    demands: Sequence[RoutedCoflow | None] = field(init=False)
    places: Sequence[int] = field(init=False)
    copies: list[int] = field(init=False)
    release_s = 0.0  #: as of a `StageGraph`
    __deepcopy__ = same

    def __post_init__(self) -> None:
        made, programs = self.operations, self.programs
        places, copies = range(len(made)), [1] * len(made)
        if programs is not None:
            places, copies = programs.first.tolist(), programs.counts.tolist()
        for name, value in (
                ("stages", _Named(made, programs)), ("demands", _Demands(made.sends, self.routed)),
                ("places", places), ("copies", copies)):
            object.__setattr__(self, name, value)

    @property
    def in_order(self) -> bool:
        """Whether each computation waits for the one before on its stream, none for its turn."""
        return _in_order(self.operations)

    @property
    def lists(self) -> OperationLists:
        """The operations as lists, for a process."""
        return _lists_of(self.operations)

    def runs_without_process(self) -> bool:
        """Whether `FabricProcess.run_graph` can run the job.

        It cannot if computations may have to wait for their turn (see `in_order`); if operations
        represent others; or if a coflow has no bytes, because such a coflow is complete at once,
        but allocators must still be asked.
        """
        return (self.in_order and self.programs is None
                and all(len(demand.flows) for demand in self.routed))

    def order_of(self, iteration: int, operation: int) -> int:
        """Return the place of a coflow among those of its job, which breaks ties."""
        return iteration * len(self.operations) + operation

    @property
    def steps(self) -> OperationRows:
        """The operations as rows for the fabric."""
        return _rows_of(self.operations)

    @property
    def gamma_s(self) -> float:
        """Sum of the effective bottlenecks of all coflows, in seconds."""
        gamma = np.array([*(demand.gamma for demand in self.routed), 0.0])
        return float(gamma[self.operations.sends].sum())

    def least_s(self, least: Callable[[RoutedCoflow], float]) -> Floats:
        """Return the seconds of each operation if each coflow takes its least time."""
        alone = np.array([*map(least, self.routed), 0.0])
        return self.operations.compute_s + alone[self.operations.sends]


# --- an iteration of a job that is alone ----------------------------------------------------
@dataclass(frozen=True)
class IterationAlone:
    """What happens in an iteration in which each coflow takes its least time."""

    period_s: float  #: from the beginning of this iteration to that of the next
    gpu_s: float  #: seconds that its GPUs compute, in sum
    begin_s: Floats  #: when each coflow begins to send
    end_s: Floats  #: and when it ends
    which: Ints  #: the place of each in `routed`
    routed: Sequence[RoutedCoflow]

    def link_seconds(self, capacity: Floats) -> Floats:
        """Return how long all bytes of the iteration would fill each link."""
        seconds = np.zeros(len(capacity))
        if not self.routed:
            return seconds
        times = np.bincount(self.which, minlength=len(self.routed)).tolist()
        link = np.concatenate([each.loads["link"] for each in self.routed])
        nbytes = np.concatenate([n * each.loads["nbytes"]
                                 for n, each in zip(times, self.routed, strict=True)])
        here = (link < len(capacity)) & (capacity[np.minimum(link, len(capacity) - 1)] > 0)
        link, nbytes = link[here], nbytes[here]
        np.add.at(seconds, link, nbytes / capacity[link])
        return seconds

    def profile(self, gpus: int, capacity: Floats) -> IterationProfile:
        """Return the iteration as a policy sees it; `capacity` is in bytes per second."""
        if not np.isfinite(self.period_s):  # it needs a dead link
            return IterationProfile(gpus)
        compute_s = self.gpu_s / gpus
        begin_s = float(self.begin_s.min(initial=self.period_s))
        link_s = float(self.link_seconds(capacity).max(initial=0.0))
        return IterationProfile(gpus, compute_s, begin_s, link_s, max(
            self.period_s - max(compute_s, begin_s + link_s), 0.0))


def alone(graph: StageGraph | OperationGraph, gpus: int) -> IterationAlone:
    """Return an iteration of a job with this number of GPUs, all of which compute in each stage.

    Where stages take turns and their GPUs are not known, GPUs compute all the time at most. If
    iterations overlap, it is the first one, and takes as long as the second takes longer.
    """
    if isinstance(graph, OperationGraph):
        return _of_operations(graph)
    ends = graph.ends(released=False, least=alone_s)
    routed = [demand for demand in graph.demands if demand is not None]
    end_s = np.array([ends[k] for k, demand in enumerate(graph.demands) if demand is not None])
    compute_s = min(sum(stage.compute_s for stage in graph.stages), max(ends))
    return IterationAlone(max(ends), gpus * compute_s, end_s - [each.gamma for each in routed],
                          end_s, np.arange(len(routed)), routed)


def _of_operations(graph: OperationGraph) -> IterationAlone:
    made = graph.operations
    least = np.array([*map(alone_s, graph.routed), 0.0])
    gamma = np.array([*(demand.gamma for demand in graph.routed), 0.0])
    first, second = longest_path(made, made.compute_s + least[made.sends], 2)
    sends = np.flatnonzero(made.sends >= 0)
    computes = made.rank >= 0
    return IterationAlone(
        float(second.max() - first.max()),
        float((made.compute_s * np.array(graph.copies))[computes].sum()),
        first[sends] - gamma[made.sends[sends]], first[sends], made.sends[sends], graph.routed)


def alone_s(demand: RoutedCoflow) -> float:
    """Return the least time of a coflow on an ideal network."""
    return demand.overhead_s + demand.gamma
