"""Dependencies between events on a GPU, as far as a profile shows them."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from netsim.traces.training.kineto_events import KinetoEvent, KinetoTrace

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

    def ends_ns(self, *, free: bool = False, nccl: bool = True) -> list[int]:
        """Compute when each event ends, in nanoseconds after the begin.

        If `free`, the host launches everything at once, without gaps. Without `nccl`, kernels of
        NCCL take no time; otherwise they take the recorded one.
        """
        ends: list[int] = []
        host = [0]  # the end of each synchronization; the last one is the begin
        for k, event in enumerate(self.events):
            start = max((ends[other] for other in self.after[k]), default=0)
            launch = self.launch[k]
            if launch is not None and not free:
                base, later = launch
                while len(host) <= base + 1:
                    sync = self.syncs[len(host) - 1]
                    host.append(max(host[sync.base + 1] + sync.begin_ns, ends[sync.event])
                                + sync.rest_ns)
                start = max(start, host[base + 1] + later)
            length = 0 if event.is_nccl and not nccl else event.end_ns - event.start_ns
            ends.append(start + (0 if free else self.gap[k]) + length)
        return ends


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
