"""Collects what happens in a run, row by row, into data frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.checks import check_sequence
from netsim.errors import UnknownNameError
from netsim.experiments.numbering import CoflowNumbers
from netsim.fabric.fabric import Fabric
from netsim.fabric.policy import Allocation
from netsim.fabric.transfer import Transfer
from netsim.jobs.process import JobProcess
from netsim.model import JobSpec

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RECORDS", "Recorder", "Rows"]

#: What can be recorded; jobs always are.
RECORDS = ("coflows", "decisions", "flows", "jobs", "links")

_COLUMNS: dict[str, list[tuple[str, str]]] = {
    "coflows": [("coflow", "i8"), ("job", "i8"), ("iteration", "i8"), ("stage", "i4"),
                ("valid_s", "f8"), ("start_s", "f8"), ("finish_s", "f8"), ("cct_s", "f8"),
                ("bytes", "f8"), ("longest_bytes", "f8"), ("width", "i8"), ("gamma_s", "f8"),
                ("deadline_s", "f8")],
    "flows": [("coflow", "i8"), ("job", "i8"), ("flow", "i8"), ("src", "i8"), ("dst", "i8"),
              ("bytes", "f8"), ("valid_s", "f8"), ("finish_s", "f8")],
    "links": [("start_s", "f8"), ("end_s", "f8"), ("link", "i8"), ("bytes", "f8"),
              ("capacity", "f8")],
    "decisions": [("time_s", "f8"), ("jobs", "i8"), ("coflows", "i8"), ("flows", "i8")],
}


class Rows:
    """A table that grows: rows are tuples at first and packed arrays soon after.

    Parameters
    ----------
    columns : list of (name, dtype)
    """

    _CHUNK = 8192

    def __init__(self, columns: list[tuple[str, str]]) -> None:
        self._dtype = np.dtype(columns)
        self._packed: list[NDArray[Any]] = []
        self._loose: list[tuple[Any, ...]] = []

    def append(self, row: tuple[Any, ...]) -> None:
        """Add one row."""
        self._loose.append(row)
        if len(self._loose) == self._CHUNK:
            self._pack()

    def extend(self, rows: NDArray[Any]) -> None:
        """Add an array of rows."""
        self._pack()
        self._packed.append(rows)

    def _pack(self) -> None:
        if self._loose:
            self._packed.append(np.array(self._loose, self._dtype))
            self._loose = []

    def frame(self) -> pd.DataFrame:
        """Return the rows as a data frame."""
        import pandas as pd

        self._pack()
        rows = np.concatenate([np.empty(0, self._dtype), *self._packed])
        return pd.DataFrame({name: rows[name].copy() for name in self._dtype.names or ()})


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
        Bytes per second that each link has at first; whoever changes one keeps it up to date.

    Attributes
    ----------
    capacity : ndarray of float, shape (links,)
    coflows_done, jobs_done : int
    bytes_of_job, coflows_of_job, finish_s : ndarray, shape (jobs,)
        What each job has sent, in how many coflows, and when it ended; NaN before.
    start_s : ndarray, shape (jobs,)
        When jobs of a single coflow that have completed began to send; NaN for others.

    Raises
    ------
    UnknownNameError
        If there is nothing of such a name to record.
    """

    def __init__(self, record: Sequence[str], jobs: int, numbers: CoflowNumbers,
                 capacity: NDArray[np.float64]) -> None:
        for name in check_sequence(record, str, "record", "names"):
            if name not in RECORDS:
                raise UnknownNameError("record", name, RECORDS)
        self.rows = {name: Rows(_COLUMNS[name]) for name in RECORDS
                     if name in record and name != "jobs"}
        self.capacity = capacity.copy()
        self.coflows_done = 0
        self.jobs_done = 0
        self.bytes_of_job = np.zeros(jobs)
        self.coflows_of_job = np.zeros(jobs, np.int64)
        self.start_s = np.full(jobs, np.nan)
        self.finish_s = np.full(jobs, np.nan)
        self.notes: list[dict[str, float]] = []
        self._numbers = numbers
        self._stages: dict[str, int] = {}
        self._flows_of: dict[Transfer, NDArray[Any]] = {}

    @property
    def watches_fabric(self) -> bool:
        """Whether it needs to be told of every decision and movement."""
        return not {"decisions", "flows", "links"}.isdisjoint(self.rows)

    @property
    def follows_rates(self) -> bool:
        """Whether it needs intervals of constant rates."""
        return "links" in self.rows

    # --- from jobs -------------------------------------------------------------------

    def coflow_finished(self, job: JobProcess, stage: int, transfer: Transfer, finish: float
                        ) -> None:
        """Take note of a completed coflow."""
        demand = transfer.demand
        self.coflows_done += 1
        self.bytes_of_job[job.index] += demand.nbytes
        self.coflows_of_job[job.index] += 1
        if "coflows" not in self.rows and "flows" not in self.rows:
            return
        stages = job.graph.stages
        coflow = self._numbers.number(job.index, job.iteration, stages, stage)
        if "coflows" in self.rows:
            name = self._stages.setdefault(stages[stage].name, len(self._stages))
            self.rows["coflows"].append((
                coflow, job.plan.spec.id, job.iteration, name, transfer.valid_s,
                transfer.start_s, finish, finish - transfer.valid_s, demand.nbytes,
                float(demand.coflows["longest"][0]), len(demand.flows), demand.gamma,
                transfer.valid_s + demand.deadline_s))
        if "flows" in self.rows:
            self._add_flows(coflow, job.plan.spec.id, transfer)

    def _add_flows(self, coflow: int, job: int, transfer: Transfer) -> None:
        flows = self._flows_of.pop(transfer, None)
        if flows is not None:
            self._note_flows(coflow, job, transfer.valid_s, transfer.finish_s, flows)

    def _note_flows(self, coflow: int, job: int, valid_s: float, finish_s: float,
                    flows: NDArray[Any]) -> None:
        rows = np.empty(len(flows), _COLUMNS["flows"])
        rows["coflow"], rows["job"], rows["valid_s"] = coflow, job, valid_s
        rows["flow"], rows["bytes"] = flows["index"], flows["size"]
        rows["src"], rows["dst"] = flows["src"], flows["dst"]
        rows["finish_s"] = np.where(flows["remaining"] > 0, finish_s, flows["finish"])
        self.rows["flows"].extend(rows)

    def job_finished(self, job: JobProcess) -> None:
        """Take note of a completed job."""
        self.jobs_done += 1
        self.finish_s[job.index] = job.finish_s

    def singles_finished(self, jobs: Sequence[JobSpec], done: NDArray[Any], flows: NDArray[Any]
                         ) -> None:
        """Take note of jobs that had a single coflow, and have completed with it.

        Parameters
        ----------
        jobs : sequence of JobSpec
        done : ndarray of COFLOW, one per job
        flows : ndarray of FLOW
            Theirs, and others.
        """
        index = done["job"]
        self.coflows_done += len(done)
        self.jobs_done += len(done)
        self.bytes_of_job[index] = done["total"]
        self.coflows_of_job[index] = 1
        self.start_s[index], self.finish_s[index] = done["start"], done["last"]
        if "coflows" not in self.rows and "flows" not in self.rows:
            return
        coflows = [self._numbers.number(k, 0, tuple(job.stages), 0)
                   for k, job in zip(index.tolist(), jobs, strict=True)]
        if "coflows" in self.rows:
            rows = np.zeros(len(done), _COLUMNS["coflows"])
            rows["coflow"], rows["job"] = coflows, [job.id for job in jobs]
            rows["stage"] = [self._stages.setdefault(job.stages[0].name, len(self._stages))
                             for job in jobs]
            for name, known_as in (("valid_s", "valid"), ("start_s", "start"), ("finish_s", "last"),
                                   ("bytes", "total"), ("longest_bytes", "longest"),
                                   ("width", "flows"), ("gamma_s", "alone"),
                                   ("deadline_s", "deadline")):
                rows[name] = done[known_as]
            rows["cct_s"] = done["last"] - done["valid"]
            self.rows["coflows"].extend(rows)
        if "flows" in self.rows:
            for coflow, job, row in zip(coflows, jobs, done, strict=True):
                own = flows[row["flow"]:row["flow"] + row["flows"]]
                self._note_flows(coflow, job.id, row["valid"], row["last"], own)

    # --- from the fabric -------------------------------------------------------------

    def decided(self, now: float, fabric: Fabric, allocation: Allocation) -> None:
        """Take note of a decision and of what the policy inferred."""
        if "decisions" in self.rows:
            coflows = fabric.table.coflows
            self.rows["decisions"].append((now, len(np.unique(coflows["job"])), len(coflows),
                                           int(coflows["open"].sum())))
            self.notes.append(dict(allocation.note or {}))

    def moved(self, start: float, now: float, carried: NDArray[np.float64]) -> None:
        """Take note of the bytes that each link carried between two instants."""
        if "links" in self.rows:
            busy = np.flatnonzero(carried)
            rows = np.empty(len(busy), _COLUMNS["links"])
            rows["start_s"], rows["end_s"] = start, now
            rows["link"], rows["bytes"], rows["capacity"] = busy, carried[busy], self.capacity[busy]
            self.rows["links"].extend(rows)

    def flows_finished(self, transfer: Transfer, flows: NDArray[Any]) -> None:
        """Keep a completed coflow's flows until its job says which coflow it was."""
        if "flows" in self.rows:
            self._flows_of[transfer] = flows.copy()

    # --- results ---------------------------------------------------------------------

    def frame(self, name: str, link_names: Sequence[str]) -> pd.DataFrame | None:
        """Return one table, or None if it was not recorded."""
        if name not in self.rows:
            return None
        import pandas as pd

        frame = self.rows[name].frame()
        if name == "coflows":
            names = pd.Index(list(self._stages))
            frame["stage"] = pd.Categorical.from_codes(frame["stage"].to_numpy(np.int64), names)
            frame["deadline_s"] = frame["deadline_s"].where(np.isfinite(frame["deadline_s"]))
            frame = frame.sort_values(["coflow", "valid_s"], kind="stable", ignore_index=True)
        elif name == "flows":
            frame = frame.sort_values(["coflow", "flow"], kind="stable", ignore_index=True)
        elif name == "links":
            frame["link"] = pd.Categorical.from_codes(frame["link"].to_numpy(np.int64),
                                                      pd.Index(link_names))
        elif name == "decisions":
            frame = pd.concat([frame, pd.DataFrame(self.notes, index=frame.index)], axis=1)
        return frame
