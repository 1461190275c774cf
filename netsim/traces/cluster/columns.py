"""Jobs of a GPU cluster's trace as columns, with counts of the jobs dropped while cleaning."""

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

#: Reasons for dropping a job that several formats share.
NO_SUBMIT = "no submission time"
UNFINISHED = "did not finish"
FAILED = "failed or was cancelled"
NO_GPU = "requested no GPU"
NO_TIME = "no running time"

_MOST_GPUS = 10**6
_COLUMNS = {"submit_s": np.float64, "duration_s": np.float64, "gpus": np.int32,
            "group": np.int32, "user": np.int32}


@dataclass(frozen=True, slots=True, eq=False)
class ClusterJobs:
    """The jobs of a trace that remain after cleaning, in order of submission.

    Attributes
    ----------
    submit_s : ndarray of float, shape (jobs,)
        Submission time, in seconds since the first job's submission.
    duration_s : ndarray of float, shape (jobs,)
        Running time, in seconds, without waiting.
    gpus : ndarray of int, shape (jobs,)
        Number of GPUs.
    group : ndarray of int, shape (jobs,)
        Number of the job's group; the jobs of a group are submissions of the same job. Groups are
        numbered from 0 in the order in which they first occur in the file.
    user : ndarray of int, shape (jobs,)
        Number of the job's user, likewise.
    read : int
        Number of jobs in the file.
    dropped : mapping of str to int
        Number of jobs dropped for each reason. A job counts under the first reason that applies.
    notes : mapping of str to int
        Number of jobs kept with a change, such as a rounded number of GPUs, for each kind.
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
    """Assigns numbers to names, from 0 on in the order in which names are first seen."""

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
    """Collects the jobs of a file chunk by chunk, and drops those that violate a rule.

    Attributes
    ----------
    path : path-like
        The file, for error messages.
    read : int
    dropped, notes : dict of str to int
        See `ClusterJobs`.
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
        """Add a chunk of jobs.

        Parameters
        ----------
        rules : mapping of str to ndarray of bool, shape (jobs,)
            Masks of the jobs to drop, by reason; a job counts under the first that applies.
        notes : mapping of str to ndarray of bool, shape (jobs,)
            Masks of the jobs whose values were changed, by the kind of change.
        **columns : ndarray, shape (jobs,)
            The columns of `ClusterJobs`; `submit_s` may count from any origin.
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
        """Return the remaining jobs in order of submission. Can be called once, at the end.

        Raises
        ------
        TraceProblemsError
            If no job remains.
        """
        if not sum(map(len, self._parts["submit_s"])):
            why = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items()
                            if count)
            message = f"no jobs remain of {self.read:,}: {why}" if self.read else "holds no jobs"
            raise TraceProblemsError([Problem(None, message)], self.path)
        columns = {}
        for name in _COLUMNS:  # pop each column, so that at most one is in memory twice
            columns[name] = np.concatenate(self._parts.pop(name))
        order = np.argsort(columns["submit_s"], kind="stable")
        for name in _COLUMNS:
            columns[name] = columns[name][order]
        columns["submit_s"] -= columns["submit_s"][0]
        return ClusterJobs(**columns, read=self.read, dropped=self.dropped, notes=self.notes)


def gpus_of(shares: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Round requests for fractions of GPUs up to whole GPUs.

    Parameters
    ----------
    shares : ndarray of float, shape (jobs,)
        GPUs that each job requests, such as 0.5; NaN counts as 0.

    Returns
    -------
    gpus : ndarray of int, shape (jobs,)
    rounded : ndarray of bool, shape (jobs,)
        Whether the request was not a whole number.
    """
    known = np.where(np.isnan(shares), 0.0, shares)
    nearest = np.round(known)
    # Within a tolerance, as three times a third should be one.
    whole = np.abs(known - nearest) <= 1e-9 * np.maximum(1.0, nearest)
    gpus = np.minimum(np.where(whole, nearest, np.ceil(known)), _MOST_GPUS)
    return gpus.astype(np.int64), ~whole


def share_of(count: int, share: float) -> int:
    """Compute a share of a count, rounded down but for rounding errors; 0.29 of 100 is 29."""
    return math.floor(share * count + 1e-9)


def draw_single(sizes: NDArray[np.int64], share: float, rng: np.random.Generator
                ) -> NDArray[np.bool_]:
    """Draw the groups whose jobs have one GPU: in random order, as long as `share` allows."""
    single = np.zeros(len(sizes), dtype=bool)
    left = round(share * int(sizes.sum()))
    for group in rng.permutation(len(sizes)).tolist():
        if sizes[group] <= left:
            single[group] = True
            left -= int(sizes[group])
    return single
