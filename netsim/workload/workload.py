"""The jobs of a run, from jobs one by one or from arrays and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.base.arrays import Ints
from netsim.base.brief import MOST_ROWS, shown
from netsim.base.display import draw
from netsim.base.units import Quantity, format_count, parse_seconds
from netsim.base.values import (
    MOST_ID,
    as_choice,
    as_list,
    as_name,
    as_number,
    as_whole,
    convert,
    is_whole,
    known_names,
    refuse_twice,
)
from netsim.errors import InputError
from netsim.workload.columns import (
    Columns,
    Flows,
    GroupedFlows,
    column_names,
    flow_columns,
    grouped,
    weights_of,
    with_index,
)
from netsim.workload.history import UNKNOWN, History, group_number, joined
from netsim.workload.job import JobColumns, JobSpec, Stage, column, first_hosts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: Tolerance for a share times a number of jobs, as 0.29 * 100 is slightly less than 29.
_ROUNDING = 1e-9

#: What the sources and destinations in a table of flows may be.
_ENDPOINTS = ("hosts", "names", "ranks")


@known_names
@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A set of jobs.

    Attributes
    ----------
    jobs : tuple of JobSpec
        The jobs, sorted by (arrival, id). In a workload of `from_arrays`, or of `from_frame` with
        one coflow per job, a sequence that makes jobs when they are accessed.
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
        convert(self, "workload", name=as_name)
        owner = f"workload {self.name!r}"
        convert(self, owner, seed=as_whole)
        if isinstance(self.jobs, JobColumns):  # which are in order, and of different ids
            return
        jobs = as_list(self.jobs, f"{owner}: jobs", JobSpec, "JobSpec")
        if not jobs:
            raise InputError(f"{owner} has no jobs", "jobs")
        jobs = tuple(sorted(jobs, key=lambda job: (job.arrival_s, job.id)))
        object.__setattr__(self, "jobs", jobs)
        refuse_twice([job.id for job in jobs], f"{owner}: jobs need ids of their own, such as "
                                               "id=1; two jobs have the id")
        refuse_twice([stage.coflow_id for job in jobs for stage in job.stages
                       if stage.coflow_id is not None], f"{owner}: two coflows have the id")

    @classmethod
    @known_names
    def from_arrays(cls, src: ArrayLike, dst: ArrayLike, nbytes: ArrayLike | Quantity,
                    at_s: ArrayLike | Quantity = 0.0, *, weight: ArrayLike = 1.0,
                    name: str = "workload", seed: int = 0) -> Self:
        """Make a workload of independent flows, each a job of one coflow of one flow.

        The flows stay arrays, so that a million of them take little memory and time. Job k is the
        k-th flow; results list jobs in order of (arrival, id).

        Parameters
        ----------
        src, dst : array_like of int or str
            The source and the destination of each flow: hosts, by number, or by name on the network
            that the workload will run on.
        nbytes : array_like of float
            Sizes in bytes.
        at_s : array_like of float
            When each flow starts, in seconds; in any order.
        weight : array_like of float
            The weight of each job, `JobSpec.weight`.
        name, seed
            As for `Workload`.

        Returns
        -------
        Workload

        Raises
        ------
        InputError
            If there are no flows, lengths differ, or a value is invalid.

        Notes
        -----
        A single value, such as ``"10MB"``, applies to all flows. Rank r of each job runs on host r,
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
        name = as_name(name, "workload: name")
        flows, hosts = flow_columns([("src", src), ("dst", dst), ("nbytes", nbytes),
                                     ("at_s", at_s)], f"workload {name!r}")
        count = len(flows[0])
        one = Columns(*flows[:3], np.ones(count, np.int64), np.arange(count), flows[3],
                      np.full(count, -1), weights_of(weight, count, f"workload {name!r}: weight"),
                      hosts=hosts)
        return cls(JobColumns(one.in_order()), name, seed=seed)

    @classmethod
    @known_names
    def from_frame(cls, df: pd.DataFrame, *, src: str = "src", dst: str = "dst",
                   nbytes: str | None = None, start: str | None = "start_s",
                   coflow: str | None = None, job: str | None = None, weight: str | None = None,
                   endpoints: str = "hosts", name: str = "workload", seed: int = 0) -> Self:
        """Make a workload from a table with one row per flow.

        Parameters
        ----------
        df : pandas.DataFrame
            Levels of its index that have a name count as columns.
        src, dst : str
            Names of the columns of sources and destinations.
        nbytes : str, optional
            Name of the column of sizes in bytes; ``"nbytes"``, or else ``"bytes"``, if None.
        start : str or None
            Name of the column of starts in seconds. Without ``"start_s"``, or if None, all flows
            start at 0.
        coflow : str, optional
            Name of the column with the coflow of each flow; all flows of a coflow must have the
            same start. If None, ``"coflow"`` if there is one; else each flow is a coflow.
        job : str, optional
            Name of the column with the job of each coflow. A job arrives at the start of its first
            coflow, and is done when all its coflows have been sent. If None, ``"job"`` if there is
            one; else each coflow is a job.
        weight : str, optional
            Name of the column with the weight of each job, `JobSpec.weight`; all flows of a job
            must have the same. If None, all weights are 1.
        endpoints : {"hosts", "names", "ranks"}
            What sources and destinations are: hosts, by number or by name on the network; names of
            hosts, even if they are numbers; or ranks, which are counted from 0 in each job. The
            hosts of ranks are chosen when the workload runs: on a network by the seed of the run,
            on a cluster by its placement.
        name, seed
            As for `Workload`.

        Returns
        -------
        Workload

        Raises
        ------
        InputError
            If a column is missing, a value is invalid, a rank is not a number, or the flows of a
            coflow have several starts or jobs.

        Notes
        -----
        Labels of coflows and jobs that are whole numbers are their ids; a job has the id of its
        coflow if there is only a column of coflows. Other labels become the names of jobs, which
        are numbered in order of their first rows. If each job has one coflow between hosts, the
        workload is stored as columns, as with `from_arrays`. Otherwise jobs have a stage for each
        coflow, named after its label.

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
        owner = f"workload {as_name(name, 'workload: name')!r}"
        as_choice(endpoints, "endpoints", _ENDPOINTS)
        df = with_index(df)
        names = column_names(df, {"src": src, "dst": dst, "nbytes": nbytes, "start": start,
                                  "coflow": coflow, "job": job, "weight": weight}, owner)
        given: list[Any] = [(names[each], df[names[each]]) for each in ("src", "dst", "nbytes")]
        at = names["start"]
        given.append(("start", np.zeros(len(df))) if at is None else (at, df[at]))
        placed = endpoints != "ranks"
        if endpoints == "names":
            given[:2] = [(what, [str(int(each)) if is_whole(each) else each for each in ends])
                         for what, ends in given[:2]]
        flows, hosts = flow_columns(given, owner, names=placed)
        weights = np.ones(len(df)) if weight is None else weights_of(
            df[weight], len(df), f"{owner}: {weight}")
        jobs = _jobs_of(flows[:3], grouped(df, names, flows[3], weights, owner), hosts,
                        placed=placed)
        return cls(jobs, name, seed=seed)

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[JobSpec]:
        return iter(self.jobs)

    @overload
    def __getitem__(self, which: int) -> JobSpec: ...

    @overload
    def __getitem__(self, which: slice) -> Self: ...

    def __getitem__(self, which: int | slice) -> JobSpec | Self:
        """Return a job by its index in order of (arrival, id), or a workload of a slice of jobs."""
        if isinstance(which, slice):
            return self._of(np.arange(len(self))[which])
        return self.jobs[which]

    def __add__(self, other: Workload) -> Self:
        """Combine the jobs of two workloads, which share no ids, with the seed of the first one."""
        if not isinstance(other, Workload):
            return NotImplemented
        ids = set(column(self.jobs, "id"))
        for id in column(other.jobs, "id"):
            if id in ids:
                raise InputError(f"workloads {self.name!r} and {other.name!r} both have a job "
                                 f"{id}; ids from {max(ids) + 1} on are free, and "
                                 f".renumber({max(ids) + 1}) gives them")
        history = (joined(self.history, other.history) if self.history and other.history
                   else self.history or other.history)
        return replace(self, jobs=[*self.jobs, *other.jobs], history=history,
                       name=f"{self.name} + {other.name}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {format_count(len(self), 'job')}>"

    def _repr_html_(self) -> str:
        first = list(self.jobs[:MOST_ROWS])
        return shown(repr(self), {name: [getattr(job, name) for job in first] for name in (
            "id", "name", "arrival_s", "ranks", "iterations", "compute_s")}, len(self))

    def filter(self, keep: Callable[[JobSpec], Any]) -> Self:
        """Return the workload of the jobs for which a function returns a true value.

        Raises
        ------
        InputError
            If there is no such job.

        Examples
        --------
        >>> jobs = [JobSpec(k, pattern="all-to-all", ranks=2 + k, nbytes=1) for k in range(4)]
        >>> Workload(jobs).filter(lambda job: job.ranks > 3)
        <Workload 'workload': 2 jobs>
        """
        return self._of(np.flatnonzero([bool(keep(job)) for job in self.jobs]))

    def _of(self, places: Ints) -> Self:
        """Return the workload of the jobs with the given indices."""
        if not len(places):
            raise InputError(f"workload {self.name!r}: no job is left of {len(self):,}")
        jobs = self.jobs
        kept = (JobColumns(jobs.columns.of(places).in_order()) if isinstance(jobs, JobColumns)
                else [jobs[place] for place in places])
        return replace(self, jobs=kept)

    @known_names
    def renumber(self, first: int = 0) -> Self:
        """Return the same jobs with ids that count from `first`, in order of (arrival, id).

        Sizes that patterns draw depend on the id, so they change.
        """
        first = as_whole(first, "first", most=MOST_ID - len(self))
        jobs = self.jobs
        if isinstance(jobs, JobColumns):
            ids = np.arange(first, first + len(jobs))
            return replace(self, jobs=JobColumns(jobs.columns._replace(id=ids)))
        return replace(self, jobs=[replace(job, id=first + k) for k, job in enumerate(jobs)])

    @known_names
    def scale(self, *, time: float = 1.0, nbytes: float = 1.0, compute: float = 1.0) -> Self:
        """Return the same jobs with arrivals, sizes and computation multiplied by factors.

        Parameters
        ----------
        time : float
            Factor of arrivals and release times; with 0.5, jobs arrive twice as often.
        nbytes : float
            Factor of the bytes of flows and patterns. Sizes that are options of a pattern do not
            change.
        compute : float
            Factor of all seconds of computation.

        Raises
        ------
        InputError
            If a factor is not finite or is negative; or if `nbytes` or `compute` is not 1 for a job
            that trains a model, which determines both.

        Examples
        --------
        >>> Workload.from_arrays([0], [1], "1MB", 4.0).scale(time=0.5, nbytes=3)[0].arrival_s
        2.0
        """
        time, nbytes, compute = (as_number(factor, name, least=0) for name, factor in (
            ("time", time), ("nbytes", nbytes), ("compute", compute)))
        jobs = self.jobs
        if isinstance(jobs, JobColumns):
            columns = jobs.columns._replace(nbytes=jobs.columns.nbytes * nbytes,
                                            arrival_s=jobs.columns.arrival_s * time)
            return replace(self, jobs=JobColumns(columns.in_order()))
        return replace(self, jobs=[job.scaled(time, nbytes, compute) for job in jobs])

    @known_names
    def shift(self, time: Quantity = 0.0, *, ids: int = 0) -> Self:
        """Return the same jobs with later arrivals and larger ids.

        Sizes that patterns draw depend on the id, so they change with it.

        Parameters
        ----------
        time : quantity
            Added to all arrivals.
        ids : int
            Added to all ids.

        Raises
        ------
        InputError
            If `time` or `ids` is negative, or an id would be too large.

        Examples
        --------
        >>> later = Workload.from_arrays([0], [1], "1MB").shift("5s", ids=10)
        >>> later[0].id, later[0].arrival_s
        (10, 5.0)
        """
        seconds, jobs = parse_seconds(time, "time"), self.jobs
        ids = as_whole(ids, "ids", most=MOST_ID - int(max(column(jobs, "id"))))
        if isinstance(jobs, JobColumns):
            columns = jobs.columns._replace(id=jobs.columns.id + ids,
                                            arrival_s=jobs.columns.arrival_s + seconds)
            return replace(self, jobs=JobColumns(columns))
        return replace(self, jobs=[replace(job, id=job.id + ids, arrival_s=job.arrival_s + seconds)
                                   for job in jobs])

    @known_names
    def plot(self, of: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Draw how many jobs have arrived over time, and the distribution of their sizes.

        The size of a job is the bytes that it sends in all its iterations.

        Parameters
        ----------
        of : {"arrivals", "sizes"}, optional
            One of the two, without the other.
        ax : Axes, optional
            Axes to draw one of the two on, by default the arrivals; without, there is a new figure.

        Returns
        -------
        Axes
            Those of the arrivals, if they are drawn; their ``figure`` has both.

        Raises
        ------
        UnknownNameError
            If `of` is something else.
        MissingExtraError
            If matplotlib is not installed.
        InputError
            If sizes are to be drawn, and no job sends any bytes.
        """
        return draw(self, None, "workload", of, ax)

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row per flow, which `from_frame` and the format ``flows`` read.

        Returns
        -------
        pandas.DataFrame
            With the columns ``src``, ``dst``, ``bytes``, ``start_s``, ``coflow``, ``job`` and
            ``name``, job after job. Sources and destinations are hosts, as they were given. If no
            job has hosts, they are ranks, and `from_frame` needs ``endpoints="ranks"`` to read
            them.

        Raises
        ------
        InputError
            If a job does not only consist of flows that start at given times: if it computes,
            repeats, has stages that wait for others, or draws from a pattern. Also if only some of
            the jobs have hosts.

        Notes
        -----
        Weights and deadlines of coflows are not in the table, nor are ranks that neither send nor
        receive. `netsim.studies.convert.explicit`
        draws the stages of patterns, and places jobs.

        Examples
        --------
        >>> flows = Workload.from_arrays([0, 1], [1, 2], "1MB", at_s=[0.0, 2.5])
        >>> flows.to_frame()[["src", "dst", "bytes", "start_s"]]
           src  dst      bytes  start_s
        0    0    1  1000000.0      0.0
        1    1    2  1000000.0      2.5
        """
        import pandas as pd

        parts, number = [], count()
        placed = bool(self.jobs) and self.jobs[0].hosts is not None
        for job in self.jobs:
            job.check_flows_only()
            if (job.hosts is not None) != placed:
                raise InputError(f"job {job.id} has {'no ' * placed}hosts, and job "
                                 f"{self.jobs[0].id} has{' none' * (not placed)}: a table has "
                                 "either hosts or ranks")
            hosts = np.array(job.hosts if placed else range(job.ranks),
                             object if job.by_name else np.int64)
            for stage in job.stages:
                assert stage.flows is not None
                own = next(number) if stage.coflow_id is None else stage.coflow_id
                parts.append(pd.DataFrame({
                    "src": hosts[stage.flows.src], "dst": hosts[stage.flows.dst],
                    "bytes": stage.flows.nbytes, "start_s": job.arrival_s + stage.release_s,
                    "coflow": own, "job": job.id, "name": job.name}))
        return pd.concat(parts, ignore_index=True)


def _jobs_of(flows: Sequence[NDArray[Any]], groups: GroupedFlows, hosts: tuple[str | int, ...],
             *, placed: bool) -> Sequence[JobSpec]:
    """Make the jobs of grouped flows: columns if each is placed and has one coflow, else objects.

    `hosts` are the hosts behind the numbers in the flows, if they have names. Jobs that are not
    placed have no hosts, and the numbers are those of ranks.
    """
    src, dst, nbytes = (each[groups.rows] for each in flows)
    if placed and len(groups.id) == len(groups.job):
        return JobColumns(Columns(src, dst, nbytes, groups.counts, groups.id, groups.start_s,
                                  groups.coflow_id, groups.weight, groups.names, hosts
                                  ).in_order())
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
    of_ranks = (hosts or first_hosts(max(each.ranks for each in sent))) if placed else None
    names = groups.names
    return [JobSpec(int(number), float(arrival_s[k]), stages=stages[k], hosts=of_ranks,
                    name=names[k] if names else "", weight=float(groups.weight[k]))
            for k, number in enumerate(groups.id)]


def history_of(jobs: Collection[JobSpec]) -> History:
    """Make a history of jobs in the given order, with GPU-seconds if all of them have estimates."""
    count = len(jobs)
    known = all(job.estimate_s is not None for job in jobs)
    return History(
        np.fromiter((group_number(job.group) for job in jobs), np.int64, count),
        np.fromiter((UNKNOWN if job.user is None else job.user for job in jobs), np.int64, count),
        np.fromiter((job.iterations for job in jobs), np.float64, count),
        np.array([job.ranks * (job.estimate_s or 0.0) for job in jobs]) if known else None)


@known_names
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
    share = as_number(share, "share", above=0, below=1)
    count = math.floor(share * len(workload) + _ROUNDING)
    if not 0 < count < len(workload):
        raise InputError(f"workload {workload.name!r} has {len(workload):,} jobs, of which a "
                         f"share of {share:g} leaves none as history, or none to run", "share")
    known = history_of(workload.jobs[:count])
    if workload.history is not None:
        known = joined(workload.history, known)
    return replace(workload, jobs=workload.jobs[count:], history=known)
