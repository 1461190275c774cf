"""Execution traces of Chakra, as jobs: a file per rank, in protocol buffers or JSON."""

from __future__ import annotations

import json
import os
import re
import reprlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from netsim.base.files import stem_of
from netsim.base.json_tree import parse_object
from netsim.base.reading import as_problems, read_text, require_file
from netsim.base.units import Quantity, parse_rate
from netsim.base.values import (
    as_choice,
    as_flag,
    as_number,
    as_path,
    as_whole,
    convert,
    known_names,
    optional,
    plain,
    refused,
)
from netsim.errors import InputError, NetsimWarning, TraceError, unknown_name
from netsim.traces.training.chakra_file import (
    NODE_TYPES,
    ChakraFile,
    ChakraNode,
    read_chakra_file,
    read_chakra_json,
)
from netsim.traces.training.rank_trace import (
    WEEK_S,
    RankNode,
    RankTrace,
    join,
    one_job,
    too_long,
)
from netsim.traces.training.scaling import Scaling
from netsim.workload import Workload

# --- jobs ----------------------------------------------------------------------------------

#: The collectives by their numbers in a trace.
COLLECTIVES = ("all-reduce", "reduce", "all-gather", "gather", "scatter", "broadcast", "all-to-all",
               "reduce-scatter", "reduce-scatter", "barrier")

#: Attributes that netsim adds to the format: exact seconds, a stream other than the usual one,
#: bytes that are no multiple of a rank's input, and that communications take no turns.
COMPUTE_S, STREAM, PAYLOAD, SLOTS = ("netsim_compute_s", "netsim_stream", "netsim_payload",
                                     "netsim_comm_slots")

#: Groups of all ranks.
_ALL = ("", "0")

_FILE = re.compile(r"(.*)\.(0|[1-9][0-9]{0,6})\.(et|json)", re.DOTALL)


class Group(NamedTuple):
    """A group of ranks, with its unique name and its label."""

    members: tuple[int, ...]
    name: str
    label: str


@known_names
def read_chakra(path: str | Path, *, groups: str | Path | None = None, deps: str = "data",
                comm_slots: int | str | None = None, replay: bool = False, strict: bool = False,
                drop_long: bool = False,
                peak_flops: float | None = None, memory_rate: Quantity | None = None,
                layout: Mapping[str, int] | None = None, scale: Mapping[str, int] | None = None,
                keep: str = "buffer", expert_load: Mapping[str, Any] | None = None,
                iterations: int = 1, hosts: Sequence[int | str] | None = None,
                seed: int = 0) -> Workload:
    """Read execution traces of Chakra as one job, from a file per rank.

    Parameters
    ----------
    path : path-like
        A file ``PREFIX.RANK.et``, or ``.json``. The files of the other ranks, from 0 without gaps,
        must be in the same folder. A file without a rank describes a job of one rank.
    groups : path-like, optional
        A JSON file with the ranks of each group, ``{"1": [0, 1], ...}``; a relative path starts at
        the folder of `path`. By default, groups are read from the traces.
    deps : {"data", "data+ctrl"}
        The dependencies to use.
    comm_slots : {1, "none"}, optional
        Whether the collectives and sends of a rank take turns (1) or not (``"none"``). By default
        1, but ``"none"`` for files written by netsim.
    replay : bool
        Whether communications take the recorded time, without a network.
    strict : bool
        Whether it is an error if a collective in JSON has no type or size, or if anything but a
        barrier has size 0. Otherwise the former take the recorded time, and the latter no time.
    drop_long : bool
        Whether a recorded time of more than a week counts as none, with a warning; otherwise it is
        an error, because the stamp is damaged.
    peak_flops : float, optional
        Operations per second. With this and `memory_rate`, computations with known operations and
        bytes take the time of the roofline model instead of the recorded time.
    memory_rate : rate, optional
        Bytes per second of the memory, also for loads and stores without a recorded time.
    layout : mapping of str to int, optional
        Number of ranks in groups of each kind: ``"tp"``, ``"cp"``, ``"ep"``, ``"dp"`` and ``"pp"``.
        Ranks without a file then do the same as a rank that differs from them only in its data.
        Ranks are numbered as by `netsim.llm_job`.
    scale : mapping of str to int, optional
        With a layout: factors by which groups grow. ``"dp"`` adds ranks with the same batch per
        rank; ``"ep"`` keeps the number of experts per rank.
    keep : {"buffer", "input"}
        Whether a rank in a growing group keeps the size of the larger one of its two buffers, or
        the size of its input.
    expert_load : mapping, optional
        With a layout: parameters of `netsim.traces.training.TraceExpertLoad`, by which all-to-alls
        of groups of experts send unequal parts. By default parts are equal.
    iterations : int
        How often the job repeats the trace.
    hosts : sequence of int or str, optional
        The host of each rank; by default rank r runs on host r.
    seed : int
        Seed of the loads of experts, unless `expert_load` has its own.

    Raises
    ------
    TraceProblemsError
        If a file cannot be read or is damaged, or traces of ranks contradict each other, with the
        rank and the node.
    InputError
        If an option is invalid.

    Warns
    -----
    NetsimWarning
        If collectives have no type or size, or if control dependencies refer to missing nodes.
    """
    groups = optional(as_path)(groups, "groups")
    options = _Options(deps, comm_slots, replay, strict, drop_long, peak_flops,
                       optional(parse_rate)(memory_rate, "memory_rate"))
    scaling = Scaling.given(layout, scale, keep, expert_load, seed)
    iterations = as_whole(iterations, "iterations", 1)
    path = require_file(path)
    with as_problems(path):
        files = {rank: _read(each) for rank, each in _files(path, scaling).items()}
        ranks = scaling.layout.ranks if scaling else len(files)
        listed = None if groups is None else _group_file(path.parent / groups, ranks)
        traces = [_ChakraConverter(rank, file, ranks, listed, options).trace()
                  for rank, file in files.items()]
        made = join(traces if scaling is None else list(scaling.complete(traces)))
    own = _FILE.fullmatch(path.name)
    name = own[1] if own else stem_of(path)
    label = name if scaling is None else scaling.label(name, len(traces))
    return one_job(made, name, label, iterations, hosts, seed)


