"""Assembles the operations of all ranks from those of one rank of each pipeline stage."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from netsim.llm.groups import Grid
from netsim.llm.rank_program import Step, rank_program
from netsim.llm.setup import TrainingSetup
from netsim.programs import Family, Programs, Row

Ints = NDArray[np.int64]
Pairs = tuple[tuple[int, int], ...]


def assemble(setup: TrainingSetup) -> Programs:
    """Make the operations of an iteration of a setup, one pipeline stage after the other."""
    return _Assembly(setup).programs()


class _Assembly:
    """Gives each step of each stage a row; a communication has one operation per group."""

    def __init__(self, setup: TrainingSetup) -> None:
        self._grid = Grid.of(setup)
        self._setup = setup
        self._programs = [rank_program(setup, stage) for stage in range(setup.pp)]
        self._size = setup.world // setup.pp
        self._position = np.zeros(setup.world, np.int64)
        for stage in range(setup.pp):
            self._position[self._grid.stage(stage)] = np.arange(self._size)
        self._families: list[Family] = []
        self._known: dict[tuple[str, int, str, int], int] = {}
        self._groups: dict[tuple[str, int], tuple[Ints, Ints]] = {}
        self._each = np.arange(self._size)
        self._rows: list[Row] = []
        self._spanning: dict[str, int] = {}

    def programs(self) -> Programs:
        """Return the operations of all ranks."""
        rows = [[self._row(stage, step) for step in program]
                for stage, program in enumerate(self._programs)]
        return Programs(tuple(self._rows), *self._relations(rows), tuple(self._families),
                        self._setup.world)

    def _row(self, stage: int, step: Step) -> int:
        """Add the row of a step, or find the one that it shares; return its place."""
        if step.kind == "compute":
            return self._add(step, self._grid.stage(stage), -1, self._each)
        if step.kind == "send":
            ends = np.stack((self._grid.stage(stage), self._grid.stage(step.peer)), axis=1)
            return self._add(step, None, self._family(step, stage, ends), self._each)
        if step.group in ("world", "embedding"):
            return self._across(stage, step)
        groups, of_rank = self._groups_of(step.group, stage)
        return self._add(step, None, self._family(step, stage, groups), of_rank)

    def _across(self, stage: int, step: Step) -> int:
        """Return the row of a step that several stages share; the first one makes it."""
        if step.name not in self._spanning:
            if step.group == "world":
                made = self._add(step, None, -1, np.zeros(self._size, np.int64))
            else:
                ends = np.stack((self._grid.stage(0), self._grid.stage(self._setup.pp - 1)), axis=1)
                made = self._add(step, None, self._family(step, stage, ends), self._each)
            self._spanning[step.name] = made
        return self._spanning[step.name]

    def _add(self, step: Step, ranks: Ints | None, family: int, of_rank: Ints) -> int:
        count = int(of_rank.max()) + 1
        self._rows.append(Row(step.name, step.stream, ranks, step.seconds, family, count, of_rank))
        return len(self._rows) - 1

    def _groups_of(self, kind: str, stage: int) -> tuple[Ints, Ints]:
        """Return the groups of a kind within a stage, and the group of each rank."""
        if (kind, stage) not in self._groups:
            groups = self._grid.of_stage(kind, stage)
            of_rank = np.zeros(self._size, np.int64)
            of_rank[self._position[groups]] = np.arange(len(groups))[:, None]
            self._groups[kind, stage] = groups, of_rank
        return self._groups[kind, stage]

    def _family(self, step: Step, stage: int, groups: Ints) -> int:
        """Return the index of a step's family, which equal steps share."""
        key = f"{step.group} {step.peer}", stage, step.kind, step.payload
        if key not in self._known:
            self._known[key] = len(self._families)
            self._families.append(Family(step.kind, groups, step.payload, step.group))
        return self._known[key]

    def _relations(self, rows: list[list[int]]) -> tuple[Pairs, Pairs]:
        found: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        places = [{step.name: place for place, step in enumerate(program) if step.kind == "send"}
                  for program in self._programs]
        for own, program in zip(rows, self._programs, strict=True):
            for row, step in zip(own, program, strict=True):
                for pairs, others in zip(found, (step.after, step.after_previous), strict=True):
                    pairs += [(row, own[other]) for other in others]
                found[0].extend((row, rows[sender][places[sender][name]])
                                for sender, name in step.receives)
        return tuple(found[0]), tuple(found[1])
