"""BatchSche: waiting jobs are dispatched in batches, each to edge workers or to the cloud."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from netsim.base.arrays import Bools, Ints
from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import LARGEST, as_choice, as_number, convert, known_names, plain
from netsim.edge.typed_jobs import EdgeContext, NearData, TypedJobs
from netsim.engine.view import ClusterView, Decision, Start
from netsim.errors import InputError
from netsim.ties import ROUNDING, below, rank

#: The workers of a job in the cloud.
_CLOUD = np.array([], np.int64)


@known_names
@dataclass(frozen=True)
class BatchSche:
    """BatchSche, in this project's interpretation: whole jobs in batches, without preemption.

    At each of the instants of `mode`, waiting jobs are dispatched in order of increasing D p1. Here
    D is the number of chunks of a job, p0 the training time of a chunk at the edge, and p1 that in
    the cloud; see `EdgeJob`. A job goes to the edge if 0.8 * 10**u * p0 < p1, where u is the share
    of the workers of its type that are busy. It then keeps D workers until it ends, or all free
    ones if there are fewer; `gang` is ignored. Other jobs go to the cloud. A job gets fewer workers
    if the storage of the servers has no room for its data otherwise.

    Parameters
    ----------
    mode : {"doubling", "periodic"}
        Instants at which batches are dispatched: 1, 2, 4, 8, ... times `first` slots, or 1, 2, 3,
        4, ... times `first` slots.
    first : float
        Slots before the first batch, greater than 0.
    slot : quantity
        Length of a slot.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"edge storage or a cloud"})
    uses_cloud: ClassVar[bool] = True

    mode: str = "doubling"
    first: float = 8
    slot: Quantity = "1h"

    def __post_init__(self) -> None:
        convert(self, mode=partial(as_choice, choices=("doubling", "periodic")),
                first=partial(as_number, above=0), slot=lambda given, _: plain(given))
        slot = parse_seconds(self.slot, "slot", strict=True)
        if not 0 < self.first * slot <= LARGEST:
            raise InputError(f"first must be a number of slots of {slot:g} s that last more than 0 "
                             f"and at most {LARGEST:g} s, not {self.first!r}", "first")

    def begin(self, context: EdgeContext) -> _Batches:
        """Make the object that decides in a run; see `netsim.engine.view.Scheduler`."""
        return _Batches(self, context.typed)

    def instant(self, event: float) -> float:
        """The first dispatch instant that is not before an event."""
        instant = step = self.first * parse_seconds(self.slot, "slot")
        if self.mode == "periodic":
            count = event / step
            if count >= 2.0 ** 53:  # instants are closer to each other than floats
                return event
            instant = step * max(math.ceil(count) - 1, 1)
        while instant * (1 + ROUNDING) < event:
            instant = 2 * instant if self.mode == "doubling" else step * (round(instant / step) + 1)
        return instant


class _Batches:
    """Decisions of `BatchSche` for the jobs of one type of workers, in one run."""

    def __init__(self, policy: BatchSche, typed: TypedJobs) -> None:
        self._policy, self._typed = policy, typed

    def add_job(self, job: int, context: EdgeContext) -> None:
        """Add a submitted job; see `netsim.engine.view.Scheduler`."""

    def decide(self, view: ClusterView) -> Decision:
        """Dispatch jobs if it is time, or wait for the next instant; see `Scheduler`.

        Jobs that find no worker are tried again after the next arrival or end.
        """
        if not view.pending:
            return Decision()
        instant = self._policy.instant(view.now)
        if instant > view.now * (1 + ROUNDING):
            return Decision(wake_at=instant)
        return Decision(list(self._dispatched(view)))

    def _dispatched(self, view: ClusterView) -> Iterator[Start]:
        """Yield jobs with their workers, or with none for the cloud."""
        setting, waiting = self._typed.setting, list(view.waiting)
        numbers = [self._typed.numbers[job] for job in waiting]
        placement, free = view.placement.trial(), view.free.copy()  # type: ignore[attr-defined]
        for place in rank(setting.chunks[numbers] * setting.p1[numbers]).tolist():
            gpus = self._workers(waiting[place], view, placement, free)
            if gpus is not None:
                free[gpus] = False
                yield waiting[place], gpus
            elif setting.system.cloud:
                yield waiting[place], _CLOUD

    def _workers(self, job: int, view: ClusterView, placement: NearData,
                 free: Bools) -> Ints | None:
        """Choose the workers with the shortest upload delays, as many as a job can use.

        None if there are none, or if the cloud is cheaper.
        """
        setting, number = self._typed.setting, self._typed.numbers[job]
        idle = int(np.count_nonzero(free))
        if not idle:
            return None
        price = 0.8 * 10 ** (1 - idle / len(free))
        if setting.system.cloud and not below(price * setting.p0[number], setting.p1[number]):
            return None
        spec = view.jobs[job]
        near = placement.scope(view.cluster, spec, view.load)
        near = near[free[near]]
        return next((gpus for count in range(min(idle, int(setting.chunks[number])), 0, -1)
                     if (gpus := placement.some(spec, near, count)) is not None), None)
