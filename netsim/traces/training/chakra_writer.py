"""Writes the operations of a job's ranks as execution traces of Chakra, for `read_chakra`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from netsim.base.files import atomic_write
from netsim.errors import InputError
from netsim.traces.training.chakra import COLLECTIVES, COMPUTE_S, PAYLOAD, SLOTS, STREAM
from netsim.traces.training.chakra_file import ATTRIBUTES, NODE_TYPES, encode, pack
from netsim.workload import JobSpec, Operations, Workload
from netsim.workload.operations import Communication, Programs

_FIELDS = {form: number for number, (form, _) in ATTRIBUTES.items()}

#: Nodes of an operation: what it computes, and what it sends.
_PER_OPERATION = 2


def write_chakra(workload: Workload | JobSpec, path: str | Path, *,
                 network: Mapping[str, Any] | None = None) -> list[Path]:
    """Write a job whose ranks compute as execution traces of Chakra, a file per rank.

    All iterations are written one after the other; read back, they form a single iteration.
    Chakra's times are whole microseconds; an additional attribute has the exact time.

    Parameters
    ----------
    workload : Workload or JobSpec
        One job with operations, as made by `netsim.llm_job` or by a reader of traces.
    path : path-like
        ``PREFIX.et``; the files are ``PREFIX.0.et``, ``PREFIX.1.et``, ...
    network : mapping, optional
        Ignored: the format contains no network.

    Returns
    -------
    list of Path
        The files, by rank.

    Raises
    ------
    InputError
        If there are several jobs, or the format cannot express one.
    OutputError
        If a file cannot be written.
    """
    jobs = [workload] if isinstance(workload, JobSpec) else list(workload)
    if len(jobs) != 1:
        raise InputError(f"a trace of Chakra holds one job, not {len(jobs)}")
    job = jobs[0]
    if job.weight != 1:
        raise InputError(f"job {job.id} has a weight, which a trace of Chakra cannot express")
    if job.operations is None:
        raise InputError(f"job {job.id} has no operations of ranks, which a trace of Chakra lists")
    made = job.operations.whole if isinstance(job.operations, Programs) else job.operations
    written = []
    for rank, content in enumerate(_Writing(made, job.iterations).files()):
        target = chakra_file(path, rank)
        with atomic_write(target) as temporary:
            temporary.write_bytes(content)
        written.append(target)
    return written


def chakra_file(path: str | Path, rank: int) -> Path:
    """Return the file of a rank, given ``PREFIX.et`` or the file of rank 0."""
    prefix = Path(path).name.removesuffix(".et").removesuffix(".0")
    return Path(path).with_name(f"{prefix}.{rank}.et")


class _Writing:
    """The nodes of all ranks, from the operations of a job.

    Operation k of an iteration has a node on each rank that takes part in it: the rank that
    computes, the ranks that communicate, or the ranks whose operations a point connects.
    """

    def __init__(self, operations: Operations, iterations: int) -> None:
        self._made, self._iterations = operations, iterations
        self._refuse_inexpressible()
        self._parents = operations.after.lists(), operations.after_previous.lists()
        self._place = {k: place for place, k in enumerate(operations.sequence.tolist())}
        self._ranks = self._taking_part()
        self._groups: dict[tuple[str, tuple[int, ...]], str] = {}
        self._nodes: list[list[bytes]] = [[] for _ in range(operations.ranks)]

    def files(self) -> Iterator[bytes]:
        """Yield the file of each rank."""
        for iteration in range(self._iterations):
            for k in self._made.sequence.tolist():
                self._write(iteration, k)
        metadata = encode([(1, "0.0.4"), (2, _attribute(SLOTS, "string", "none"))])
        for rank, nodes in enumerate(self._nodes):
            yield b"".join(map(_framed, [metadata, self._process_groups(rank), *nodes]))

    # --- what cannot be said --------------------------------------------------------------------

    def _refuse_inexpressible(self) -> None:
        if self._made.variants:
            raise InputError("iterations of the job differ, which a trace of Chakra cannot express")
        for each in self._made.sendings:
            if each.communication is None:
                raise InputError("a coflow of the job is no collective and no message of a kind "
                                 "that is known, which a trace of Chakra cannot express")
            if each.communication.rings > 1:
                raise InputError("a collective of the job goes round several rings, which a trace "
                                 "of Chakra cannot express")
            if each.weight != 1 or each.deadline_s is not None or each.overhead_s is not None:
                raise InputError("a coflow of the job has a weight, a deadline or an overhead, "
                                 "which a trace of Chakra cannot express")
        if self._made.holders:
            raise InputError("ranks of the job hold streams until collectives end; a trace of "
                             "Chakra says that by nodes, as the one that it was read from does")

    def _communication(self, k: int) -> Communication | None:
        sends = self._made.sends[k]
        return None if sends < 0 else self._made.sendings[sends].communication

    def _taking_part(self) -> list[tuple[int, ...]]:
        """Find the ranks with a node of each operation."""
        made, count = self._made, len(self._made)
        ranks: list[set[int]] = [set() for _ in range(count)]
        for k in range(count):
            if made.rank[k] >= 0:
                ranks[k].add(int(made.rank[k]))
            if (sent := self._communication(k)) is not None:
                if ranks[k] and not ranks[k] <= {*sent.members}:
                    raise InputError(f"operation {made.name_of(k)!r} sends for other ranks than "
                                     "the one that computes it")
                ranks[k] |= {*sent.members}
        points = [k for k in made.sequence.tolist() if not ranks[k]]
        for k in points:
            if made.compute_s[k]:
                raise InputError(f"operation {made.name_of(k)!r} computes on no rank, which a "
                                 "trace of Chakra cannot express")
        children = [made.after.inverse().lists(), made.after_previous.inverse().lists()]
        own = set(points)
        for k in points:  # parents first, in this iteration
            for relations in (*self._parents, *children):
                for other in relations[k]:
                    if other not in own or relations is self._parents[0]:
                        ranks[k] |= ranks[other]
        return [tuple(sorted(each)) for each in ranks]

    # --- nodes ----------------------------------------------------------------------------------

    def _id(self, iteration: int, k: int) -> int:
        """The id of the first node of an operation; 0 is the node with the groups."""
        return 1 + _PER_OPERATION * (iteration * len(self._made) + self._place[k])

    def _last_id(self, iteration: int, k: int) -> int:
        made = self._made
        both = made.rank[k] >= 0 and made.sends[k] >= 0
        return self._id(iteration, k) + int(both)

    def _write(self, iteration: int, k: int) -> None:
        made, sent = self._made, self._communication(k)
        parents = [(iteration, other) for other in self._parents[0][k]]
        if iteration:
            parents += [(iteration - 1, other) for other in self._parents[1][k]]
        name, own = made.name_of(k), self._id(iteration, k)
        awaited = {rank: self._awaited(rank, parents) for rank in self._ranks[k]}
        self._check_awaited(k, awaited, parents)
        if made.rank[k] >= 0:
            rank = int(made.rank[k])
            stream = made.streams[made.stream[k]]
            attributes = [_attribute(COMPUTE_S, "double", float(made.compute_s[k])),
                          _attribute("is_cpu_op", "bool", 0)]
            if stream != "compute":
                attributes.append(_attribute(STREAM, "string", stream))
            self._add(rank, own, name, "COMP", awaited[rank], attributes,
                      round(made.compute_s[k] * 1e6))
            awaited[rank] = [own]
        if sent is not None:
            self._communicate(self._last_id(iteration, k), name, sent, awaited)
        elif made.rank[k] < 0:
            self._meet(own, name, self._ranks[k], awaited)

    def _awaited(self, rank: int, parents: list[tuple[int, int]]) -> list[int]:
        return [self._last_id(*each) for each in parents if rank in self._ranks[each[1]]]

    def _check_awaited(self, k: int, awaited: dict[int, list[int]],
                       parents: list[tuple[int, int]]) -> None:
        """Refuse a wait for an operation in which none of the waiting operation's ranks takes part.

        A message begins when its sender does.
        """
        sent = self._communication(k)
        counts = self._ranks[k]
        if self._made.rank[k] >= 0:
            counts = (int(self._made.rank[k]),)
        elif sent is not None and sent.kind == "send":
            counts = sent.members[:1]
        known = {each for rank in counts for each in awaited[rank]}
        for each in parents:
            if self._last_id(*each) not in known:
                raise InputError(
                    f"operation {self._made.name_of(k)!r} waits for "
                    f"{self._made.name_of(each[1])!r} of other ranks without a communication, "
                    "which a trace of Chakra cannot express")

    def _add(self, rank: int, number: int, name: str, kind: str, awaited: list[int],
             attributes: list[bytes], micros: int = 0) -> None:
        deps = b"".join(map(pack, awaited))
        self._nodes[rank].append(encode([
            (1, number), (2, name), (3, NODE_TYPES.index(kind)), *([(5, deps)] if deps else []),
            (7, micros), *((10, each) for each in attributes)]))

    def _communicate(self, number: int, name: str, sent: Communication,
                     awaited: dict[int, list[int]]) -> None:
        if sent.kind == "send":
            src, dst = sent.members
            size = _attribute("comm_size", "int64", sent.payload)
            for rank, kind, peer, end in ((src, "COMM_SEND", dst, "comm_dst"),
                                          (dst, "COMM_RECV", src, "comm_src")):
                # The receiver is always ready.
                self._add(rank, number, name, kind, awaited[src] if kind == "COMM_SEND" else [],
                          [_attribute(end, "int32", peer), _attribute("comm_tag", "int32", 0),
                           size])
            return
        whole, parts = sent.payload, len(sent.members)
        gathers = sent.kind in ("all-gather", "gather")
        own = -(-whole // parts) if gathers else whole
        attributes = [_attribute("comm_type", "int64", COLLECTIVES.index(sent.kind)),
                      _attribute("comm_size", "int64", own),
                      _attribute("pg_name", "string", self._group(sent.group, sent.members))]
        if gathers and own * parts != whole:
            attributes.append(_attribute(PAYLOAD, "int64", whole))
        for rank in sent.members:
            self._add(rank, number, name, "COMM_COLL", awaited[rank], attributes)

    def _meet(self, number: int, name: str, ranks: tuple[int, ...],
              awaited: dict[int, list[int]]) -> None:
        """Write a point: a barrier, if several ranks meet there."""
        if len(ranks) == 1:
            self._add(ranks[0], number, name, "METADATA", awaited[ranks[0]], [])
            return
        attributes = [_attribute("comm_type", "int64", COLLECTIVES.index("barrier")),
                      _attribute("comm_size", "int64", 0),
                      _attribute("pg_name", "string", self._group("", ranks))]
        for rank in ranks:
            self._add(rank, number, name, "COMM_COLL", awaited[rank], attributes)

    # --- groups ---------------------------------------------------------------------------------

    def _group(self, label: str, members: tuple[int, ...]) -> str:
        """Name a group by a number from 1, the same for equal groups."""
        return self._groups.setdefault((label, members), str(len(self._groups) + 1))

    def _process_groups(self, rank: int) -> bytes:
        """Encode the node that lists the groups of a rank, as PyTorch's traces do."""
        listing = [{"pg_name": name, "pg_desc": label, "ranks": list(members)}
                   for (label, members), name in self._groups.items() if rank in members]
        values = f"['{json.dumps(listing)}']"
        return encode([(1, 0), (2, "## process_group:init ##"),
                       (3, NODE_TYPES.index("METADATA")), (8, encode([(1, values)]))])


def _attribute(name: str, form: str, value: float | str) -> bytes:
    return encode([(1, name), (_FIELDS[form], value)])


def _framed(message: bytes) -> bytes:
    return pack(len(message)) + message
