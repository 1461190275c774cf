"""The graphs of operations that the fabric goes through by itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.values import same
from netsim.fabric import kernels
from netsim.fabric.pools import enlarged
from netsim.fabric.records import GRAPH, GRAPHS, OPERATION, STATE

if TYPE_CHECKING:
    from netsim.fabric.kernels.graphs import ChainArrays, GraphArrays

#: The arrays of coming events, and the fields of `head` that say how much of each is in use.
_HEADS = (("begins", "begins"), ("beginning", "begins"), ("due", "due"), ("parked", "parked"),
          ("parked_at", "parked"))

#: In place of a number of blockers: the computation has been reported.
_REPORTED = -1


@dataclass(frozen=True, slots=True, eq=False)
class OperationRows:
    """The operations of an iteration of a job."""

    operations: NDArray[Any]  #: of OPERATION; `child` counts from the start of `children`
    children: NDArray[np.int64]  #: places of operations
    #: Places of the computations on ranks, each after those it waits for.
    computes: NDArray[np.int64]
    __deepcopy__ = same


class Computed(NamedTuple):
    """Computations of an iteration of a job."""

    job: int
    iteration: int
    operation: NDArray[np.int64]  #: places among the operations of the job
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]


class Graphs:
    """The graphs that run; see `netsim.fabric.kernels.graphs`."""

    def __init__(self, jobs: int) -> None:
        none, no_time = np.empty(0, np.int64), np.empty(0)
        self.arrays = kernels.graphs.GraphArrays(
            np.zeros(jobs, GRAPH), np.empty(0, OPERATION), none, none, np.empty(0, STATE), no_time,
            none, none, none, no_time, none, np.zeros(jobs, np.int64), np.zeros(1, GRAPHS))
        self._rows: dict[int, OperationRows] = {}
        self._used = dict.fromkeys(("operations", "children", "state", "left"), 0)
        self.keeps_all = False  #: whether graphs that begin keep the state of all iterations

    @property
    def any(self) -> bool:
        """Whether there is a graph that runs, or whose computations have not all been reported."""
        return bool(self._rows)

    def make_room(self, jobs: int) -> None:
        """Make room for this number of jobs."""
        self.arrays = self.arrays._replace(of_jobs=enlarged(self.arrays.of_jobs, jobs),
                                           ended=enlarged(self.arrays.ended, jobs))

    def insert(self, job: int) -> None:
        """Insert a job; later ones, none of which runs, are renumbered."""
        of_jobs = self.arrays.of_jobs
        self.arrays = self.arrays._replace(
            of_jobs=np.concatenate((of_jobs[:job], np.zeros(1, GRAPH), of_jobs[job:])),
            ended=enlarged(self.arrays.ended, len(of_jobs) + 1))

    def begin(self, job: int, rows: OperationRows, iterations: int, now: float,
              chains: ChainArrays) -> None:
        """Begin a job, whose coflows are known to `chains`."""
        graph = self.arrays.of_jobs[job]
        graph["count"], graph["iterations"] = len(rows.operations), iterations
        graph["finish"] = graph["noticed"] = now
        graph["slots"] = iterations if self.keeps_all else min(iterations, 2)
        self._rows[job] = rows
        if all(used + size <= len(getattr(self.arrays, name)) for used, (name, size)
               in zip(self._used.values(), self._sizes(job).items(), strict=True)):
            self._place(job)
        else:
            self._lay_out()
        kernels.graphs.start(job, now, chains._replace(graphs=self.arrays))
        self.make_slots(chains)

    def make_slots(self, chains: ChainArrays) -> bool:
        """Make room for another iteration of graphs that wait for it; return whether any did."""
        waited = False
        while count := int(self.arrays.head["parked"][0]):
            waited = True
            job_of = kernels.graphs.job_of.py_func
            self._lay_out(set(map(job_of, self.arrays.parked[:count].tolist())))
            kernels.graphs.resume(chains._replace(graphs=self.arrays))
        return waited

    # --- room ------------------------------------------------------------------------------

    def _sizes(self, job: int) -> dict[str, int]:
        """The room that a job needs in each array."""
        rows, slots = self._rows[job], int(self.arrays.of_jobs[job]["slots"])
        count = len(rows.operations)
        return {"operations": count, "children": len(rows.children), "state": count * slots,
                "left": slots}

    def _place(self, job: int) -> None:
        """Give a job the next places of the arrays."""
        rows, graph, arrays = self._rows[job], self.arrays.of_jobs[job], self.arrays
        for name, size in self._sizes(job).items():
            graph[name], self._used[name] = self._used[name], self._used[name] + size
        arrays.operations[graph["operations"]:][:len(rows.operations)] = rows.operations
        arrays.children[graph["children"]:][:len(rows.children)] = rows.children

    def _lay_out(self, doubled: Collection[int] = ()) -> None:
        """Move running jobs to arrays of twice the size that they need.

        Jobs in `doubled` get twice as many slots first.
        """
        old, before = self.arrays, self.arrays.of_jobs.copy()
        for job in doubled:
            graph = old.of_jobs[job]
            graph["slots"] = min(2 * graph["slots"], graph["iterations"])
        sizes = {name: 2 * sum(self._sizes(job)[name] for job in self._rows)
                 for name in self._used}
        room = sizes["state"]
        self.arrays = old._replace(
            **{name: np.zeros(size, getattr(old, name).dtype) for name, size in sizes.items()},
            **{name: enlarged(getattr(old, name)[:old.head[used][0]], room)
               for name, used in _HEADS},
            stack=np.zeros(room, np.int64))
        self._used = dict.fromkeys(self._used, 0)
        for job in self._rows:
            self._place(job)
            self._copy_iterations(before[job], old, self.arrays.of_jobs[job])

    def _copy_iterations(self, before: Any, old: GraphArrays, graph: Any) -> None:
        """Copy the state of the iterations of a job."""
        for iteration in range(graph["kept"], graph["opened"]):
            for name, size in (("state", int(graph["count"])), ("left", 1)):
                getattr(self.arrays, name)[
                    graph[name] + iteration % graph["slots"] * size:][:size] = getattr(old, name)[
                    before[name] + iteration % before["slots"] * size:][:size]

    # --- what graphs have done ---------------------------------------------------------------

    def take_ended(self) -> list[tuple[int, float, float]]:
        """Return the jobs that newly ended, when each ended, and when its end is noticed."""
        count = int(self.arrays.head["ended"][0])
        jobs = self.arrays.ended[:count].tolist()
        self.arrays.head["ended"] = 0
        if not self.keeps_all:
            for job in jobs:
                del self._rows[job]
        return [(job, *self.arrays.of_jobs[["finish", "noticed"]][job].item()) for job in jobs]

    def computed(self, now: float) -> Iterator[Computed]:
        """Yield the computations that have ended by now, each once; requires `keeps_all`."""
        for job, rows in [*self._rows.items()]:
            graph = self.arrays.of_jobs[job]
            which = rows.computes
            seconds = rows.operations["compute_s"][which]
            for iteration in range(graph["kept"], graph["opened"]):
                place = graph["state"] + iteration % graph["slots"] * graph["count"]
                state = self.arrays.state[place:][:graph["count"]]
                start_s = state["ready"][which]
                end_s = start_s + seconds
                tells = (state["blockers"][which] == 0) & (end_s <= now)
                state["blockers"][which[tells]] = _REPORTED
                yield Computed(job, iteration, which[tells], start_s[tells], end_s[tells])
                if iteration == graph["kept"] and (state["blockers"][which] == _REPORTED).all():
                    graph["kept"] += iteration < graph["iteration"]
            if graph["kept"] == graph["iterations"]:
                del self._rows[job]

    def stage_of(self, job: int, order: int) -> int:
        """Return which coflow an operation sends, as an index into the coflows of its job."""
        graph = self.arrays.of_jobs[job]
        return int(self.arrays.operations["sends"][graph["operations"] + order % graph["count"]])
