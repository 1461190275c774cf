"""The events of one profile of PyTorch, as written by Kineto, and what a GPU's events wait for."""

from __future__ import annotations

import re
import warnings
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from netsim.base.brief import brief
from netsim.base.files import open_unpacked
from netsim.base.json_tree import parse_json
from netsim.base.reading import decoded, locating, require_file
from netsim.errors import NetsimWarning, TraceError
from netsim.traces.files import kind_of_json
from netsim.traces.training.rank_trace import WEEK_S, too_long

# --- events --------------------------------------------------------------------------------

#: Kinds of events by their category, also in older files.
_GPU = {"kernel": "kernel", "Kernel": "kernel", "gpu_memcpy": "memcpy", "Memcpy": "memcpy",
        "gpu_memset": "memset", "Memset": "memset"}

_CALLS = ("cuda_runtime", "cuda_driver", "Runtime")

_STEP = re.compile(r"ProfilerStep#([0-9]{1,9})")

#: The latest instant.
_MOST_NS = 2**63

_WEEK_NS = WEEK_S * 10**9

#: The name of PyTorch's records of collectives.
RECORD = "record_param_comms"


class KinetoEvent(NamedTuple):
    """A complete event of a kind that is used."""

    place: int  #: position in the file, from 0
    name: str
    #: On the GPU: ``"kernel"``, ``"memcpy"`` or ``"memset"``. Others: ``"call"`` of CUDA,
    #: ``"record"`` of a collective by PyTorch, ``"step"`` of the profiler.
    kind: str
    start_ns: int
    end_ns: int
    lane: Any  #: the stream of an event on the GPU; otherwise the process and the thread
    correlation: int | None  #: the number that a launch and the launched event share
    args: Mapping[str, Any]

    @property
    def is_nccl(self) -> bool:
        """Whether it is a kernel of NCCL."""
        return self.kind == "kernel" and self.name[:4].lower() == "nccl"

    def __str__(self) -> str:
        return f"event {self.place} ({self.name[:60]!r})"


class KinetoMeasures(NamedTuple):
    """How long a GPU was busy, and with what, in nanoseconds.

    Attributes
    ----------
    span : int
        Time from the first event on the GPU to the last.
    compute, comm, busy : int
        Time with computation or copies, time with kernels of NCCL, and time with any of these.
    """

    span: int
    compute: int
    comm: int
    busy: int

    @property
    def idle(self) -> int:
        """Time in which nothing ran."""
        return self.span - self.busy

    @property
    def exposed(self) -> int:
        """Time in which only kernels of NCCL ran."""
        return self.busy - self.compute

    @property
    def hidden(self) -> int:
        """Time in which a kernel of NCCL ran beside others."""
        return self.compute + self.comm - self.busy


@dataclass(frozen=True, slots=True, eq=False)
class KinetoTrace:
    """A profile of one rank."""

    path: Path
    rank: int
    ranks: int  #: the size of the world; 1 if the file has none
    groups: Mapping[str, list[int]]  #: ranks of process groups, by name
    gpu: tuple[KinetoEvent, ...]
    calls: tuple[KinetoEvent, ...]
    records: tuple[KinetoEvent, ...]
    steps: tuple[KinetoEvent, ...]
    events: int  #: number of events of all kinds, also of those not used
    __repr__ = brief

    def measures(self) -> KinetoMeasures:
        """Measure how long the GPU computed, communicated and waited."""
        compute = [(each.start_ns, each.end_ns) for each in self.gpu if not each.is_nccl]
        comm = [(each.start_ns, each.end_ns) for each in self.gpu if each.is_nccl]
        both = compute + comm
        span = max(end for _, end in both) - min(start for start, _ in both)
        return KinetoMeasures(span, *map(_covered, (compute, comm, both)))


def _covered(intervals: Iterable[tuple[int, int]]) -> int:
    """Compute the length of the union of intervals."""
    total, until = 0, -1
    for start, end in sorted(intervals):
        total += max(end - max(start, until), 0)
        until = max(until, end)
    return total


