"""Ring all-reduce: every rank sends to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.errors import InputError
from netsim.jobs.patterns.base import check_flows
from netsim.plain import plain_numbers
from netsim.workload import Flows, Stage

__all__ = ["RingAllReduce"]


@plain_numbers
@dataclass(frozen=True)
class RingAllReduce:
    """Ring all-reduce: 2m(w-1)/w bytes over each edge of a ring of w ranks.

    m = nbytes is the size of the gradients. A single rank sends nothing.

    Parameters
    ----------
    stepwise : bool
        Whether to emit 2(w-1) coflows of m/w bytes per edge, one after the other (reduce-scatter,
        then all-gather), instead of one coflow with their sum.
    """

    stepwise: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.stepwise, bool):
            raise InputError(f"stepwise must be true or false, not {self.stepwise!r}")

    def stages(self, ranks: int, nbytes: float, rng: np.random.Generator) -> tuple[Stage, ...]:
        """Return one stage, or 2(w-1) with `stepwise`; see `Pattern.stages`."""
        if ranks == 1:
            return (Stage("all-reduce", Flows.of([])),)
        steps = 2 * (ranks - 1)
        check_flows(ranks, ranks * (steps if self.stepwise else 1))
        rank = np.arange(ranks)
        chunk = Flows(rank, (rank + 1) % ranks, np.full(ranks, nbytes / ranks))
        if not self.stepwise:
            whole = Flows(chunk.src, chunk.dst, np.full(ranks, nbytes * steps / ranks))
            return (Stage("all-reduce", whole),)
        names = [f"step-{step}" for step in range(steps)]
        return tuple(Stage(name, chunk, after=tuple(names[max(step - 1, 0):step]))
                     for step, name in enumerate(names))
