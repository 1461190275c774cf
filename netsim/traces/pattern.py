"""A job that repeats a communication pattern, as a workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netsim.plain import plain_numbers
from netsim.units import SMALL_SIZE, Quantity, parse_bytes
from netsim.workload import JobSpec, Workload


@plain_numbers
def pattern_job(*, pattern: str | Mapping[str, Any], ranks: int, nbytes: Quantity,
                iterations: int = 1, compute: Quantity = 0.0,
                hosts: Sequence[int | str] | None = None, weight: float = 1.0,
                group: int | str | None = None, seed: int = 0) -> Workload:
    """Repeat a communication pattern: one job.

    Parameters
    ----------
    pattern : str or mapping
        Its name (``netsim list patterns``), or its name and options.
    ranks : int
        Number of ranks.
    nbytes : quantity
        Bytes passed to the pattern, which defines their meaning.
    iterations : int
        Number of iterations.
    compute : quantity
        Time of computation at the start of each iteration.
    hosts : sequence of int or str, optional
        The host of each rank; chosen by the simulation if None.
    weight : float
        The job's priority; see `netsim.JobSpec`.
    group : int or str, optional
        A label of jobs that belong together; see `netsim.JobSpec`.
    seed : int
        The workload's seed, for the sizes that patterns draw.

    Raises
    ------
    InputError
        If a value is invalid.

    Examples
    --------
    >>> [job.ranks for job in pattern_job(pattern="ring-all-reduce", ranks=4, nbytes="1MB")]
    [4]
    """
    parse_bytes(nbytes, "job 0: nbytes", usual=SMALL_SIZE)
    job = JobSpec(0, 0.0, iterations, pattern=pattern, ranks=ranks, nbytes=nbytes,  # type: ignore[arg-type]
                  compute_s=compute, hosts=hosts, weight=weight, group=group)  # type: ignore[arg-type]
    return Workload([job], "pattern", seed=seed)
