"""Check that a placement keeps the promises that schedulers rely on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.plugins import labelled
from netsim.base.values import known_names
from netsim.cluster.cluster import Cluster
from netsim.errors import AllocationError, InputError
from netsim.placements.placement import Placement, Room
from netsim.placements.registry import PLACEMENTS, make_placement
from netsim.simulation.compatibility import check_policy
from netsim.testing.cluster_cases import Taken, draw_taken
from netsim.testing.trial import BrokenPromise, Pick, Promise, Trial, check_drawn, chosen, noted
from netsim.workload import JobSpec

#: The most servers and GPUs per server, and the largest seed of a run.
_LARGEST, _SEEDS = 4, 99
_RULE = "breaks a rule"


@known_names
def check_placement(placement: Any, *, promises: Iterable[str] | None = None,
                    examples: int = 100, seed: int = 0) -> None:
    """Check on random clusters that a placement keeps its promises.

    The placement must give a job as many distinct GPUs as the job has ranks, chosen from the free
    GPUs that ``scope`` returned. All slices of a replica must be on one server, unless the
    placement declares ``keeps_slices = False``. It must not change its arguments, must choose the
    same GPUs for the same seed, and must be able to place any job on an idle cluster. If it has a
    method ``pick``, the result must agree with ``scope`` and ``choose``. Examples that the
    placement refuses, by its ``needs`` or ``suits``, are skipped.

    Parameters
    ----------
    placement : str, mapping, Placement or class
        As for `netsim.simulate`. A fresh instance is made for each call.
    promises : iterable of str, optional
        Names of the promises to check; see `netsim.testing.promises_of`. By default all.
    examples : int
        Number of random clusters, from one server with one GPU to four servers with four GPUs
        each.
    seed : int
        Seed of the examples.

    Raises
    ------
    AssertionError
        If a promise is broken, or all examples are refused. The message names the placement and
        the promise, with the smallest example found that shows it. Exceptions of the placement
        itself propagate, with a note of the example.
    MissingExtraError
        If hypothesis is not installed.

    Examples
    --------
    >>> from netsim.testing import check_placement
    >>> check_placement({"name": "least-busy-servers", "lam": 2}, examples=5)
    """
    slices = getattr(make_placement(placement), "keeps_slices", True)

    def draw(pick: Pick) -> _Trial:
        seed = pick(0, _SEEDS)
        return _Trial(placement, draw_taken(pick, _LARGEST, slices), seed)

    check_drawn(draw, chosen(PROMISES, promises), examples, seed)


class _Watched:
    """A placement whose calls are watched for changes of their arguments."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self.changed: dict[str, None] = {}

    def scope(self, cluster: Cluster, job: JobSpec, load: Floats) -> Any:
        return self._ask("scope", cluster, job, {"load": load})

    def choose(self, cluster: Cluster, job: JobSpec, candidates: Ints, load: Floats) -> Any:
        return self._ask("choose", cluster, job, {"candidates": candidates, "load": load})

    def _ask(self, method: str, cluster: Cluster, job: JobSpec, arrays: dict[str, NDArray[Any]]
             ) -> Any:
        """Call a method, and record which of the arrays that it can see have changed."""
        shown = arrays | {"cluster.gpus": cluster.gpus, "cluster.first": cluster.first,
                          "cluster.server_of": cluster.server_of}
        before = {name: array.tobytes() for name, array in shown.items()}
        answer = getattr(self.placement, method)(cluster, job, *arrays.values())
        # The answer may be one of the arguments, which may change later.
        answer = answer.copy() if isinstance(answer, np.ndarray) else answer
        self.changed |= {name: None for name, array in shown.items()
                         if array.tobytes() != before[name]}
        return answer


class _WatchedPick(_Watched):
    """A watched placement that has ``pick``."""

    def pick(self, cluster: Cluster, job: JobSpec, free: Bools, free_on: Ints) -> Any:
        return self._ask("pick", cluster, job, {"free": free, "free_on": free_on})


