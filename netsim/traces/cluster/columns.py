"""Jobs of a GPU cluster as columns, and the count of what was dropped on the way there."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.brief import brief
from netsim.traces.problems import Problem, TraceProblemsError

__all__ = ["FAILED", "NO_GPU", "NO_SUBMIT", "NO_TIME", "UNFINISHED", "ClusterJobs", "Codes",
           "Intake", "gpus_of"]

#: Why a job is dropped, where several formats have the reason.
NO_SUBMIT = "no time of submission"
UNFINISHED = "had not run to an end"
FAILED = "failed, or was cancelled"
NO_GPU = "asked for no GPU"
NO_TIME = "ran no time"

_MOST_GPUS = 10**6
_COLUMNS = {"submit_s": np.float64, "duration_s": np.float64, "gpus": np.int32,
            "group": np.int32, "user": np.int32}


@dataclass(frozen=True, slots=True, eq=False)
class ClusterJobs:
    """The jobs of a trace that are left after cleaning, in order of submission.

    Attributes
    ----------
    submit_s : ndarray of float, shape (jobs,)
        Seconds since the first of them was submitted.
    duration_s : ndarray of float, shape (jobs,)
        Seconds for which it ran, without waiting.
    gpus : ndarray of int, shape (jobs,)
    group : ndarray of int, shape (jobs,)
        Jobs of one group are the same job, submitted again. Numbered as the file names them.
    user : ndarray of int, shape (jobs,)
    read : int
        How many jobs the file has.
    dropped : mapping of str to int
        How many were dropped, by the reason: the first that holds, in this order.
    notes : mapping of str to int
        How many of those kept were read otherwise than they stand there.
    """

    submit_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    gpus: NDArray[np.int32]
    group: NDArray[np.int32]
    user: NDArray[np.int32]
    read: int
    dropped: Mapping[str, int]
    notes: Mapping[str, int]

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.submit_s)


class Codes:
    """Numbers for names, counted from 0 in the order in which they are first seen."""

    def __init__(self) -> None:
        self._of: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._of)

    def of(self, names: Iterable[Hashable]) -> NDArray[np.int32]:
        """Return the number of each name."""
        known = self._of
        return np.fromiter((known.setdefault(name, len(known)) for name in names), np.int32)


@dataclass(slots=True)
class Intake:
    """Takes in the jobs of a file, chunk by chunk, and keeps of each chunk what passes the rules.

    Attributes
    ----------
    path : path-like
        The file, for errors.
    read : int
    dropped, notes : dict of str to int
        As of `ClusterJobs`.
    """

    path: str | Path
    read: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    _parts: dict[str, list[NDArray[np.generic]]] = field(
        default_factory=lambda: {name: [] for name in _COLUMNS})

    def add(
        self,
        rules: Mapping[str, NDArray[np.bool_]],
        notes: Mapping[str, NDArray[np.bool_]] | None = None,
        **columns: NDArray[np.generic],
    ) -> None:
        """Take in jobs.

        Parameters
        ----------
        rules : mapping of str to ndarray of bool, shape (jobs,)
            Which jobs to drop, by the reason; a job counts under the first that holds.
        notes : mapping of str to ndarray of bool, shape (jobs,)
            Which of them were read otherwise than they stand there.
        **columns : ndarray, shape (jobs,)
            Those of `ClusterJobs`; `submit_s` from any origin.
        """
        kept = np.ones(len(columns["submit_s"]), dtype=bool)
        self.read += len(kept)
        for reason, bad in rules.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + int((kept & bad).sum())
            kept &= ~bad
        for note, found in (notes or {}).items():
            self.notes[note] = self.notes.get(note, 0) + int((kept & found).sum())
        for name, dtype in _COLUMNS.items():
            self._parts[name].append(columns[name][kept].astype(dtype))

    def jobs(self) -> ClusterJobs:
        """Return the jobs that are left, in order of submission; the intake is empty then.

        Raises
        ------
        TraceProblemsError
            If none is left.
        """
        if not sum(map(len, self._parts["submit_s"])):
            why = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items()
                            if count)
            message = f"no job is left of {self.read:,}: {why}" if self.read else "holds no jobs"
            raise TraceProblemsError([Problem(None, message)], self.path)
        columns = {}
        for name in _COLUMNS:  # one after the other, so that no two are in memory twice
            columns[name] = np.concatenate(self._parts.pop(name))
        order = np.argsort(columns["submit_s"], kind="stable")
        for name in _COLUMNS:
            columns[name] = columns[name][order]
        columns["submit_s"] -= columns["submit_s"][0]
        return ClusterJobs(**columns, read=self.read, dropped=self.dropped, notes=self.notes)


def gpus_of(shares: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return whole GPUs for shares of GPUs, rounded up, and which are rounded.

    Parameters
    ----------
    shares : ndarray of float, shape (jobs,)
        GPUs that a job asks for, such as 0.5; NaN counts as 0.
    """
    known = np.where(np.isnan(shares), 0.0, shares)
    near = np.round(known)
    whole = np.abs(known - near) <= 1e-9 * np.maximum(1.0, near)  # three times a third is one
    gpus = np.minimum(np.where(whole, near, np.ceil(known)), _MOST_GPUS)
    return gpus.astype(np.int64), ~whole


def share_of(count: int, share: float) -> int:
    """Return a share of a count, rounded down; 0.29 of 100 is 29."""
    return math.floor(share * count + 1e-9)