def read_kineto_file(path: str | Path, *, drop_long: bool = False) -> KinetoTrace:
    """Read one profile: JSON, perhaps compressed by gzip.

    Parameters
    ----------
    path : path-like
    drop_long : bool
        Whether to leave out events that are longer than a week, or more than a week away from most
        others; otherwise they are errors.

    Raises
    ------
    TraceError
        If it cannot be read, is not a profile in JSON, or has no events on the GPU.

    Warns
    -----
    NetsimWarning
        If events are left out.
    """
    path = Path(path)
    document = _document(path)
    info = document.get("distributedInfo") if isinstance(document, Mapping) else None
    events = document.get("traceEvents") if isinstance(document, Mapping) else document
    if not isinstance(events, list):
        other = kind_of_json(document)
        if not other and isinstance(document, Mapping) and "jobs" in document:
            other = '; it may be a workload of netsim: format = "json"'
        raise TraceError(f"has no list of traceEvents{other}", path)
    used = EventsByKind(path)
    for index, event in enumerate(events):
        used.add(index, event)
    used.check_times(drop_long)
    if not used.of["gpu"]:
        raise TraceError(f"has no events on a GPU among its {len(events):,}", path)
    rank, ranks, groups = _world(info or {}, path)
    return KinetoTrace(path, rank, ranks, groups, **{
        name: tuple(found) for name, found in used.of.items()}, events=len(events))


def _document(path: Path) -> Any:
    """Parse the JSON of a file, with exact decimals."""
    with locating(path), open_unpacked(require_file(path)) as file:
        text = decoded(file.read(), path)
    return parse_json(text, path, parse_float=Decimal)


