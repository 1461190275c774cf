"""Bandwidths of a collective, as nccl-tests count them (``doc/PERFORMANCE.md``)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.collectives.algorithms import algorithms_of


class Bandwidths(NamedTuple):
    """Bandwidths of a collective, in bytes per second; NaN where there is none."""

    algbw: float  #: the size divided by the time
    busbw: float  #: what the busiest port needs whatever the algorithm; at most the rate of ports


#: The factor of busbw, as a function of the number of ranks.
_FACTORS = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n, "reduce-scatter": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0, "reduce": lambda n: 1.0, "send-recv": lambda n: 1.0,
}


def bandwidths(collective: str, ranks: int, nbytes: float, time_s: float, *,
               matrix: NDArray[np.float64] | None = None, pairs: object = None) -> Bandwidths:
    """Compute the bandwidths of a collective.

    Parameters
    ----------
    collective : str
    ranks : int
    nbytes : float
        The size, as in `netsim.collectives.schedule`; payload, without headers.
    time_s : float
        Duration of the collective.
    matrix : ndarray of float, shape (ranks, ranks), optional
        Bytes that each rank sends to each other rank. The size is then the largest sum of a row;
        for busbw, the largest sum of a row or column without the diagonal.
    pairs : sequence, optional
        Given for a send-recv with user-defined pairs, which has no bandwidths.

    Returns
    -------
    Bandwidths
        NaN for a barrier, for a single rank, and if `time_s` is 0.

    Examples
    --------
    >>> bandwidths("all-reduce", 4, 1e9, 0.5)
    Bandwidths(algbw=2000000000.0, busbw=3000000000.0)
    """
    algorithms_of(collective)
    if ranks == 1 or not time_s > 0 or collective not in _FACTORS or pairs is not None:
        return Bandwidths(math.nan, math.nan)
    if matrix is not None:
        sent = matrix - np.diag(np.diag(matrix))
        most = max(sent.sum(axis=0).max(), sent.sum(axis=1).max())
        return Bandwidths(float(matrix.sum(axis=1).max()) / time_s, float(most) / time_s)
    algbw = nbytes / time_s
    return Bandwidths(algbw, algbw * _FACTORS[collective](ranks))