@dataclass(frozen=True, slots=True)
class _Options:
    """Options for converting nodes; see `read_chakra`."""

    deps: str
    comm_slots: int | str | None
    replay: bool
    strict: bool
    drop_long: bool
    peak_flops: float | None
    memory_rate: float | None

    def __post_init__(self) -> None:
        convert(self, deps=partial(as_choice, choices=("data", "data+ctrl")),
                comm_slots=_comm_slots, replay=as_flag, strict=as_flag, drop_long=as_flag,
                peak_flops=optional(partial(as_number, above=0)))
        if self.peak_flops is not None and self.memory_rate is None:
            raise InputError("peak_flops needs memory_rate, for the roofline", "peak_flops")


def _comm_slots(given: Any, what: str) -> Any:
    slots = plain(given)
    if isinstance(slots, bool) or slots not in (None, 1, "none"):
        raise refused(what, '1 or "none"', slots)
    return slots


# --- files -------------------------------------------------------------------------------------
def _files(path: Path, scaling: Scaling | None) -> dict[int, Path]:
    """Find the files of all ranks that have one, in order of ranks."""
    own = _FILE.fullmatch(path.name)
    if own is None:
        return {0: path}
    found = {}
    for name in os.listdir(path.parent):
        other = _FILE.fullmatch(name)
        if other and (other[1], other[3]) == (own[1], own[3]):
            found[int(other[2])] = path.parent / name
    if scaling is not None:
        if max(found) >= scaling.layout.ranks:
            raise TraceError(f"there is a file of rank {max(found)}, and {scaling.layout} has "
                             f"{scaling.layout.ranks} ranks", path)
        return dict(sorted(found.items()))
    for rank in range(len(found)):
        if rank not in found:
            raise TraceError(f"the file of rank {rank}, {own[1]}.{rank}.{own[3]}, is "
                             f"missing; there are {len(found)}, up to rank {max(found)}; "
                             "with a layout, ranks without a file do the same as others", path)
    return dict(sorted(found.items()))


def _read(path: Path) -> ChakraFile:
    return read_chakra_json(path) if path.suffix == ".json" else read_chakra_file(path)


def _group_file(path: Path, ranks: int) -> dict[str, Group]:
    table = parse_object(read_text(path), path)
    return {name: Group(_members(members, ranks, f"group {name!r}", path), name, name)
            for name, members in table.items()}


