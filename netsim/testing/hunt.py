"""Search for a broken promise and for the smallest example that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeVar

__all__ = ["BrokenPromise", "Trial", "hunt", "noted"]


class Trial(Protocol):
    """A policy, pattern or network under test, and an example to test it on.

    Attributes
    ----------
    subject : str
        The thing under test, as ``"allocator maxmin"``.
    example : str
        The example, as ``"on the view\\nmake_view(...)"``.
    """

    @property
    def subject(self) -> str: ...

    @property
    def example(self) -> str: ...

    def smaller(self) -> Iterator[Self]:
        """Yield trials on smaller examples, those that leave out most first."""


T = TypeVar("T", bound=Trial)

#: For each promise, the function that returns the fault, or None if the promise is kept.
Promises = Mapping[str, Callable[[T], str | None]]


class BrokenPromise(Exception):
    """A broken promise and the trial that shows it; functions that find faults may raise it."""

    def __init__(self, trial: Trial, promise: str, fault: str) -> None:
        super().__init__(f"{trial.subject} {promise}: {fault}, {trial.example}")
        self.trial: Any = trial
        self.promise = promise


def hunt(trials: Iterable[T], promises: Promises[T]) -> None:
    """Check promises on trials until one is broken.

    Raises
    ------
    AssertionError
        With the smallest example found that breaks the same promise.
    """
    for trial in trials:
        broken = _find_broken(trial, promises)
        if broken is not None:
            raise AssertionError(str(_smallest(broken, promises))) from None


def _find_broken(trial: T, promises: Promises[T]) -> BrokenPromise | None:
    """Return the first promise that a trial breaks, if any."""
    try:
        for promise, find_fault in promises.items():
            fault = find_fault(trial)
            if fault:
                return BrokenPromise(trial, promise, fault)
    except BrokenPromise as broken:
        return broken
    return None


def _smallest(broken: BrokenPromise, promises: Promises[Any]) -> BrokenPromise:
    """Shrink a trial as long as it breaks the same promise."""
    for smaller in broken.trial.smaller():
        again = _find_broken(smaller, promises)
        if again is not None and again.promise == broken.promise:
            return _smallest(again, promises)
    return broken


@contextmanager
def noted(note: str) -> Iterator[None]:
    """Add a note to exceptions of the body."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise
