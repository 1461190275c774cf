"""Check that an allocator keeps the promises that the fabric and its users rely on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from netsim.network import Topology
from netsim.plain import known_names
from netsim.testing.cases import draw_case, draw_network
from netsim.testing.hunt import chosen, hunt
from netsim.testing.promises import PROMISES
from netsim.testing.trial import Policy, Trial

_LARGEST = 5


@known_names
def check_allocator(policy: Policy, *, networks: Iterable[Topology] | None = None,
                    promises: Iterable[str] | None = None, examples: int = 100,
                    seed: int = 0) -> None:
    """Check on random views that an allocator keeps its promises.

    It must return an `Allocation` that fits the view, with finite, non-negative rates within all
    capacities, and must not change the view. Its answer must not depend on

    - the instance: fresh instances give equal answers on equal views;
    - how hosts are numbered, or whether there are idle jobs;
    - the order in which a coflow lists its flows, unless the allocator declares ``order_free =
      False``. Hosts and flows are only reordered on big switches, where this changes no path.
      Coflows are sorted by validity and jobs by arrival, so these orders may matter;
    - the unit of time, unless it declares ``time_free = False``, and the unit of bytes, unless it
      declares ``scale_free = False``;
    - anything that it declares not to know: bytes not sent yet if its ``information`` is
      ``"agnostic"``, coflows not emitted yet unless it is ``"job-clairvoyant"``, and predictions of
      them unless it is that or ``"predicted"``.

    Reading a column that it declares not to know is an `InputError`, here as in a run. If an
    agnostic policy returns an order, with or without `leftover`, only the order must be independent
    of sizes. The rates may depend on sizes, because the fabric knows them when it serves the
    coflows. If a policy has a ``compiled_rule``, ``allocate`` and it must give the same rates.

    If it claims to be ``work_conserving``, each unfinished flow must cross a full link. Unless it
    declares ``stall_free = False``, some flow must get a rate, or the policy must ask to be woken,
    as long as there is a coflow none of whose flows needs a failed link.

    Parameters
    ----------
    policy : str, mapping, Allocator or class
        As for `netsim.simulate`. A fresh instance is made for each call.
    networks : iterable of Topology, optional
        Networks of the views. By default, small big switches with unequal ports.
    promises : iterable of str, optional
        Names of the promises to check; see `netsim.testing.promises_of`. By default all.
    examples : int
        Number of random views. They grow from one flow to five coflows of five flows.
    seed : int
        Seed of the views.

    Raises
    ------
    AssertionError
        If a promise is broken. The message names the allocator and the promise, with the smallest
        view found that shows it. Exceptions of the allocator itself propagate, with a note of the
        view.

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

    hunt(trials(), chosen(PROMISES, promises))
