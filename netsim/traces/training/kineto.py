"""Profiles of PyTorch as jobs: computation and waits of GPUs, and collectives of NCCL's kernels."""

from __future__ import annotations

import json
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from netsim.base.limits import check_limit
from netsim.base.reading import as_problems, require_file
from netsim.base.values import as_choice, as_flag, as_list, as_whole, known_names, optional
from netsim.errors import InputError, NetsimWarning, TraceError, unknown_name
from netsim.traces.training.kineto_events import (
    KinetoEvent,
    KinetoTrace,
    graph_of,
    read_kineto_file,
)
from netsim.traces.training.rank_trace import RankNode, RankTrace, join, join_copies, one_job
from netsim.traces.training.scaling import Scaling, check_nodes
from netsim.workload import Operations, Workload
from netsim.workload.operations import Programs

# --- collectives of NCCL's kernels ---------------------------------------------------------

#: Bytes of the types of elements.
_BYTES = {"Float": 4, "Double": 8, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2,
          "Char": 1, "Byte": 1, "Bool": 1}

#: The collectives by the beginnings of their names, without underscores; longer ones first.
_KINDS = {"reducescatter": "reduce-scatter", "allreduce": "all-reduce",
          "allgather": "all-gather", "alltoall": "all-to-all", "broadcast": "broadcast",
          "barrier": "barrier", "scatter": "scatter", "gather": "gather", "reduce": "reduce",
          "send": "send", "recv": "recv"}

_KEY = "Collective name"

_LARGEST = 2**60


class NcclKernel(NamedTuple):
    """The transfer of a kernel of NCCL."""

    kind: str  #: one of `netsim.operations.COMMUNICATIONS`, ``"recv"`` or ``"barrier"``
    group: str  #: name of the process group
    label: str
    members: tuple[int, ...]
    dtype: str
    input_bytes: int
    payload: int  #: bytes of the larger one of the rank's two buffers


class NcclKernels:
    """Identifies the NCCL kernels of a profile."""

    def __init__(self, trace: KinetoTrace) -> None:
        self._trace = trace
        self._calls = {call.correlation: call for call in trace.calls}
        self._records: dict[Any, list[KinetoEvent]] = {}
        for record in sorted(trace.records, key=lambda each: each.start_ns):
            self._records.setdefault(record.lane, []).append(record)

    def of(self, event: KinetoEvent) -> NcclKernel | None:
        """Identify the transfer of a kernel; None if the profile does not say what it is."""
        args = event.args if _KEY in event.args else self._recorded(event)
        name = str(args.get(_KEY, "")).replace("_", "").lower()
        kind = next((kind for start, kind in _KINDS.items() if name.startswith(start)), None)
        if kind is None:
            return None
        dtype = str(args.get("dtype", ""))
        size = 1 if dtype.startswith("Float8_") else _BYTES.get(dtype)
        sent, received = (self._count(args, f"{end} msg nelems", event) for end in ("In", "Out"))
        if size is None:
            if kind != "barrier":
                self._refuse(event, unknown_name("dtype", dtype, _BYTES))
            size = 0
        group = str(args.get("Process Group Name", ""))
        return NcclKernel(kind, group, str(args.get("Process Group Description", group)),
                          self._members(args, event), dtype, sent * size,
                          max(sent, received) * size)

    def _refuse(self, event: KinetoEvent, problem: str) -> NoReturn:
        raise TraceError(f"rank {self._trace.rank}: {event}: {problem}", self._trace.path)

    def _recorded(self, event: KinetoEvent) -> Mapping[str, Any]:
        """Find PyTorch's record of the collective around the launch of a kernel."""
        call = self._calls.get(event.correlation)
        records = [] if call is None else self._records.get(call.lane, [])
        place = 0 if call is None else bisect_right(
            [each.start_ns for each in records], call.start_ns)
        for record in reversed(records[:place]):
            if call is not None and call.end_ns <= record.end_ns:
                return record.args
        return {}

    def _count(self, args: Mapping[str, Any], key: str, event: KinetoEvent) -> int:
        value = args.get(key, 0)
        if type(value) is not int or not 0 <= value < _LARGEST:
            self._refuse(event, f"{key} must be a whole number of at least 0, not {value!r}")
        return int(value)

    def _members(self, args: Mapping[str, Any], event: KinetoEvent) -> tuple[int, ...]:
        """Find the ranks of the group of a kernel."""
        listed, members = args.get("Process Group Ranks", "[]"), None
        if "..." in str(listed):  # cut, as there are many
            members = self._strided(args)
        else:
            try:
                members = json.loads(listed) if isinstance(listed, str) else listed
            except (ValueError, RecursionError):
                members = None
        name = str(args.get("Process Group Name", ""))
        members = members or self._trace.groups.get(name)
        if (not isinstance(members, list) or not all(type(each) is int for each in members)
                or len(set(members)) < len(members)):
            self._refuse(event, f"the ranks of its group {name!r} are not known: {listed!r}")
        for each in members:
            if not 0 <= each < self._trace.ranks:
                self._refuse(event, f"its group has rank {each}, and ranks are from 0 to "
                                    f"{self._trace.ranks - 1}")
        if self._trace.rank not in members:
            self._refuse(event, f"this rank is not in its group {members!r}")
        return tuple(members)

    def _strided(self, args: Mapping[str, Any]) -> list[int] | None:
        first, stride, count = (args.get(key) for key in ("Global rank start", "Global rank stride",
                                                          "Group size"))
        if not all(type(each) is int for each in (first, stride, count)):
            return None
        if stride <= 0 or not 0 < count <= self._trace.ranks:  # type: ignore[operator]
            return None
        return [first + k * stride for k in range(count)]  # type: ignore[operator,arg-type]


