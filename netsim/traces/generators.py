"""Workloads that are generated: like a trace, by Poisson arrivals, of rings, patterns or models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from netsim.base.streams import stream
from netsim.base.units import SMALL_SIZE, Quantity, is_digits, parse_bytes, parse_seconds
from netsim.base.values import (
    MOST_ID,
    about,
    as_name,
    as_range,
    as_whole,
    known_names,
    optional,
    refused,
)
from netsim.errors import InputError
from netsim.llm import llm_job
from netsim.traces.tiresias import Construction, TiresiasRow
from netsim.workload import JobSpec, Workload

#: The most jobs that are drawn.
MOST_JOBS = 10**6

# --- like the Tiresias trace ---------------------------------------------------------------

_GPUS = (1, 2, 4, 8)

_SECONDS = {  # per iteration, on 1, 2, 4 and 8 GPUs
    "alexnet": (0.054, 0.27, 0.37, 0.44),
    "googlenet": (0.14, 0.14, 0.14, 0.14),
    "inception3": (0.23, 0.44, 0.47, 0.48),
    "inception4": (0.48, 0.81, 0.85, 0.86),
    "resnet101": (0.26, 0.47, 0.52, 0.53),
    "resnet152": (0.37, 0.65, 0.70, 0.72),
    "resnet50": (0.15, 0.30, 0.33, 0.34),
    "vgg11": (0.16, 0.63, 0.85, 1.1),
    "vgg16": (0.24, 0.66, 0.88, 1.1),
    "vgg19": (0.27, 0.66, 0.86, 1.1),
}

_DECK = tuple((model, gpus) for model in _SECONDS for gpus in (1, 1, 1, 2, 4, 8))

_MEAN_INTERVAL_S = 30

_SHORTEST_S, _LONGEST_S = 120, 1800


@known_names
def synthetic_rows(jobs: int = 60, seed: int = 0) -> list[TiresiasRow]:
    """Draw a trace like the 60 jobs of the Parrot paper (Section 6.1), in order of submission.

    - Models and GPUs: a shuffled deck of 60 cards, in which each of ten models occurs three times
      with 1 GPU and once with 2, 4 and 8 GPUs; a new deck every 60 jobs. Of 60 jobs, 30 thus have
      1 GPU, and 10 each have 2, 4 and 8.
    - Intervals between submissions: Poisson with mean 30, in whole seconds.
    - Durations: 120 s plus a Pareto excess with P(excess > x) = x**-0.5 for x >= 1, rounded
      down, and at most 1800 s in total; 1/2 is the maximum-likelihood exponent. Half of the
      jobs take at most 124 s, one in ten more than three and a half minutes.
    - Iterations: the duration divided by the model's seconds per iteration on that many GPUs, which
      are taken from the trace, rounded to two digits. The results are between about 110 and 33,000.

    Each job draws from a random stream of its own: more jobs do not change the earlier ones.
    """
    jobs, seed = as_whole(jobs, "jobs", 1, MOST_JOBS), as_whole(seed, "seed")
    rows: list[TiresiasRow] = []
    submit_time = 0
    for job in range(jobs):
        deck, card = divmod(job, len(_DECK))
        if card == 0:
            shuffled = stream(seed, "synthetic-deck", deck).permutation(len(_DECK))
        model, gpus = _DECK[shuffled[card]]
        duration, interval = _draw(seed, job)
        seconds = _SECONDS[model][_GPUS.index(gpus)]
        rows.append(TiresiasRow(job, gpus, submit_time, round(duration / seconds), model,
                                duration, interval))
        submit_time += interval
    return rows


def _draw(seed: int, job: int) -> tuple[int, int]:
    """Draw a job's duration and the interval to the next submission, in seconds."""
    rng = stream(seed, "synthetic-job", job)
    excess = (1.0 - rng.random()) ** -2.0  # inverse transform; the argument is in (0, 1]
    return min(_LONGEST_S, _SHORTEST_S + int(excess)), int(rng.poisson(_MEAN_INTERVAL_S))


@known_names
def synthetic(
    jobs: int = 60, *, seed: int = 0, trace_seed: int | None = None, **construction: Any
) -> Workload:
    """Draw a random trace like the Tiresias one; see `synthetic_rows` and `read_tiresias`.

    Parameters
    ----------
    jobs : int
        Number of jobs, at least 1.
    seed : int
        Seed of the numbers of servers and of the flow sizes.
    trace_seed : int, optional
        Seed of the trace itself; `seed` if None. If fixed, runs with several seeds use the same
        trace.
    **construction
        The fields of `Construction`.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    build, own = Construction(**construction), optional(as_whole)(trace_seed, "trace_seed")
    rows = synthetic_rows(jobs, seed if own is None else own)
    return build.workload(rows, "synthetic", seed)


# --- Poisson arrivals ----------------------------------------------------------------------
@known_names
def poisson_resample(
    workload: Workload,
    jobs: int = 100,
    mean_interarrival: str | float = "500ms",
    seed: int = 0,
) -> Workload:
    """Sample jobs with replacement; they arrive as a Poisson process (Parrot, Section 6.1).

    The jobs get the ids 0, 1, ... in order of arrival. The time before the first arrival has the
    same distribution as the gaps between arrivals. Jobs and arrivals are drawn from separate
    random streams: a larger number of jobs does not change the earlier ones, and another mean
    only scales the arrivals.

    Parameters
    ----------
    workload : Workload
        The workload to sample from; its name, seed and history are kept.
    jobs : int
        Number of jobs to sample, at least 1.
    mean_interarrival : str or float
        Mean of the exponential gaps between arrivals, greater than 0; seconds.
    seed : int
        Seed of the sample.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    jobs, seed = as_whole(jobs, "jobs", 1, MOST_JOBS), as_whole(seed, "seed")
    mean = parse_seconds(mean_interarrival, "mean_interarrival", strict=True)
    picks = stream(seed, "poisson-jobs").integers(len(workload), size=jobs)
    gaps = stream(seed, "poisson-arrivals").standard_exponential(size=jobs)
    arrivals = np.cumsum(gaps)
    sampled = tuple(_copy(workload.jobs[pick], number, float(arrival) * mean)
                    for number, (pick, arrival) in enumerate(zip(picks, arrivals, strict=True)))
    return replace(workload, jobs=sampled)


