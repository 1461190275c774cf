"""Check that a communication pattern keeps the promises that jobs rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from traceback import walk_tb
from typing import Any

import numpy as np

from netsim.base.plugins import labelled
from netsim.base.values import known_names, parents_first
from netsim.errors import InputError
from netsim.jobs.patterns import PATTERNS, is_ranked_pattern, make_pattern
from netsim.testing.trial import BrokenPromise, Promise, Trial, check_each, chosen, noted
from netsim.workload import Flow, Stage
from netsim.workload.job import is_ranked

#: Relative error allowed in sums of sizes.
_ROUNDING = 1e-9
#: Factor of sizes: a power of two scales without rounding.
_BYTES = 2.0**12

#: The part of a stage that must not depend on sizes.
_SHAPE = ("name", "after", "finishes_before", "after_previous", "ranks")


@known_names
def check_pattern(pattern: Any, *, ranks: Iterable[int] = range(1, 10), nbytes: float = 1e6,
                  total: Callable[[int, float], float] | None = None,
                  promises: Iterable[str] | None = None, seed: int = 0) -> None:
    """Check for several numbers of ranks that a pattern keeps its promises.

    It must return at least one stage, with distinct names and no coflow ids, without cyclic
    dependencies, and with flows between existing ranks only. Stages may have ranks that compute, or
    ``after_previous``, if the pattern declares ``ranked = True``. It may refuse some numbers of
    ranks with an `InputError`, but not all of them. It must be pure: the stages may depend only on
    the number of ranks, and sizes only on the number of ranks, `nbytes` and the random generator.
    Sizes must be proportional to `nbytes`, unless the pattern declares ``scale_free = False``; then
    the stages may depend on `nbytes` as well.

    Parameters
    ----------
    pattern : str, mapping, Pattern or class
        As for `netsim.JobSpec`.
    ranks : iterable of int
        Numbers of ranks to try.
    nbytes : float
        The job's message size.
    total : callable, optional
        Function of the number of ranks and `nbytes` that returns the bytes that an iteration
        should send in total. If not given, the total is not checked.
    promises : iterable of str, optional
        Names of the promises to check; see `netsim.testing.promises_of`. By default all.
    seed : int
        Seed of the generator from which the pattern draws sizes.

    Raises
    ------
    AssertionError
        If a promise is broken. The message names the pattern and the promise, for the first
        number of ranks that shows it. Exceptions of the pattern itself propagate, with a note of
        the number of ranks.

    Examples
    --------
    >>> from netsim.testing import check_pattern
    >>> check_pattern("ring-all-reduce", total=lambda ranks, nbytes: 2 * (ranks - 1) * nbytes)
    """
    tried = list(ranks)
    if not tried:
        raise InputError("ranks must have at least one number to try")
    check_each((_Trial(pattern, count, float(nbytes), total, seed) for count in tried),
               chosen(PROMISES, promises), f"{tried} ranks")


@dataclass(frozen=True)
class _Trial(Trial):
    """A pattern under test, for one number of ranks."""

    pattern: Any
    ranks: int
    nbytes: float
    total: Callable[[int, float], float] | None
    seed: int

    @property
    def subject(self) -> str:
        return f"pattern {labelled(PATTERNS.to_dict(make_pattern(self.pattern)))}"

    @property
    def example(self) -> str:
        return f"for {self.ranks} rank{'s' * (self.ranks > 1)} and {self.nbytes:g} bytes"

    def ask(self, nbytes: float, seed: int) -> Any:
        """Ask a fresh instance for its stages."""
        with noted(f"{self.example}; a pattern refuses a number of ranks with an InputError"):
            made, rng = make_pattern(self.pattern), np.random.default_rng(seed)
            stages = made.stages(self.ranks, nbytes, rng)
            return tuple(stages) if isinstance(stages, Iterator) else stages

    @cached_property
    def refusal(self) -> InputError | None:
        """The error with which the pattern refuses the number of ranks; None if it accepts it."""
        try:
            self.stages  # noqa: B018
        except InputError as error:
            return None if _of_a_stage(error) else error
        except BrokenPromise:
            pass
        return None

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that the pattern returns."""
        return self.drawn(self.nbytes, self.seed)

    def drawn(self, nbytes: float, seed: int) -> tuple[Stage, ...]:
        """Draw the stages for a message size and a seed; any other answer is a BrokenPromise."""
        try:
            stages = self.ask(nbytes, seed)
        except InputError as error:
            if not _of_a_stage(error):
                raise
            raise BrokenPromise(self, "makes an invalid stage", str(error)) from None
        if not (isinstance(stages, tuple | list) and stages
                and all(isinstance(stage, Stage) for stage in stages)):
            raise BrokenPromise(self, "does not return stages", f"it returned {stages!r}")
        return tuple(stages)


def _of_a_stage(error: InputError) -> bool:
    """Whether an error comes from the constructor of a stage rather than from the pattern."""
    return any(frame.f_globals["__name__"] == Stage.__module__
               for frame, _ in walk_tb(error.__traceback__))