# --- jobs ----------------------------------------------------------------------------------
@known_names
def read_kineto(path: str | Path, *, others: Sequence[str] = (), copies: bool = False,
                cpu: str = "recorded", replay: bool = False, drop_long: bool = False,
                step: int | None = None,
                layout: Mapping[str, int] | None = None, scale: Mapping[str, int] | None = None,
                keep: str = "buffer", expert_load: Mapping[str, Any] | None = None,
                iterations: int = 1, hosts: Sequence[int | str] | None = None, seed: int = 0
                ) -> Workload:
    """Read profiles of PyTorch, as Kineto writes them, as one job, from a file per rank.

    Kernels and copies on the GPU become computations. Kernels of NCCL become collectives, which
    take as long as the network needs. The waits of each event are derived as far as the profile
    shows them; the rest of the time before its start remains a fixed delay.

    Parameters
    ----------
    path : path-like
        JSON, perhaps compressed by gzip.
    others : sequence of path-like
        The files of the other ranks; relative paths start at the folder of `path`.
    copies : bool
        Whether a rank without a file does the same as the given rank with the next smaller number;
        otherwise each rank must have a file.
    cpu : {"recorded", "free"}
        Whether the host launches at the recorded times, or everything at once without delays. The
        two are bounds for another network or host.
    replay : bool
        Whether kernels of NCCL take the recorded time, without a network.
    drop_long : bool
        Whether to leave out events that take longer than a week, or begin more than a week away
        from most others, with a warning; otherwise such damaged events are errors.
    step : int, optional
        Read only events launched in this step of the profiler, as in ``ProfilerStep#4``.
    layout, scale, keep, expert_load
        As for `netsim.traces.training.read_chakra`.
    iterations : int
        How often the job repeats the profile.
    hosts : sequence of int or str, optional
        The host of each rank; by default rank r runs on host r.
    seed : int
        Seed of the loads of experts, unless `expert_load` has its own.

    Raises
    ------
    TraceProblemsError
        If a file cannot be read or has no events on a GPU, or profiles of ranks contradict each
        other, with the rank and the event.
    InputError
        If an option is invalid.

    Warns
    -----
    NetsimWarning
        If events have no launch before their start, or events of a stream overlap; or if kernels of
        NCCL do not say what they transfer, so that they take the recorded time.
    """
    as_choice(cpu, "cpu", ("recorded", "free"))
    copies, replay, drop_long = map(as_flag, (copies, replay, drop_long),
                                    ("copies", "replay", "drop_long"))
    step = optional(as_whole)(step, "step")
    scaling = Scaling.given(layout, scale, keep, expert_load, seed)
    if scaling and copies:
        raise InputError("copies and layout do not go together: a layout says which ranks are "
                         "copies of which", "copies")
    iterations = as_whole(iterations, "iterations", 1)
    path = require_file(path)
    files = [path, *(path.parent / each
                     for each in as_list(others, "others", str | Path, "paths"))]
    with as_problems(path):
        traces = _by_rank([read_kineto_file(each, drop_long=drop_long) for each in files])
        made = [_KinetoConverter(trace, cpu == "free", replay, step).trace() for trace in traces]
        ranks = max(trace.ranks for trace in traces)
        if scaling and scaling.layout.ranks != ranks:
            raise TraceError(f"is of a job of {ranks} ranks, but {scaling.layout} "
                             f"has {scaling.layout.ranks}", traces[0].path)
        operations = (join(list(scaling.complete(made))) if scaling else
                      _joined(made, ranks, copies))
    name = path.name.partition(".")[0]
    label = name if scaling is None else scaling.label(name, len(traces))
    return one_job(operations, name, label, iterations, hosts, seed)


