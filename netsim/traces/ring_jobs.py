"""Random ring-all-reduce jobs: the workload of SJF-BCO's evaluation (Section 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from netsim.errors import InputError
from netsim.plain import plain_numbers
from netsim.streams import stream
from netsim.traces.problems import whole_option
from netsim.units import SMALL_SIZE, Quantity, is_digits, parse_bytes, parse_seconds
from netsim.workload import JobSpec, Workload

_MOST_JOBS = 10**6

#: Number of jobs by number of GPUs.
SECTION_7: Mapping[str, int] = {"1": 80, "2": 14, "4": 26, "8": 30, "16": 8, "32": 2}


@plain_numbers
def ring_jobs(*, mix: Mapping[str, int] = SECTION_7, iterations: Sequence[int] = (1000, 6000),
              compute: Sequence[Quantity] = ("10ms", "42.5ms"), length: Quantity = "625MB",
              estimate: Quantity = "50ms", seed: int = 0) -> Workload:
    """Draw random ring-all-reduce jobs that all arrive at time 0, as SJF-BCO's evaluation does.

    The defaults are those of that evaluation: 160 jobs, whose gradients two GPUs exchange in one
    second at 10 Gbps.

    Parameters
    ----------
    mix : mapping of int to int
        Number of jobs by the number of GPUs that they use.
    iterations : (int, int)
        Range of a job's number of iterations, drawn uniformly; both ends are included.
    compute : (quantity, quantity)
        Range of a job's computation time per iteration, drawn uniformly.
    length : quantity
        Size of the gradients, m in the paper.
    estimate : quantity
        Time per iteration that schedulers assume.
    seed : int
        The workload's seed. Each job draws from a random stream of its own; their order is drawn
        from another.

    Raises
    ------
    InputError
        If a value is not allowed.

    Examples
    --------
    >>> len(ring_jobs(mix={"1": 3, "8": 2}))
    5
    """
    counts = [(_parse_gpus(gpus, "mix: GPUs"),
               whole_option(count, f"mix: jobs of {gpus} GPUs", 0, _MOST_JOBS))
              for gpus, count in _check_mix(mix).items()]
    least, most = _parse_range(iterations, "iterations", lambda value: whole_option(
        value, "iterations", 1))
    short, long = _parse_range(compute, "compute", lambda value: parse_seconds(value, "compute"))
    nbytes = parse_bytes(length, "length", usual=SMALL_SIZE)
    seconds = parse_seconds(estimate, "estimate", strict=True)
    ranks = np.repeat([gpus for gpus, _ in counts], [count for _, count in counts])
    if not len(ranks):
        raise InputError("mix: there are no jobs")
    stream(seed, "order of jobs").shuffle(ranks)
    jobs = []
    for k, gpus in enumerate(ranks.tolist()):
        rng = stream(seed, "ring job", k)
        count = int(rng.integers(least, most, endpoint=True))
        jobs.append(JobSpec(k, iterations=count, pattern="ring-all-reduce", ranks=gpus,
                            nbytes=nbytes, compute_s=float(rng.uniform(short, long)),
                            estimate_s=seconds * count))
    return Workload(jobs, "ring-jobs", seed=seed)


def _check_mix(mix: object) -> Mapping[Any, Any]:
    if not isinstance(mix, Mapping):
        raise InputError(f"mix must be a table of GPUs to jobs, not {mix!r}")
    return mix


def _parse_gpus(value: Any, name: str) -> int:
    """Parse a number of GPUs; in files, keys of a table are text."""
    digits = str(value)
    return whole_option(int(digits) if is_digits(digits) else value, name, 1)


def _parse_range(values: Any, name: str, parse: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Parse the least and the most of a range."""
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != 2:
        raise InputError(f"{name} must be the least and the most, not {values!r}")
    least, most = map(parse, values)
    if least > most:
        raise InputError(f"{name}: the least, {values[0]}, is more than the most, {values[1]}")
    return least, most
