"""The jobs of a GPU cluster's trace as columns, and formats that are one table of jobs.

Such a format is a `JobTable`: what its columns mean, which jobs are dropped, and what tells its
groups. Jobs dropped while cleaning are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.brief import brief
from netsim.base.reading import NumberRange, Problem, TraceProblemsError
from netsim.base.values import as_flag
from netsim.traces.cluster.tables import Chunk, read_table

# --- jobs as columns -----------------------------------------------------------------------

#: Reasons for dropping a job that several formats share.
NO_SUBMIT = "no submission time"

UNFINISHED = "did not finish"

FAILED = "failed or was cancelled"

NO_GPU = "requested no GPU"

NO_TIME = "no running time"

#: The key of `ClusterJobs.notes` for jobs that request a fraction of a GPU.
ROUNDED = "a fraction of a GPU, rounded up"

_COUNTED_GPUS = 10**6

_COLUMNS = {"submit_s": np.float64, "duration_s": np.float64, "gpus": np.int32,
            "group": np.int32, "user": np.int32}


@dataclass(frozen=True, slots=True, eq=False)
class ClusterJobs:
    """The jobs of a trace that remain after cleaning, as columns in order of submission.

    Groups and users are numbered from 0 in the order in which they first occur in the file.
    """

    submit_s: Floats  #: since the first job's submission
    duration_s: Floats  #: running time, without waiting
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
class JobCollector:
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
        rules: Mapping[str, Bools],
        notes: Mapping[str, Bools] | None = None,
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


def violations(submit: Floats, duration: Floats, gpus: NDArray[np.generic], finished: Bools,
               failed: Bools | bool) -> dict[str, Bools]:
    """Find the jobs that each of the shared reasons drops, in the order in which they count."""
    return {NO_SUBMIT: np.isnan(submit), UNFINISHED: ~finished, FAILED: finished & failed,
            NO_GPU: gpus == 0, NO_TIME: duration <= 0}


def gpus_of(shares: Floats) -> tuple[Ints, Bools]:
    """Round requests for fractions of GPUs up; return the GPUs, and whether they were rounded.

    NaN counts as no GPU.
    """
    known = np.where(np.isnan(shares), 0.0, shares)
    nearest = np.round(known)
    # Within a tolerance, as three times a third should be one.
    whole = np.abs(known - nearest) <= 1e-9 * np.maximum(1.0, nearest)
    gpus = np.minimum(np.where(whole, nearest, np.ceil(known)), _COUNTED_GPUS)
    return gpus.astype(np.int64), ~whole


# --- tables of jobs ------------------------------------------------------------------------
class Column(NamedTuple):
    """A column to parse: numbers in a range, or dates."""

    name: str
    allowed: NumberRange | None = None  #: None for dates
    blank: bool = False  #: whether cells may be blank, as those of dates may

    def parse(self, rows: Chunk) -> Floats:
        """Parse the column of some rows; blank cells become NaN, and dates seconds since 1970."""
        if self.allowed is None:
            return rows.times(self.name)
        return rows.numbers(self.name, self.allowed, blank=self.blank)


#: Parsed columns of some rows, by their use.
Parsed = Mapping[str, Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTable:
    """A format that is one table, or can be read as one, with a job in each row."""

    #: The columns of the header, in any order; others are ignored.
    columns: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    #: What is parsed, by its use: the job's ``"submit"``; its ``"duration"`` or its ``"start"`` and
    #: ``"end"``, or all three; its ``"gpus"``; and what `gpus` counts them from.
    parsed: Mapping[str, Column]
    #: Counts each job's GPUs, and tells where a fraction was rounded up, if any may be; by default
    #: ``"gpus"``.
    gpus: Callable[[Parsed], tuple[NDArray[np.generic], Bools | None]] | None = None
    #: The column with a job's state. Jobs in none of the states that follow did not finish.
    state: str = ""
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    #: Reasons for dropping jobs; one counts under the first that applies.
    drops: tuple[str, ...] = (NO_SUBMIT, UNFINISHED, FAILED, NO_GPU, NO_TIME)
    #: Finds the jobs that reasons of this format alone drop.
    also: Mapping[str, Callable[[Chunk], Bools]] = field(default_factory=dict)
    #: Names the group of each job: those of a group are submissions of the same job.
    group: Callable[[Chunk, Parsed], Iterable[Hashable]]
    user: str = ""  #: a column; without one, all jobs belong to one user
    #: Reads the rows of files that are no table with a header.
    rows: Callable[[str | Path], Iterator[Chunk]] | None = None

    def read(self, path: str | Path, *, failed: bool = False) -> ClusterJobs:
        """Read the jobs of a file, and drop some of them: those that failed, unless `failed`."""
        keep_failed = as_flag(failed, "failed")
        collector, groups, users = JobCollector(path), Codes(), Codes()
        for rows in (read_table(path, self.columns, self.optional) if self.rows is None else
                     self.rows(path)):
            parsed = {use: column.parse(rows) for use, column in self.parsed.items()}
            duration = (parsed["duration"] if "duration" in parsed else
                        parsed["end"] - parsed["start"])
            gpus, rounded = (parsed["gpus"], None) if self.gpus is None else self.gpus(parsed)
            finished = ~np.isnan(duration + sum(
                parsed[use] for use in ("start", "end") if use in parsed))
            failures: Bools | bool = False
            if self.state:
                finished &= rows.are(self.state, *self.succeeded, *self.failed)
                failures = rows.are(self.state, *self.failed) & (not keep_failed)
            violates = violations(parsed["submit"], duration, gpus, finished, failures)
            violates |= {reason: found(rows) for reason, found in self.also.items()}
            collector.add(
                {reason: violates[reason] for reason in self.drops},
                None if rounded is None else {ROUNDED: rounded},
                submit_s=parsed["submit"], duration_s=duration, gpus=gpus,
                group=groups.of(self.group(rows, parsed)),
                user=(users.of(rows.cells[self.user]) if self.user else
                      np.zeros(len(rows), dtype=np.int32)))
        return collector.jobs()


def same_cells(*columns: str) -> Callable[[Chunk, Parsed], Iterable[Hashable]]:
    """Make a group of all jobs with the same cells in these columns."""
    return lambda rows, _: rows.texts(*columns)

