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

__all__ = ["DTYPES", "Coflows", "Ended", "describe", "link_rows"]

DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(columns) for name, columns in {
    "coflows": [("coflow", "i8"), ("job", "i8"), ("iteration", "i8"), ("stage", "i4"),
                ("valid_s", "f8"), ("start_s", "f8"), ("finish_s", "f8"), ("cct_s", "f8"),
                ("bytes", "f8"), ("longest_bytes", "f8"), ("width", "i8"), ("gamma_s", "f8"),
                ("deadline_s", "f8")],
    "flows": [("coflow", "i8"), ("job", "i8"), ("flow", "i8"), ("src", "i8"), ("dst", "i8"),
              ("bytes", "f8"), ("valid_s", "f8"), ("finish_s", "f8")],
    "links": [("start_s", "f8"), ("end_s", "f8"), ("link", "i8"), ("bytes", "f8"),
              ("capacity", "f8")],
    "decisions": [("time_s", "f8"), ("jobs", "i8"), ("coflows", "i8"), ("flows", "i8")],
}.items()}

#: A coflow that a job process has completed: the job's index, the iteration and its stages, the
#: index of the stage, the number of its name, the event of the fabric, the finish time.
Ended = tuple[int, int, tuple[Stage, ...], int, int, CoflowEvent, float]


@dataclass(frozen=True, slots=True)
class Coflows:
    """Completed coflows.

    Attributes
    ----------
    rows : ndarray of DTYPES["coflows"]
    sent_s : ndarray of float
        Instant of the last byte of each coflow, after which it may have waited for others.
    """

    rows: NDArray[Any]
    sent_s: NDArray[np.float64]

    @classmethod
    def ended(cls, noted: Iterable[Ended], numbers: CoflowNumbers) -> Coflows:
        """Make rows of coflows that job processes completed."""
        jobs, iterations, stages, places, names, transfers, finish = zip(*noted, strict=True)
        rows = np.empty(len(jobs), DTYPES["coflows"])
        rows["coflow"] = list(map(numbers.number, jobs, iterations, stages, places))
        rows["job"], rows["iteration"] = numbers.job_ids[np.array(jobs)], iterations
        rows["stage"] = names
        for name in ("valid_s", "start_s"):
            rows[name] = [getattr(transfer, name) for transfer in transfers]
        rows["finish_s"] = finish
        rows["cct_s"] = rows["finish_s"] - rows["valid_s"]
        describe([transfer.demand for transfer in transfers], rows)
        return cls(rows, np.array([transfer.finish_s for transfer in transfers]))

    @classmethod
    def of_chains(cls, done: NDArray[Any], which: Mapping[str, NDArray[np.int64]]) -> Coflows:
        """Make rows of coflows of chains from COFLOW rows; see `ChainLog.describe`."""
        rows = np.empty(len(done), DTYPES["coflows"])
        for name, values in which.items():
            rows[name] = values
        for name, known_as in (("valid_s", "valid"), ("start_s", "start"), ("finish_s", "last"),
                               ("bytes", "total"), ("longest_bytes", "longest"),
                               ("width", "flows"), ("gamma_s", "alone"),
                               ("deadline_s", "deadline")):
            rows[name] = done[known_as]
        rows["cct_s"] = rows["finish_s"] - rows["valid_s"]
        return cls(rows, rows["finish_s"])

    def flow_rows(self, sent: Sequence[bytes]) -> NDArray[Any]:
        """Return rows of the coflows' flows, given the FLOW rows of each."""
        counts = np.array([len(each) for each in sent]) // FLOW.itemsize
        flows = np.frombuffer(b"".join(sent), FLOW)
        rows = np.empty(len(flows), DTYPES["flows"])
        for name in ("coflow", "job", "valid_s"):
            rows[name] = np.repeat(self.rows[name], counts)
        for name, known_as in (("flow", "index"), ("src", "src"), ("dst", "dst"),
                               ("bytes", "size")):
            rows[name] = flows[known_as]
        rows["finish_s"] = np.where(flows["remaining"] > 0, np.repeat(self.sent_s, counts),
                                    flows["finish"])
        return rows


def describe(demands: Sequence[RoutedCoflow], rows: NDArray[Any]) -> None:
    """Fill in sizes, width, gamma and deadlines. Most jobs send the same coflows repeatedly."""
    known = {id(demand): demand for demand in demands}
    place = dict(zip(known, range(len(known)), strict=True))
    which = np.array([place[id(demand)] for demand in demands])
    for name, values in (
            ("bytes", [demand.nbytes for demand in known.values()]),
            ("longest_bytes", [demand.coflows["longest"][0] for demand in known.values()]),
            ("width", [len(demand.flows) for demand in known.values()]),
            ("gamma_s", [demand.gamma for demand in known.values()])):
        rows[name] = np.array(values)[which]
    rows["deadline_s"] = rows["valid_s"] + np.array(
        [demand.deadline_s for demand in known.values()])[which]


def link_rows(moves: Sequence[tuple[float, float, NDArray[np.float64]]],
              capacity: NDArray[np.float64]) -> NDArray[Any]:
    """Return rows of the links that carried bytes, given (start, end, bytes of each link)."""
    start, end, parts = zip(*moves, strict=True)
    carried = np.array(parts)
    which, link = np.nonzero(carried)
    rows = np.empty(len(which), DTYPES["links"])
    rows["start_s"], rows["end_s"] = np.array(start)[which], np.array(end)[which]
    rows["link"], rows["bytes"], rows["capacity"] = link, carried[which, link], capacity[link]
    return rows
