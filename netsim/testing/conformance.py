"""Does an allocator keep the promises that the fabric and its users rely on?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from netsim.network import Topology
from netsim.testing.cases import draw_case, draw_network
from netsim.testing.hunt import hunt
from netsim.testing.promises import PROMISES
from netsim.testing.trial import Policy, Trial

__all__ = ["check_allocator"]

_LARGEST = 5


def check_allocator(policy: Policy, *, networks: Iterable[Topology] | None = None,
                    examples: int = 100, seed: int = 0) -> None:
    """Check on random views that an allocator keeps its promises.

    It must return an `Allocation` that fits the view, is finite, not negative and within all
    capacities; leave the view as it is; and answer alike

    - if asked twice: fresh instances, equal views;
    - whatever numbers hosts have, and in whatever order a coflow lists its flows unless it
      declares ``order_free = False`` (both on big switches, where neither changes a path);
      and whatever other jobs are idle. Coflows stand in order of validity and jobs of arrival,
      so that those orders carry meaning;
    - in any unit of time, unless it declares ``time_free = False``; in any unit of bytes, unless
      it declares ``scale_free = False``;
    - whatever is true of what it says that it does not know: the bytes not sent yet if its
      ``information`` is ``"agnostic"``, the coflows not emitted yet if ``"clairvoyant"``.

    If it claims to be ``work_conserving``, each unfinished flow must cross a full link. As long as
    some coflow could move, none of whose flows needs a dead link, some flow must, or the policy
    asks to be woken; unless it declares ``stall_free = False``.

    Parameters
    ----------
    policy : str, mapping, Allocator or class
        As for `netsim.simulate`. Each question goes to a fresh instance.
    networks : iterable of Topology, optional
        Where to ask; small big switches with unequal ports if not given.
    examples : int
        How many random views; they grow from one flow to five coflows of five flows.
    seed : int
        Of the views.

    Raises
    ------
    AssertionError
        Names the allocator and the broken promise, with the smallest view found that shows
        it. What the allocator itself raises passes through, with a note of the view.

    Examples
    --------
    >>> from netsim.testing import check_allocator
    >>> check_allocator({"name": "aalo-lbsf", "work_conservation": "none"}, examples=5)
    """
    rng = np.random.default_rng(seed)
    given = None if networks is None else list(networks)

    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high, endpoint=True))

    def trials() -> Iterator[Trial]:
        for example in range(examples):
            size = 1 + _LARGEST * example // examples
            network = given[example % len(given)] if given else draw_network(pick, 2, 1 + size)
            yield Trial(policy, draw_case(pick, network, size, size), seed + example)

    hunt(trials(), PROMISES)
