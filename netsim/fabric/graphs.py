"""The jobs that the fabric runs by itself: graphs of coflows, and of computations between them.

A graph without branches is a *chain*: each coflow follows some seconds after the arrival of the one
before. The fabric has a fast path for chains, which keeps nothing about single iterations.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.values import same
from netsim.fabric.kernels import graphs as kernels
from netsim.fabric.kernels.graphs import GraphArrays
from netsim.fabric.records import COFLOW, GRAPH, GRAPHS, IN_GRAPH, OPERATION, STAGE, STATE
from netsim.fabric.routed_coflow import FlowArrays, RoutedCoflow

#: The rows of `times` and `codes` that outlast a move to larger arrays, and the fields of `head`
#: that say how much of each is in use.
_LISTS = (("times", kernels.BEGINS, "begins"), ("codes", kernels.BEGINNING, "begins"),
          ("codes", kernels.DUE, "due"), ("codes", kernels.PARKED, "parked"),
          ("times", kernels.PARKED_AT, "parked"), ("codes", kernels.ENDED, "ended"))

#: In place of a number of blockers: the computation has been reported.
_REPORTED = -1


@dataclass(frozen=True, slots=True, eq=False)
class OperationRows:
    """The operations of an iteration of a job."""

    operations: NDArray[Any]  #: of OPERATION; `child` counts from the start of `children`
    children: Ints  #: places of operations
    #: Places of the computations on ranks, each after those it waits for.
    computes: Ints
    __deepcopy__ = same


#: What a job does in an iteration: its operations; or, of a chain, the seconds from the arrival of
#: the coflow before until the stage of each coflow is valid.
IterationSteps = OperationRows | Floats


class Computed(NamedTuple):
    """Computations of an iteration of a job."""

    job: int
    iteration: int
    operation: Ints  #: places among the operations of the job
    start_s: Floats
    end_s: Floats


class OperationArrays(NamedTuple):
    """The last arrays of `GraphArrays`: the operations, and how far each iteration is."""

    operations: NDArray[Any]
    children: Ints
    state: NDArray[Any]
    times: Floats
    codes: Ints
    head: NDArray[Any]


def _no_operations(room: int = 0) -> OperationArrays:
    return OperationArrays(
        np.empty(0, OPERATION), np.empty(0, np.int64), np.empty(0, STATE),
        np.zeros((1 + kernels.PARKED_AT, room)), np.zeros((1 + kernels.ENDED, room), np.int64),
        np.zeros(1, GRAPHS))


class Graphs:
    """The graphs that run, and the coflows that they send; see `netsim.fabric.kernels.graphs`.

    All have a GRAPH row each: chains, and graphs of operations, which are never due as chains.
    """

    def __init__(self, jobs: int) -> None:
        self.of_jobs = _not_due(jobs)  #: of GRAPH; without stages for other jobs
        #: The jobs whose graphs have not ended, in order.
        self.running = self._jobs = np.empty(0, np.int64)
        self.stages = np.empty(0, STAGE)  #: graph by graph, while the graph runs
        #: Of COFLOW, with segments in the table's arrays; equal ones of a graph share a row.
        self.coflows = np.empty(0, COFLOW)
        self.next_due = math.inf  #: when the next coflow becomes valid
        self._used = self._used_coflows = 0
        self._begun = 0
        self.arrays = _no_operations()
        #: Of jobs that run, or whose computations have not all been reported.
        self._rows: dict[int, OperationRows] = {}
        self._room = dict.fromkeys(("operations", "children", "state"), 0)
        self.keeps_all = False  #: whether graphs that begin keep the state of all iterations

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "running": len(self.running)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore `running` as a view of the first jobs of the copied `_jobs`."""
        self.__dict__.update(state)
        self.running = self._jobs[:state["running"]]

    def make_room(self, jobs: int) -> None:
        """Make room for this number of jobs."""
        self.of_jobs = np.concatenate((self.of_jobs, _not_due(jobs - len(self.of_jobs))))

    def insert(self, job: int) -> None:
        """Insert a job without a graph; later jobs, none of which runs yet, are renumbered."""
        self.of_jobs = np.insert(self.of_jobs, job, _not_due(1))

    def begin(self, job: int, coflows: Sequence[RoutedCoflow], steps: IterationSteps,
              iterations: int, begin_s: float, wait_s: float, arrays: FlowArrays) -> None:
        """Begin a graph; the arrays must have room. See `FabricProcess.run_graph`."""
        self._begun += 1
        if 2 * self._begun > len(self.running):
            self._forget_ended()
        if isinstance(steps, OperationRows):
            self._add(job, coflows, np.zeros(len(coflows)), 1, math.inf, arrays)
            self._begin_operations(job, steps, iterations, begin_s + wait_s)
        else:
            due = begin_s + (wait_s + float(steps[0])) + coflows[0].overhead_s
            self._add(job, coflows, steps, iterations * len(coflows), due, arrays)
            self.next_due = min(self.next_due, due)

    def _add(self, job: int, coflows: Sequence[RoutedCoflow], pauses: Floats,
             total: int, due: float, arrays: FlowArrays) -> None:
        """Add the stages of a job; see `GRAPH`."""
        row = self.of_jobs[job]
        row["first"], row["stages"] = self._used, len(coflows)
        row["emitted"], row["total"], row["due"] = 0, total, due
        if (stop := self._used + len(coflows)) > len(self.stages):
            self.stages = _enlarged(self.stages[:self._used], 2 * stop)
        sends, new = self._take(coflows, arrays), self.stages[self._used:stop]
        new["coflow"], new["pause"] = sends, pauses + self.coflows["overhead"][sends]
        self._used = stop
        self._add_running(job)

    def reroute(self, job: int, coflows: Sequence[RoutedCoflow], arrays: FlowArrays) -> None:
        """Reroute the coflows that a graph has not sent yet; the arrays must have room."""
        chain = self.of_jobs[job]
        if chain["emitted"] < chain["total"]:
            stages = self.stages[chain["first"]:][:chain["stages"]]
            stages["coflow"] = self._take(coflows, arrays)

    def stage_of(self, row: Any) -> int:
        """Return which coflow of its job a COFLOW row is, as an index into those of `begin`."""
        if row["waited"] == IN_GRAPH:
            graph = self.of_jobs[row["job"]]
            operation = graph["operations"] + row["order"] % graph["count"]
            return int(self.arrays.operations["sends"][operation])
        return int(row["order"]) % max(int(self.of_jobs[row["job"]]["stages"]), 1)

    # --- the coflows -----------------------------------------------------------------------

    def _take(self, sent: Sequence[RoutedCoflow], arrays: FlowArrays) -> list[int]:
        """Store the coflows of a graph; return the place of each in `coflows`."""
        first = self._used_coflows
        places: dict[RoutedCoflow, int] = {}
        for coflow in sent:
            places.setdefault(coflow, first + len(places))
        self._used_coflows += len(places)
        if self._used_coflows > len(self.coflows):
            self.coflows = _enlarged(self.coflows[:first], 2 * self._used_coflows)
        self.coflows[first:self._used_coflows] = _rows_of([*places], arrays)
        return [places[coflow] for coflow in sent]

    def _add_running(self, job: int) -> None:
        """Insert a job into the ordered list of running jobs; there must be room at its end."""
        count = len(self.running)
        if count == len(self._jobs):
            self._jobs = np.concatenate((self.running, np.empty(count + 16, np.int64)))
        at = int(np.searchsorted(self.running, job))
        self._jobs[at + 1:count + 1] = self.running[at:].copy()
        self._jobs[at] = job
        self.running = self._jobs[:count + 1]

    @property
    def live(self) -> NDArray[Any]:
        """The coflows that own segments of the arrays."""
        return self.coflows[:self._used_coflows]

    @property
    def unsent(self) -> NDArray[Any]:
        """The coflows of `live` that have not been sent yet."""
        return self.coflows[np.unique(
            self.stages["coflow"][_places_of(self.of_jobs[self.unended])])]

    @property
    def unended(self) -> Ints:
        """The jobs whose graphs have not ended, in order."""
        chains = self.of_jobs[self.running]
        return self.running[chains["emitted"] < chains["total"]]

    def _forget_ended(self) -> None:
        """Drop graphs that have ended; drop their stages once these fill half of the rows."""
        self._begun = 0
        self.running = self._jobs = self.unended
        chains = self.of_jobs[self.running]
        if 2 * chains["stages"].sum() >= self._used:
            return
        kept = _places_of(chains)
        self.stages = _enlarged(self.stages[kept], 2 * len(kept))
        stages = self.stages[:len(kept)]
        coflows, stages["coflow"] = np.unique(stages["coflow"], return_inverse=True)
        self._used, self._used_coflows = len(kept), len(coflows)
        self.coflows = _enlarged(self.coflows[coflows], 2 * len(coflows))
        chains["first"] = np.cumsum(chains["stages"]) - chains["stages"]
        self.of_jobs[self.running] = chains

    # --- what follows ----------------------------------------------------------------------

    def follow(self, completed: NDArray[Any], now: float, interval: float) -> None:
        """Make the next coflows due, after the rows in `completed` have completed.

        See `netsim.fabric.kernels.graphs.follow`.
        """
        due = kernels.follow(completed, self.kernel_view, now, interval)
        self.next_due = min(self.next_due, due)
        self.resume_parked()

    def resume_parked(self) -> None:
        """Make room for the next iterations of graphs that wait for it."""
        waits = False
        while count := int(self.arrays.head["parked"][0]):
            waits = True
            parked = self.arrays.codes[kernels.PARKED, :count].tolist()
            self._lay_out(set(map(kernels.job_of.py_func, parked)))
            kernels.resume(self.kernel_view)
        if waits:
            self.find_next_due()

    @property
    def kernel_view(self) -> GraphArrays:
        """The arrays from which the event loop takes the next coflows."""
        return GraphArrays(self.of_jobs, self.running, self.stages, self.coflows, *self.arrays)

    def find_next_due(self) -> None:
        """Find which coflow becomes valid next."""
        self.next_due = kernels.next_due(self.kernel_view)

    def wanted(self, until: float) -> tuple[int, int, int, int]:
        """Return the number of coflows due by `until`, and of their flows, hops and loads."""
        if self.next_due > until:
            return 0, 0, 0, 0
        found: tuple[int, int, int, int] = kernels.wanted(self.kernel_view, until,
                                                          len(self.of_jobs))
        return found

    # --- the operations --------------------------------------------------------------------

    def _begin_operations(self, job: int, rows: OperationRows, iterations: int, begin_s: float
                          ) -> None:
        """Begin the operations of a job, whose coflows have been added."""
        graph = self.of_jobs[job]
        graph["count"], graph["iterations"] = len(rows.operations), iterations
        graph["finish"] = graph["noticed"] = begin_s
        graph["slots"] = iterations if self.keeps_all else min(iterations, 2)
        self._rows[job] = rows
        if all(used + size <= len(getattr(self.arrays, name)) for used, (name, size)
               in zip(self._room.values(), self._sizes(job).items(), strict=True)):
            self._place(job)
        else:
            self._lay_out()
        kernels.start(job, begin_s, self.kernel_view)
        self.resume_parked()
        self.find_next_due()

    def _sizes(self, job: int) -> dict[str, int]:
        """The room that a job needs in each array."""
        rows, slots = self._rows[job], int(self.of_jobs[job]["slots"])
        count = len(rows.operations)
        return {"operations": count, "children": len(rows.children),
                "state": (count + 1) * slots}

    def _place(self, job: int) -> None:
        """Give a job the next places of the arrays."""
        rows, graph, arrays = self._rows[job], self.of_jobs[job], self.arrays
        for name, size in self._sizes(job).items():
            graph[name], self._room[name] = self._room[name], self._room[name] + size
        arrays.operations[graph["operations"]:][:len(rows.operations)] = rows.operations
        arrays.children[graph["children"]:][:len(rows.children)] = rows.children

    def _lay_out(self, doubled: Collection[int] = ()) -> None:
        """Move running jobs to arrays of twice the size that they need.

        Jobs in `doubled` get twice as many slots first.
        """
        old, before = self.arrays, self.of_jobs.copy()
        for job in doubled:
            graph = self.of_jobs[job]
            graph["slots"] = min(2 * graph["slots"], graph["iterations"])
        sizes = {name: 2 * sum(self._sizes(job)[name] for job in self._rows)
                 for name in self._room}
        self.arrays = _no_operations(sizes["state"])._replace(
            head=old.head,
            **{name: np.zeros(size, getattr(old, name).dtype) for name, size in sizes.items()})
        for name, row, used in _LISTS:
            count = old.head[used][0]
            getattr(self.arrays, name)[row, :count] = getattr(old, name)[row, :count]
        self._room = dict.fromkeys(self._room, 0)
        for job in self._rows:
            self._place(job)
            graph = self.of_jobs[job]
            for iteration in range(graph["kept"], graph["opened"]):
                _state_of(self.arrays.state, graph, iteration)[:] = _state_of(
                    old.state, before[job], iteration)

    def take_ended(self) -> list[tuple[int, float, float]]:
        """Return the jobs that newly ended, when each ended, and when its end is noticed."""
        count = int(self.arrays.head["ended"][0])
        jobs = self.arrays.codes[kernels.ENDED, :count].tolist()
        self.arrays.head["ended"] = 0
        if not self.keeps_all:
            for job in jobs:
                del self._rows[job]
        return [(job, *self.of_jobs[["finish", "noticed"]][job].item()) for job in jobs]

    def computed(self, now: float) -> Iterator[Computed]:
        """Yield the computations that have ended by now, each once; requires `keeps_all`."""
        for job, rows in [*self._rows.items()]:
            graph = self.of_jobs[job]
            which = rows.computes
            seconds = rows.operations["compute_s"][which]
            for iteration in range(graph["kept"], graph["opened"]):
                state = _state_of(self.arrays.state, graph, iteration)
                start_s = state["ready"][which]
                end_s = start_s + seconds
                tells = (state["blockers"][which] == 0) & (end_s <= now)
                state["blockers"][which[tells]] = _REPORTED
                yield Computed(job, iteration, which[tells], start_s[tells], end_s[tells])
                if iteration == graph["kept"] and (state["blockers"][which] == _REPORTED).all():
                    graph["kept"] += iteration < graph["iteration"]
            if graph["kept"] == graph["iterations"]:
                del self._rows[job]


