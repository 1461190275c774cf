"""The names of the promises that each check tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netsim.base.values import known_names
from netsim.errors import InputError
from netsim.testing import allocators, patterns, placements, schedulers, topologies
from netsim.testing.trial import Promise

_OF: dict[Callable[..., None], dict[str, Promise[Any]]] = {
    allocators.check_allocator: allocators.PROMISES,
    patterns.check_pattern: patterns.PROMISES,
    placements.check_placement: placements.PROMISES,
    schedulers.check_scheduler: schedulers.PROMISES,
    topologies.check_topology: topologies.PROMISES}


@known_names
def promises_of(check: Callable[..., None]) -> dict[str, str]:
    """List the promises that a check tests.

    Parameters
    ----------
    check : callable
        A function such as `check_allocator`, whose argument `promises` chooses among them.

    Returns
    -------
    dict of str to str
        For each name, the message about a policy that breaks the promise; in the order of checking.

    Raises
    ------
    InputError
        If the argument is not a check of `netsim.testing`.

    Examples
    --------
    With pytest, each promise can be a separate test::

        @pytest.mark.parametrize("promise", promises_of(check_allocator))
        def test_promise(promise):
            check_allocator(MyAllocator, promises=[promise])

    >>> from netsim.testing import check_allocator
    >>> promises_of(check_allocator)["no-stall"]
    'stalls (declare stall_free = False if that is intended)'
    """
    if check not in _OF:
        raise InputError(f"{check!r} is no check of netsim.testing; choose from: "
                         f"{', '.join(each.__name__ for each in _OF)}")
    return {name: promise.broken for name, promise in _OF[check].items()}
