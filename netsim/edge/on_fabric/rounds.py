"""Training mini-batch by mini-batch: compute, push, update, pull, each as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from netsim.edge.on_fabric.wires import EdgeTraffic, Timer
from netsim.edge.setting import Floats, Ints
from netsim.fabric.coflow_event import CoflowEvent
from netsim.fabric.routed_coflow import RoutedCoflow
from netsim.workload import Flows

__all__ = ["Rounds"]

_COMPUTE, _PUSH, _UPDATE, _PULL, _PHASES = range(5)


@dataclass(slots=True, eq=False)
class _Group:
    """Chunks that go through mini-batches together.

    Attributes
    ----------
    members, joining, leaving : list of int
        Who is in the round under way, who from the next on, and which members no more then.
    hosts : dict of int to int
        Where each trains.
    ps : int
        The host of their parameter server.
    phase : int
        The one under way; `_PHASES` between two rounds.
    since : float
        When it began.
    done : float
        The part of it that had been done by then.
    transfer : CoflowEvent or None
        What is sent in it.
    timer : Event or None
        What ends it.
    whole : dict of bool to RoutedCoflow
        What these members push, and pull (True), as far as that is known.
    """

    members: list[int] = field(default_factory=list)
    joining: list[int] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)
    hosts: dict[int, int] = field(default_factory=dict)
    ps: int = 0
    phase: int = _PHASES
    since: float = 0.0
    done: float = 0.0
    transfer: CoflowEvent | None = None
    timer: Timer | None = None
    whole: dict[bool, RoutedCoflow] = field(default_factory=dict)

    def change(self, members: list[int]) -> None:
        """Go on with other members."""
        if members != self.members:
            self.members, self.whole = members, {}


class Rounds:
    """The modes ``"exact"`` and ``"sync"``.

    In the first each chunk goes on by itself. In the second all chunks of a job that train push
    together, in one coflow, the PS updates when it has heard of all, and they pull together. Who
    begins meanwhile, waits for the next round. See `netsim.edge.on_fabric.training.Training`.

    Parameters
    ----------
    wires : EdgeTraffic
    together : bool
        Whether it is ``"sync"``.
    preemption : {"finish", "drop", "pause"}
        What a chunk that is to stop does with the mini-batch under way: finish it first; stop at
        once, and do it again; or stop at once, and go on from there. Together, only the first.
    """

    def __init__(self, wires: EdgeTraffic, together: bool, preemption: str) -> None:
        self._wires, self._together, self._preemption = wires, together, preemption
        self._groups: dict[int, _Group] = {}
        self._between: dict[int, _Group] = {}
        self._paused: dict[int, tuple[int, float]] = {}

    def _key(self, chunk: int) -> int:
        return int(self._wires.job_of[chunk]) if self._together else chunk

    def begin(self, chunk: int, host: int, ps: int) -> None:
        """Let a chunk train, from the next round on."""
        key = self._key(chunk)
        group = self._groups.setdefault(key, _Group())
        group.joining.append(chunk)
        group.hosts[chunk], group.ps = host, ps
        if group.phase == _PHASES:
            self._between[key] = group

    def go(self) -> None:
        """Let those go on that are between two mini-batches."""
        between, self._between = self._between, {}
        for key in sorted(between):
            group = between[key]
            group.change(group.members + group.joining)
            group.joining = []
            if group.members:
                phase, done = self._paused.pop(group.members[0], (_COMPUTE, 0.0))
                self._enter(group, phase, done)
            else:
                del self._groups[key]

    def _enter(self, group: _Group, phase: int, done: float = 0.0) -> None:
        """Begin a phase of which a part has been done, or the next one that takes any time."""
        wires, chunk = self._wires, group.members[0]
        while phase < _PHASES:
            group.phase, group.since, group.done = phase, wires.now, done
            if phase in (_PUSH, _PULL):
                if wires.gradient[chunk] > 0:
                    group.transfer = self._exchange(group, phase == _PULL, 1 - done)
                    return
            elif (seconds := self._seconds(chunk, phase) * (1 - done)) > 0:
                group.timer = wires.after(seconds, self._timed, group)
                return
            phase, done = phase + 1, 0.0
        self._end_round(group)

    def _seconds(self, chunk: int, phase: int) -> float:
        wires = self._wires
        return float((wires.compute if phase == _COMPUTE else wires.update)[chunk])

    def _exchange(self, group: _Group, pull: bool, part: float) -> CoflowEvent:
        wires, first = self._wires, group.members[0]
        demand = group.whole.get(pull) if part == 1 else self._demand(group, pull, part)
        if demand is None:
            demand = group.whole[pull] = self._demand(group, pull, 1)
        return wires.send(int(wires.job_of[first]), wires.order_of(first), demand,
                          partial(self._sent, group))

    def _demand(self, group: _Group, pull: bool, part: float) -> RoutedCoflow:
        wires, members = self._wires, group.members
        hosts = np.array([group.hosts[chunk] for chunk in members])
        servers = np.full(len(members), group.ps)
        src, dst = (servers, hosts) if pull else (hosts, servers)
        return wires.demand(Flows(src, dst, wires.gradient[members] * part),
                            [wires.limit_of(chunk, pull=pull) for chunk in members])

    def _timed(self, group: _Group) -> None:
        group.timer = None
        self._enter(group, group.phase + 1)

    def _sent(self, group: _Group, _: CoflowEvent) -> None:
        group.transfer = None
        self._enter(group, group.phase + 1)

    def _end_round(self, group: _Group) -> None:
        wires = self._wires
        group.phase = _PHASES
        leaving, group.leaving = group.leaving, []
        self._between[self._key(group.members[0])] = group
        members = group.members
        wires.batches[members] -= 1
        group.change([chunk for chunk in members
                      if wires.batches[chunk] > 0 and chunk not in leaving])
        for chunk in members:
            if wires.batches[chunk] == 0:
                wires.ended(chunk)
            elif chunk in leaving:
                wires.stopped(chunk)
        wires.paused()

    def left(self, chunk: int) -> float:
        """Return how many mini-batches a chunk that has begun has left, with parts of one.

        A part counts by the time that it should take.
        """
        group = self._groups.get(self._key(chunk))
        if group is None or chunk not in group.members or group.phase == _PHASES:
            phase, done = self._paused.get(chunk, (_COMPUTE, 0.0))
        else:
            phase, done = group.phase, self._done(group, chunk)
        return float(self._wires.batches[chunk]) - self._part(chunk, phase, done)

    def _done(self, group: _Group, chunk: int) -> float:
        """Return which part of the phase under way a chunk has done."""
        wires = self._wires
        if group.transfer is not None:
            left = wires.left(group.transfer)[group.members.index(chunk)]
            return float(1 - left / wires.gradient[chunk])
        seconds = self._seconds(chunk, group.phase)
        return min(group.done + (wires.now - group.since) / seconds, 1.0)

    def _part(self, chunk: int, phase: int, done: float) -> float:
        """Return which part of a mini-batch is done, some phases and a part of one."""
        wires = self._wires
        exchange = wires.exchange[chunk]
        takes = [wires.compute[chunk], exchange / 2, wires.update[chunk], exchange / 2]
        return _through(takes, phase, done) / float(sum(takes))

    def stop(self, chunk: int) -> bool:
        """Let a chunk train no longer; return whether it has stopped at once.

        Otherwise `EdgeTraffic.stopped` is called when it has.
        """
        group = self._groups[self._key(chunk)]
        if chunk in group.joining:
            group.joining.remove(chunk)
            return True
        if group.phase == _PHASES:
            group.change([each for each in group.members if each != chunk])
            return True
        if self._preemption == "finish":
            group.leaving.append(chunk)
            return False
        done = self._done(group, chunk)
        if self._preemption == "pause":
            self._paused[chunk] = group.phase, done
        else:
            wires = self._wires
            takes = [wires.compute[chunk], 0.0, wires.update[chunk], 0.0]
            wires.vain[chunk] += _through(takes, group.phase, done)
        if group.transfer is not None:
            self._wires.fabric.withdraw(group.transfer)
        if group.timer is not None:
            self._wires.cancel(group.timer)
        del self._groups[chunk]
        return True

    def use(self, limit: Ints, rates: Floats) -> Floats:
        """Return what flows use of the rates that they are given: all of it."""
        return rates


def _through(takes: Sequence[float], phase: int, done: float) -> float:
    """Return what it has taken to get to a phase, and through a part of it."""
    return float(sum(takes[:phase]) + takes[phase] * done)