def _state_of(state: NDArray[Any], graph: Any, iteration: int) -> NDArray[Any]:
    """Return the STATE rows of an iteration; the last one counts the operations that are left."""
    size = graph["count"] + 1
    return state[graph["state"] + iteration % graph["slots"] * size:][:size]


def _enlarged(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a larger copy of an array; the new part takes no memory until it is used."""
    larger = np.zeros(size, array.dtype)
    larger[:len(array)] = array
    return larger


def _not_due(jobs: int) -> NDArray[Any]:
    """Return GRAPH rows of jobs that never send."""
    rows = np.zeros(jobs, GRAPH)
    rows["due"] = math.inf
    return rows


def _places_of(chains: NDArray[Any]) -> Ints:
    """Return the places of the stages of some jobs, given their GRAPH rows."""
    return np.concatenate([np.empty(0, np.int64), *(
        np.arange(chain["first"], chain["first"] + chain["stages"]) for chain in chains)])


def _rows_of(demands: Sequence[RoutedCoflow], arrays: FlowArrays) -> NDArray[Any]:
    """Return one row per coflow, with segments in the arrays, which must have room."""
    rows = np.empty(len(demands), COFLOW)
    for k, demand in enumerate(demands):
        rows[k] = demand.coflows[0]
    rows["weight"] = [demand.weight for demand in demands]
    rows["deadline"] = [demand.deadline_s - demand.overhead_s for demand in demands]
    for k, demand in enumerate(demands):
        arrays.copy_in(rows[k:k + 1], demand)
    return rows
