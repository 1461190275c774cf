"""Recording of jobs, coflows and flows: events are buffered as they happen and packed later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.records import COFLOW, FLOW
from netsim.jobs.process import CompletedCoflow, JobProcess
from netsim.network import Topology
from netsim.recording.chain_log import ChainLog
from netsim.recording.coflow_ids import CoflowNumbers
from netsim.recording.link_recorder import MOST_NOTED, LinkRecorder, categories
from netsim.recording.tables import Coflows, Ended, packed
from netsim.workload import Stage

__all__ = ["Listener", "Recorder"]

#: Buffered rows that a coflow counts for, in addition to its flows.
_OF_COFLOW = 32


class Listener(Protocol):
    """Is told of what a `Recorder` records when that happens."""

    def coflow_valid(self, job: JobProcess, stage: int) -> None:
        """See `Recorder.coflow_begun`."""

    def coflow_done(self, job: JobProcess, stage: int, transfer: CoflowEvent | None) -> None:
        """See `Recorder.coflow_ended`."""

    def chains_done(self, done: NDArray[Any], last: NDArray[np.bool_]) -> None:
        """See `Recorder.chains_finished`; `last` says which are the last ones of their jobs."""

    def job_done(self, job: int) -> None:
        """See `Recorder.job_finished`."""


class Recorder(LinkRecorder):
    """Records jobs and, if asked to, coflows, flows, links and decisions.

    Parameters
    ----------
    record : sequence of str
        Names from `RECORDS`.
    jobs : int
        Number of jobs.
    numbers : CoflowNumbers
        Gives coflows their ids.
    network : Topology
    beside : sequence of str
        Further names from `RECORDS`, whose recording must not affect the run. Links that are only
        named here are not followed to the end of each flow: a row has their mean rate from one
        event to the next. Decisions are not reported while an allocation is persistent.
    on_wire : bool
        See `LinkRecorder`.

    Attributes
    ----------
    coflows_done, jobs_done : int
        Numbers of completed coflows and jobs.
    bytes_of_job, wire_bytes_of_job, coflows_of_job, finish_s : ndarray, shape (jobs,)
        Bytes, those on the wire and number of the completed coflows of each job, and its end (NaN
        before). Up to date after `pack`.
    start_s : ndarray, shape (jobs,)
        First byte of each job that is a chain and has completed a coflow; NaN for others. Up to
        date after `pack`.
    told : Listener or None
        Is told of completed coflows and jobs at once.

    Raises
    ------
    UnknownNameError
        If a name is not in `RECORDS`.
    """

    def __init__(self, record: Sequence[str], jobs: int, numbers: CoflowNumbers,
                 network: Topology, beside: Sequence[str] = (), on_wire: bool = False) -> None:
        super().__init__(record, network, beside, on_wire)
        self.coflows_done = 0
        self.jobs_done = 0
        self.bytes_of_job = np.zeros(jobs)
        self.wire_bytes_of_job = np.zeros(jobs)
        self.coflows_of_job = np.zeros(jobs, np.int64)
        self.start_s = np.full(jobs, np.nan)
        self.finish_s = np.full(jobs, np.nan)
        self._keeps_flows = "flows" in self._rows
        self._keeps_coflows = self._keeps_flows or "coflows" in self._rows
        self._numbers = numbers
        self._chains = ChainLog(numbers)
        self._stages: dict[str, int] = {}
        self._ended: list[Ended] = []
        self._flows_of: dict[CoflowEvent, bytes] = {}
        self._of_chains: list[tuple[NDArray[Any], list[bytes]]] = []
        self._noted = 0
        self.told: Listener | None = None

    def add_job(self, job: int, numbers: CoflowNumbers) -> None:
        """Make place for a job that has not arrived; others from its number on get the next one.

        Parameters
        ----------
        job : int
        numbers : CoflowNumbers
            Those of all jobs, that one among them.
        """
        self._pack_coflows()
        self._numbers = numbers
        self._chains.add_job(job, numbers)
        for name, none in (("bytes_of_job", 0.0), ("wire_bytes_of_job", 0.0),
                           ("coflows_of_job", 0), ("start_s", np.nan), ("finish_s", np.nan)):
            setattr(self, name, np.insert(getattr(self, name), job, none))

    def coflows_of(self, rows: NDArray[Any]) -> dict[str, NDArray[np.int64]]:
        """Return id, job, iteration and stage's number of chains' COFLOW rows; see `ChainLog`."""
        return self._chains.describe(rows)

    @property
    def stage_names(self) -> list[str]:
        """The names of stages, by the numbers that `coflows_of` returns."""
        return list(self._stages)

    # --- buffering of events: as tuples, since a run may have millions of them -------------

    def coflow_finished(self, job: JobProcess, done: CompletedCoflow) -> None:
        """Record a completed coflow."""
        self.coflows_done += 1
        self._ended.append((job.index, done.iteration, tuple(done.stages), done.stage,
                            self._name(done.stages[done.stage]), done.transfer, done.finish))
        self._note(_OF_COFLOW + len(done.transfer.demand.flows))

    def coflow_begun(self, job: JobProcess, stage: int) -> None:
        """Hear of a coflow that a job submits."""
        if self.told is not None:
            self.told.coflow_valid(job, stage)

    def coflow_ended(self, job: JobProcess, stage: int, transfer: CoflowEvent | None) -> None:
        """Hear of a coflow that a job has seen to its end, though it may have to be repeated."""
        if self.told is not None:
            self.told.coflow_done(job, stage, transfer)

    def number(self, job: JobProcess, stage: int) -> int:
        """Return the id of the coflow of a stage of a job's current iteration."""
        return self._numbers.number(job.index, job.iteration, job.graph.stages, stage)

    @property
    def job_ids(self) -> NDArray[np.int64]:
        """The ids of all jobs."""
        return self._numbers.job_ids

    def _note(self, rows: int) -> None:
        """Count buffered rows, and pack them if there are many."""
        self._noted += rows
        if self._noted > MOST_NOTED:
            self._pack_coflows()

    def job_finished(self, job: JobProcess) -> None:
        """Record a completed job."""
        self.jobs_done += 1
        self.finish_s[job.index] = job.finish_s
        if self.told is not None:
            self.told.job_done(job.index)

    def chain_begun(self, job: int, stages: Sequence[Stage], places: Sequence[int]) -> None:
        """Record the start of a chain, which the fabric runs without a job process.

        Parameters
        ----------
        job : int
            Index of the job in order of (arrival, id).
        stages : sequence of Stage
            Stages in the order in which they send.
        places : sequence of int
            Index of each stage in the job's list.

        Raises
        ------
        InputError
            If the number of stages is not the expected one; see `CoflowNumbers`.
        """
        self._numbers.check_stages(job, 0, len(stages))
        self._chains.begin(job, stages, places, [self._name(stage) for stage in stages])

    def singles_begun(self, jobs: NDArray[np.int64], own: NDArray[np.int64],
                      stages: Sequence[str]) -> None:
        """Record the start of chains of one stage each.

        Parameters
        ----------
        jobs : ndarray of int
            Indices of the jobs in order of (arrival, id).
        own : ndarray of int
            Ids of coflows that stages specify; -1 for none.
        stages : sequence of str
            Names of the stages.
        """
        number, known = {}, self._stages
        for name in dict.fromkeys(stages):
            number[name] = known.setdefault(name, len(known))
        self._chains.begin_all(jobs, own, np.array([number[name] for name in stages], np.int64))

    def _name(self, stage: Stage) -> int:
        """Return the number of a stage's name."""
        return self._stages.setdefault(stage.name, len(self._stages))

    def chains_finished(self, done: NDArray[Any], flows: NDArray[Any]) -> None:
        """Record completed coflows of chains.

        Parameters
        ----------
        done : ndarray of COFLOW
            Rows of the coflows; the array is kept.
        flows : ndarray of FLOW
            Rows of flows, among them those of the coflows.
        """
        sent: list[bytes] = []
        if self._keeps_flows:
            sent = [flows[first:first + count].tobytes() for first, count
                    in zip(done["flow"].tolist(), done["flows"].tolist(), strict=True)]
        self.coflows_done += len(done)
        last = done["order"] + 1 == self._numbers.coflows[done["job"]]
        self.jobs_done += int(np.count_nonzero(last))
        self._of_chains.append((done, sent))
        if self.told is not None:
            self.told.chains_done(done, last)
        self._note(_OF_COFLOW * len(done) + sum(map(len, sent)) // FLOW.itemsize)

    def flows_finished(self, transfer: CoflowEvent, flows: NDArray[Any]) -> None:
        """Keep the flows of a completed coflow until its job reports which coflow it was."""
        if self._keeps_flows:
            self._flows_of[transfer] = flows.tobytes()

    # --- packing, many events at a time ----------------------------------------------------

    def pack(self) -> None:
        """Move all buffered records to their tables."""
        self._pack_coflows()
        super().pack()

    def _pack_coflows(self) -> None:
        """Move buffered coflows to their tables."""
        self._noted = 0
        ended, self._ended = self._ended, []
        of_chains, self._of_chains = self._of_chains, []
        if ended:
            self._pack_ended(ended)
        if of_chains:
            self._pack_of_chains(of_chains)

    def _pack_ended(self, ended: Sequence[Ended]) -> None:
        """Pack coflows that job processes reported."""
        index = np.array([noted[0] for noted in ended])
        np.add.at(self.bytes_of_job, index, [noted[5].demand.payload for noted in ended])
        np.add.at(self.wire_bytes_of_job, index, [noted[5].demand.nbytes for noted in ended])
        np.add.at(self.coflows_of_job, index, 1)
        if self._keeps_coflows:
            sent = [self._flows_of.pop(noted[5], b"") for noted in ended]
            self._keep(Coflows.ended(ended, self._numbers), sent)

    def _pack_of_chains(self, of_chains: Sequence[tuple[NDArray[Any], list[bytes]]]) -> None:
        """Pack coflows of chains."""
        done = np.frombuffer(b"".join([rows.tobytes() for rows, _ in of_chains]), COFLOW)
        job, order = done["job"], done["order"]
        np.add.at(self.bytes_of_job, job, done["payload"])
        np.add.at(self.wire_bytes_of_job, job, done["total"])
        np.add.at(self.coflows_of_job, job, 1)
        first, last = order == 0, order + 1 == self._numbers.coflows[job]
        self.start_s[job[first]] = done["start"][first]
        self.finish_s[job[last]] = done["arrives"][last]
        if self._keeps_coflows:
            sent = [each for _, sent in of_chains for each in sent]
            self._keep(Coflows.of_chains(done, self._chains.describe(done)), sent)

    def _keep(self, coflows: Coflows, sent: Sequence[bytes]) -> None:
        """Append coflows and their flows to the tables that are recorded."""
        if "coflows" in self._rows:
            self._rows["coflows"].extend(packed(coflows.rows, self._rows["coflows"].dtype))
        if self._keeps_flows:
            flows = coflows.flow_rows(sent)
            self._rows["flows"].extend(packed(flows, self._rows["flows"].dtype))

    # --- results --------------------------------------------------------------------------

    def _conversions(self, name: str, link_names: Sequence[str]
                     ) -> dict[str, Callable[[NDArray[Any]], Any]]:
        if name != "coflows":
            return super()._conversions(name, link_names)
        return {"stage": partial(categories, list(self._stages)), "deadline_s": _finite}


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replace infinite values by NaN."""
    return np.where(np.isfinite(values), values, np.nan)