def _by_rank(traces: list[KinetoTrace]) -> list[KinetoTrace]:
    """Sort traces by rank, and check that they belong to one job."""
    listed = sorted(traces, key=lambda trace: trace.rank)
    for one, other in pairwise(listed):
        if one.rank == other.rank:
            raise TraceError(f"is of rank {one.rank}, and so is {one.path}", other.path)
        if one.ranks != other.ranks:
            raise TraceError(f"is of a job of {other.ranks} ranks, and {one.path} of one of "
                             f"{one.ranks}", other.path)
    return listed


def _joined(made: list[RankTrace], ranks: int, copies: bool) -> Operations | Programs:
    """Join the traces of all ranks; copies of one rank stay one program where possible."""
    check_limit("ranks", ranks, made[0].path, where="world_size")
    alike = join_copies(made[0], ranks) if copies and len(made) == 1 else None
    return join(list(_complete(made, ranks, copies))) if alike is None else alike


def _complete(made: list[RankTrace], ranks: int, copies: bool) -> Iterator[RankTrace]:
    """Yield the traces of all ranks; missing ones are copies."""
    given, last, nodes = {trace.rank: trace for trace in made}, made[0], 0
    for rank in range(ranks):
        last = given.get(rank, last)
        nodes += len(last.nodes)
        check_nodes(nodes, ranks, last.path)
        if last.rank == rank:
            yield last
            continue
        if not copies:
            raise TraceError(f"is of a job of {ranks} ranks, but rank {rank} has no "
                             "file; give the files of the other ranks in `others`, or "
                             "let ranks without a file do the same as others, by "
                             "copies = true or a layout", last.path)
        for node in last.nodes:
            if node.members and rank not in node.members:
                raise last.refuse(f"rank {rank} cannot do the same, as it is not in the group of "
                                  f"{node}; it needs a file of its own")
        yield replace(last, rank=rank)


