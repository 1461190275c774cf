"""The input of a simulation, as immutable data: flows, stages, jobs and workloads.

A job is a DAG of *stages* that repeats for a number of iterations. A stage computes for some time
and then emits one *coflow*: a set of flows that the job needs finished together. Flows are between
*ranks*, the processes of the job; a placement gives the host on which each rank runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.brief import brief
from netsim.checks import (
    MOST_ID,
    check_name,
    check_sequence,
    check_whole,
    parents_first,
    refuse_twice,
)
from netsim.columns import (
    Columns,
    Flow,
    Flows,
    GroupedFlows,
    column_names,
    flow_columns,
    grouped,
)
from netsim.errors import InputError, UnknownNameError
from netsim.forking import same
from netsim.history import UNKNOWN, History, joined
from netsim.models import ParallelModel
from netsim.operations import Operations
from netsim.plain import plain_numbers
from netsim.plugins import parse_named
from netsim.stage import Stage
from netsim.units import Quantity, parse_bytes, parse_seconds

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["UNKNOWN", "Flow", "Flows", "History", "JobColumns", "JobSpec", "Stage", "Workload",
           "column", "delays_stages", "history_of", "split_history"]

#: Tolerance for a share times a number of jobs, as 0.29 * 100 is slightly less than 29.
_ROUNDING = 1e-9


@plain_numbers
@dataclass(frozen=True, slots=True, eq=False)
class JobSpec:
    """A training job: when it arrives, and what it computes and sends in its iterations.

    Exactly one of `stages`, `pattern`, `model` and `operations` describes an iteration. Quantities
    may be given with units, such as ``"5s"``.

    Attributes
    ----------
    id : int
        Unique in the workload; ties between jobs are broken by arrival, then id.
    arrival_s : float
        When the job arrives, in seconds.
    iterations : int
        Number of iterations; each starts when the previous one has ended, unless stages say for
        which they wait.
    stages : tuple of Stage
        The stages of an iteration, with flows between ranks.
    pattern : str, mapping or object, optional
        A communication pattern by name (``"ring-all-reduce"``) or ``"module:Class"``, by name and
        options (``"parameter-server:servers=2"`` or
        ``{"name": "parameter-server", "servers": 2}``), a class, or an instance.
    ranks : int, optional
        Number of ranks; derived from explicit stages or the model.
    nbytes : float
        Bytes passed to the pattern, which defines their meaning.
    compute_s : float
        Seconds of computation at the begin of each iteration, before its first coflows.
    redraw : bool
        Whether the pattern draws new random sizes in each iteration.
    hosts : tuple of int, optional
        The host of each rank; chosen by the simulation if None.
    name : str
        A label, such as the model's name.
    estimate_s : float, optional
        The job's duration in seconds as schedulers estimate it.
    group, user : int, optional
        The group of recurring jobs to which the job belongs, and the user who submitted it;
        predictors use both.
    model : ParallelModel, optional
        The model that is trained, with a rank for each slice of each replica, stage by stage.
    operations : Operations, optional
        What ranks compute and send, as columns; see `netsim.operations.Operations`.
    state_bytes : float, optional
        Bytes that the job moves if it is preempted and comes back on other servers; by default
        what the run says.
    """

    id: int
    arrival_s: float = 0.0
    iterations: int = 1
    stages: Sequence[Stage] = ()
    pattern: str | Mapping[str, Any] | Any | None = None
    ranks: int = 0
    nbytes: float = 0.0
    compute_s: float = 0.0
    redraw: bool = False
    hosts: Sequence[int] | None = None
    name: str = ""
    estimate_s: float | None = None
    group: int | None = None
    user: int | None = None
    model: ParallelModel | None = None
    state_bytes: float | None = None
    operations: Operations | None = None
    __repr__ = brief
    __deepcopy__ = same

    def __post_init__(self) -> None:
        owner = f"job {self.id}"
        object.__setattr__(self, "stages", check_sequence(self.stages, Stage, f"{owner}: stages",
                                                     "Stage"))
        if isinstance(self.pattern, str) and "=" in self.pattern:  # so that its name can be read
            object.__setattr__(self, "pattern", parse_named(self.pattern))
        given = (bool(self.stages) + (self.pattern is not None) + (self.model is not None)
                 + (self.operations is not None))
        if given != 1:
            raise InputError(f"{owner}: give either stages, a pattern, a model or operations")
        check_whole(self.id, f"{owner}: id", most=MOST_ID)
        check_name(self.name, f"{owner}: name")
        check_whole(self.iterations, f"{owner}: iterations", 1)
        for name, parse in (("arrival_s", parse_seconds), ("nbytes", parse_bytes),
                            ("compute_s", parse_seconds)):
            object.__setattr__(self, name, parse(getattr(self, name), f"{owner}: {name}"))
        if self.estimate_s is not None:
            object.__setattr__(self, "estimate_s", parse_seconds(
                self.estimate_s, f"{owner}: estimate_s", strict=True))
        if self.state_bytes is not None:
            object.__setattr__(self, "state_bytes", parse_bytes(
                self.state_bytes, f"{owner}: state_bytes"))
        for name in ("group", "user"):
            if getattr(self, name) is not None:
                check_whole(getattr(self, name), f"{owner}: {name}", most=MOST_ID)
        self._check_stages(owner)
        self._check_ranks(owner)
        if self.hosts is not None:
            self._check_hosts(owner)

    def _check_ranks(self, owner: str) -> None:
        check_whole(self.ranks, f"{owner}: ranks", 0 if self.pattern is None else 1)
        needed = max([s.flows.ranks for s in self.stages if s.flows is not None]
                     + [max(s.ranks) + 1 for s in self.stages if s.ranks], default=0)
        if self.operations is not None:
            if not isinstance(self.operations, Operations):
                raise InputError(f"{owner}: operations must be Operations, not "
                                 f"{self.operations!r}")
            needed = self.operations.ranks
        if self.model is not None:
            if not isinstance(self.model, ParallelModel):
                raise InputError(f"{owner}: model must be a ParallelModel, as made by "
                                 f"netsim.make_model, not {self.model!r}")
            needed = self.model.gpus
            if self.ranks not in (0, needed):
                raise InputError(f"{owner}: its model needs {needed} ranks, not {self.ranks}")
        object.__setattr__(self, "ranks", max(self.ranks, needed))

    def _check_stages(self, owner: str) -> None:
        parents_first([stage.name for stage in self.stages],
                      [(*stage.after, *stage.finishes_before) for stage in self.stages], owner)
        self._check_ranked(owner)
        own = next((stage for stage in self.stages if stage.coflow_id is not None), None)
        if own is not None and self.iterations > 1:
            raise InputError(f"{owner}: stage {own.name!r} has the coflow_id {own.coflow_id}, "
                             f"which {self.iterations} iterations would repeat; leave it out")

    def _check_ranked(self, owner: str) -> None:
        """Check stages that say on which ranks they compute, or what they wait for before."""
        ranked = any(stage.ranks or stage.after_previous for stage in self.stages)
        if not (ranked or self.operations is not None):
            return
        if self.compute_s:
            raise InputError(f"{owner}: compute_s is on no rank; its stages say what ranks compute")
        names = {stage.name for stage in self.stages}
        for stage in self.stages:
            if unknown := [name for name in stage.after_previous if name not in names]:
                raise UnknownNameError(f"{owner}: after_previous of stage {stage.name!r}",
                                       unknown[0], names)
            for key in ("finishes_before", "release_s", "coflow_id", "intra_server"):
                if getattr(stage, key):
                    raise InputError(f"{owner}: stage {stage.name!r} has {key}, which stages of a "
                                     "job whose ranks compute, or whose iterations overlap, cannot "
                                     "have")

    def _check_hosts(self, owner: str) -> None:
        what = f"{owner}: hosts"
        hosts = check_sequence(self.hosts, int | np.integer, what, "whole numbers")
        if len(hosts) < self.ranks:
            raise InputError(f"{owner}: {self.ranks} ranks need {self.ranks} hosts, not "
                             f"{len(hosts)}")
        kinds = set(map(type, hosts))
        if min(hosts, default=0) < 0 or bool in kinds:
            wrong = next(host for host in hosts if host < 0 or isinstance(host, bool))
            raise InputError(f"{what} must be whole numbers of at least 0, not {wrong!r}")
        same = _interned(hosts if kinds == {int} else tuple(map(int, hosts)))
        object.__setattr__(self, "hosts", same)


@lru_cache(maxsize=256)
def _interned(hosts: tuple[int, ...]) -> tuple[int, ...]:
    """Return an equal tuple that all jobs on these hosts share, to save memory."""
    return hosts


class JobColumns(Sequence[JobSpec]):
    """Jobs of one coflow each, as columns; a `JobSpec` is made when somebody asks for it.

    Rank r of each job runs on host r.

    Parameters
    ----------
    columns : Columns
        The jobs, in order of (arrival, id).

    Attributes
    ----------
    hosts : int
        Number of hosts that the jobs need: the largest one's number plus 1.
    """

    #: The name of the stage of each job.
    STAGE = "coflow"

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        for array in columns[:-1]:
            array.setflags(write=False)
        self.hosts = int(max(columns.src.max(), columns.dst.max())) + 1
        self._first = np.cumsum(columns.counts) - columns.counts
        self._made: dict[int, JobSpec] = {}

    def __len__(self) -> int:
        return len(self.columns.id)

    @overload
    def __getitem__(self, which: int) -> JobSpec: ...

    @overload
    def __getitem__(self, which: slice) -> tuple[JobSpec, ...]: ...

    def __getitem__(self, which: int | slice) -> JobSpec | tuple[JobSpec, ...]:
        places = range(len(self))[which]
        return self._job(places) if isinstance(places, int) else tuple(map(self._job, places))

    def __iter__(self) -> Iterator[JobSpec]:
        return map(self._job, range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self):,} jobs of one coflow>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.columns,)

    def _job(self, k: int) -> JobSpec:
        """Return a job, always the same."""
        if k not in self._made:
            columns, name = self.columns, self.columns.names[k] if self.columns.names else ""
            sent = slice(self._first[k], self._first[k] + columns.counts[k])
            flows = Flows(columns.src[sent], columns.dst[sent], columns.nbytes[sent])
            own = int(columns.coflow_id[k])
            stage = Stage(self.STAGE, flows, coflow_id=None if own < 0 else own)
            self._made[k] = JobSpec(int(columns.id[k]), float(columns.arrival_s[k]), name=name,
                                    stages=[stage], hosts=_first_hosts(self.hosts))
        return self._made[k]

    def column(self, name: str) -> Sequence[Any]:
        """Return an attribute of all jobs: the id, arrival, name, ranks or iterations."""
        columns = self.columns
        known: dict[str, Callable[[], Any]] = {
            "id": lambda: columns.id, "arrival_s": lambda: columns.arrival_s,
            "name": lambda: columns.names or [""] * len(self),
            "ranks": lambda: 1 + np.maximum.reduceat(np.maximum(columns.src, columns.dst),
                                                     self._first),
            "iterations": lambda: [1] * len(self)}
        found: Sequence[Any] = known[name]()
        return found


@lru_cache(maxsize=16)
def _first_hosts(count: int) -> tuple[int, ...]:
    return _interned(tuple(range(count)))


def column(jobs: Sequence[Any], name: str) -> Sequence[Any]:
    """Return an attribute of all jobs, without making those that are held as columns.

    Parameters
    ----------
    jobs : sequence of JobSpec or EdgeJob
    name : {"id", "arrival_s", "name", "ranks", "iterations"}
        Of jobs that are objects, any attribute.
    """
    if isinstance(jobs, JobColumns):
        return jobs.column(name)
    return [getattr(job, name) for job in jobs]


def delays_stages(jobs: Sequence[Any]) -> bool:
    """Whether a stage of a job has an overhead of its own; those that patterns make are unknown."""
    return not isinstance(jobs, JobColumns) and any(
        stage.overhead_s for job in jobs for stage in job.stages)


@plain_numbers
@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A set of jobs.

    Attributes
    ----------
    jobs : tuple of JobSpec
        The jobs, sorted by (arrival, id). Of `from_arrays`, and of `from_frame` where each job has
        one coflow, a sequence that makes jobs when they are asked for.
    name : str
        A label for results.
    seed : int
        Seed of the sizes that patterns draw; a job's draws depend on the seed and the job's id.
    history : History, optional
        Past jobs, for schedulers that predict iterations.
    """

    jobs: Sequence[JobSpec]
    name: str = "workload"
    seed: int = field(default=0, kw_only=True)
    history: History | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.name, "workload: name")
        owner = f"workload {self.name!r}"
        check_whole(self.seed, f"{owner}: seed")
        if isinstance(self.jobs, JobColumns):  # which are in order, and of different ids
            return
        jobs = check_sequence(self.jobs, JobSpec, f"{owner}: jobs", "JobSpec")
        if not jobs:
            raise InputError(f"{owner} has no jobs")
        jobs = tuple(sorted(jobs, key=lambda job: (job.arrival_s, job.id)))
        object.__setattr__(self, "jobs", jobs)
        refuse_twice([job.id for job in jobs], f"{owner}: two jobs have the id")
        refuse_twice([stage.coflow_id for job in jobs for stage in job.stages
                       if stage.coflow_id is not None], f"{owner}: two coflows have the id")

    @classmethod
    def from_arrays(cls, src: ArrayLike, dst: ArrayLike, nbytes: ArrayLike | Quantity,
                    at_s: ArrayLike | Quantity = 0.0, *, name: str = "workload", seed: int = 0
                    ) -> Self:
        """Make a workload of independent flows, each a job of one coflow of one flow.

        The flows stay arrays, so that a million of them take little memory and time. Job k is the
        k-th flow; results list jobs in order of (arrival, id).

        Parameters
        ----------
        src, dst : array_like of int
            Hosts; the source and the destination of each flow.
        nbytes : array_like of float
            Sizes in bytes.
        at_s : array_like of float
            When each flow starts, in seconds; in any order.
        name, seed
            As of other workloads.

        Returns
        -------
        Workload

        Raises
        ------
        InputError
            If there are no flows, lengths differ, or a value is none that a flow can have.

        Notes
        -----
        A single value, such as ``"10MB"``, is that of all flows. Rank r of each job runs on host r,
        and its stage is named ``"coflow"``.

        Examples
        --------
        >>> import netsim
        >>> flows = netsim.Workload.from_arrays([0, 0, 1], [1, 2, 2], "1MB", at_s=[0.0, 0.5, 0.0])
        >>> netsim.simulate(netsim.big_switch(3, "8Mbps"), flows).jobs[["job", "finish_s"]]
           job  finish_s
        0    0       1.5
        1    2       1.5
        2    1       2.0
        """
        check_name(name, "workload: name")
        flows = flow_columns([("src", src), ("dst", dst), ("nbytes", nbytes), ("at_s", at_s)],
                             f"workload {name!r}")
        count = len(flows[0])
        one = Columns(*flows[:3], np.ones(count, np.int64), np.arange(count), flows[3],
                      np.full(count, -1))
        return cls(JobColumns(one.in_order()), name, seed=seed)

    @classmethod
    def from_frame(cls, df: pd.DataFrame, *, src: str = "src", dst: str = "dst",
                   nbytes: str | None = None, start: str | None = "start_s",
                   coflow: str | None = None, job: str | None = None, name: str = "workload",
                   seed: int = 0) -> Self:
        """Make a workload of a table with a row for each flow.

        Parameters
        ----------
        df : pandas.DataFrame
        src, dst : str
            Names of the columns of sources and destinations; numbers of hosts.
        nbytes : str, optional
            Name of the column of sizes in bytes; ``"nbytes"``, or else ``"bytes"``, if None.
        start : str or None
            Name of the column of starts in seconds; if None, all flows start at 0.
        coflow : str, optional
            Name of the column that says to which coflow a flow belongs; all flows of a coflow have
            the same start. If None, each flow is a coflow.
        job : str, optional
            Name of the column that says to which job a coflow belongs. A job arrives at the start
            of its first coflow, and is done when all have been sent. If None, each coflow is
            a job.
        name, seed
            As of other workloads.

        Returns
        -------
        Workload

        Raises
        ------
        InputError
            If a column is not there, a value is none that a flow can have, or the flows of a coflow
            have several starts or jobs.

        Notes
        -----
        Labels of coflows and jobs that are whole numbers are their ids; a job has the id of its
        coflow if there is only a column of coflows. Other labels become the names of jobs, which
        are numbered in order of their first rows. Where each job has one coflow, the workload stays
        columns, as that of `from_arrays`; other jobs have a stage for each coflow, with its label
        as its name.

        Examples
        --------
        >>> import netsim, pandas
        >>> flows = pandas.DataFrame({"src": [0, 1, 0], "dst": [2, 2, 1], "bytes": 1e6,
        ...                           "start_s": [0, 0, 3.0], "shuffle": ["a", "a", "b"]})
        >>> workload = netsim.Workload.from_frame(flows, coflow="shuffle")
        >>> netsim.simulate(netsim.big_switch(3, "8Mbps"), workload).jobs[["name", "finish_s"]]
          name  finish_s
        0    a       2.0
        1    b       4.0
        """
        check_name(name, "workload: name")
        owner = f"workload {name!r}"
        names = column_names(df, {"src": src, "dst": dst, "nbytes": nbytes, "start": start,
                                  "coflow": coflow, "job": job}, owner)
        given: list[Any] = [(names[each], df[names[each]]) for each in ("src", "dst", "nbytes")]
        given.append(("start", np.zeros(len(df))) if start is None else (start, df[start]))
        flows = flow_columns(given, owner)
        jobs = _jobs_of(flows[:3], grouped(df, names, flows[3], owner))
        return cls(jobs, name, seed=seed)

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[JobSpec]:
        return iter(self.jobs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {len(self):,} jobs>"


def _jobs_of(flows: Sequence[NDArray[Any]], groups: GroupedFlows) -> Sequence[JobSpec]:
    """Make the jobs of flows that are grouped: columns if each has one coflow, else objects."""
    src, dst, nbytes = (each[groups.rows] for each in flows)
    if len(groups.id) == len(groups.job):
        return JobColumns(Columns(src, dst, nbytes, groups.counts, groups.id, groups.start_s,
                                  groups.coflow_id, groups.names).in_order())
    stops = np.cumsum(groups.counts)
    sent = [Flows(src[first:stop], dst[first:stop], nbytes[first:stop])
            for first, stop in zip(stops - groups.counts, stops, strict=True)]
    arrival_s = np.full(len(groups.id), np.inf)
    np.minimum.at(arrival_s, groups.job, groups.start_s)
    release_s = groups.start_s - arrival_s[groups.job]
    stages: list[list[Stage]] = [[] for _ in groups.id]
    for k, (job, own) in enumerate(zip(groups.job, groups.coflow_id, strict=True)):
        stages[job].append(Stage(str(groups.labels[k]), sent[k], release_s=float(release_s[k]),
                                 coflow_id=None if own < 0 else own))
    hosts, names = _first_hosts(max(each.ranks for each in sent)), groups.names
    return [JobSpec(int(number), float(arrival_s[k]), stages=stages[k], hosts=hosts,
                    name=names[k] if names else "") for k, number in enumerate(groups.id)]


def history_of(jobs: Collection[JobSpec]) -> History:
    """Make a history of jobs: groups, users, iterations, and GPU-seconds if all have estimates.

    Parameters
    ----------
    jobs : collection of JobSpec
        Jobs in any order, which is kept. Jobs without a group or user get `UNKNOWN`.

    Returns
    -------
    History
    """
    count = len(jobs)
    known = all(job.estimate_s is not None for job in jobs)
    return History(
        np.fromiter((UNKNOWN if job.group is None else job.group for job in jobs), np.int64, count),
        np.fromiter((UNKNOWN if job.user is None else job.user for job in jobs), np.int64, count),
        np.fromiter((job.iterations for job in jobs), np.float64, count),
        np.array([job.ranks * (job.estimate_s or 0.0) for job in jobs]) if known else None)


@plain_numbers
def split_history(workload: Workload, share: float = 0.8) -> Workload:
    """Split a workload: its later jobs become a workload with the earlier ones as history.

    Jobs keep their ids and arrivals. The history is known from the start, as if all its jobs had
    ended before the first remaining job arrives.

    Parameters
    ----------
    workload : Workload
        The workload, whose jobs are split in order of (arrival, id). If it already has a history,
        the new one is appended to it.
    share : float
        Share of the jobs that become history, rounded down; between 0 and 1.

    Returns
    -------
    Workload
        The later jobs, with the same name and seed.

    Raises
    ------
    InputError
        If the share is out of range, or one of the parts would be empty.

    Examples
    --------
    >>> jobs = [JobSpec(id, id, iterations=5, pattern="ring-all-reduce", ranks=1, group=id % 2)
    ...         for id in range(10)]
    >>> later = split_history(Workload(jobs))
    >>> [job.id for job in later], later.history.group.tolist()
    ([8, 9], [0, 1, 0, 1, 0, 1, 0, 1])
    """
    if not (isinstance(share, float | np.floating) and 0 < share < 1):
        raise InputError(f"the share of jobs that become history must be a number between 0 and "
                         f"1, such as 0.8, not {share!r}")
    count = math.floor(share * len(workload) + _ROUNDING)
    if not 0 < count < len(workload):
        raise InputError(f"workload {workload.name!r} has {len(workload):,} jobs, of which a "
                         f"share of {share:g} leaves none as history, or none to run")
    known = history_of(workload.jobs[:count])
    if workload.history is not None:
        known = joined(workload.history, known)
    return replace(workload, jobs=workload.jobs[count:], history=known)
