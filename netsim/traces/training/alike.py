"""Jobs in which all ranks do the same, each in its own groups, from traces of one rank."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from netsim.limits import check_limit, most
from netsim.llm.groups import Grid
from netsim.programs import Family, Programs, Row
from netsim.traces.training.simai_tool import GroupSizes

Ints = NDArray[np.int64]

#: Ranks are numbered as Megatron does: first within tensor groups, last across stages.
_ORDER = "tp-cp-ep-dp-pp"
_ROUND = ("all-reduce", "all-gather", "reduce-scatter")
_GROUP_KINDS = {"tp": "tp", "dp": "dp", "ep": "ep", "dp-ep": "edp"}


class AlikeRanks:
    """Makes the operations of all ranks from those of one rank, step by step.

    A collective of a group with p ranks on each of several servers consists of p rings, each of
    which leaves a server from another rank.
    """

    def __init__(self, sizes: GroupSizes, gpus_per_server: int) -> None:
        self._gpus, self._most = gpus_per_server, most("steps")
        self._ranks = np.arange(sizes.ranks)
        self._grid = Grid.make(sizes.tp, 1, sizes.ep, sizes.dp, sizes.pp, _ORDER)
        self._groups: dict[str, tuple[Ints, Ints]] = {}
        self._rings: dict[str, int] = {}
        self._families: dict[tuple[str, str, int, float], int] = {}
        self._made: list[Family] = []
        self._rows: list[Row] = []
        self._after: list[tuple[int, int]] = []
        self._front: tuple[int, ...] = ()
        self._firsts: list[int] = []
        self._computed = -1
        self._behind: list[int] = []

    def compute(self, name: str, ns: int) -> None:
        """Add a computation of some nanoseconds; nothing for 0."""
        if ns:
            behind = () if self._computed < 0 else (self._computed,)
            self._computed = self._add(name, "compute", self._ranks, ns / 1e9, -1, self._ranks,
                                       (*self._front, *behind))
            self._front = (self._computed,)

    def wait(self, name: str, seconds: float, group: str = "all", *, blocks: bool = True) -> None:
        """Make the ranks of each group meet, and then wait for some time."""
        _, of_rank = self._groups_of(group)
        self._go_on(self._add(name, group, None, seconds, -1, of_rank, self._front), blocks)

    def collective(self, name: str, kind: str, group: str, nbytes: int, *, factor: float = 1.0,
                   late_ns: int = 0, blocks: bool = True) -> None:
        """Add a collective in each group, with `nbytes` in the larger buffer.

        The bytes on the wire are multiplied by `factor`. It ends `late_ns` after its last byte. If
        it `blocks`, ranks wait for its end; otherwise only the end of the iteration does.
        """
        groups, of_rank = self._groups_of(group)
        if groups.shape[1] == 1 or not nbytes:
            self.wait(name, late_ns / 1e9, group, blocks=blocks)
            return
        rings = self._rings_of(group, groups) if kind in _ROUND else 1
        family = self._family(Family(kind, groups, nbytes, group, factor, rings))
        row = self._add(name, group, None, 0.0, family, of_rank, self._front)
        if late_ns:
            row = self._add(f"{name}, update", group, None, late_ns / 1e9, -1, of_rank, (row,))
        self._go_on(row, blocks)

    def send(self, name: str, stages: int, nbytes: int) -> None:
        """Send from each rank to the rank some stages ahead; only the end of an iteration waits."""
        ranks, stages_of = self._ranks, len(self._grid.dense)
        other = (ranks + stages * (len(ranks) // stages_of)) % len(ranks)
        family = self._family(Family("send", np.stack((ranks, other), axis=1), nbytes,
                                     f"pp {stages}"))
        self._go_on(self._add(name, "pp", None, 0.0, family, ranks, self._front), False)

    def programs(self) -> Programs:
        """Return all operations; an iteration of a rank ends when all its operations are done."""
        end = self._add("end", "end", None, 0.0, -1, self._ranks, (*self._front, *self._behind))
        return Programs(tuple(self._rows), tuple(dict.fromkeys(self._after)),
                        tuple((first, end) for first in self._firsts), tuple(self._made),
                        len(self._ranks))

    def _add(self, name: str, stream: str, ranks: Ints | None, seconds: float, family: int,
             of_rank: Ints, after: Iterable[int]) -> int:
        row = len(self._rows)
        if row == self._most:
            check_limit("steps", row + 1, where="an iteration of a rank")
        size = int(of_rank[-1]) + 1 if of_rank is self._ranks else int(of_rank.max()) + 1
        self._rows.append(Row(name, stream, ranks, seconds, family, size, of_rank))
        pairs = [(row, other) for other in after]
        self._after += pairs
        if not pairs:
            self._firsts.append(row)
        return row

    def _go_on(self, row: int, blocks: bool) -> None:
        if blocks:
            self._front = (row,)
        else:
            self._behind.append(row)

    def _groups_of(self, group: str) -> tuple[Ints, Ints]:
        """Return the groups of a kind, and the group of each rank."""
        if group not in self._groups:
            groups = self._of_kind(group)
            of_rank = np.arange(len(self._ranks))
            of_rank[groups] = np.arange(len(groups))[:, None]
            self._groups[group] = groups, of_rank
        return self._groups[group]

    def _of_kind(self, group: str) -> Ints:
        dense = self._grid.dense
        if group == "all":
            return self._ranks[None]
        return np.concatenate([self._grid.of_stage(_GROUP_KINDS[group], stage)
                               for stage in range(len(dense))])

    def _rings_of(self, group: str, groups: Ints) -> int:
        if group not in self._rings:
            self._rings[group] = _rings(groups, self._gpus)
        return self._rings[group]

    def _family(self, family: Family) -> int:
        """Return the index of a family, which equal ones share."""
        key = family.kind, family.group, family.payload, family.factor
        if key not in self._families:
            self._families[key] = len(self._made)
            self._made.append(family)
        return self._families[key]


def _rings(groups: Ints, gpus: int) -> int:
    """Count a group's ranks on each server; 1 if these numbers differ, or for a single server."""
    servers = groups // gpus
    own = int((servers[0] == servers[0, 0]).sum())
    if groups.shape[1] % own:
        return 1
    blocks = servers.reshape(len(groups), -1, own)
    alike = (blocks == blocks[..., :1]).all() and (
        blocks[:, 1:, 0] != blocks[:, :-1, 0]).all() and blocks.shape[1] > 1
    return own if alike else 1
