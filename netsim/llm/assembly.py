"""The operations of all ranks, from what a rank of each stage of the pipeline does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netsim.llm.groups import Grid
from netsim.llm.rank_program import Step, rank_program
from netsim.llm.setup import TrainingSetup
from netsim.operations import Operations, Relation, Sending

__all__ = ["assemble"]

Ints = NDArray[np.int64]


def assemble(setup: TrainingSetup) -> Operations:
    """Make the operations of an iteration of a setup."""
    return _Assembly(setup).operations()


class _Assembly:
    """Gives each step of each rank an operation; a communication is one of all of its members.

    `_of[stage][step]` has the operation of each rank of the stage, in order of `Grid.stage`.
    """

    def __init__(self, setup: TrainingSetup) -> None:
        self._grid = Grid.of(setup)
        self._setup = setup
        self._programs = [rank_program(setup, stage) for stage in range(setup.pp)]
        self._size = setup.world // setup.pp
        self._position = np.zeros(setup.world, np.int64)
        for stage in range(setup.pp):
            self._position[self._grid.stage(stage)] = np.arange(self._size)
        self._sendings: list[Sending] = []
        self._known: dict[tuple[str, int, int, str, int], int] = {}
        self._groups: dict[tuple[str, int], tuple[Ints, Ints]] = {}
        self._count = 0
        self._rows: list[tuple[Ints, float, Ints, str, str]] = []
        self._of = [[np.zeros(0, np.int64)] * len(program) for program in self._programs]
        self._spanning: dict[str, Ints] = {}

    def operations(self) -> Operations:
        """Return all operations."""
        for stage, program in enumerate(self._programs):
            for place, step in enumerate(program):
                self._of[stage][place] = self._place(stage, step)
        names = {name: k for k, name in enumerate(dict.fromkeys(row[4] for row in self._rows))}
        streams = {name: k for k, name in enumerate(dict.fromkeys(row[3] for row in self._rows))}
        counts = [len(row[0]) for row in self._rows]
        after, after_previous = self._relations()
        return Operations(
            np.concatenate([row[0] for row in self._rows]),
            np.repeat([row[1] for row in self._rows], counts),
            np.concatenate([row[2] for row in self._rows]),
            np.repeat([streams[row[3]] for row in self._rows], counts),
            np.repeat([names[row[4]] for row in self._rows], counts),
            after, after_previous, tuple(self._sendings), tuple(streams), tuple(names),
            self._setup.world)

    def _place(self, stage: int, step: Step) -> Ints:
        """Make the operations of a step; return that of each rank of the stage."""
        if step.kind == "compute":
            ranks = self._grid.stage(stage)
            return self._add(step, ranks, np.full(len(ranks), -1))
        if step.kind == "send":
            ranks, peers = self._grid.stage(stage), self._grid.stage(step.peer)
            sent = [self._sending(step, stage, k, (one, other)) for k, (one, other)
                    in enumerate(zip(ranks.tolist(), peers.tolist(), strict=True))]
            return self._add(step, np.full(len(ranks), -1), np.array(sent))
        if step.group in ("world", "embedding"):
            return self._across(stage, step)
        groups, of_rank = self._groups_of(step.group, stage)
        sent = [self._sending(step, stage, k, group) for k, group in enumerate(groups.tolist())]
        return self._add(step, np.full(len(groups), -1), np.array(sent))[of_rank]

    def _across(self, stage: int, step: Step) -> Ints:
        """Return the operations of a step that several stages share; the first one makes them."""
        if step.name not in self._spanning:
            if step.group == "world":
                one = self._add(step, np.array([-1]), np.array([-1]))
                self._spanning[step.name] = np.repeat(one, self._size)
            else:
                ends = zip(self._grid.stage(0).tolist(),
                           self._grid.stage(self._setup.pp - 1).tolist(), strict=True)
                sent = [self._sending(step, stage, k, group) for k, group in enumerate(ends)]
                self._spanning[step.name] = self._add(step, np.full(len(sent), -1), np.array(sent))
        return self._spanning[step.name]

    def _add(self, step: Step, rank: Ints, sends: Ints) -> Ints:
        first = self._count
        self._count += len(rank)
        self._rows.append((rank, step.seconds, sends, step.stream, step.name))
        return np.arange(first, self._count)

    def _groups_of(self, kind: str, stage: int) -> tuple[Ints, Ints]:
        """Return the groups of a kind within a stage, and that of each rank."""
        if (kind, stage) not in self._groups:
            groups = self._grid.of_stage(kind, stage)
            of_rank = np.zeros(self._size, np.int64)
            of_rank[self._position[groups]] = np.arange(len(groups))[:, None]
            self._groups[kind, stage] = groups, of_rank
        return self._groups[kind, stage]

    def _sending(self, step: Step, stage: int, group: int, members: Sequence[int]) -> int:
        """Return the place of what a group sends; the same for all of its operations alike."""
        key = f"{step.group} {step.peer}", stage, group, step.kind, step.payload
        if key not in self._known:
            self._known[key] = len(self._sendings)
            self._sendings.append(Sending.of(step.kind, members, step.payload, step.group))
        return self._known[key]

    def _relations(self) -> tuple[Relation, Relation]:
        found: tuple[list[tuple[Ints, Ints]], list[tuple[Ints, Ints]]] = ([], [])
        places = [{step.name: place for place, step in enumerate(program) if step.kind == "send"}
                  for program in self._programs]
        for stage, program in enumerate(self._programs):
            own = self._of[stage]
            for place, step in enumerate(program):
                for pairs, others in zip(found, (step.after, step.after_previous), strict=True):
                    pairs += [(own[place], own[other]) for other in others]
                found[0].extend((own[place], self._of[sender][places[sender][name]])
                                for sender, name in step.receives)
        made = []
        for pairs in found:
            operation, other = (np.concatenate(each) for each in zip(*pairs, strict=True))
            made.append(Relation.of(operation, other, self._count))
        return made[0], made[1]
