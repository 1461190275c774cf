"""What a communication pattern is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from netsim.errors import InputError
from netsim.workload import Stage

__all__ = ["Pattern", "check_flows"]

#: How many flows an iteration may have; what is computed of many more takes all the memory.
_MOST_FLOWS = 20_000_000


def check_flows(ranks: int, flows: int) -> None:
    """Refuse what would be too many flows, before there is one.

    Raises
    ------
    InputError
        Names both numbers.
    """
    if flows > _MOST_FLOWS:
        raise InputError(f"{ranks:,} ranks would have {flows:,} flows; there may be "
                         f"{_MOST_FLOWS:,} in an iteration")


@runtime_checkable
class Pattern(Protocol):
    """Says what one iteration of a job sends, in rank space."""

    def stages(self, ranks: int, nbytes: float, rng: np.random.Generator) -> tuple[Stage, ...]:
        """Return the stages of one iteration; how many depends on `ranks` alone.

        They have no ``coflow_id``, for they may be drawn more than once.

        Parameters
        ----------
        ranks : int
            Number of processes of the job.
        nbytes : float
            The job's message size, in bytes; what it measures is the pattern's to say.
        rng : numpy.random.Generator
            The only source of randomness.

        Raises
        ------
        InputError
            If the pattern does not exist for so many ranks.
        """
        ...
