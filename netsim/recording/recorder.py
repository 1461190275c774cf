"""Collects what happens in a run: it notes as little as it can at once, and packs it later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.records import COFLOW, FLOW
from netsim.jobs.process import JobProcess
from netsim.recording.chain_log import ChainLog
from netsim.recording.coflow_ids import CoflowNumbers
from netsim.recording.link_recorder import MOST_NOTED, LinkRecorder, categories
from netsim.recording.tables import Coflows, Ended
from netsim.workload import Stage

__all__ = ["Recorder"]

#: A coflow counts for its flows and for so many more, where it is said how much is noted.
_OF_COFLOW = 32


class Recorder(LinkRecorder):
    """Takes note of jobs and, where asked, coflows, flows, links and decisions.

    Parameters
    ----------
    record : sequence of str
        Any of `RECORDS`.
    jobs : int
        How many there are.
    numbers : CoflowNumbers
        Gives coflows their ids.
    capacity : ndarray of float, shape (links,)
        Bytes per second that each link has at first.
    beside : sequence of str
        More of `RECORDS`, which must not change how the run goes. Links that are asked for only
        here are not followed to the end of each flow: a row has their mean rate from one event
        to the next. Nor are decisions where an answer stands.

    Attributes
    ----------
    coflows_done, jobs_done : int
    bytes_of_job, coflows_of_job, finish_s : ndarray, shape (jobs,)
        What each job has sent, in how many coflows, and when it ended; NaN before. Up to date
        after `pack`.
    start_s : ndarray, shape (jobs,)
        When jobs that are lines began to send, of which a coflow has completed; NaN for others.
        As above.

    Raises
    ------
    UnknownNameError
        If there is nothing of such a name to record.
    """

    def __init__(self, record: Sequence[str], jobs: int, numbers: CoflowNumbers,
                 capacity: NDArray[np.float64], beside: Sequence[str] = ()) -> None:
        super().__init__(record, capacity, beside)
        self.coflows_done = 0
        self.jobs_done = 0
        self.bytes_of_job = np.zeros(jobs)
        self.coflows_of_job = np.zeros(jobs, np.int64)
        self.start_s = np.full(jobs, np.nan)
        self.finish_s = np.full(jobs, np.nan)
        self._keeps_flows = "flows" in self._rows
        self._keeps_coflows = self._keeps_flows or "coflows" in self._rows
        self._numbers = numbers
        self._lines = ChainLog(numbers)
        self._stages: dict[str, int] = {}
        self._ended: list[Ended] = []
        self._flows_of: dict[CoflowEvent, bytes] = {}
        self._of_lines: list[tuple[NDArray[Any], list[bytes]]] = []
        self._noted = 0

    # --- what is noted at once: tuples, for a run may have millions of them ---------------

    def coflow_finished(self, job: JobProcess, stage: int, transfer: CoflowEvent, finish: float
                        ) -> None:
        """Take note of a completed coflow."""
        self.coflows_done += 1
        stages = job.graph.stages
        self._ended.append((job.index, job.iteration, stages, stage, self._name(stages[stage]),
                            transfer, finish))
        self._note(_OF_COFLOW + len(transfer.demand.flows))

    def _note(self, rows: int) -> None:
        self._noted += rows
        if self._noted > MOST_NOTED:
            self._pack_coflows()

    def job_finished(self, job: JobProcess) -> None:
        """Take note of a completed job."""
        self.jobs_done += 1
        self.finish_s[job.index] = job.finish_s

    def chain_begun(self, job: int, stages: Sequence[Stage], places: Sequence[int]) -> None:
        """Take note of a job that the fabric goes through by itself.

        Parameters
        ----------
        job : int
            Numbered by (arrival, id).
        stages : sequence of Stage
            In the order that they send.
        places : sequence of int
            The place of each in the job's list.

        Raises
        ------
        InputError
            If there are not as many stages as were counted; see `CoflowNumbers`.
        """
        self._numbers.check_stages(job, 0, len(stages))
        self._lines.begin(job, stages, places, [self._name(stage) for stage in stages])

    def singles_begun(self, jobs: NDArray[np.int64], stages: Sequence[Stage]) -> None:
        """Take note of jobs of one stage each that the fabric goes through by itself."""
        own = np.array([-1 if stage.coflow_id is None else stage.coflow_id for stage in stages],
                       np.int64)
        names = np.array([self._name(stage) for stage in stages], np.int64)
        self._lines.begin_all(jobs, own, names)

    def _name(self, stage: Stage) -> int:
        return self._stages.setdefault(stage.name, len(self._stages))

    def chains_finished(self, done: NDArray[Any], flows: NDArray[Any]) -> None:
        """Take note of coflows of lines that have completed.

        Parameters
        ----------
        done : ndarray of COFLOW
            Kept.
        flows : ndarray of FLOW
            Theirs, and others.
        """
        sent: list[bytes] = []
        if self._keeps_flows:
            sent = [flows[first:first + count].tobytes() for first, count
                    in zip(done["flow"].tolist(), done["flows"].tolist(), strict=True)]
        self.coflows_done += len(done)
        last = done["order"] + 1 == self._numbers.coflows[done["job"]]
        self.jobs_done += int(np.count_nonzero(last))
        self._of_lines.append((done, sent))
        self._note(_OF_COFLOW * len(done) + sum(map(len, sent)) // FLOW.itemsize)

    def flows_finished(self, transfer: CoflowEvent, flows: NDArray[Any]) -> None:
        """Keep a completed coflow's flows until its job says which coflow it was."""
        if self._keeps_flows:
            self._flows_of[transfer] = flows.tobytes()

    # --- what becomes of it, many at a time -----------------------------------------------

    def pack(self) -> None:
        """Bring everything up to date."""
        self._pack_coflows()
        super().pack()

    def _pack_coflows(self) -> None:
        self._noted = 0
        ended, self._ended = self._ended, []
        of_lines, self._of_lines = self._of_lines, []
        if ended:
            self._pack_ended(ended)
        if of_lines:
            self._pack_of_lines(of_lines)

    def _pack_ended(self, ended: Sequence[Ended]) -> None:
        index = np.array([noted[0] for noted in ended])
        np.add.at(self.bytes_of_job, index, [noted[5].demand.nbytes for noted in ended])
        np.add.at(self.coflows_of_job, index, 1)
        if self._keeps_coflows:
            sent = [self._flows_of.pop(noted[5], b"") for noted in ended]
            self._keep(Coflows.ended(ended, self._numbers), sent)

    def _pack_of_lines(self, of_lines: Sequence[tuple[NDArray[Any], list[bytes]]]) -> None:
        done = np.frombuffer(b"".join([rows.tobytes() for rows, _ in of_lines]), COFLOW)
        job, order = done["job"], done["order"]
        np.add.at(self.bytes_of_job, job, done["total"])
        np.add.at(self.coflows_of_job, job, 1)
        first, last = order == 0, order + 1 == self._numbers.coflows[job]
        self.start_s[job[first]] = done["start"][first]
        self.finish_s[job[last]] = done["last"][last]
        if self._keeps_coflows:
            sent = [each for _, sent in of_lines for each in sent]
            self._keep(Coflows.of_lines(done, self._lines.describe(done)), sent)

    def _keep(self, coflows: Coflows, sent: Sequence[bytes]) -> None:
        if "coflows" in self._rows:
            self._rows["coflows"].extend(coflows.rows)
        if self._keeps_flows:
            self._rows["flows"].extend(coflows.flow_rows(sent))

    # --- results --------------------------------------------------------------------------

    def _conversions(self, name: str, link_names: Sequence[str]
                     ) -> dict[str, Callable[[NDArray[Any]], Any]]:
        if name != "coflows":
            return super()._conversions(name, link_names)
        return {"stage": partial(categories, list(self._stages)), "deadline_s": _finite}


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(values), values, np.nan)
