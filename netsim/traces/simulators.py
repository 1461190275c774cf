"""Flows of packet simulators: a flow per line of HPCC's, and the connection matrices of htsim."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import MAX_PREC, Context, Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from netsim.base.files import stem_of
from netsim.base.limits import check_limit
from netsim.base.reading import Line, as_problems, beginning_of, lines_of, require_file
from netsim.base.units import is_digits
from netsim.base.values import MOST_ID, as_path
from netsim.errors import NetsimWarning, TraceError, not_one_of, unknown_name
from netsim.network import Topology
from netsim.network.simulators import host_numbers, rest_of
from netsim.traces.files import connected
from netsim.workload import Flows, JobSpec, Stage, Workload
from netsim.workload.columns import Columns
from netsim.workload.job import JobColumns


# --- HPCC ----------------------------------------------------------------------------------
def has_count_of_flows(path: str | Path) -> bool:
    """Whether a file begins with a number alone, followed by a flow; False if it cannot be read."""
    count, flow, *_ = f"{beginning_of(path, 1000)}\n\n".split("\n")
    return is_digits(count.strip()) and len(flow.split()) >= 6 and ":" not in flow


def read_hpcc_flows(path: str | Path, *, topology: str | Path | None = None, seed: int = 0
                    ) -> Workload:
    """Read a flow file of the HPCC simulator (ns-3).

    The first line has the number of flows. Each further line is a flow,
    ``src dst pg dport bytes start``, with the start in seconds. Priority groups (``pg``) and ports
    are ignored, and so is everything after the given number of flows. Flow k is job k.

    Parameters
    ----------
    path : path-like
    topology : path-like, optional
        The topology file with the numbers of nodes that flows refer to; a relative path starts at
        the folder of `path`. See `netsim.network.simulators.hpcc`. Not needed if hosts come before
        switches in that file, because numbers of nodes are then numbers of hosts.
    seed : int
        The workload's seed.

    Raises
    ------
    TraceError
        If a file cannot be read, its contents are invalid, with the line, or a flow is not between
        hosts.

    Warns
    -----
    NetsimWarning
        If the flows are not in order of their starts, or the file has more flows than announced.
    """
    path = require_file(path)
    with as_problems(path):
        hosts = None if topology is None else host_numbers(
            path.parent / as_path(topology, "topology"))
        rows = _read_rows(path, hosts)
    src, dst, nbytes, start = (np.array(column) for column in zip(*rows, strict=True))
    return Workload.from_arrays(src, dst, nbytes.astype(np.float64), start, name=stem_of(path),
                                seed=seed)


def _read_rows(path: Path, hosts: dict[int, int] | None) -> list[tuple[int, int, int, float]]:
    lines = lines_of(path)
    head = next(lines, None)
    if head is None:
        raise TraceError("is empty; the first line must be the number of flows", path, 1)
    count = head.whole(0, "the number of flows", 1)
    rows = []
    for line in lines:
        rows.append(_flow(line, hosts))
        if len(rows) == count:
            break
    if len(rows) < count:
        raise TraceError(f"{count} flows announced, {len(rows)} found", path, head.number)
    _warn(path, rows, lines)
    return rows


def _flow(line: Line, hosts: dict[int, int] | None) -> tuple[int, int, int, float]:
    ends = []
    for k, what in enumerate(("src", "dst")):
        node = line.whole(k, what)
        check_limit("hosts", node, line.path, line.number, where=what)
        if hosts is not None and node not in hosts:
            line.refuse(f"{what} {node} is not a host of the topology")
        ends.append(node if hosts is None else hosts[node])
    line.whole(2, "pg")
    line.whole(3, "dport")
    return ends[0], ends[1], line.whole(4, "bytes", 1), line.real(5, "start")


def _warn(path: Path, rows: list[tuple[int, int, int, float]], lines: Iterator[Line]) -> None:
    if any(after[3] < before[3] for before, after in pairwise(rows)):
        warnings.warn(NetsimWarning("the flows are not in order of their starts; they are sorted",
                                    path), stacklevel=4)
    if rest := rest_of(lines, 6):
        warnings.warn(NetsimWarning(
            f"{len(rest)} lines like flows follow those that are announced, and are ignored",
            path, rest[0].number), stacklevel=4)


# --- htsim ---------------------------------------------------------------------------------

_HEADER = ("Nodes", "Connections", "Triggers", "Failures")

_TRIGGERS = ("oneshot", "multishot", "barrier")

_PAIR = re.compile(r"(\d{1,9})->(\d{1,9})", re.ASCII)

#: A context in which moving the decimal point of a number never rounds.
_EXACT = Context(prec=MAX_PREC)

#: By type of switch: its nodes in a network of `netsim.network.htsim`, and those it leads to.
_SWITCHES = {"TOR": ("tor", "agg"), "AGG": ("agg", "core"), "CORE": ("core", "agg")}


@dataclass(frozen=True)
class _Connection:
    """A flow; if others have its id, too, they are the messages of one connection."""

    line: Line
    src: int
    dst: int
    nbytes: int
    id: int  #: 0 if it has none
    is_message: bool
    start_s: float | None  #: None if a trigger starts it
    trigger: int  #: 0 if it has a start
    fires: tuple[int, ...]  #: triggers


@dataclass
class _Trigger:
    """A trigger, with the connections that fire it and those that it starts, by index."""

    line: Line
    kind: str
    count: int  #: how many must fire it; 0 if not given
    fired_by: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


@dataclass
class _Matrix:
    """The contents of a file; `shared` has the ids of connections with several messages."""

    connections: list[_Connection] = field(default_factory=list)
    triggers: dict[int, _Trigger] = field(default_factory=dict)
    failures: list[tuple[Line, str, int, int]] = field(default_factory=list)
    shared: set[int] = field(default_factory=set)


def read_htsim(path: str | Path, *, seed: int = 0) -> Workload:
    """Read a connection matrix of htsim (``.cm``).

    A connection without triggers is a job of one flow. Connections that triggers link form one job,
    with a stage per connection. A oneshot trigger starts its connections when the connection that
    fires it has completed; a barrier starts them when all connections that fire it have completed.
    With a multishot trigger, the k-th connection that fires it starts the k-th connection that
    waits for it. Rank r runs on host r. If all connections have an ``id``, a job has the ``id`` of
    its first connection; otherwise, jobs are numbered.

    Connections with ``msg`` may have the same ``id``, and are then messages of one connection, and
    one job. They are sent one after the other, in order of their starts, and those of one start in
    the order of the file. Priorities (``prio``) are ignored. For ``failure`` lines, see
    `read_htsim_failures`.

    Parameters
    ----------
    path : path-like
        The file; times in it are in picoseconds, sizes in bytes.
    seed : int
        The workload's seed.

    Raises
    ------
    TraceError
        If the file cannot be read or its contents are invalid, with the line; or if connections
        never start.

    Warns
    -----
    NetsimWarning
        If several connections fire a multishot trigger: htsim uses their order in time, netsim
        their order in the file. Also if there are failures, or if messages start after 0: htsim
        takes these starts in microseconds.
    """
    path = require_file(path)
    with as_problems(path):
        matrix = _read(path)
        after = _after(matrix)
    if matrix.failures:
        warnings.warn(NetsimWarning(
            f"{len(matrix.failures)} failures are not part of a workload; "
            "give them to a run by events = "
            "netsim.traces.read_htsim_failures(file, network)", path), stacklevel=3)
    with as_problems(path):
        jobs = _jobs(matrix, after) if matrix.triggers or after else _columns(matrix)
    return Workload(jobs, stem_of(path), seed=seed)


def read_htsim_failures(path: str | Path, network: Topology) -> list[dict[str, Any]]:
    """Return the failed links of a connection matrix of htsim as events of a run.

    Link l of a switch is its l-th link towards the core, or, for a core switch, its l-th link down.
    It fails in both directions, from the beginning.

    Parameters
    ----------
    path : path-like
        The ``.cm`` file.
    network : Topology
        The network, made from a ``.topo`` file.

    Returns
    -------
    list of dict
        Events for `netsim.simulate`.

    Raises
    ------
    TraceError
        If the file cannot be read, or the network has no such link.
    """
    events = []
    onward: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name in network.link_names:
        start, _, end = name.partition("->")
        onward[start, end.partition("-")[0]].append(name)
    for line, kind, switch, number in _read(require_file(path)).failures:
        below, above = _SWITCHES[kind]
        ways = onward.get((f"{below}-{switch}", above), [])
        if number >= len(ways):
            line.refuse(f"network {network.name!r} has no link {number} of {below}-{switch}; it "
                        f"has {len(ways)}")
        start, _, end = ways[number].partition("->")
        end, sign, copy = end.partition("#")
        events += [{"at": 0.0, "link": name, "kind": "fail"}
                   for name in (ways[number], f"{end}->{start}{sign}{copy}")]
    return events


def _read(path: Path) -> _Matrix:
    """Read a file, and check its counts and names."""
    header: dict[str, tuple[int, Line]] = {}
    matrix = _Matrix()
    for line in lines_of(path, comment="#"):
        first = line.words[0]
        if first in _HEADER:
            _read_header(header, matrix, line)
            continue
        if "Nodes" not in header:
            line.refuse("Nodes is missing before the first connection")
        if "->" in first:
            matrix.connections.append(_connection(line, header["Nodes"][0]))
        elif first == "trigger":
            _add_trigger(matrix, line)
        elif first == "failure":
            matrix.failures.append(_failure(line))
        else:
            line.refuse(f"a line must begin with S->D, trigger or failure, not {first!r}")
    for name in ("Nodes", "Connections"):
        if name not in header:
            raise TraceError(f"{name} is missing", path)
    for name, found in (("Connections", matrix.connections), ("Triggers", matrix.triggers),
                        ("Failures", matrix.failures)):
        announced, where = header.get(name, (0, None))
        if announced != len(found):
            raise TraceError(f"{announced} {name.lower()} announced, {len(found)} found", path,
                             None if where is None else where.number)
    if not matrix.connections:
        raise TraceError("has no connections", path)
    _join(matrix)
    return matrix


def _read_header(header: dict[str, tuple[int, Line]], matrix: _Matrix, line: Line) -> None:
    name = line.words[0]
    if matrix.connections or matrix.triggers or matrix.failures:
        line.refuse(f"{name} must come before the first connection")
    if name in header:
        line.refuse(f"{name} twice, first on line {header[name][1].number}")
    if len(line.words) > 2:
        line.refuse(f"{name} has one value, not {len(line.words) - 1}")
    header[name] = line.whole(1, name, int(name == "Nodes")), line
    if name == "Nodes":
        check_limit("hosts", header[name][0], line.path, line.number, where=name)


def _connection(line: Line, nodes: int) -> _Connection:
    pair = _PAIR.fullmatch(line.words[0])
    if pair is None:
        line.refuse(f"a connection must be S->D, such as 0->1, not {line.words[0]!r}")
    src, dst = map(int, pair.groups())
    for node in (src, dst):
        if node >= nodes:
            line.refuse(f"node {node} is not one of the {nodes} nodes, 0 to {nodes - 1}")
    found: dict[str, int | float] = {}
    place = 1
    while place < len(line.words):
        name = line.words[place]
        if name in found:
            line.refuse(f"{name} twice")
        if name == "start":
            line.real(place + 1, name)
            found[name] = _seconds(line.words[place + 1])
        elif name == "size" and line.word(place + 1, name) == "0":
            line.refuse("size must be at least 1, not 0, with which htsim never stops sending")
        elif name in ("size", "id", "trigger", "send_done_trigger", "recv_done_trigger"):
            found[name] = line.whole(place + 1, name, 1, MOST_ID if name == "id" else None)
        elif name == "msg" and not "".join(line.words[place + 1:place + 2]).isdecimal():
            found[name] = 0
            place -= 1  # it may stand alone
        elif name == "msg":
            found[name] = line.whole(place + 1, name, 1)
        elif name == "prio":
            found[name] = line.whole(place + 1, name)
        else:
            line.refuse(unknown_name("token", name, (
                "start", "trigger", "size", "id", "msg", "send_done_trigger", "recv_done_trigger",
                "prio")))
        place += 2
    return _checked(line, src, dst, found)


def _seconds(picoseconds: str) -> float:
    """Convert picoseconds in one rounding, as they may have more digits than seconds can."""
    return float(Decimal(picoseconds).scaleb(-12, _EXACT))


def _checked(line: Line, src: int, dst: int, found: Mapping[str, Any]) -> _Connection:
    if ("start" in found) == ("trigger" in found):
        line.refuse("neither start nor trigger is given" if "start" not in found else
                    "start and trigger are both given; give one")
    if "size" not in found:
        line.refuse("size is missing")
    if "trigger" in found and "id" not in found:
        line.refuse("a connection with a trigger must have an id")
    fires = tuple(found[name] for name in ("send_done_trigger", "recv_done_trigger")
                  if name in found)
    return _Connection(line, src, dst, found["size"], found.get("id", 0), "msg" in found,
                       found.get("start"), found.get("trigger", 0), fires)


def _add_trigger(matrix: _Matrix, line: Line) -> None:
    found: dict[str, int] = {}
    kind = ""
    place = 1
    while place < len(line.words):
        word = line.words[place]
        if word in _TRIGGERS:
            if kind:
                line.refuse(f"the trigger is {kind} already, and cannot be {word}")
            kind = word
        elif word in ("id", "count"):
            found[word] = line.whole(place := place + 1, word, 1)
        else:
            line.refuse(unknown_name("token", word, ("id", "count", *_TRIGGERS)))
        place += 1
    if "id" not in found or not kind:
        line.refuse(f"a trigger must have an id, and be one of {', '.join(_TRIGGERS)}")
    if (number := found["id"]) in matrix.triggers:
        line.refuse(f"trigger {number} is there twice, first on line "
                    f"{matrix.triggers[number].line.number}")
    matrix.triggers[number] = _Trigger(line, kind, found.get("count", 0))


def _failure(line: Line) -> tuple[Line, str, int, int]:
    found: dict[str, int] = {}
    kind = ""
    for place in range(1, len(line.words), 2):
        name = line.words[place]
        if name == "switch_type":
            kind = line.word(place + 1, name)
            if kind not in _SWITCHES:
                line.refuse(not_one_of("switch_type", kind, _SWITCHES))
        elif name in ("switch_id", "link_id"):
            found[name] = line.whole(place + 1, name)
        else:
            line.refuse(unknown_name("token", name, ("switch_type", "switch_id", "link_id")))
    if not kind or len(found) < 2:
        line.refuse("a failure must have switch_type, switch_id and link_id")
    return line, kind, found["switch_id"], found["link_id"]


def _join(matrix: _Matrix) -> None:
    """Check the ids of connections, and list at each trigger those that fire it or wait for it."""
    first: dict[int, _Connection] = {}
    for k, each in enumerate(matrix.connections):
        if each.id and first.setdefault(each.id, each) is not each:
            _check_message(each, first[each.id])
            matrix.shared.add(each.id)
        for trigger in (*each.fires, *([each.trigger] if each.trigger else [])):
            if trigger not in matrix.triggers:
                each.line.refuse(f"trigger {trigger} is used, but there is no such trigger")
        for trigger in each.fires:
            matrix.triggers[trigger].fired_by.append(k)
        if each.trigger:
            matrix.triggers[each.trigger].starts.append(k)


def _check_message(each: _Connection, first: _Connection) -> None:
    """Check a connection whose id another one has."""
    where = f"first on line {first.line.number}"
    if not each.is_message:
        each.line.refuse(f"id {each.id} is there twice, {where}; only messages of one connection, "
                         "with msg, have the same id")
    if (each.src, each.dst) != (first.src, first.dst):
        each.line.refuse(f"a message of connection {each.id} must be {first.src}->{first.dst}, "
                         f"not {each.src}->{each.dst}; {where}")
    if each.trigger or first.trigger:
        each.line.refuse(f"connection {each.id} has several messages, {where}, which must have a "
                         "start and no trigger, as in htsim")


def _message_order(matrix: _Matrix) -> dict[int, list[int]]:
    """Map each message but the first of a connection to the one that it waits for."""
    of_id: defaultdict[int, list[int]] = defaultdict(list)
    for k, each in enumerate(matrix.connections):
        if each.id in matrix.shared:
            of_id[each.id].append(k)
    after: dict[int, list[int]] = {}
    for messages in of_id.values():
        messages.sort(key=lambda k: matrix.connections[k].start_s or 0.0)
        after |= {k: [before] for before, k in pairwise(messages)}
    late = [matrix.connections[k].line for k in after if matrix.connections[k].start_s]
    if late:
        warnings.warn(NetsimWarning(
            "starts of messages are taken in picoseconds, as those of all connections; htsim takes "
            "them in microseconds", late[0].path, late[0].number), stacklevel=5)
    return after


def _after(matrix: _Matrix) -> dict[int, list[int]]:
    """Map each connection that waits to the connections that it waits for."""
    after = _message_order(matrix)
    for number, trigger in matrix.triggers.items():
        fired, needed = trigger.fired_by, max(trigger.count, 1)
        if not trigger.starts:
            continue
        if trigger.kind == "oneshot" and len(fired) > 1:
            trigger.line.refuse(f"trigger {number} is oneshot, but {len(fired)} connections fire "
                                "it; one can")
        if trigger.kind == "barrier" and len(fired) != needed:
            trigger.line.refuse(f"trigger {number} is a barrier of count {trigger.count}, but "
                                f"{len(fired)} connections fire it")
        turns = len(trigger.starts) if trigger.kind == "multishot" else 1
        if len(fired) < turns:
            line = matrix.connections[trigger.starts[len(fired)]].line
            line.refuse(f"the connection never starts: trigger {number} is fired by "
                        f"{len(fired)} connections")
        if trigger.kind != "multishot":
            after |= {k: fired for k in trigger.starts}
            continue
        after |= {k: [fired[turn]] for turn, k in enumerate(trigger.starts)}
        if len(fired) > 1 and turns > 1:
            warnings.warn(NetsimWarning(
                f"trigger {number} starts {turns} connections one by one, as {len(fired)} others "
                "end; they are taken to end in the order of the file", trigger.line.path,
                trigger.line.number), stacklevel=4)
    return after


def _columns(matrix: _Matrix) -> JobColumns:
    """Make a job of each connection, as columns."""
    src, dst, nbytes, ids, start = zip(*((
        each.src, each.dst, each.nbytes, each.id, each.start_s) for each in matrix.connections),
        strict=True)
    count = len(src)
    own = np.array(ids, np.int64) if all(ids) else np.arange(count)
    return JobColumns(Columns(
        np.array(src), np.array(dst), np.array(nbytes, np.float64), np.ones(count, np.int64), own,
        np.array(start, np.float64), np.array(ids, np.int64) if all(ids) else np.full(count, -1),
        np.ones(count)).in_order())


def _jobs(matrix: _Matrix, after: Mapping[int, Sequence[int]]) -> list[JobSpec]:
    """Make a job of the connections that wait for each other, and of each of the others."""
    groups = connected(len(matrix.connections), (
        (k, other) for k, others in after.items() for other in others))
    with_ids = all(each.id for each in matrix.connections)
    # Shared by all jobs: each of millions of jobs could need millions of hosts.
    hosts = range(1 + max(max(each.src, each.dst) for each in matrix.connections))
    return [_job(matrix, after, members, with_ids, hosts) for members in groups]


def _job(matrix: _Matrix, after: Mapping[int, Sequence[int]], members: Sequence[int],
         with_ids: bool, hosts: Sequence[int]) -> JobSpec:
    connections = matrix.connections
    number = connections[members[0]].id if with_ids else members[0]
    starts = [each.start_s for k in members if (each := connections[k]).start_s is not None]
    arrival = min(starts, default=0.0)
    stages = []
    for k in members:
        each = connections[k]
        flows = Flows(np.array([each.src]), np.array([each.dst]), np.array([float(each.nbytes)]))
        release = 0.0 if each.start_s is None else each.start_s - arrival
        stages.append(Stage(
            _name(matrix, each), flows, release_s=release,
            after=[_name(matrix, connections[other]) for other in after.get(k, ())],
            coflow_id=each.id if with_ids and each.id not in matrix.shared else None))
    return JobSpec(number, arrival, stages=stages, hosts=hosts)


def _name(matrix: _Matrix, each: _Connection) -> str:
    """Name a connection's stage by its id (and its line, if others have the id), or by its line."""
    line = f"line-{each.line.number}"
    if each.id in matrix.shared:
        return f"connection-{each.id}-{line}"
    return f"connection-{each.id}" if each.id else line


def htsim_facts(workload: Workload) -> list[tuple[str, float]]:
    """List the facts that `check_trace` reports for this format, as (label, value)."""
    stages = [stage for job in workload for stage in job.stages]
    flows = [stage.flows for stage in stages if stage.flows is not None]
    ends = np.array([(each.src[0], each.dst[0]) for each in flows])
    return [
        ("hosts used", len(np.unique(ends))),
        ("connections", len(stages)),
        ("connections that wait for others", sum(bool(stage.after) for stage in stages)),
        ("bytes in total", sum(float(each.nbytes.sum()) for each in flows)),
        ("connections from a host, most", int(np.bincount(ends[:, 0]).max())),
        ("connections to a host, most", int(np.bincount(ends[:, 1]).max())),
        ("first start (s)", workload.jobs[0].arrival_s),
        ("last start (s)", max(job.arrival_s + max(stage.release_s for stage in job.stages)
                               for job in workload)),
    ]