def _members(given: object, ranks: int, what: str, path: Path) -> tuple[int, ...]:
    """Check the ranks of a group; an empty list means all ranks."""
    if not isinstance(given, list) or not all(type(each) is int for each in given):
        raise TraceError(f"{what} must be a list of ranks, not {reprlib.repr(given)}", path)
    for each in given:
        if not 0 <= each < ranks:
            raise TraceError(f"{what} has rank {each}, and ranks are from 0 to {ranks - 1}", path)
    if len(set(given)) < len(given):
        raise TraceError(f"{what} has a rank twice: {reprlib.repr(given)}", path)
    return tuple(given) if given else tuple(range(ranks))


def _groups_of(file: ChakraFile, rank: int, ranks: int) -> dict[str, Group]:
    """Collect the groups that the metadata nodes of a trace list, by name."""
    found = {}
    for node in file.nodes:
        if node.type != NODE_TYPES.index("METADATA"):
            continue
        for entry in _listed(node.inputs.values[2:-2]):
            name = str(entry["pg_name"])
            members = _members(entry.get("ranks", []), ranks,
                               f"rank {rank}: {node}: group {name!r}", file.path)
            found[name] = Group(members, name, str(entry.get("pg_desc", name)))
    return found


def _listed(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the groups from a text that is JSON; other metadata has none."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping) and "pg_name" in entry:
            yield entry


# --- nodes ---------------------------------------------------------------------------------------
class _ChakraConverter:
    """Converts the nodes of one rank."""

    def __init__(self, rank: int, file: ChakraFile, ranks: int, groups: dict[str, Group] | None,
                 options: _Options) -> None:
        self._rank, self._file, self._ranks, self._options = rank, file, ranks, options
        self._groups = {**_groups_of(file, rank, ranks), **(groups or {})}
        slots = options.comm_slots
        if slots is None and SLOTS in file.attributes and not file.is_json:
            slots = file.attributes[SLOTS].value
        self._slot = "" if slots == "none" else "communication"
        self._untyped = self._long = 0

    def trace(self) -> RankTrace:
        """Convert all nodes, and warn about what the trace lacks."""
        known = {node.id for node in self._file.nodes}
        lost = 0
        made = []
        for node in map(self._without_long_time, self._file.nodes):
            after = node.data_deps
            if self._options.deps == "data+ctrl":
                there = tuple(each for each in node.ctrl_deps if each in known)
                lost += len(node.ctrl_deps) - len(there)
                after += there
            try:
                made.append(self._made(node, tuple(dict.fromkeys(after))))
            except TraceError as error:
                raise TraceError(f"rank {self._rank}: {error.message}", self._file.path) from error
        self._warn(self._untyped, "collectives have no type or size, and take the recorded time")
        self._warn(self._long, "recorded times are more than a week, and count as none")
        self._warn(lost, "dependencies of control are on nodes that are not there, and are ignored")
        return RankTrace.of(self._rank, self._file.path, made)

    def _warn(self, count: int, what: str) -> None:
        if count:
            warnings.warn(NetsimWarning(f"rank {self._rank}: {count} {what}", self._file.path),
                          stacklevel=5)

    def _without_long_time(self, node: ChakraNode) -> ChakraNode:
        """Refuse a node of more than a week, or take its time away."""
        seconds = node.duration_micros / 1e6
        if seconds <= WEEK_S:
            return node
        if not self._options.drop_long:
            raise TraceError(f"rank {self._rank}: " + too_long(
                node, seconds, "with drop_long = true such a time counts as none"),
                self._file.path)
        self._long += 1
        return replace(node, duration_micros=0)

    def _made(self, node: ChakraNode, after: tuple[int, ...]) -> RankNode:
        if node.type >= len(NODE_TYPES):
            raise TraceError(f"{node} has the unknown node type {node.type}; types are from 0 to "
                             f"{len(NODE_TYPES) - 1}")
        kind = node.kind
        if kind == "skip":
            return RankNode(node.id, node.name, "point", after)
        if kind in ("cpu", "comp", "mem"):
            stream = {"cpu": "cpu", "comp": "compute", "mem": "memory"}[kind]
            given = node.attributes.get(STREAM)
            return RankNode(node.id, node.name, "compute", after, self._seconds(node, kind),
                            str(given.value) if given else stream)
        if self._options.replay or (kind == "coll" and self._is_untyped(node)):
            return RankNode(node.id, node.name, "compute", after, _recorded(node, least=1),
                            "" if kind == "recv" else "communication")
        return self._collective(node, after) if kind == "coll" else self._message(node, after)

    def _is_untyped(self, node: ChakraNode) -> bool:
        """Whether a collective lacks its type or size, which is allowed in JSON."""
        missing = [name for name in ("comm_type", "comm_size")
                   if node.attributes.get(name) is None]
        if node.whole("comm_type") == COLLECTIVES.index("barrier"):
            missing = []
        if missing and (self._options.strict or not self._file.is_json):
            raise TraceError(f"{node} is a collective without {missing[0]}")
        self._untyped += bool(missing)
        return bool(missing)

    def _seconds(self, node: ChakraNode, kind: str) -> float:
        exact = node.attributes.get(COMPUTE_S)
        if exact is not None and exact.form == "double" and 0 <= exact.value < 1e18:
            return float(exact.value)
        operations, nbytes = self._natural(node, "num_ops"), self._natural(node, "tensor_size")
        peak, memory = self._options.peak_flops, self._options.memory_rate
        if kind == "comp" and peak and memory and operations is not None and nbytes is not None:
            return max(operations / peak, nbytes / memory) if nbytes else 0.0
        if kind == "mem" and not node.duration_micros and nbytes and memory:
            return nbytes / memory
        return _recorded(node, least=0 if kind == "mem" else 1)

    def _natural(self, node: ChakraNode, name: str) -> int | None:
        value = node.whole(name)
        if value is not None and value < 0:
            raise TraceError(f"{node}: {name} must be at least 0, not {value}")
        return value

    def _check_size(self, node: ChakraNode, nbytes: int) -> None:
        if self._options.strict and not nbytes:
            raise TraceError(f"{node}: comm_size must be at least 1, not 0")

    def _collective(self, node: ChakraNode, after: tuple[int, ...]) -> RankNode:
        number = node.whole("comm_type") or 0
        if not 0 <= number < len(COLLECTIVES):
            raise TraceError(f"{node} has the unknown comm_type {number}; types are from 0 to "
                             f"{len(COLLECTIVES) - 1}")
        kind, group = COLLECTIVES[number], self._group(node)
        payload = self._natural(node, "comm_size") or 0
        if kind in ("all-gather", "gather"):  # the size is that of the rank's input
            payload *= len(group.members)
        exact = self._natural(node, PAYLOAD)
        if kind != "barrier":
            self._check_size(node, exact or payload)
        return RankNode(node.id, node.name, "collective", after, 0.0, self._slot, kind,
                        group.members, payload if exact is None else exact, group.name,
                        group.label)

    def _group(self, node: ChakraNode) -> Group:
        given = node.attributes.get("pg_name")
        name = "" if given is None else str(given.value)
        if name in self._groups:
            group = self._groups[name]
        elif name in _ALL:
            group = Group(tuple(range(self._ranks)), "", "")
        else:
            raise TraceError(f"{node}: {unknown_name('group', name, self._groups)}")
        if self._rank not in group.members:
            raise TraceError(f"{node} is of group {name!r}, in which this rank is not: "
                             f"{reprlib.repr(list(group.members))}")
        return group

    def _message(self, node: ChakraNode, after: tuple[int, ...]) -> RankNode:
        own, other = ("comm_src", "comm_dst") if node.kind == "send" else ("comm_dst", "comm_src")
        peer, size = node.whole(other), self._natural(node, "comm_size")
        if peer is None or size is None:
            missing = other if peer is None else "comm_size"
            raise TraceError(f"{node} is a {node.kind} without {missing}")
        self._check_size(node, size)
        if not 0 <= peer < self._ranks:
            raise TraceError(f"{node}: {other} must be a rank from 0 to {self._ranks - 1}, not "
                             f"{peer}")
        if node.whole(own) not in (None, self._rank):
            raise TraceError(f"{node}: {own} of a {node.kind} must be its own rank, not "
                             f"{node.whole(own)}")
        members = (self._rank, peer) if node.kind == "send" else (peer, self._rank)
        slot = self._slot if node.kind == "send" else ""
        return RankNode(node.id, node.name, node.kind, after, 0.0, slot, "send", members, size,
                        label="pp", tag=node.whole("comm_tag") or 0)


def _recorded(node: ChakraNode, least: int) -> float:
    """Return the recorded seconds, or `least` nanoseconds if none are recorded."""
    return max(node.duration_micros * 1000, least) / 1e9
