"""Rows of the tables of a run, made from many recorded events at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.records import FLOW
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.recording.coflow_ids import CoflowNumbers
from netsim.workload import Stage

DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(columns) for name, columns in {
    "coflows": [("coflow", "i8"), ("job", "i8"), ("iteration", "i8"), ("stage", "i4"),
                ("valid_s", "f8"), ("start_s", "f8"), ("finish_s", "f8"), ("cct_s", "f8"),
                ("bytes", "f8"), ("longest_bytes", "f8"), ("width", "i8"), ("gamma_s", "f8"),
                ("deadline_s", "f8")],
    "flows": [("coflow", "i8"), ("job", "i8"), ("flow", "i8"), ("src", "i8"), ("dst", "i8"),
              ("bytes", "f8"), ("valid_s", "f8"), ("finish_s", "f8")],
    "links": [("start_s", "f8"), ("end_s", "f8"), ("link", "i8"), ("bytes", "f8"),
              ("capacity", "f8")],
    "computations": [("job", "i8"), ("iteration", "i8"), ("rank", "i8"), ("stage", "i4"),
                     ("stream", "i4"), ("start_s", "f8"), ("finish_s", "f8")],
    "decisions": [("time_s", "f8"), ("jobs", "i8"), ("coflows", "i8"), ("flows", "i8")],
}.items()}

#: The same, where links or stages add something to bytes on their way.
WITH_WIRE = DTYPES | {name: np.dtype([*DTYPES[name].descr, ("begin_s", "f8"), ("sent_s", "f8"),
                                      ("wire_bytes", "f8")]) for name in ("coflows", "flows")}

#: The columns of `Result.other_coflows`.
OF_OTHERS: dict[str, Any] = {
    "job": "i8", "iteration": "i8", "stage": object, "valid_s": "f8", "start_s": "f8",
    "end_s": "f8", "bytes": "f8", "why": object}

#: A coflow that a job process has completed: the job's index, the iteration and its stages, the
#: index of the stage, the number of its name, the event of the fabric, the finish time; how many
#: coflows it stands for, those of the stages from that one on.
Ended = tuple[int, int, Sequence[Stage], int, int, CoflowEvent, float, int]


@dataclass(frozen=True, slots=True)
class Coflows:
    """Completed coflows, as rows of ``WITH_WIRE["coflows"]``."""

    rows: NDArray[Any]

    @classmethod
    def ended(cls, noted: Iterable[Ended], numbers: CoflowNumbers) -> Coflows:
        """Make rows of coflows that job processes completed."""
        jobs, iterations, stages, places, names, transfers, finish, copies = zip(
            *noted, strict=True)
        rows = np.empty(len(jobs), WITH_WIRE["coflows"])
        rows["coflow"] = list(map(numbers.number, jobs, iterations, stages, places))
        rows["job"], rows["iteration"] = numbers.job_ids[np.array(jobs)], iterations
        rows["stage"] = names
        for name in ("valid_s", "start_s", "begin_s", "sent_s"):
            rows[name] = [getattr(transfer, name) for transfer in transfers]
        rows["finish_s"] = finish
        rows["cct_s"] = rows["finish_s"] - rows["valid_s"]
        describe([transfer.demand for transfer in transfers], rows)
        if max(copies) > 1:
            begins = np.cumsum(copies) - copies
            rows = np.repeat(rows, copies)
            rows["coflow"] += np.arange(len(rows)) - np.repeat(begins, copies)
        return cls(rows)

    @classmethod
    def of_chains(cls, done: NDArray[Any], which: Mapping[str, NDArray[np.int64]]) -> Coflows:
        """Make rows of coflows of chains from COFLOW rows; see `ChainLog.describe`."""
        rows = np.empty(len(done), WITH_WIRE["coflows"])
        for name, values in which.items():
            rows[name] = values
        for name, known_as in (("begin_s", "valid"), ("start_s", "start"), ("sent_s", "last"),
                               ("finish_s", "arrives"), ("bytes", "payload"),
                               ("wire_bytes", "total"), ("longest_bytes", "longest"),
                               ("width", "flows"), ("gamma_s", "nominal_gamma"),
                               ("deadline_s", "deadline")):
            rows[name] = done[known_as]
        rows["valid_s"] = done["valid"] - done["overhead"]
        rows["cct_s"] = rows["finish_s"] - rows["valid_s"]
        return cls(rows)

    def flow_rows(self, sent: Sequence[bytes]) -> NDArray[Any]:
        """Make rows of the coflows' flows, given the FLOW rows of each."""
        counts = np.array([len(each) for each in sent]) // FLOW.itemsize
        flows = np.frombuffer(b"".join(sent), FLOW)
        rows = np.empty(len(flows), WITH_WIRE["flows"])
        for name in ("coflow", "job", "valid_s", "begin_s", "sent_s"):
            rows[name] = np.repeat(self.rows[name], counts)
        for name, known_as in (("flow", "index"), ("src", "src"), ("dst", "dst"),
                               ("bytes", "payload"), ("wire_bytes", "size")):
            rows[name] = flows[known_as]
        # Of flows in step only their coflow knows when they have ended.
        rows["sent_s"] = np.where(flows["remaining"] > 0, rows["sent_s"], flows["finish"])
        rows["finish_s"] = rows["sent_s"] + flows["latency"]
        return rows


def packed(rows: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Copy only the columns of another structured dtype."""
    if rows.dtype == dtype:
        return rows
    found = np.empty(len(rows), dtype)
    for name in dtype.names or ():
        found[name] = rows[name]
    return found


def describe(demands: Sequence[RoutedCoflow], rows: NDArray[Any]) -> None:
    """Fill in sizes, widths, gammas and deadlines of rows from the coflows that were sent."""
    known = {id(demand): demand.stands_for or demand for demand in demands}
    place = dict(zip(known, range(len(known)), strict=True))
    which = np.array([place[id(demand)] for demand in demands])
    for name, values in (
            ("bytes", [demand.payload for demand in known.values()]),
            ("wire_bytes", [demand.nbytes for demand in known.values()]),
            ("longest_bytes", [demand.coflows["longest"][0] for demand in known.values()]),
            ("width", [len(demand.flows) for demand in known.values()]),
            ("gamma_s", [demand.gamma for demand in known.values()])):
        rows[name] = np.array(values)[which]
    rows["deadline_s"] = rows["valid_s"] + np.array(
        [demand.deadline_s for demand in known.values()])[which]


def link_rows(moves: Sequence[tuple[float, float, NDArray[np.float64]]],
              capacity: NDArray[np.float64]) -> NDArray[Any]:
    """Make rows of links that carried bytes, or could carry none as they have failed (capacity 0).

    Each of `moves` has the start and the end of an interval, and the bytes that each link carried.
    """
    start, end, parts = zip(*moves, strict=True)
    carried = np.array(parts)
    which, link = np.nonzero((carried > 0) | (capacity <= 0))
    rows = np.empty(len(which), DTYPES["links"])
    rows["start_s"], rows["end_s"] = np.array(start)[which], np.array(end)[which]
    rows["link"], rows["bytes"], rows["capacity"] = link, carried[which, link], capacity[link]
    return rows
