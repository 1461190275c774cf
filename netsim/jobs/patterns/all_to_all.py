"""All-to-all: every rank sends to every other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.errors import UnknownNameError
from netsim.jobs.patterns.base import check_flows
from netsim.plain import plain_numbers
from netsim.workload import Flows, Stage

__all__ = ["AllToAll"]


@plain_numbers
@dataclass(frozen=True)
class AllToAll:
    """All-to-all: one flow from every rank to every other one.

    Parameters
    ----------
    sizes : {"split", "uniform"}
        ``"split"``: every rank splits its nbytes evenly over all w ranks, itself included,
        so that each flow has nbytes/w. ``"uniform"``: flow sizes are uniform in (0, nbytes].
    """

    sizes: str = "split"

    def __post_init__(self) -> None:
        if self.sizes not in ("split", "uniform"):
            raise UnknownNameError("sizes", self.sizes, ("split", "uniform"))

    def stages(self, ranks: int, nbytes: float, rng: np.random.Generator) -> tuple[Stage, ...]:
        """Return one stage; see `Pattern.stages`."""
        check_flows(ranks, ranks * (ranks - 1))
        src, dst = np.divmod(np.arange(ranks * ranks), ranks)
        src, dst = src[src != dst], dst[src != dst]
        if self.sizes == "split":
            sizes = np.full(len(src), nbytes / ranks)
        else:
            sizes = nbytes * (1 - rng.random(len(src)))
        return (Stage("all-to-all", Flows(src, dst, sizes)),)