def _shapes(stages: tuple[Stage, ...]) -> list[list[Any]]:
    return [[getattr(stage, name) for name in _SHAPE] for stage in stages]


def _flows(stages: tuple[Stage, ...]) -> list[list[Flow]]:
    return [list(stage.flows or ()) for stage in stages]


def _has_ids(trial: _Trial) -> str | None:
    named = next((stage for stage in trial.stages if stage.coflow_id is not None), None)
    return None if named is None else (
        f"stage {named.name!r} has the coflow_id {named.coflow_id}, which iterations repeat")


def _has_bad_graph(trial: _Trial) -> str | None:
    try:
        parents_first([stage.name for stage in trial.stages],
                      [(*stage.after, *stage.finishes_before) for stage in trial.stages],
                      "an iteration")
    except InputError as error:
        return str(error)
    return None


def _has_unknown_ranks(trial: _Trial) -> str | None:
    for stage in trial.stages:
        if stage.flows is not None and stage.flows.ranks > trial.ranks:
            return f"stage {stage.name!r} has a flow from or to rank {stage.flows.ranks - 1}"
        if max(stage.ranks, default=0) >= trial.ranks:
            return f"stage {stage.name!r} computes on rank {max(stage.ranks)}"
    return None


def _is_ranked_unsaid(trial: _Trial) -> str | None:
    if is_ranked_pattern(trial.pattern) or not is_ranked(trial.stages):
        return None
    return "a stage has ranks or after_previous, and the pattern does not say ranked = True"


def _is_not_deterministic(trial: _Trial) -> str | None:
    again = trial.drawn(trial.nbytes, trial.seed)
    if _shapes(again) == _shapes(trial.stages) and _flows(again) == _flows(trial.stages):
        return None
    return (f"asked again, with a generator of the same seed, it returns {_in_words(again)}, not "
            f"{_in_words(trial.stages)}")


def _in_words(stages: tuple[Stage, ...]) -> str:
    """Describe stages, with the first flow of each."""
    return "; ".join(f"{stage.name!r} {[tuple(flow) for flow in stage.flows or ()][:1]}"
                     for stage in stages)


def _stages_vary(trial: _Trial) -> str | None:
    for nbytes, seed, what in ((trial.nbytes, trial.seed + 1, "another seed"),
                               (_BYTES * trial.nbytes, trial.seed, f"{_BYTES:g} times the bytes")):
        if nbytes != trial.nbytes and not _is_scale_free(trial):
            continue
        other = trial.drawn(nbytes, seed)
        if _shapes(other) != _shapes(trial.stages):
            return f"with {what} they are {_in_words(other)}, not {_in_words(trial.stages)}"
    return None


def _is_scale_free(trial: _Trial) -> bool:
    return bool(getattr(make_pattern(trial.pattern), "scale_free", True))


def _depends_on_unit_of_bytes(trial: _Trial) -> str | None:
    if not _is_scale_free(trial):
        return None
    other = trial.drawn(_BYTES * trial.nbytes, trial.seed)
    if len(other) != len(trial.stages):
        return None  # a fault of another kind
    for one, stage in zip(trial.stages, other, strict=True):
        before, after = (np.array([nbytes for _, _, nbytes in each.flows or ()])
                         for each in (one, stage))
        if before.shape != after.shape or not np.allclose(after, _BYTES * before,
                                                          rtol=_ROUNDING, atol=0):
            return (f"for {_BYTES:g} times as many bytes flows of stage {one.name!r} have "
                    f"{after.tolist()}, and not {(_BYTES * before).tolist()}")
    return None


def _has_wrong_total(trial: _Trial) -> str | None:
    if trial.total is None:
        return None
    expected = float(trial.total(trial.ranks, trial.nbytes))
    sent = sum(float(stage.flows.nbytes.sum()) for stage in trial.stages if stage.flows)
    if abs(sent - expected) <= _ROUNDING * max(sent, expected):
        return None
    return f"its flows have {sent:.9g} bytes in total, not {expected:.9g}"


PROMISES: dict[str, Promise[_Trial]] = {
    "no-coflow-ids": Promise("sets coflow ids", _has_ids),
    "dependencies": Promise("returns stages with invalid dependencies", _has_bad_graph),
    "known-ranks": Promise("uses ranks that do not exist", _has_unknown_ranks),
    "ranked": Promise("has ranks that compute, or iterations that overlap, without saying so",
                      _is_ranked_unsaid),
    "pure": Promise("is not a function of its arguments", _is_not_deterministic),
    "same-stages": Promise("has different stages for the same number of ranks", _stages_vary),
    "unit-of-bytes": Promise(
        "depends on the unit of bytes (declare scale_free = False if that is intended)",
        _depends_on_unit_of_bytes),
    "total": Promise("does not send the expected total", _has_wrong_total),
}
