"""Recording of jobs, coflows and flows: events are noted as they happen and become tables later."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.lazy import pd
from netsim.fabric.clock import CoflowEvent, HasClock
from netsim.fabric.graphs import Computed
from netsim.fabric.records import COFLOW, FLOW
from netsim.jobs.graph import OperationGraph, StageGraph
from netsim.jobs.process import CompletedCoflow, JobProcess
from netsim.network import Topology
from netsim.results.link_recorder import MOST_NOTED, LinkRecorder, categories
from netsim.results.tables import (
    DTYPES,
    OF_OTHERS,
    CoflowNumbers,
    IntOrInts,
    coflow_rows,
    flow_rows,
    of_events,
    of_records,
    other_rows,
    packed,
)
from netsim.workload import Operations


class GraphLog:
    """The stages and operations of jobs without a process, in the order in which they send."""

    def __init__(self, numbers: CoflowNumbers) -> None:
        self._numbers = numbers
        self._first = np.cumsum(numbers.stages) - numbers.stages
        count = int(numbers.stages.sum())
        self._place = np.zeros(count, np.int64)
        self._name = np.zeros(count, np.int64)
        self._own = np.full(count, -1)

    def add_job(self, job: int, numbers: CoflowNumbers) -> None:
        """Insert a job, which `numbers` includes; the numbers of later jobs grow by one."""
        self._numbers = numbers
        self._first = np.cumsum(numbers.stages) - numbers.stages
        at = np.full(numbers.stages[job], self._first[job])
        self._place, self._name = np.insert(self._place, at, 0), np.insert(self._name, at, 0)
        self._own = np.insert(self._own, at, -1)

    def begin(self, jobs: IntOrInts, order: IntOrInts, places: ArrayLike, names: ArrayLike,
              own: ArrayLike = -1) -> None:
        """Record stages, given by arrays with an entry per stage, or by one value for all.

        `jobs` are indices in order of (arrival, id), `order` says where in its job a stage sends,
        `places` are the positions of stages in the lists of their jobs, `names` the numbers of
        their names, and `own` the ids that stages give to coflows, or -1.
        """
        at = self._first[jobs] + order
        self._place[at], self._name[at], self._own[at] = places, names, own

    def describe(self, rows: NDArray[Any]) -> dict[str, Ints]:
        """Make the identifying columns of some COFLOW rows: coflow, job, iteration and stage."""
        job, numbers = rows["job"], self._numbers
        iteration, position = np.divmod(rows["order"], numbers.stages[job])
        stage = self._first[job] + position
        own = self._own[stage]
        free = numbers.free(job, iteration, self._place[stage])
        return {"coflow": np.where(own < 0, free, own), "job": numbers.job_ids[job],
                "iteration": iteration, "stage": self._name[stage]}


#: Buffered rows that a coflow counts for, in addition to its flows.
_OF_COFLOW = 32


class Listener(Protocol):
    """Receives at once what a `Recorder` records: see its methods.

    `last` marks the last coflows of their jobs.
    """

    def coflow_valid(self, job: JobProcess, iteration: int, stage: int) -> None: ...
    def coflow_done(self, job: JobProcess, iteration: int, stage: int) -> None: ...
    def done_without_process(self, done: NDArray[Any], last: Bools) -> None: ...
    def job_done(self, job: int) -> None: ...


class CoflowRecorder(LinkRecorder):
    """Records coflows, flows and computations as well; names of stages are numbered."""

    def __init__(self, record: Sequence[str], network: Topology, beside: Sequence[str] = (),
                 on_wire: bool = False) -> None:
        super().__init__(record, network, beside, on_wire)
        self._keeps_flows = "flows" in self._rows
        self._keeps_coflows = self._keeps_flows or "coflows" in self._rows
        self.keeps_computations = "computations" in self._rows  #: on ranks
        self._stages: dict[str, int] = {}
        self._flows_of: dict[CoflowEvent, bytes] = {}
        self._computing: dict[str, int] = {}  # names of computations, and of streams
        self._streams: dict[str, int] = {}
        self._computed: list[tuple[Any, ...]] = []

    def flows_finished(self, transfer: CoflowEvent, flows: NDArray[Any]) -> None:
        """Keep the flows of a completed coflow until it is known which coflow it was."""
        if self._keeps_flows:
            self._flows_of[transfer] = flows.tobytes()

    def computed(self, job: JobProcess, operations: Operations, iteration: int, operation: int,
                 start: float, end: float) -> None:
        """Record a computation on a rank."""
        if self.keeps_computations:
            name = operations.name_of(operation)
            stream = operations.streams[operations.stream[operation]]
            self._computed.append((self._id_of(job.index), iteration, operations.rank[operation],
                                   self._computing.setdefault(name, len(self._computing)),
                                   self._streams.setdefault(stream, len(self._streams)),
                                   start, end))
            self._note(1)

    def _id_of(self, job: int) -> int:
        """Return the id of a job."""
        raise NotImplementedError

    def _note(self, rows: int) -> None:
        """Count buffered rows, and pack them if there are many."""

    def pack(self) -> None:
        """Move all buffered records to their tables."""
        self._pack_computed()
        super().pack()

    def _pack_computed(self) -> None:
        if self._computed:
            self._rows["computations"].extend(np.array(self._computed, DTYPES["computations"]))
            self._computed = []

    def _number(self, stage: str) -> int:
        """Return the number of the name of a stage."""
        return self._stages.setdefault(stage, len(self._stages))

    def _flows_sent(self, events: Sequence[CoflowEvent]) -> list[bytes]:
        """Return the FLOW rows of completed coflows, if flows are recorded."""
        return [self._flows_of.pop(event, b"") for event in events]

    def _keep(self, coflows: NDArray[Any], sent: Sequence[bytes]) -> None:
        """Append coflows and their flows to the tables that are recorded."""
        if "coflows" in self._rows:
            self._rows["coflows"].extend(packed(coflows, self._rows["coflows"].dtype))
        if self._keeps_flows:
            self._rows["flows"].extend(packed(flow_rows(coflows, sent), self._rows["flows"].dtype))

    def _others(self, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, Any]
                ) -> pd.DataFrame | None:
        """Return the table of other coflows; None if coflows are not recorded."""
        return other_rows(rows, columns) if "coflows" in self._rows else None

    def _conversions(self, name: str, link_names: Sequence[str]
                     ) -> dict[str, Callable[[NDArray[Any]], Any]]:
        if name == "coflows":
            return {"stage": partial(categories, list(self._stages)), "deadline_s": _finite}
        if name == "computations":
            return {"stage": partial(categories, list(self._computing)),
                    "stream": partial(categories, list(self._streams))}
        return super()._conversions(name, link_names)


class Recorder(CoflowRecorder):
    """Records jobs and, if asked to, coflows, flows, links and decisions.

    Recording what only `beside` names must not affect the run. For links, a row then has the mean
    rate from one event to the next, even if flows end in between; decisions are left out while an
    allocation is persistent. Coflows without a process are complete when their last bytes arrive;
    without a clock, when these are sent.

    Arrays by job are up to date after `pack`, and count completed coflows.
    """

    def __init__(self, record: Sequence[str], jobs: int, numbers: CoflowNumbers,
                 network: Topology, beside: Sequence[str] = (), on_wire: bool = False,
                 clock: HasClock | None = None) -> None:
        super().__init__(record, network, beside, on_wire)
        self._clock = clock
        self._now = -np.inf
        self._coflows_done = self._jobs_done = 0
        self._late: list[tuple[float, bool]] = []  # arrivals to come, and whether a job ends then
        self._graphs: dict[int, Operations] = {}
        self._is_graph = np.zeros(jobs, np.bool_)
        self.bytes_of_job = np.zeros(jobs)
        self.wire_bytes_of_job = np.zeros(jobs)
        self.coflows_of_job = np.zeros(jobs, np.int64)
        #: When jobs without a process have sent their first byte, in seconds; NaN for others.
        self.start_s = np.full(jobs, np.nan)
        self.finish_s = np.full(jobs, np.nan)  #: NaN of a job that has not ended
        self._numbers = numbers
        self._log = GraphLog(numbers)
        #: Job, number of the stage's name, and coflow.
        self._ended: list[tuple[int, int, CompletedCoflow]] = []
        self._without_process: list[tuple[NDArray[Any], list[bytes]]] = []
        self._noted = 0
        self._dropped: list[tuple[Any, ...]] = []
        self.listener: Listener | None = None  #: gets completed coflows and jobs at once

    def add_job(self, job: int, numbers: CoflowNumbers) -> None:
        """Insert a job that has not arrived; the numbers of later jobs grow by one.

        The given `numbers` include the job.
        """
        self._pack_coflows()
        self._numbers = numbers
        self._log.add_job(job, numbers)
        for name, none in (("bytes_of_job", 0.0), ("wire_bytes_of_job", 0.0),
                           ("coflows_of_job", 0), ("start_s", np.nan), ("finish_s", np.nan),
                           ("_is_graph", False)):
            setattr(self, name, np.insert(getattr(self, name), job, none))

    @property
    def coflows_done(self) -> int:
        self._see_arrivals()
        return self._coflows_done - len(self._late)

    @property
    def jobs_done(self) -> int:
        self._see_arrivals()
        return self._jobs_done - sum(ends for _, ends in self._late)

    def _see_arrivals(self) -> float:
        """Forget late arrivals that are over; return the time up to which arrivals are known."""
        if self._clock is not None:
            self._now = max(self._now, self._clock.now)
        while self._late and self._late[0][0] <= self._now:
            heappop(self._late)
        return self._now

    def coflows_of(self, rows: NDArray[Any]) -> dict[str, Ints]:
        """Identify COFLOW rows by id, job, iteration and stage number; see `GraphLog`."""
        return self._log.describe(rows)

    @property
    def stage_names(self) -> list[str]:
        """The names of stages, by the numbers that `coflows_of` returns."""
        return list(self._stages)

    # --- buffering of events: as tuples, since a run may have millions of them -------------

    def coflow_finished(self, job: JobProcess, done: CompletedCoflow) -> None:
        """Record a completed coflow, and the identical coflows that it represents."""
        self._coflows_done += done.copies
        self._ended.append((job.index, self._number(done.stages[done.stage].name), done))
        self._note((_OF_COFLOW + len(done.transfer.demand.flows)) * done.copies)

    def coflow_begun(self, job: JobProcess, iteration: int, stage: int) -> None:
        """Note that a job submits a coflow."""
        if self.listener is not None:
            self.listener.coflow_valid(job, iteration, stage)

    def coflow_ended(self, job: JobProcess, done: CompletedCoflow) -> None:
        """Note that a coflow has ended; `coflow_finished` follows once it cannot be repeated."""
        if self.listener is not None:
            self.listener.coflow_done(job, done.iteration, done.stage)

    def coflow_dropped(self, job: int, iteration: int, stage: str, transfer: CoflowEvent,
                       nbytes: float, why: str) -> None:
        """Record a coflow without a row of its own, which is withdrawn, repeated or a job's state.

        `nbytes` are the bytes that it has sent, without headers; `why` is ``"withdrawn"``,
        ``"repeated"`` or ``"state"``.
        """
        if "coflows" in self._rows and len(transfer.demand.flows):
            end = transfer.env.now if math.isnan(transfer.finish_s) else transfer.finish_s
            self._dropped.append((int(self._numbers.job_ids[job]), iteration, stage,
                                  transfer.valid_s, transfer.start_s, end, nbytes, why))

    def other_coflows(self) -> pd.DataFrame | None:
        """Make the table of coflows without rows of their own; None if coflows are not recorded."""
        return self._others(self._dropped, OF_OTHERS)

    def _id_of(self, job: int) -> int:
        return int(self._numbers.job_ids[job])

    def number(self, job: JobProcess, iteration: int, stage: int) -> int:
        """The id of the coflow of a stage in an iteration of a running job."""
        return self._numbers.number(job.index, iteration, job.graph.stages, stage)

    @property
    def job_ids(self) -> Ints:
        """The ids of all jobs."""
        return self._numbers.job_ids

    def _note(self, rows: int) -> None:
        """Count buffered rows, and pack them if there are many."""
        self._noted += rows
        if self._noted > MOST_NOTED:
            self._pack_coflows()

    def job_finished(self, job: int, finish: float) -> None:
        """Record the completion of a job of which the last coflow is not known beforehand."""
        self._jobs_done += 1
        self.finish_s[job] = finish
        if self.listener is not None:
            self.listener.job_done(job)

    def operations_begun(self, operations: Operations) -> Ints:
        """Note a job of operations; return the number of the name of each operation that sends."""
        sends, computes = operations.sends >= 0, operations.rank >= 0
        _numbered(self._computing, operations.names, operations.name, computes)
        _numbered(self._streams, operations.streams, operations.stream, computes)
        return _numbered(self._stages, operations.names, operations.name, sends)

    def graph_begun(self, job: int, graph: StageGraph | OperationGraph) -> None:
        """Record the start of a job that the fabric runs without a process."""
        if isinstance(graph, OperationGraph):
            made = graph.operations
            self._graphs[job], self._is_graph[job] = made, True
            order = np.arange(len(made))
            self._log.begin(job, order, order, self.operations_begun(made)[made.name])
            return
        stages = [graph.stages[k] for k in graph.dag.sequence]
        self._numbers.check_stages(job, 0, len(stages))
        self._log.begin(job, np.arange(len(stages)), graph.dag.sequence,
                        [self._number(stage.name) for stage in stages],
                        [-1 if stage.coflow_id is None else stage.coflow_id for stage in stages])

    def keep_computed(self, computed: Computed) -> None:
        """Record computations of a graph."""
        made, which = self._graphs[computed.job], computed.operation
        rows = np.empty(len(which), DTYPES["computations"])
        rows["job"], rows["iteration"] = self._numbers.job_ids[computed.job], computed.iteration
        rows["rank"] = made.rank[which]
        for name, known, names, of in (("stage", self._computing, made.names, made.name),
                                       ("stream", self._streams, made.streams, made.stream)):
            rows[name] = np.array([known.get(each, -1) for each in names])[of[which]]
        rows["start_s"], rows["finish_s"] = computed.start_s, computed.end_s
        self._rows["computations"].extend(rows)

    def singles_begun(self, jobs: Ints, own: Ints, stages: Sequence[str]) -> None:
        """Record the start of independent coflows; see `GraphLog.begin`."""
        number, known = {}, self._stages
        for name in dict.fromkeys(stages):
            number[name] = known.setdefault(name, len(known))
        self._log.begin(jobs, 0, 0, [number[name] for name in stages], own)

    def finished_without_process(self, done: NDArray[Any], flows: NDArray[Any]) -> None:
        """Record completed coflows, given COFLOW rows and FLOW rows that include theirs.

        The array `done` is kept.
        """
        sent: list[bytes] = []
        if self._keeps_flows:
            sent = [flows[first:first + count].tobytes() for first, count
                    in zip(done["flow"].tolist(), done["flows"].tolist(), strict=True)]
        self._coflows_done += len(done)
        last = self._are_last(done)
        self._jobs_done += int(np.count_nonzero(last))
        if self._clock is not None:
            # The fabric may be ahead of the clock, but never of what anybody asks about.
            self._now = max(self._now, float(done["last"].max()))
            late = done["arrives"] > self._see_arrivals()
            for each in zip(done["arrives"][late].tolist(), last[late].tolist(), strict=True):
                heappush(self._late, each)
        self._without_process.append((done, sent))
        if self.listener is not None:
            self.listener.done_without_process(done, last)
        self._note(_OF_COFLOW * len(done) + sum(map(len, sent)) // FLOW.itemsize)

    def _are_last(self, done: NDArray[Any]) -> Bools:
        """Mark the coflows that are the last of their jobs; of operations, none is known to be."""
        last: Bools = done["order"] + 1 == self._numbers.coflows[done["job"]]
        return last & ~self._is_graph[done["job"]]

    # --- packing, many events at a time ----------------------------------------------------

    def pack(self) -> None:
        """Move all buffered records to their tables."""
        self._pack_coflows()
        super().pack()

    def _pack_coflows(self) -> None:
        """Move buffered coflows to their tables."""
        self._noted = 0
        self._pack_computed()
        ended, self._ended = self._ended, []
        finished, self._without_process = self._without_process, []
        if ended:
            self._pack_ended(ended)
        self._see_arrivals()
        if self._late:
            finished = self._arrived(finished)
        if finished:
            self._pack_without_process(finished)

    def _pack_ended(self, ended: Sequence[tuple[int, int, CompletedCoflow]]) -> None:
        """Pack coflows that job processes reported."""
        jobs, names, done = zip(*ended, strict=True)
        copies, events = [each.copies for each in done], [each.transfer for each in done]
        index = np.repeat(jobs, copies)
        for totals, sizes in ((self.bytes_of_job, [event.demand.payload for event in events]),
                              (self.wire_bytes_of_job, [event.demand.nbytes for event in events])):
            np.add.at(totals, index, np.repeat(sizes, copies))
        np.add.at(self.coflows_of_job, index, 1)
        if not self._keeps_coflows:
            return
        rows = coflow_rows(
            {"coflow": [self._numbers.number(job, each.iteration, each.stages, each.stage)
                        for job, each in zip(jobs, done, strict=True)],
             "job": self.job_ids[list(jobs)], "iteration": [each.iteration for each in done],
             "stage": names},
            of_events(events) | {"finish_s": np.array([each.finish for each in done])})
        if max(copies) > 1:
            first = np.cumsum(copies) - copies
            rows = np.repeat(rows, copies)
            rows["coflow"] += np.arange(len(rows)) - np.repeat(first, copies)
        self._keep(rows, self._flows_sent(events))

    def _pack_without_process(self, finished: Sequence[tuple[NDArray[Any], list[bytes]]]) -> None:
        """Pack coflows that the fabric reported."""
        done = np.frombuffer(b"".join([rows.tobytes() for rows, _ in finished]), COFLOW)
        job, last = done["job"], self._are_last(done)
        np.add.at(self.bytes_of_job, job, done["payload"])
        np.add.at(self.wire_bytes_of_job, job, done["total"])
        np.add.at(self.coflows_of_job, job, 1)
        np.fmin.at(self.start_s, job, done["start"])
        self.finish_s[job[last]] = done["arrives"][last]
        if self._keeps_coflows:
            sent = [each for _, sent in finished for each in sent]
            self._keep(coflow_rows(self._log.describe(done), of_records(done)), sent)

    def _arrived(self, finished: Sequence[tuple[NDArray[Any], list[bytes]]]
                 ) -> list[tuple[NDArray[Any], list[bytes]]]:
        """Hold back coflows that have not arrived; return the others."""
        arrived: list[tuple[NDArray[Any], list[bytes]]] = []
        for rows, sent in finished:
            late = rows["arrives"] > self._now
            for which, of in ((late, self._without_process), (~late, arrived)):
                if which.any():
                    of.append((rows[which], [sent[k] for k in np.flatnonzero(which)]
                               if sent else sent))
        return arrived


def _numbered(known: dict[str, int], names: Sequence[str], used: Ints, where: Bools) -> Ints:
    """Number the names used at some places; return a number per name, -1 for unused ones."""
    found = np.full(len(names), -1)
    for name in np.unique(used[where]).tolist():
        found[name] = known.setdefault(names[name], len(known))
    return found


def _finite(values: Floats) -> Floats:
    """Replace infinite values by NaN."""
    return np.where(np.isfinite(values), values, np.nan)
