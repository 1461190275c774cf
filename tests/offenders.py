"""A rule that many things keep is one test, which names all that break it."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Thing = TypeVar("Thing")


def assert_none(offenders: Iterable[object]) -> None:
    """Fail with a line for each offender, if there is one; pytest itself would show a few."""
    __tracebackhide__ = True
    found = list(offenders)
    assert not found, "\n" + "\n".join(map(str, found))


def check_each(check: Callable[[Thing], object], things: Iterable[Thing],
               name: Callable[[Thing], object] = str) -> None:
    """Check thing by thing, then fail with the name of each offender and what is wrong with it."""
    __tracebackhide__ = True
    wrong = []
    for thing in things:
        try:
            check(thing)
        except (Exception, pytest.fail.Exception) as error:
            wrong.append((f"{name(thing)}: {_said(error)}", error))
    if wrong:
        # Where the first went wrong is shown above the list.
        raise AssertionError("\n" + "\n".join(said for said, _ in wrong)) from wrong[0][1]


def _said(error: BaseException) -> str:
    if isinstance(error, AssertionError | pytest.fail.Exception):
        return str(error)
    return f"{type(error).__name__}: {error}"
