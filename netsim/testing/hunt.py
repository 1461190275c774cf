"""The hunt for a broken promise, and for the smallest example that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, Self, TypeVar

__all__ = ["BrokenPromise", "Trial", "hunt", "noted"]


class Trial(Protocol):
    """What is on trial, and an example to try it on.

    Attributes
    ----------
    who : str
        What is on trial, as ``"allocator maxmin"``.
    where : str
        The example, as ``"on the view\\nmake_view(...)"``.
    """

    @property
    def who(self) -> str: ...

    @property
    def where(self) -> str: ...

    def smaller(self) -> Iterator[Self]:
        """Yield the same on smaller examples, those first that leave out most."""


T = TypeVar("T", bound=Trial)

#: Per promise, what finds the fault, if there is one.
Promises = Mapping[str, Callable[[T], str | None]]


class BrokenPromise(Exception):
    """A promise that was broken, and on which example; what looks for faults may raise it, too."""

    def __init__(self, trial: Trial, promise: str, fault: str) -> None:
        super().__init__(f"{trial.who} {promise}: {fault}, {trial.where}")
        self.trial: Any = trial
        self.promise = promise


def hunt(trials: Iterable[T], promises: Promises[T]) -> None:
    """Try promises until one is broken.

    Raises
    ------
    AssertionError
        With the smallest example that was found for that.
    """
    for trial in trials:
        broken = _find_broken(trial, promises)
        if broken is not None:
            raise AssertionError(str(_smallest(broken, promises))) from None


def _find_broken(trial: T, promises: Promises[T]) -> BrokenPromise | None:
    """Return the first promise that does not hold."""
    try:
        for promise, find_fault in promises.items():
            fault = find_fault(trial)
            if fault:
                return BrokenPromise(trial, promise, fault)
    except BrokenPromise as broken:
        return broken
    return None


def _smallest(broken: BrokenPromise, promises: Promises[Any]) -> BrokenPromise:
    """Leave out what can be left out with the same promise still broken."""
    for smaller in broken.trial.smaller():
        again = _find_broken(smaller, promises)
        if again is not None and again.promise == broken.promise:
            return _smallest(again, promises)
    return broken


@contextmanager
def noted(note: str) -> Iterator[None]:
    """Let what is raised pass, with a note."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise
