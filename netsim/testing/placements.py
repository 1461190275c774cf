"""Does a placement keep the promises that schedulers rely on?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.cluster.cluster import Cluster
from netsim.errors import AllocationError, InputError
from netsim.placements.placement import Placement, Room
from netsim.placements.registry import PLACEMENTS, make_placement
from netsim.plugins import labelled
from netsim.simulation.compatibility import check_policy
from netsim.testing.cluster_cases import Taken, draw_taken
from netsim.testing.hunt import BrokenPromise, hunt, noted
from netsim.workload import JobSpec

__all__ = ["check_placement"]

_LARGEST = 4
_RULE = "breaks a rule"

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def check_placement(placement: Any, *, examples: int = 100, seed: int = 0) -> None:
    """Check on random clusters that a placement keeps its promises.

    It must give a job as many GPUs as it has ranks, each once, of those that are free in its scope,
    with the slices of a replica on one server unless it declares ``keeps_slices = False``; leave
    the cluster and what it is shown as they are; choose the same GPUs again, for fresh instances of
    the same seed; and place any job on a cluster that is idle. If it has ``pick``, that gives what
    ``scope`` and ``choose`` give. Examples that it refuses, by its ``needs`` or ``suits``,
    are passed over.

    Parameters
    ----------
    placement : str, mapping, Placement or class
        As for `netsim.simulate`. Each question goes to a fresh instance.
    examples : int
        How many; they grow from one server of a GPU to four of four.
    seed : int

    Raises
    ------
    AssertionError
        Names the placement and the broken promise, with the smallest example found that shows it;
        or says that it refuses all examples. What it raises itself passes through, with a note of
        the example.

    Examples
    --------
    >>> from netsim.testing import check_placement
    >>> check_placement({"name": "least-busy-servers", "lam": 2}, examples=5)
    """
    rng = np.random.default_rng(seed)
    refusals: list[InputError] = []
    slices = getattr(make_placement(placement), "keeps_slices", True)

    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high, endpoint=True))

    def trials() -> Iterator[_Trial]:
        for example in range(examples):
            drawn = draw_taken(pick, 1 + _LARGEST * example // examples, slices)
            trial = _Trial(placement, drawn, seed + example)
            if (refusal := trial.refusal) is None:
                yield trial
            else:
                refusals.append(refusal)

    hunt(trials(), _PROMISES)
    if len(refusals) == examples:
        raise AssertionError(f"{_who(placement)} refuses all of {examples} examples, the last one "
                             f"so: {refusals[-1]}")


def _who(placement: Any) -> str:
    return f"placement {labelled(PLACEMENTS.to_dict(make_placement(placement)))}"


class _Watched:
    """A placement that is asked, and what it has changed meanwhile."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self.changed: dict[str, None] = {}

    def scope(self, cluster: Cluster, job: JobSpec, load: Floats) -> Any:
        return self._ask("scope", cluster, job, {"load": load})

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats) -> Any:
        return self._ask("choose", cluster, job, {"candidates": candidates, "load": load})

    def _ask(self, method: str, cluster: Cluster, job: JobSpec, arrays: dict[str, NDArray[Any]]
             ) -> Any:
        shown = arrays | {"cluster.gpus": cluster.gpus, "cluster.first": cluster.first,
                          "cluster.server_of": cluster.server_of}
        before = {name: array.tobytes() for name, array in shown.items()}
        answer = getattr(self.placement, method)(cluster, job, *arrays.values())
        # What it returns may be what it was shown.
        answer = answer.copy() if isinstance(answer, np.ndarray) else answer
        self.changed |= {name: None for name, array in shown.items()
                         if array.tobytes() != before[name]}
        return answer


class _WatchedPick(_Watched):
    """One that goes by free GPUs alone."""

    def pick(self, cluster: Cluster, job: JobSpec, free: NDArray[np.bool_], free_on: Ints) -> Any:
        return self._ask("pick", cluster, job, {"free": free, "free_on": free_on})


@dataclass(frozen=True)
class _Trial:
    """A placement to be tried on a cluster."""

    placement: Any
    drawn: Taken
    seed: int

    @property
    def who(self) -> str:
        return _who(self.placement)

    @property
    def where(self) -> str:
        return f"on the example\n{self.drawn}"

    def smaller(self) -> Iterator[_Trial]:
        for drawn in self.drawn.smaller():
            trial = replace(self, drawn=drawn)
            if trial.refusal is None:
                yield trial

    def made(self) -> Placement:
        """Return a fresh instance."""
        return make_placement(self.placement, self.seed)

    @cached_property
    def refusal(self) -> InputError | None:
        """Why it is not for this example; None if it is."""
        try:
            check_policy("placement", self.made(), self.drawn.case.context(self.seed))
        except InputError as error:
            return error
        return None

    def free(self) -> NDArray[np.bool_]:
        """Return which GPUs nobody has."""
        free = np.ones(len(self.drawn.load), np.bool_)
        free[list(self.drawn.taken)] = False
        return free

    def room(self, placement: Any, free: NDArray[np.bool_]) -> Room:
        """Return what there is to give away, some GPUs being free."""
        case = self.drawn.case
        return Room(case.cluster, case.specs, placement, free,
                    np.add.reduceat(free, case.cluster.first[:-1], dtype=np.int64),
                    np.array(self.drawn.load), np.array([job.estimate_s for job in case.jobs]))

    def place(self, placement: Any, free: NDArray[np.bool_], jobs: list[int]
              ) -> list[list[int] | None]:
        """Return the GPUs that jobs are given one after the other.

        Raises
        ------
        BrokenPromise
            If these are not theirs to have.
        """
        room = self.room(placement, free)
        with noted(self.where):
            try:
                found = [room.place(job) for job in jobs]
            except AllocationError as error:
                raise BrokenPromise(self, _RULE, str(error)) from None
        return [None if gpus is None else gpus.tolist() for gpus in found]

    @cached_property
    def everyone(self) -> list[int]:
        """All jobs."""
        return list(range(len(self.drawn.case.jobs)))


def _breaks_a_rule(trial: _Trial) -> str | None:
    trial.place(trial.made(), trial.free(), trial.everyone)
    return None


def _changes_what_it_is_shown(trial: _Trial) -> str | None:
    placement = trial.made()
    kind = _WatchedPick if hasattr(placement, "pick") else _Watched
    watched = kind(placement)
    trial.place(watched, trial.free(), trial.everyone)
    return f"{', '.join(watched.changed)} changed" if watched.changed else None


def _wavers(trial: _Trial) -> str | None:
    one, other = (trial.place(trial.made(), trial.free(), trial.everyone) for _ in range(2))
    if one == other:
        return None
    return f"jobs get the GPUs {other}, and not {one}, when it is asked again with the same seed"


def _leaves_waiting(trial: _Trial) -> str | None:
    for job in trial.everyone:
        if trial.place(trial.made(), np.ones_like(trial.free()), [job]) == [None]:
            return f"job {job} gets none though all GPUs are free"
    return None


def _picks_others(trial: _Trial) -> str | None:
    if not hasattr(trial.made(), "pick"):
        return None
    for job in trial.everyone:
        asked = _Watched(trial.made())
        picked = trial.place(trial.made(), trial.free(), [job])
        chosen = trial.place(asked, trial.free(), [job])
        if picked != chosen:
            return f"of job {job} it picks {picked[0]}, and chooses {chosen[0]}"
    return None


_PROMISES: dict[str, Callable[[_Trial], str | None]] = {
    _RULE: _breaks_a_rule,
    "changes what it is shown": _changes_what_it_is_shown,
    "is not deterministic": _wavers,
    "leaves a job waiting on an idle cluster": _leaves_waiting,
    "does not pick what it chooses": _picks_others,
}
