"""The names of the promises that each check is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netsim.errors import InputError
from netsim.testing import patterns, placements, promises, schedulers, topologies
from netsim.testing.conformance import check_allocator
from netsim.testing.hunt import Promise

__all__ = ["promises_of"]

_OF: dict[Callable[..., None], dict[str, Promise[Any]]] = {
    check_allocator: promises.PROMISES, patterns.check_pattern: patterns.PROMISES,
    placements.check_placement: placements.PROMISES,
    schedulers.check_scheduler: schedulers.PROMISES,
    topologies.check_topology: topologies.PROMISES}


def promises_of(check: Callable[..., None]) -> dict[str, str]:
    """List the promises that a check is about.

    Parameters
    ----------
    check : callable
        A function such as `check_allocator`, whose argument `promises` chooses among them.

    Returns
    -------
    dict of str to str
        For each name, what is said of one that breaks the promise; in the order of the check.

    Raises
    ------
    InputError
        If it is none of the checks of `netsim.testing`.

    Examples
    --------
    With pytest, each is a test of its own::

        @pytest.mark.parametrize("promise", promises_of(check_allocator))
        def test_promise(promise):
            check_allocator(MyAllocator, promises=[promise])

    >>> promises_of(check_allocator)["no-stall"]
    'stalls (declare stall_free = False if that is intended)'
    """
    if check not in _OF:
        raise InputError(f"{check!r} is no check of netsim.testing; choose from: "
                         f"{', '.join(each.__name__ for each in _OF)}")
    return {name: promise.broken for name, promise in _OF[check].items()}
