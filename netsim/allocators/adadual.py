"""AdaDUAL: when a communication may begin beside another one.

Wang, Shi, Wang, Chu, "Communication contention aware scheduling of multiple deep learning training
jobs" (2020), from which SJF-BCO has its contention model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import ClassVar

import numpy as np

from netsim.allocators.contention import contended_rates
from netsim.base.arrays import Bools
from netsim.base.values import as_choice, as_number, convert, known_names, plain
from netsim.fabric.allocation import Allocation, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.records import DUST
from netsim.fabric.view import FabricView
from netsim.models.degradation import Degradation, Slowdown
from netsim.ties import below, merge_equal


def begins_at_once(size_s: float, left_s: Sequence[float], slowdown: float) -> bool:
    """Whether a communication should begin beside others, rather than wait for them to end.

    The new one takes M (`size_s`) seconds alone, and the one that sends L (`left_s`) more. While
    both send, each is f = f(alpha, 2) (`slowdown`) times as slow. The shorter one, m = min(M, L),
    sends beside the other all the time, for f m, in which m of the other is sent as well. So if the
    new one begins at once, the two end at M + (f - 1) m and L + (f - 1) m. If it waits, they end at
    L + M and L. The sum of both ends is less if it begins at once if and only if

        2 (f - 1) min(M, L) < L.

    For f >= 3/2, that is M/L < 1 / (2 (f - 1)). With the linear cost, f = 2 + eta/b, this is the
    threshold of the paper, M/L < b / (2 (b + eta)).

    No other start is better. If the new one begins after s seconds, with L - s of the other left,
    the sum of the ends is s + M + (f - 1) m + L + (f - 1) m, where m = min(M, L - s). As long as m
    = M, it rises by 1 per second. After that, it changes by 3 - 2 f per second: it falls if f >
    3/2, so that the best start is the first or the last, and rises otherwise, so that it is the
    first.

    The paper treats two. If the new one would meet another one on each of several links, the same
    two sums are compared for all: it begins if (f - 1) (min(M, max L) + sum of min(M, L)) is less
    than max L, for which it would wait.
    """
    longest = max(left_s, default=0.0)
    cost = (slowdown - 1) * (min(size_s, longest) + sum(min(size_s, each) for each in left_s))
    return not left_s or below(cost, longest)


@known_names
@dataclass(frozen=True)
class AdaDUAL(Allocator):
    """A coflow begins beside one other if both then end sooner in sum, and never as a third.

    A coflow meets those of other jobs that send at one of its servers, or on one of its links. If
    there are none, it begins at once. If there is one at a place, it begins or waits, by
    `begins_at_once`. If there are two or more at a place, it waits. Once begun, it sends until it
    has ended, at the rates of `RingContention`. Those that wait are asked again whenever a coflow
    becomes valid or ends, in the order of the remaining service of their jobs (remaining time times
    GPUs), as in Ada-SRSF.

    Parameters
    ----------
    alpha : float
        Cost of contention beyond equal sharing, an option of the degradation f; at least 0. In the
        paper's terms, eta/b.
    beside : {"adaptive", "always", "never"}
        Whether a coflow may begin beside one other: as above; always, the paper's SRSF(2); or
        never, SRSF(1).
    degradation : str, mapping or callable
        As for `netsim.cluster.contention.Contention`.

    Notes
    -----
    What is compared are times alone on the links (gammas) instead of bytes: in the paper, all links
    are equally fast. Its fixed cost a of a communication is the overhead of a network, which passes
    before the coflow is seen here. A link that fails stops a coflow, which goes on when it is
    repaired, whatever has begun meanwhile. A coflow on many servers may wait for long, while others
    use one of them in turn.
    """

    alpha: float = 0.0
    beside: str = "adaptive"
    degradation: Degradation = "linear"

    information: ClassVar[Information] = "job-clairvoyant"
    leftover = "none"

    def __post_init__(self) -> None:
        convert(self, beside=partial(as_choice, choices=("adaptive", "always", "never")),
                alpha=partial(as_number, least=0), degradation=plain)
        self.slowdown  # noqa: B018  # which checks its options

    @cached_property
    def slowdown(self) -> Slowdown:
        """f, by the number of contending jobs."""
        return Slowdown(self.alpha, 1.0, 1.0, self.degradation)

    def allocate(self, view: FabricView) -> Allocation:
        """Return the rates of the coflows that send; see `Allocator.allocate`."""
        return Allocation(contended_rates(view, self.slowdown, self._sends(view)))

    def _sends(self, view: FabricView) -> Bools:
        """The mask of the coflows that have begun, and those that begin now."""
        able = np.isfinite(view.gamma)
        sends = able & (view.sent > DUST * view.total)
        places, job, gamma = _places_of(view), view.job.tolist(), view.gamma.tolist()
        at: defaultdict[int, set[int]] = defaultdict(set)
        for coflow in np.flatnonzero(sends).tolist():
            for place in places[coflow]:
                at[place].add(coflow)
        order = np.lexsort((view.job, merge_equal(view.job_service)))
        for coflow in order[(able & ~sends)[order]].tolist():
            met = [{other for other in at[place] if job[other] != job[coflow]}
                   for place in places[coflow]]
            left_s = [gamma[other] for other in sorted(set().union(*met))]
            if max(map(len, met)) < 2 and self._begins(gamma[coflow], left_s):
                sends[coflow] = True
                for place in places[coflow]:
                    at[place].add(coflow)
        return sends

    def _begins(self, size_s: float, left_s: Sequence[float]) -> bool:
        """Whether a coflow begins that meets at most one other at each place."""
        if self.beside == "adaptive":
            return begins_at_once(size_s, left_s, float(self.slowdown(2)))
        return self.beside == "always" or not left_s


def _places_of(view: FabricView) -> list[list[int]]:
    """The links of each coflow's unfinished flows, and their hosts, numbered after links."""
    ptr, links = view.paths
    hosts = len(view.capacity) + np.stack((view.src, view.dst))
    ends = np.concatenate(([0], np.cumsum(view.width))).tolist()
    return [np.unique(np.concatenate((links[ptr[first]:ptr[end]], *hosts[:, first:end]))).tolist()
            for first, end in pairwise(ends)]
