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

#: Reasons for dropping a job that several formats share.
NO_SUBMIT = "no submission time"
UNFINISHED = "did not finish"
FAILED = "failed or was cancelled"
NO_GPU = "requested no GPU"
NO_TIME = "no running time"

_COUNTED_GPUS = 10**6
_COLUMNS = {"submit_s": np.float64, "duration_s": np.float64, "gpus": np.int32,
            "group": np.int32, "user": np.int32}


@dataclass(frozen=True, slots=True, eq=False)
class ClusterJobs:
    """The jobs of a trace that remain after cleaning, as columns in order of submission.

    Groups and users are numbered from 0 in the order in which they first occur in the file.
    """

    submit_s: NDArray[np.float64]  #: since the first job's submission
    duration_s: NDArray[np.float64]  #: running time, without waiting
    gpus: NDArray[np.int32]
    group: NDArray[np.int32]  #: the jobs of a group are submissions of the same job
    user: NDArray[np.int32]
    read: int  #: number of jobs in the file
    dropped: Mapping[str, int]  #: jobs dropped for each reason; the first that applies
    notes: Mapping[str, int]  #: jobs kept with a change, such as rounded GPUs

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

    The counts are those of `ClusterJobs`.
    """

    path: str | Path  #: for error messages
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
        """Add a chunk of jobs, with masks of those to drop and those that were changed, by reason.

        A job counts under the first of the `rules` that applies. The columns are those of
        `ClusterJobs`, but `submit_s` may count from any origin.
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
        """Return the remaining jobs in order of submission. Can be called once, at the end."""
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
    """Round requests for fractions of GPUs up; return the GPUs, and whether they were rounded.

    NaN counts as no GPU.
    """
    known = np.where(np.isnan(shares), 0.0, shares)
    nearest = np.round(known)
    # Within a tolerance, as three times a third should be one.
    whole = np.abs(known - nearest) <= 1e-9 * np.maximum(1.0, nearest)
    gpus = np.minimum(np.where(whole, nearest, np.ceil(known)), _COUNTED_GPUS)
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
