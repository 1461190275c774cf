"""A job, as immutable data: when it arrives, and what it computes and sends, stage by stage."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, overload

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.brief import brief
from netsim.base.plugins import parse_named
from netsim.base.units import Quantity, format_count, parse_bytes, parse_seconds
from netsim.base.values import (
    LARGEST,
    MOST_ID,
    about,
    as_collection,
    as_flag,
    as_label,
    as_list,
    as_name,
    as_weight,
    as_whole,
    convert,
    known_names,
    node_name,
    optional,
    parents_first,
    plain,
    refuse_twice,
    same,
)
from netsim.errors import InputError, NetsimWarning
from netsim.models import ParallelModel
from netsim.workload.columns import Columns, Flows
from netsim.workload.operations import Operations, Programs


# --- stages --------------------------------------------------------------------------------
@known_names
@dataclass(frozen=True, slots=True, eq=False, init=False)
class Stage:
    """A node of a job's per-iteration DAG: compute, then one coflow.

    Attributes
    ----------
    name : str
        Unique within the job.
    flows : Flows or None
        The stage's coflow, with flows between ranks; may be given as tuples (src, dst, nbytes),
        as in ``(0, 1, "1GB")``. None if the stage only computes. A coflow without bytes
        completes as soon as it is valid.
    compute_s : float
        Seconds of computation before the coflow becomes valid.
    after : tuple of str
        Stages of the same iteration that must complete before this one starts.
    finishes_before : tuple of str
        Stages of the same iteration that must finish before this one does: the coflow runs
        in parallel with them, and completes when its bytes are sent and they have finished.
    release_s : float
        Seconds after the job's arrival before which the stage cannot start.
    weight : float
        How much the coflow counts among those of its job, for policies that use weights; its own
        weight is this times that of the job, `JobSpec.weight`.
    coflow_id : int or None
        The coflow's id in results, unique in the workload, and thus possible only for a job of
        one iteration. If None, coflows are numbered by job, iteration and stage, after these ids.
    deadline_s : float or None
        Seconds after the coflow has become valid by which it should finish; None for no deadline.
    intra_server : bool
        Whether the stage represents traffic inside servers, in parallel with a job's coflows. It
        sends nothing over the network, and is not counted when coflows are numbered.
    steps : tuple of (ndarray of int, int)
        The steps of a collective, if the coflow merges several: for each kind of step, the indices
        of its flows, and the number of steps of this kind. Empty if the coflow is a single step.
        The overhead of the coflow includes that of all steps, see
        `netsim.network.Wire.overhead_of`.
    overhead_s : float or None
        Seconds of software and launch between the time when the coflow becomes valid and its first
        byte; no bandwidth is used meanwhile. None for the network's value. Ignored if no flow
        crosses a link.
    ranks : tuple of int
        The ranks that each compute for `compute_s`, when it is their turn, before the coflow
        becomes valid. Empty if the computation belongs to no particular rank.
    stream : str
        Computations on the same stream of a rank take turns, in the order in which they could
        begin, then in the order of stages. Different streams run in parallel.
    after_previous : tuple of str
        Stages of the previous iteration that must complete before this one starts. A stage with
        neither `after` nor this waits for the whole previous iteration.
    continues : bool
        Whether the coflow is a later part of a collective, which needs no launch of its own; see
        `netsim.network.Protocol`.
    """

    name: str
    flows: Flows | None
    compute_s: float
    after: tuple[str, ...]
    finishes_before: tuple[str, ...]
    release_s: float
    weight: float
    coflow_id: int | None
    deadline_s: float | None
    intra_server: bool
    steps: tuple[tuple[Ints, int], ...]
    overhead_s: float | None
    ranks: tuple[int, ...]
    stream: str
    after_previous: tuple[str, ...]
    continues: bool
    __repr__ = brief
    __deepcopy__ = same

    def __init__(self, name: str, flows: Flows | Iterable[tuple[int, int, Quantity]] | None = None,
                 compute_s: Quantity = 0.0, after: Iterable[str] = (),
                 finishes_before: Iterable[str] = (), release_s: Quantity = 0.0,
                 weight: float = 1.0, coflow_id: int | None = None,
                 deadline_s: Quantity | None = None, *, intra_server: bool = False,
                 steps: tuple[tuple[Ints, int], ...] = (),
                 overhead_s: Quantity | None = None, ranks: Iterable[int] = (),
                 stream: str = "compute", after_previous: Iterable[str] = (),
                 continues: bool = False) -> None:
        owner = f"stage {name!r}"
        for field, value in zip(self.__slots__, (
                name, flows, compute_s, after, finishes_before, release_s, weight, coflow_id,
                deadline_s, intra_server, steps, overhead_s, ranks, stream, after_previous,
                continues), strict=True):
            object.__setattr__(self, field, value)
        convert(self, owner, **_OF_STAGES)
        if intra_server and flows is not None:
            raise InputError(f"{owner}: a stage inside servers cannot have flows", "flows")

    def again(self, name: str, after: tuple[str, ...]) -> Stage:
        """Return the same stage with another name and other predecessors, which are not checked."""
        other = object.__new__(Stage)
        for field_name in self.__slots__:
            object.__setattr__(other, field_name, getattr(self, field_name))
        object.__setattr__(other, "name", name)
        object.__setattr__(other, "after", after)
        return other

    def scaled(self, time: float, nbytes: float, compute: float) -> Stage:
        """Return the same stage with its release, bytes and computation multiplied by factors."""
        other = self.again(self.name, self.after)
        flows = self.flows
        if flows is not None:
            flows = Flows(flows.src, flows.dst, flows.nbytes * nbytes)
        for field_name, value in (("flows", flows), ("release_s", self.release_s * time),
                                  ("compute_s", self.compute_s * compute)):
            object.__setattr__(other, field_name, value)
        return other


def _flows(given: Any, what: str) -> Flows | None:
    """Make the flows of a stage."""
    return given if given is None or isinstance(given, Flows) else Flows.of(given)


def _ranks(given: Any, what: str) -> tuple[int, ...]:
    """Convert the ranks of a stage."""
    ranks = tuple(as_whole(rank, what, most=MOST_ID)
                  for rank in as_collection(given, what, int, "whole numbers"))
    refuse_twice(ranks, f"{what} has twice the rank")
    return ranks


_NAMES = partial(as_collection, kind=str, of="names")
_POSITIVE_S, _ID = partial(parse_seconds, strict=True), partial(as_whole, most=MOST_ID)

#: Converters of the fields of a stage.
_OF_STAGES: dict[str, Callable[[Any, str], Any]] = {
    "name": as_name, "flows": _flows, "compute_s": parse_seconds, "after": _NAMES,
    "finishes_before": _NAMES, "release_s": parse_seconds, "weight": as_weight,
    "coflow_id": optional(_ID), "deadline_s": optional(_POSITIVE_S), "intra_server": as_flag,
    "steps": lambda given, _: plain(given), "overhead_s": optional(parse_seconds),
    "ranks": _ranks, "stream": as_name, "after_previous": _NAMES, "continues": as_flag}


def is_ranked(stages: Iterable[Stage]) -> bool:
    """Whether stages have ranks that compute, or `after_previous`."""
    return any(stage.ranks or stage.after_previous for stage in stages)


# --- jobs ----------------------------------------------------------------------------------

#: The default of the bytes of a pattern, another object than any 0.0 that is given.
_NOT_GIVEN = float(0)

#: What describes an iteration of a job.
_WAYS = ("stages", "pattern", "model", "operations")

#: Patterns that send nothing, and options in place of bytes.
_WITHOUT_BYTES, _IN_PLACE = ("barrier",), ("matrix",)


class IterationProfile(NamedTuple):
    """What a job computes and sends in an iteration if it is alone; 0 where it is not known."""

    gpus: float = 1.0  #: ranks, on other networks than clusters
    compute_s: float = 0.0  #: seconds of computation, on average over its GPUs
    begin_s: float = 0.0  #: seconds before it begins to send
    link_s: float = 0.0  #: seconds for which its bytes fill its busiest link
    rest_s: float = 0.0  #: seconds after it has computed, and sent at the rate of that link


@known_names
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
        Number of iterations. Each starts when the previous one has ended, unless stages or
        operations define what they wait for.
    stages : tuple of Stage
        The stages of an iteration, with flows between ranks.
    pattern : str, mapping or object, optional
        A communication pattern by name (``"ring-all-reduce"``) or ``"module:Class"``, by name and
        options (``"parameter-server:servers=2"`` or
        ``{"name": "parameter-server", "servers": 2}``), a class, or an instance.
    ranks : int, optional
        Number of ranks; by default derived from explicit stages or the model.
    nbytes : float
        Bytes passed to the pattern, which defines their meaning. Without them, a pattern of
        netsim's sends nothing, and a warning says so; 0 says that this is meant.
    compute_s : float
        Seconds of computation at the start of each iteration, before its first coflows.
    redraw : bool
        Whether the pattern draws new random sizes in each iteration.
    hosts : tuple of int or str, optional
        The host of each rank, by number, or by its name on the network; chosen by the simulation if
        None.
    name : str
        A label, such as the model's name.
    estimate_s : float, optional
        An estimate of the job's duration in seconds, for schedulers.
    group : int or str, optional
        A label of the jobs that belong together, such as the runs of one script, or the jobs of a
        tenant. Policies see it, and predictors learn from earlier jobs of the group.
    user : int, optional
        The user who submitted the job; predictors use it.
    model : ParallelModel, optional
        The model that is trained, with a rank for each slice of each replica, stage by stage.
    operations : Operations or Programs, optional
        The computations and coflows of ranks, as columns, or by class of identical ranks; see
        `netsim.operations.Operations` and `netsim.operations.Programs`.
    state_bytes : float, optional
        Bytes that the job moves if it is preempted and restarts on other servers; by default the
        value in the run's preemption options.
    weight : float
        The job's priority: how much it counts, for policies that use weights. Finite and positive.
    """

    id: int
    arrival_s: float = 0.0
    iterations: int = 1
    stages: Sequence[Stage] = ()
    pattern: str | Mapping[str, Any] | Any | None = None
    ranks: int = 0
    nbytes: float = _NOT_GIVEN
    compute_s: float = 0.0
    redraw: bool = False
    hosts: Sequence[int | str] | None = None
    name: str = ""
    estimate_s: float | None = None
    group: int | str | None = None
    user: int | None = None
    model: ParallelModel | None = None
    state_bytes: float | None = None
    operations: Operations | Programs | None = None
    weight: float = 1.0
    __repr__ = brief
    __deepcopy__ = same

    def __post_init__(self) -> None:
        owner = f"job {self.id}"
        convert(self, owner, **_OF_JOBS)
        given = [way for way in _WAYS if getattr(self, way) not in (None, ())]
        if len(given) != 1:
            raise InputError(f"{owner}: give either stages, a pattern, a model or operations",
                             given[-1] if given else "")
        convert(self, owner, ranks=partial(as_whole, least=int(self.pattern is not None)))
        self._check_stages(owner)
        self._check_ranks(owner)
        if self.nbytes is _NOT_GIVEN:
            object.__setattr__(self, "nbytes", 0.0)
            self._warn_of_no_bytes()
        if self.hosts is not None:
            with about("hosts"):
                self._check_hosts(owner)

    def _warn_of_no_bytes(self) -> None:
        """Warn, once per place in a script, if a pattern of netsim's has nothing to send."""
        table = {"name": self.pattern} if isinstance(self.pattern, str) else self.pattern
        if self.ranks < 2 or not isinstance(table, Mapping) or not table.keys().isdisjoint(
                _IN_PLACE):
            return
        name = table.get("name")
        if isinstance(name, str) and ":" not in name and name not in _WITHOUT_BYTES:
            warnings.warn(NetsimWarning(
                f"a job of {self.ranks} ranks has the pattern {name!r} and no nbytes, so that it "
                "sends nothing: give nbytes, such as nbytes=\"40MB\", or nbytes=0 if this is "
                "meant"), stacklevel=5)

    def _check_ranks(self, owner: str) -> None:
        needed = max([s.flows.ranks for s in self.stages if s.flows is not None]
                     + [max(s.ranks) + 1 for s in self.stages if s.ranks], default=0)
        if self.operations is not None:
            if not isinstance(self.operations, Operations | Programs):
                raise InputError(f"{owner}: operations must be Operations or Programs, not "
                                 f"{self.operations!r}", "operations")
            needed = self.operations.ranks
        if self.model is not None:
            if not isinstance(self.model, ParallelModel):
                raise InputError(f"{owner}: model must be a ParallelModel, as made by "
                                 f"netsim.make_model, not {self.model!r}", "model")
            needed = self.model.gpus
            if self.ranks not in (0, needed):
                raise InputError(f"{owner}: its model needs {needed} ranks, not {self.ranks}",
                                 "ranks")
        object.__setattr__(self, "ranks", max(self.ranks, needed))

    def _check_stages(self, owner: str) -> None:
        with about("stages"):
            parents_first([stage.name for stage in self.stages],
                          [(*stage.after, *stage.finishes_before) for stage in self.stages], owner)
        self._check_ranked(owner)
        heavy = next((stage for stage in self.stages if self.weight > LARGEST / stage.weight), None)
        if heavy is not None:
            raise InputError(f"{owner}: weight times that of stage {heavy.name!r} must be finite; "
                             f"they are {self.weight!r} and {heavy.weight!r}", "weight")
        own = next((stage for stage in self.stages if stage.coflow_id is not None), None)
        if own is not None and self.iterations > 1:
            raise InputError(f"{owner}: stage {own.name!r} has the coflow_id {own.coflow_id}, "
                             f"which {self.iterations} iterations would repeat; leave it out",
                             "iterations")

    def _check_ranked(self, owner: str) -> None:
        """Check stages with ranks that compute, or with `after_previous`."""
        if not (is_ranked(self.stages) or self.operations is not None):
            return
        if self.compute_s:
            raise InputError(f"{owner}: compute_s is on no rank; its stages say what ranks compute",
                             "compute_s")
        names = [stage.name for stage in self.stages]
        for stage in self.stages:
            if unknown := [name for name in stage.after_previous if name not in names]:
                raise InputError(f"{owner}: after_previous of stage {stage.name!r} names "
                                 f"{unknown[0]!r}, which is not one of its stages: "
                                 f"{', '.join(names)}", "stages")
            for key in ("finishes_before", "release_s", "coflow_id", "intra_server"):
                if getattr(stage, key):
                    raise InputError(f"{owner}: stage {stage.name!r} has {key}, which stages of a "
                                     "job whose ranks compute, or whose iterations overlap, cannot "
                                     "have", "stages")

    def scaled(self, time: float, nbytes: float, compute: float) -> JobSpec:
        """Return the job with times, bytes and computation multiplied by factors.

        See `Workload.scale`.
        """
        if self.model is not None and not nbytes == compute == 1:
            raise InputError(f"job {self.id} trains a model, from which its bytes and its "
                             "computation follow; scale time alone, or change the model")
        operations = self.operations
        return replace(
            self, arrival_s=self.arrival_s * time, nbytes=self.nbytes * nbytes,
            compute_s=self.compute_s * compute,
            stages=[stage.scaled(time, nbytes, compute) for stage in self.stages],
            operations=None if operations is None else operations.scaled(nbytes, compute))

    @property
    def by_name(self) -> bool:
        """Whether some hosts are given by name, so that only a network knows their numbers."""
        return any(isinstance(host, str) for host in self.hosts or ())

    def check_flows_only(self) -> None:
        """Check that the job only consists of flows that start at given times.

        Raises
        ------
        InputError
            If the job contains anything else; the message says what.
        """
        reasons = {
            "has no explicit stages": not self.stages,
            f"repeats {self.iterations} times": self.iterations > 1,
            "computes": bool(self.compute_s) or any(stage.compute_s for stage in self.stages),
            "has stages that wait for others": any(
                stage.after or stage.finishes_before or stage.after_previous
                for stage in self.stages),
            "has stages without flows": any(stage.flows is None for stage in self.stages)}
        for reason, applies in reasons.items():
            if applies:
                raise InputError(f"job {self.id} {reason}, which a table of flows cannot express")

    def _check_hosts(self, owner: str) -> None:
        what = f"{owner}: hosts"
        if isinstance(self.hosts, range) and self.hosts == range(max(len(self.hosts), self.ranks)):
            object.__setattr__(self, "hosts", first_hosts(len(self.hosts)))
            return
        hosts = tuple(map(node_name, as_list(self.hosts, what, int | str | tuple,
                                             "names or numbers")))
        if len(hosts) < self.ranks:
            raise InputError(f"{owner}: {self.ranks} ranks need {self.ranks} hosts, not "
                             f"{len(hosts)}")
        for host in hosts:
            if isinstance(host, str):
                as_name(host, f"{what}: a name")
            elif isinstance(host, bool) or host < 0:
                raise InputError(f"{what} must be whole numbers of at least 0, or names, not "
                                 f"{host!r}")
        object.__setattr__(self, "hosts", _interned(hosts))