def _copy(job: JobSpec, number: int, arrival_s: float) -> JobSpec:
    # A coflow's explicit id is unique in a workload, and a job may be sampled twice.
    stages = tuple(replace(stage, coflow_id=None) for stage in job.stages)
    return replace(job, id=number, arrival_s=arrival_s, stages=stages)


# --- rings ---------------------------------------------------------------------------------

#: Number of jobs by number of GPUs.
SECTION_7: Mapping[str, int] = {"1": 80, "2": 14, "4": 26, "8": 30, "16": 8, "32": 2}


@known_names
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
    if not isinstance(mix, Mapping):
        raise refused("mix", "a table of GPUs to jobs", mix)
    with about("mix"):
        counts = [(_parse_gpus(gpus, "mix: GPUs"),
                   as_whole(count, f"mix: jobs of {gpus} GPUs", most=MOST_JOBS))
                  for gpus, count in mix.items()]
    least, most = as_range(iterations, "iterations", partial(as_whole, least=1, most=MOST_ID))
    short, long = as_range(compute, "compute", parse_seconds)
    nbytes = parse_bytes(length, "length", usual=SMALL_SIZE)
    seconds = parse_seconds(estimate, "estimate", strict=True)
    ranks = np.repeat([gpus for gpus, _ in counts], [count for _, count in counts])
    if not len(ranks):
        raise InputError("mix: there are no jobs", "mix")
    seed = as_whole(seed, "seed")
    stream(seed, "order of jobs").shuffle(ranks)
    jobs = []
    for k, gpus in enumerate(ranks.tolist()):
        rng = stream(seed, "ring job", k)
        count = int(rng.integers(least, most, endpoint=True))
        jobs.append(JobSpec(k, iterations=count, pattern="ring-all-reduce", ranks=gpus,
                            nbytes=nbytes, compute_s=float(rng.uniform(short, long)),
                            estimate_s=seconds * count))
    return Workload(jobs, "ring-jobs", seed=seed)


def _parse_gpus(value: Any, name: str) -> int:
    """Parse a number of GPUs; in files, keys of a table are text."""
    digits = str(value)
    return as_whole(int(digits) if is_digits(digits) else value, name, 1)


# --- one job -------------------------------------------------------------------------------
@known_names
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
    job = JobSpec(0, 0.0, iterations, pattern=pattern, ranks=ranks,
                  nbytes=parse_bytes(nbytes, "job 0: nbytes", usual=SMALL_SIZE),
                  compute_s=parse_seconds(compute, "compute"), hosts=hosts, weight=weight,
                  group=group)
    return Workload([job], "pattern", seed=seed)


@known_names
def llm(*, model: str | Mapping[str, Any], iterations: int = 1,
        hosts: Sequence[int | str] | None = None, job_name: str | None = None, weight: float = 1.0,
        group: int | str | None = None, seed: int = 0, **setup: Any) -> Workload:
    """Train a large language model: one job, as Megatron-LM and DeepSpeed run it.

    Parameters
    ----------
    model : str or mapping
        A ready-made transformer (``netsim list llms``), or its parameters; see `netsim.llm_job`.
    iterations : int
        Number of iterations.
    hosts : sequence of int or str, optional
        The host of each rank; by default rank r runs on host r.
    job_name : str, optional
        A label of the job; by default that of the model.
    weight : float
        The job's priority; see `netsim.JobSpec`.
    group : int or str, optional
        A label of jobs that belong together; see `netsim.JobSpec`.
    seed : int
        Seed of the loads of experts, unless `expert_load` has its own.
    **setup
        Parallelism, batches and so on; see `netsim.llm.TrainingSetup`.

    Raises
    ------
    InputError
        If a value is invalid or contradicts another.

    Examples
    --------
    >>> [job.ranks for job in llm(model="llama-7b", tp=2, dp=2, global_batch=2)]
    [4]
    """
    return Workload([llm_job(model, iterations=iterations, hosts=hosts,
                             name=optional(as_name)(job_name, "job_name"), weight=weight,
                             group=group, seed=seed, **setup)], "llm", seed=seed)
