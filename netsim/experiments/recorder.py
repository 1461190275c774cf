"""Collects what happens in a run: it notes as little as it can at once, and packs it later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.checks import check_sequence
from netsim.errors import UnknownNameError
from netsim.experiments.line_notes import LineNotes
from netsim.experiments.numbering import CoflowNumbers
from netsim.experiments.packing import DTYPES, Coflows, Ended, link_rows
from netsim.experiments.recorded import Recorded
from netsim.experiments.rows import Notes, Rows
from netsim.fabric.fabric import Fabric
from netsim.fabric.policy import Allocation
from netsim.fabric.records import COFLOW, FLOW
from netsim.fabric.transfer import Transfer
from netsim.jobs.process import JobProcess
from netsim.model import Stage

__all__ = ["RECORDS", "Recorder"]

#: What can be recorded; jobs always are.
RECORDS = ("coflows", "decisions", "flows", "jobs", "links")

_SORT_BY = {"coflows": ("coflow", "valid_s"), "flows": ("coflow", "flow")}

#: How much is noted before it is packed, in rows that are kept until then; a coflow counts for
#: its flows and for some more, a decision for one.
_MOST_NOTED, _OF_COFLOW = 1 << 17, 32
_MOST_DECISIONS = 1 << 13


class Recorder:
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
        for name in check_sequence(record, str, "record", "names"):
            if name not in RECORDS:
                raise UnknownNameError("record", name, RECORDS)
        self.coflows_done = 0
        self.jobs_done = 0
        self.bytes_of_job = np.zeros(jobs)
        self.coflows_of_job = np.zeros(jobs, np.int64)
        self.start_s = np.full(jobs, np.nan)
        self.finish_s = np.full(jobs, np.nan)
        self._rows = {name: Rows(DTYPES[name]) for name in RECORDS
                      if name in (*record, *beside) and name != "jobs"}
        self._follows_rates = "links" in record
        self._follows_standing = not {"decisions", "links"}.isdisjoint(record)
        self._keeps_flows = "flows" in self._rows
        self._keeps_coflows = self._keeps_flows or "coflows" in self._rows
        self._numbers = numbers
        self._lines = LineNotes(numbers)
        self._capacity = capacity.copy()
        self._stages: dict[str, int] = {}
        self._ended: list[Ended] = []
        self._flows_of: dict[Transfer, bytes] = {}
        self._of_lines: list[tuple[NDArray[Any], list[bytes]]] = []
        self._noted = 0
        self._decisions: list[tuple[float, int, int, int]] = []
        self._noted_by_policy: list[dict[str, float]] = []
        self._notes = Notes()
        self._moves: list[tuple[float, float, NDArray[np.float64]]] = []
        self._most_moves = max(_MOST_NOTED // max(len(capacity), 1), 1)

    @property
    def watches_fabric(self) -> bool:
        """Whether it needs to be told of what happens there."""
        return not {"decisions", "flows", "links"}.isdisjoint(self._rows)

    @property
    def follows_decisions(self) -> bool:
        """Whether every decision is to be one of its own, even where jobs would take turns."""
        return not {"decisions", "links"}.isdisjoint(self._rows)

    @property
    def follows_standing(self) -> bool:
        """Whether it is to be, even where an answer would stand."""
        return self._follows_standing

    @property
    def follows_rates(self) -> bool:
        """Whether it needs intervals of constant rates."""
        return self._follows_rates

    # --- what is noted at once: tuples, for a run may have millions of them ---------------

    def coflow_finished(self, job: JobProcess, stage: int, transfer: Transfer, finish: float
                        ) -> None:
        """Take note of a completed coflow."""
        self.coflows_done += 1
        stages = job.graph.stages
        self._ended.append((job.index, job.iteration, stages, stage, self._name(stages[stage]),
                            transfer, finish))
        self._note(_OF_COFLOW + len(transfer.demand.flows))

    def _note(self, rows: int) -> None:
        self._noted += rows
        if self._noted > _MOST_NOTED:
            self._pack_coflows()

    def job_finished(self, job: JobProcess) -> None:
        """Take note of a completed job."""
        self.jobs_done += 1
        self.finish_s[job.index] = job.finish_s

    def line_begun(self, job: int, stages: Sequence[Stage], places: Sequence[int]) -> None:
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

    def of_lines_finished(self, done: NDArray[Any], flows: NDArray[Any]) -> None:
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

    def flows_finished(self, transfer: Transfer, flows: NDArray[Any]) -> None:
        """Keep a completed coflow's flows until its job says which coflow it was."""
        if self._keeps_flows:
            self._flows_of[transfer] = flows.tobytes()

    def decided(self, now: float, fabric: Fabric, allocation: Allocation) -> None:
        """Take note of a decision and of what the policy inferred."""
        if "decisions" in self._rows:
            table = fabric.table
            self._decisions.append((now, table.active_jobs, len(table.coflows),
                                    np.add.reduce(table.coflows["open"])))
            self._noted_by_policy.append(dict(allocation.note or {}))
            if len(self._decisions) == _MOST_DECISIONS:
                self._pack_decisions()

    def moved(self, start: float, now: float, carried: NDArray[np.float64]) -> None:
        """Take note of the bytes that each link carried between two instants; keeps the array."""
        if "links" in self._rows:
            self._moves.append((start, now, carried))
            if len(self._moves) == self._most_moves:
                self._pack_moves()

    def set_capacity(self, link: int, capacity: float) -> None:
        """Take note of a link's capacity from now on, in bytes per second."""
        self._pack_moves()
        self._capacity[link] = capacity

    # --- what becomes of it, many at a time -----------------------------------------------

    def pack(self) -> None:
        """Bring everything up to date."""
        self._pack_coflows()
        self._pack_decisions()
        self._pack_moves()

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

    def _pack_decisions(self) -> None:
        if self._decisions:
            self._rows["decisions"].extend(np.array(self._decisions, DTYPES["decisions"]))
            self._notes.extend(self._noted_by_policy)
            self._decisions, self._noted_by_policy = [], []

    def _pack_moves(self) -> None:
        if self._moves:
            self._rows["links"].extend(link_rows(self._moves, self._capacity))
            self._moves = []

    # --- results --------------------------------------------------------------------------

    def table(self, name: str, link_names: Sequence[str]) -> Recorded | None:
        """Return one table, or None if it was not recorded; `pack` comes before."""
        if name not in self._rows:
            return None
        categories = {"coflows": ("stage", list(self._stages)), "links": ("link", link_names)}
        converted: dict[str, Callable[[NDArray[Any]], Any]] = {}
        if name in categories:
            column, names = categories[name]
            converted[column] = partial(_categories, names)
        if name == "coflows":
            converted["deadline_s"] = _finite
        return Recorded(self._rows[name], _SORT_BY.get(name, ()), converted,
                        self._notes.columns() if name == "decisions" else {})


def _categories(names: Sequence[str], codes: NDArray[Any]) -> Any:
    import pandas as pd

    return pd.Categorical.from_codes(codes.astype(np.int64), pd.Index(names))


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(values), values, np.nan)