def _pattern(given: Any, what: str) -> Any:
    """Convert a pattern, so that its name can be read."""
    return plain(parse_named(given) if isinstance(given, str) and "=" in given else given)


#: Converters of the fields of a job.
_OF_JOBS: dict[str, Callable[[Any, str], Any]] = {
    "id": _ID, "stages": partial(as_list, kind=Stage, of="Stage"), "pattern": _pattern,
    "name": as_name, "iterations": partial(as_whole, least=1), "arrival_s": parse_seconds,
    "nbytes": parse_bytes, "compute_s": parse_seconds, "redraw": as_flag,
    "estimate_s": optional(_POSITIVE_S), "state_bytes": optional(parse_bytes), "group": as_label,
    "user": optional(_ID), "weight": as_weight}


@lru_cache(maxsize=256)
def _interned(hosts: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return an equal tuple that all jobs on these hosts share, to save memory."""
    return hosts


class JobColumns(Sequence[JobSpec]):
    """Jobs of one coflow each, as columns in order of (arrival, id), made into `JobSpec` on access.

    Rank r of each job runs on host r or, if hosts are given by name, on ``columns.hosts[r]``.
    """

    #: The name of the stage of each job.
    STAGE = "coflow"

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        for array in columns[:-2]:
            array.setflags(write=False)
        self.hosts = int(max(columns.src.max(), columns.dst.max())) + 1  #: hosts that the jobs need
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
        return f"<{format_count(len(self), 'job')} of one coflow>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.columns,)

    def _job(self, k: int) -> JobSpec:
        """Make a job at the first call, and return the same object afterwards."""
        if k not in self._made:
            columns, name = self.columns, self.columns.names[k] if self.columns.names else ""
            sent = slice(self._first[k], self._first[k] + columns.counts[k])
            flows = Flows(columns.src[sent], columns.dst[sent], columns.nbytes[sent])
            own = int(columns.coflow_id[k])
            stage = Stage(self.STAGE, flows, coflow_id=None if own < 0 else own)
            self._made[k] = JobSpec(int(columns.id[k]), float(columns.arrival_s[k]), name=name,
                                    stages=[stage],
                                    hosts=columns.hosts or range(self.hosts),
                                    weight=float(columns.weight[k]))
        return self._made[k]

    def column(self, name: str) -> Sequence[Any]:
        """An attribute of all jobs: the id, arrival, name, ranks, iterations or weight."""
        columns = self.columns
        known: dict[str, Callable[[], Any]] = {
            "id": lambda: columns.id, "arrival_s": lambda: columns.arrival_s,
            "name": lambda: columns.names or [""] * len(self),
            "ranks": lambda: 1 + np.maximum.reduceat(np.maximum(columns.src, columns.dst),
                                                     self._first),
            "iterations": lambda: [1] * len(self), "weight": lambda: columns.weight}
        found: Sequence[Any] = known[name]()
        return found


@lru_cache(maxsize=16)
def first_hosts(count: int) -> tuple[int | str, ...]:
    return _interned(tuple(range(count)))


def columns_of(jobs: Sequence[Any], *names: str) -> list[Sequence[Any]]:
    """Return attributes of all jobs, without making objects of jobs stored as columns.

    These have only the attributes of `JobColumns.column`.
    """
    if isinstance(jobs, JobColumns):
        return [jobs.column(name) for name in names]
    return [[getattr(job, name) for job in jobs] for name in names]


def column(jobs: Sequence[Any], name: str) -> Sequence[Any]:
    """Return one of the `columns_of` jobs."""
    return columns_of(jobs, name)[0]


def delays_stages(jobs: Sequence[Any]) -> bool:
    """Whether an explicit stage of a job has its own overhead; patterns are not checked."""
    return not isinstance(jobs, JobColumns) and any(
        stage.overhead_s for job in jobs for stage in job.stages)
