"""Identifies the collectives of NCCL kernels from a profile: kind, ranks and size."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, NamedTuple

from netsim.errors import TraceError, unknown_name
from netsim.traces.training.kineto_events import KinetoEvent, KinetoTrace

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

    def _refuse(self, event: KinetoEvent, problem: str) -> None:
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
            return ()
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
