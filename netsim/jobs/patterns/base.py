"""The protocol of communication patterns."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from netsim.errors import InputError
from netsim.workload import Stage

#: The largest number of flows of an iteration; the arrays of many more would exhaust the memory.
_MOST_FLOWS = 20_000_000


def check_flows(ranks: int, flows: int) -> None:
    """Check that a pattern would not make too many flows, before making them."""
    if flows > _MOST_FLOWS:
        raise InputError(f"{ranks:,} ranks would have {flows:,} flows; an iteration can have at "
                         f"most {_MOST_FLOWS:,}")


@runtime_checkable
class Pattern(Protocol):
    """Makes the stages of an iteration of a job, with flows between ranks."""

    def stages(self, ranks: int, nbytes: float, rng: np.random.Generator) -> tuple[Stage, ...]:
        """Return the stages of one iteration, whose number may depend on `ranks` only.

        If the pattern says ``scale_free = False``, it may depend on `nbytes` as well. Stages have
        no ``coflow_id``, because they may be drawn more than once. If the pattern says ``ranked =
        True``, its stages have ``ranks`` that compute, or ``after_previous``, so that iterations
        overlap; otherwise they have neither.

        Parameters
        ----------
        ranks : int
            Number of ranks of the job.
        nbytes : float
            The job's message size, in bytes; its meaning depends on the pattern.
        rng : numpy.random.Generator
            The only source of randomness.

        Raises
        ------
        InputError
            If the pattern is not possible with this number of ranks.
        """
        ...