@dataclass(frozen=True)
class _Trial(Trial):
    """A placement under test on a cluster."""

    placement: Any
    drawn: Taken
    seed: int

    @property
    def subject(self) -> str:
        return f"placement {labelled(PLACEMENTS.to_dict(make_placement(self.placement)))}"

    @property
    def example(self) -> str:
        return f"on the example\n{self.drawn}"

    def made(self) -> Placement:
        """Make a fresh instance of the placement."""
        return make_placement(self.placement, self.seed)

    @cached_property
    def refusal(self) -> InputError | None:
        """The error with which the placement refuses this example; None if it accepts it."""
        try:
            check_policy("placement", self.made(), self.drawn.case.context(self.seed))
        except InputError as error:
            return error
        return None

    def free(self) -> Bools:
        """The mask of free GPUs."""
        free = np.ones(len(self.drawn.load), np.bool_)
        free[list(self.drawn.taken)] = False
        return free

    def room(self, placement: Any, free: Bools) -> Room:
        """The state of the cluster with some GPUs free."""
        case = self.drawn.case
        return Room(case.cluster, case.specs, placement, free,
                    np.add.reduceat(free, case.cluster.first[:-1], dtype=np.int64),
                    np.array(self.drawn.load), np.array([job.estimate_s for job in case.jobs]))

    def place(self, placement: Any, free: Bools, jobs: list[int]) -> list[list[int] | None]:
        """Place jobs one after the other; the result has the GPUs of each, or None if it must wait.

        BrokenPromise is raised if the placement breaks a rule.
        """
        room = self.room(placement, free)
        with noted(self.example):
            try:
                found = [room.place(job) for job in jobs]
            except AllocationError as error:
                raise BrokenPromise(self, _RULE, str(error)) from None
        return [None if gpus is None else gpus.tolist() for gpus in found]

    @cached_property
    def all_jobs(self) -> list[int]:
        """Indices of all jobs."""
        return list(range(len(self.drawn.case.jobs)))


def _breaks_a_rule(trial: _Trial) -> str | None:
    trial.place(trial.made(), trial.free(), trial.all_jobs)
    return None


def _changes_arguments(trial: _Trial) -> str | None:
    placement = trial.made()
    kind = _WatchedPick if hasattr(placement, "pick") else _Watched
    watched = kind(placement)
    trial.place(watched, trial.free(), trial.all_jobs)
    return f"{', '.join(watched.changed)} changed" if watched.changed else None


def _is_not_deterministic(trial: _Trial) -> str | None:
    one, other = (trial.place(trial.made(), trial.free(), trial.all_jobs) for _ in range(2))
    if one == other:
        return None
    return f"jobs get the GPUs {other}, not {one}, when it is asked again with the same seed"


def _does_not_place(trial: _Trial) -> str | None:
    for job in trial.all_jobs:
        if trial.place(trial.made(), np.ones_like(trial.free()), [job]) == [None]:
            return f"job {job} gets none though all GPUs are free"
    return None


def _picks_differently(trial: _Trial) -> str | None:
    if not hasattr(trial.made(), "pick"):
        return None
    for job in trial.all_jobs:
        asked = _Watched(trial.made())
        picked = trial.place(trial.made(), trial.free(), [job])
        chosen = trial.place(asked, trial.free(), [job])
        if picked != chosen:
            return f"for job {job} it picks {picked[0]} but chooses {chosen[0]}"
    return None


PROMISES: dict[str, Promise[_Trial]] = {
    "legal": Promise(_RULE, _breaks_a_rule),
    "arguments-unchanged": Promise("changes its arguments", _changes_arguments),
    "deterministic": Promise("is not deterministic", _is_not_deterministic),
    "places-on-idle": Promise("leaves a job waiting on an idle cluster", _does_not_place),
    "pick-agrees": Promise("has a pick that disagrees with choose", _picks_differently),
}
