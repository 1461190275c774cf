"""Interruption of a run by Ctrl-C, with a message about how far it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
from numpy.typing import NDArray

from netsim.errors import Interrupted, interruption_of
from netsim.units import format_seconds


@contextmanager
def interrupt_with_status(what: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C in this context into an `Interrupted` error with the text that `what` returns."""
    try:
        yield
    except BaseException as error:
        stop = interruption_of(error)
        if stop is None:
            raise
        said = str(stop)
        with suppress(Exception):  # the interruption may leave the state inconsistent
            said = what()
        raise Interrupted(said) from stop


def so_far(now: float, arrival_s: NDArray[np.float64], finish_s: NDArray[np.float64]) -> str:
    """Describe the progress of a run for a message; `finish_s` is NaN for unfinished jobs."""
    jct_s = finish_s - arrival_s
    done = jct_s[~np.isnan(jct_s)]
    # The fabric may run jobs ahead of the clock; the last end then says more.
    at = max(now, np.nanmax(finish_s)) if len(done) else now
    said = f"at {format_seconds(at)} of the simulation {len(done):,} of {len(jct_s):,} jobs had " \
           "finished"
    if not len(done):
        return said
    return said + (f", JCT {format_seconds(done.mean())} on average, "
                   f"p95 {format_seconds(np.percentile(done, 95))}")