class EventsByKind:
    """The events of a file that are used, by kind."""

    def __init__(self, path: Path) -> None:
        self.of: dict[str, list[KinetoEvent]] = {"gpu": [], "calls": [], "records": [],
                                                 "steps": []}
        self._path = path

    def add(self, index: int, event: object) -> None:
        """Add an event if it is of a kind that is used."""
        if not isinstance(event, Mapping):
            raise TraceError(f"event {index} must be an object, not {event!r}", self._path)
        if event.get("ph") != "X":
            return
        category, name = event.get("cat"), str(event.get("name", ""))
        args = event.get("args")
        args = args if isinstance(args, Mapping) else {}
        if isinstance(category, str) and category in _GPU:
            part, kind, lane = "gpu", _GPU[category], args.get("stream", event.get("tid"))
        elif category in _CALLS:
            part, kind, lane = "calls", "call", (str(event.get("pid")), str(event.get("tid")))
        elif name == RECORD:
            part, kind, lane = "records", "record", (str(event.get("pid")), str(event.get("tid")))
        elif category == "user_annotation" and _STEP.fullmatch(name):
            part, kind, lane = "steps", "step", None
        else:
            return
        start, length = (self._ns(event, key, index, name) for key in ("ts", "dur"))
        correlation = args.get("correlation")
        self.of[part].append(KinetoEvent(
            index, name, kind, start, start + length, str(lane) if part == "gpu" else lane,
            correlation if isinstance(correlation, int) else None, args))

    def check_times(self, drop: bool) -> None:
        """Refuse, or drop, events that are longer than a week, or a week away from most others."""
        middle = self._middle()
        dropped = []
        for part, found in self.of.items():
            wrong = {each.place for each in found if each.end_ns - each.start_ns > _WEEK_NS
                     or abs(each.start_ns - middle) > _WEEK_NS}
            dropped += [each for each in found if each.place in wrong]
            self.of[part] = [each for each in found if each.place not in wrong]
        if not dropped:
            return
        first = min(dropped)
        length = first.end_ns - first.start_ns
        if length > _WEEK_NS:
            problem = too_long(first, length / 1e9, "drop_long = true leaves such events out")
        else:
            problem = (f"{first}: begins more than a week away from most other events, as by a "
                       "damaged stamp; drop_long = true leaves such events out")
        if not drop:
            raise TraceError(problem, self._path)
        warnings.warn(NetsimWarning(f"{len(dropped)} events with damaged times are left out, the "
                                    f"first of them {first}", self._path), stacklevel=5)

    def _middle(self) -> int:
        """The median of the starts, which must be within a week of those of most events.

        Otherwise nothing says which of them are damaged.
        """
        events = sorted((each for found in self.of.values() for each in found),
                        key=lambda each: each.start_ns)
        if not events:
            return 0
        middle = events[len(events) // 2]
        far = [each for each in events if abs(each.start_ns - middle.start_ns) > _WEEK_NS]
        if 2 * len(far) >= len(events):
            one, other = sorted((far[0], middle))
            days = abs(other.start_ns - one.start_ns) / 1e9 / 86400
            raise TraceError(f"{one} and {other} begin {days:,.0f} days apart, and no week has "
                             f"most of the {len(events):,} events, which would say whose stamps "
                             "are damaged: mend them, or leave these events out", self._path)
        return middle.start_ns

    def _ns(self, event: Mapping[str, Any], key: str, index: int, name: str) -> int:
        """Convert a time, which is in microseconds with decimals, to nanoseconds."""
        value = event.get(key)
        if (isinstance(value, int | Decimal) and not isinstance(value, bool)
                and 0 <= value < _MOST_NS // 1000):
            return int(value * 1000)
        raise TraceError(f"event {index} ({name[:60]!r}): {key} must be a time in microseconds, "
                         f"not {str(value)[:60]}", self._path)


def _world(info: object, path: Path) -> tuple[int, int, dict[str, list[int]]]:
    """Read the rank, the number of ranks, and the groups."""
    if not isinstance(info, Mapping):
        raise TraceError(f"distributedInfo must be an object, not {info!r}", path)
    rank, ranks = info.get("rank", 0), info.get("world_size", 1)
    if rank and "world_size" not in info:
        raise TraceError(f"distributedInfo has the rank, {rank!r}, but not the number of ranks; "
                         "add world_size to it", path)
    if not (type(rank) is int and type(ranks) is int and 0 <= rank < ranks):
        raise TraceError(f"distributedInfo: rank must be from 0 to world_size - 1; they are "
                         f"{rank!r} and {ranks!r}", path)
    return rank, ranks, dict(_groups(info.get("pg_config")))


def _groups(given: object) -> Iterator[tuple[str, list[int]]]:
    for entry in given if isinstance(given, list) else []:
        members = entry.get("ranks") if isinstance(entry, Mapping) else None
        if isinstance(members, list) and all(type(each) is int for each in members):
            yield str(entry.get("pg_name")), members


# --- dependencies --------------------------------------------------------------------------

#: An event that starts later than this after all that it is known to wait for, in ns, has probably
#: waited for something else, too.
_EXPLAINED_NS = 10_000


class Synchronization(NamedTuple):
    """A call that blocked the host until an event on the GPU ended."""

    base: int  #: the previous synchronization, from which time is counted; -1 for the begin
    begin_ns: int  #: from the base to the call
    event: int  #: the event that it waits for
    rest_ns: int  #: from the later of the call and the event's end to its own end
    end_ns: int  #: its end in the profile


@dataclass(slots=True)
class KinetoGraph:
    """The events on a GPU in order of their launches, with their dependencies."""

    events: list[KinetoEvent]
    begin_ns: int  #: the first launch, or the first event on the GPU
    #: For each event, the events that it waits for.
    after: list[list[int]] = field(default_factory=list)
    #: For each event, the synchronization after which the host launched it (-1 for the begin), and
    #: the nanoseconds between; None if the launch is not known.
    launch: list[tuple[int, int] | None] = field(default_factory=list)
    #: For each event, the nanoseconds from the end of all that it waits for to its recorded start.
    gap: list[int] = field(default_factory=list)
    syncs: list[Synchronization] = field(default_factory=list)
    edges: Counter[str] = field(default_factory=Counter)  #: dependencies in use, by kind
    #: Dependencies that the profile contradicts, by kind.
    dropped: Counter[str] = field(default_factory=Counter)
    #: Number of events that waited longer for their launch than for other events.
    launch_bound: int = 0
    alone: set[int] = field(default_factory=set)  #: events that run beside others of their stream


def graph_of(trace: KinetoTrace, events: Sequence[KinetoEvent]) -> KinetoGraph:
    """Find the dependencies of the given events of a trace on the GPU."""
    calls = {call.correlation: call for call in trace.calls if call.correlation is not None}
    launched = {event.place: None if event.correlation is None else calls.get(event.correlation)
                for event in events}

    def order(event: KinetoEvent) -> tuple[int, int, int]:
        call = launched[event.place]
        return (event.start_ns if call is None else call.start_ns), event.start_ns, event.place

    listed = sorted(events, key=order)
    begin = min(min(order(event)[0], event.start_ns) for event in listed)
    made = _Making(KinetoGraph(listed, begin), [order(event)[0] for event in listed])
    made.find_syncs(trace.calls)
    for k, event in enumerate(listed):
        made.add(k, launched[event.place])
    return made.graph


class _Making:
    """A graph under construction; `launch_ns` has the launch of each event, or its start."""

    def __init__(self, graph: KinetoGraph, launch_ns: list[int]) -> None:
        self.graph, self._launch_ns = graph, launch_ns
        self._last: dict[str, int] = {}
        self._sync_ends: list[int] = []
        self._ended: list[tuple[int, int]] = []

    def find_syncs(self, calls: Sequence[KinetoEvent]) -> None:
        """Find calls that have waited for an event on the GPU."""
        blocking = sorted((call for call in calls if call.name.startswith("cuda")
                           and call.name.endswith("Synchronize")), key=lambda call: call.start_ns)
        ended: list[tuple[int, int]] = []
        found = []
        for call in blocking:
            for k in range(len(ended), bisect_right(self._launch_ns, call.start_ns)):
                insort(ended, (self.graph.events[k].end_ns, k))
            place = bisect_right(ended, (call.end_ns, len(self._launch_ns))) - 1
            if place >= 0 and ended[place][0] > call.start_ns:
                found.append((call, *ended[place]))
        for call, event_ns, event in sorted(found, key=lambda each: each[0].end_ns):
            base = bisect_right(self._sync_ends, call.start_ns) - 1
            self.graph.syncs.append(Synchronization(
                base, call.start_ns - self._base_ns(base), event, call.end_ns - event_ns,
                call.end_ns))
            self._sync_ends.append(call.end_ns)
            self.graph.edges["sync"] += 1

    def _base_ns(self, base: int) -> int:
        return self._sync_ends[base] if base >= 0 else self.graph.begin_ns

    def add(self, k: int, call: KinetoEvent | None) -> None:
        """Add the next event."""
        graph, event = self.graph, self.graph.events[k]
        after: list[int] = []
        others = [other for lane, other in self._last.items() if lane != event.lane]
        own = self._last.get(event.lane)
        if own is not None and not self._wait(after, event, own, "stream"):
            graph.alone.add(k)
        for other in others if event.is_nccl else ():
            self._wait(after, event, other, "before_nccl")
        explained = max((graph.events[other].end_ns for other in after), default=graph.begin_ns)
        launch = None
        if call is not None and call.start_ns > event.start_ns:  # clocks differ
            graph.dropped["launch"] += 1
        elif call is not None:
            base = bisect_right(self._sync_ends, call.start_ns) - 1
            launch = base, call.start_ns - self._base_ns(base)
            explained = max(explained, call.start_ns)
        if event.start_ns - explained > _EXPLAINED_NS:
            other = self._ended_before(k)
            if other >= 0:
                after.append(other)
                graph.edges["after_other_stream"] += 1
                explained = max(explained, graph.events[other].end_ns)
        graph.launch_bound += (call is not None and launch is not None
                               and explained == call.start_ns)
        graph.after.append(after)
        graph.launch.append(launch)
        graph.gap.append(event.start_ns - explained)
        self._last[event.lane] = k
        insort(self._ended, (event.end_ns, k))

    def _wait(self, after: list[int], event: KinetoEvent, other: int, kind: str) -> bool:
        """Make an event wait for another, unless the profile contradicts that."""
        agrees = self.graph.events[other].end_ns <= event.start_ns
        (self.graph.edges if agrees else self.graph.dropped)[kind] += 1
        if agrees:
            after.append(other)
        return agrees

    def _ended_before(self, k: int) -> int:
        """Find the last event of another stream that ended shortly before this one, or -1."""
        event, events = self.graph.events[k], self.graph.events
        for place in reversed(range(bisect_right(self._ended, (event.start_ns, k)))):
            end_ns, other = self._ended[place]
            if event.start_ns - end_ns > _EXPLAINED_NS:
                break
            if events[other].lane != event.lane:
                return other
        return -1