class _KinetoConverter:
    """Converts the profile of one rank.

    Event k has three nodes: its launch, 3 k; the delay before it, 3 k + 1; and itself, 3 k + 2.
    """

    def __init__(self, trace: KinetoTrace, free: bool, replay: bool, step: int | None) -> None:
        self._trace, self._free, self._replay = trace, free, replay
        self._graph = graph_of(trace, trace.gpu if step is None else self._of_step(step))
        self._unknown = 0

    def _of_step(self, step: int) -> list[KinetoEvent]:
        """Select the events that were launched in a step of the profiler."""
        trace = self._trace
        found = [each for each in trace.steps if each.name == f"ProfilerStep#{step}"]
        if not found:
            known = ", ".join(each.name.partition("#")[2] for each in trace.steps) or "none"
            raise TraceError(f"rank {trace.rank} has no step {step}; there are: {known}",
                             trace.path)
        begin, end = found[0].start_ns, found[0].end_ns
        launched = {call.correlation for call in trace.calls if begin <= call.start_ns < end}
        events = [event for event in trace.gpu if event.correlation in launched]
        if not events:
            raise TraceError(f"rank {trace.rank} has no events on the GPU in step {step}",
                             trace.path)
        return events

    def trace(self) -> RankTrace:
        """Convert all events, and warn about those that are converted only in part."""
        graph, nccl = self._graph, NcclKernels(self._trace)
        nodes: list[RankNode] = []
        for k, event in enumerate(graph.events):
            after = [3 * other + 2 for other in graph.after[k]]
            if not self._free:
                nodes += self._before(k, after)
                after = [3 * k + 1]
            nodes.append(self._node(k, event, tuple(after), nccl))
        if not self._free:
            nodes += self._syncs()
        self._warn(sum(each is None for each in graph.launch),
                   "events have no launch before their start")
        self._warn(len(graph.alone), "events overlap with others of their stream")
        self._warn(self._unknown, "kernels of NCCL do not say what they transfer, and take the "
                                  "recorded time")
        return RankTrace.of(self._trace.rank, self._trace.path, nodes)

    def _warn(self, count: int, what: str) -> None:
        if count:
            warnings.warn(NetsimWarning(f"rank {self._trace.rank}: {count} {what}",
                                        self._trace.path), stacklevel=4)

    def _sync_id(self, sync: int) -> int:
        return 3 * len(self._graph.events) + 2 * sync

    def _host(self, base: int) -> tuple[int, ...]:
        """The end of the synchronization that the host continues after, if there is one."""
        return () if base < 0 else (self._sync_id(base) + 1,)

    def _before(self, k: int, after: list[int]) -> Iterator[RankNode]:
        """Yield the launch of an event, and the delay before it."""
        launch = self._graph.launch[k]
        if launch is not None:
            base, later = launch
            yield RankNode(3 * k, "launch", "compute", self._host(base), later / 1e9)
            after = [*after, 3 * k]
        yield RankNode(3 * k + 1, "delay", "compute", tuple(after), self._graph.gap[k] / 1e9)

    def _syncs(self) -> Iterator[RankNode]:
        """Yield the synchronizations after which the host launches something."""
        awaited = {launch[0] for launch in self._graph.launch if launch is not None}
        for number in reversed(range(len(self._graph.syncs))):
            if number not in awaited:
                continue
            own, sync = self._sync_id(number), self._graph.syncs[number]
            awaited.add(sync.base)
            yield RankNode(own, "call", "compute", self._host(sync.base), sync.begin_ns / 1e9)
            yield RankNode(own + 1, "synchronize", "compute", (own, 3 * sync.event + 2),
                           sync.rest_ns / 1e9)

    def _node(self, k: int, event: KinetoEvent, after: tuple[int, ...], nccl: NcclKernels
              ) -> RankNode:
        stream = f"stream {event.lane}"
        if k in self._graph.alone:  # so that it takes no turns
            stream += f", event {event.place}"
        computed = RankNode(3 * k + 2, event.name, "compute", after,
                            (event.end_ns - event.start_ns) / 1e9, stream, where=str(event))
        if not event.is_nccl or self._replay:
            return computed
        kernel = nccl.of(event)
        if kernel is None or (kernel.kind in ("send", "recv") and len(kernel.members) != 2):
            self._unknown += 1
            return computed
        made = replace(computed, kind="collective", seconds=0.0, collective=kernel.kind,
                       members=kernel.members, payload=kernel.payload, group=kernel.group,
                       label=kernel.label)
        if kernel.kind not in ("send", "recv"):
            return made
        own = self._trace.rank
        peer = next(each for each in kernel.members if each != own)
        ends = (own, peer) if kernel.kind == "send" else (peer, own)
        return replace(made, kind=kernel.kind, collective="send", members=ends,
                       stream=stream if kernel.kind == "send" else "")
