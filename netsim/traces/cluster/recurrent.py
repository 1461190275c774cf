"""Draw recurrent workloads with the published characteristics of Alibaba PAI's GPU cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.reading import POSITIVE
from netsim.base.streams import stream
from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import as_choice, as_number, as_whole, known_names
from netsim.errors import InputError
from netsim.traces.cluster.construction import ClusterConstruction, TraceWorkload, draw_single
from netsim.traces.cluster.jobs import ClusterJobs

_RECURRING = 5  # number of jobs from which a group counts as recurring
_GPUS = (2, 4, 8, 16, 32, 64)
_GPU_SHARES = (0.32, 0.26, 0.24, 0.12, 0.04, 0.02)
_DAY_S = 86400.0
_SWING = 0.8  # amplitude of the arrival rate over a day, relative to its mean
_LONGEST_S = 14 * _DAY_S
_SHORTEST_S = 10.0
_WITHIN = 0.2  # standard deviation of the logarithm of durations within a group


@known_names
def recurrent(
    jobs: int = 1000,
    *,
    seed: int = 0,
    groups: int | None = None,
    users: int | None = None,
    single_gpu_share: float = 0.72,
    recurring_share: float = 0.65,
    median_duration: Quantity = "10min",
    tail: float = 1.7,
    mean_interarrival: Quantity = "30s",
    arrivals: str = "poisson",
    **construction: Any,
) -> TraceWorkload:
    """Draw random jobs that recur, as those of Alibaba PAI do; see `recurrent_jobs`.

    Parameters
    ----------
    jobs : int
        Number of jobs, at least 1; those of the history are counted, too.
    seed : int
        The seed of all draws.
    groups : int, optional
        Number of recurring groups; one for each 25 of their jobs if not given.
    users : int, optional
        Number of users to draw from; one for each 50 jobs if not given.
    single_gpu_share : float
        Share of the jobs that have one GPU: 72 % in the trace.
    recurring_share : float
        Share of the jobs that belong to groups of at least five: 65 % in the trace.
    median_duration : quantity
        Median of the groups' median durations.
    tail : float
        Standard deviation of the logarithm of the groups' median durations. With 1.7, one in
        eleven is more than ten times their median, and their mean is more than four times it.
    mean_interarrival : quantity
        Mean time between arrivals.
    arrivals : {"poisson", "diurnal"}
        Whether the arrival rate is constant or varies over the day.
    **construction
        The fields of `ClusterConstruction`.

    Raises
    ------
    InputError
        If an option is out of range.
    """
    build = ClusterConstruction(**construction)
    drawn = recurrent_jobs(
        jobs, seed=seed, groups=groups, users=users, single_gpu_share=single_gpu_share,
        recurring_share=recurring_share, median_duration=median_duration, tail=tail,
        mean_interarrival=mean_interarrival, arrivals=arrivals)
    return build.workload(drawn, f"recurrent-{jobs}", seed)


@known_names
def recurrent_jobs(
    jobs: int = 1000,
    *,
    seed: int = 0,
    groups: int | None = None,
    users: int | None = None,
    single_gpu_share: float = 0.72,
    recurring_share: float = 0.65,
    median_duration: Quantity = "10min",
    tail: float = 1.7,
    mean_interarrival: Quantity = "30s",
    arrivals: str = "poisson",
) -> ClusterJobs:
    """Draw the jobs of a recurrent workload; `recurrent` describes the parameters.

    - Groups: `recurring_share` of the jobs belong to recurring groups, which have five jobs each,
      plus a number drawn with Zipf's weights 1, 1/2, 1/3, ... The other jobs belong to groups of
      1 to 4 jobs.
    - Users: each group belongs to one user, drawn with Zipf's weights, so that few users submit
      most of the jobs.
    - GPUs: all jobs of a group have the same number of GPUs. Groups, in random order, have one
      GPU until `single_gpu_share` is reached. The other groups have 2, 4, 8, 16, 32 or 64 GPUs
      with probabilities 0.32, 0.26, 0.24, 0.12, 0.04 and 0.02, which are netsim's choice, as none
      are published.
    - Durations: the median of each group is log-normal, and so are the durations of its jobs
      around this median, with a standard deviation of the logarithm of 0.2 (netsim's choice);
      limited to between 10 s and 14 days.
    - Arrivals: the jobs of all groups, in random order, arrive as a Poisson process. With
      ``"diurnal"``, its rate is a sine of the time of day, with an amplitude of 0.8 of the mean.

    Groups and users are numbered in the order in which they are drawn.
    """
    count, seed = as_whole(jobs, "jobs", 1, 10**7), as_whole(seed, "seed")
    single_gpu_share = as_number(single_gpu_share, "single_gpu_share", least=0, most=1)
    recurring_share = as_number(recurring_share, "recurring_share", least=0, most=1)
    tail = as_number(tail, "tail", least=0, most=10)
    as_choice(arrivals, "arrivals", ("poisson", "diurnal"))
    sizes = _sizes(count, seed, recurring_share, groups)
    gpus = _gpus(sizes, seed, single_gpu_share)
    owners = _owners(len(sizes), seed, users, count)
    group = stream(seed, "recurrent-order").permutation(np.repeat(np.arange(len(sizes)), sizes))
    log_median = np.log(parse_seconds(median_duration, "median_duration", strict=True))
    log_group = log_median + tail * stream(seed, "recurrent-medians").standard_normal(len(sizes))
    spread = _WITHIN * stream(seed, "recurrent-durations").standard_normal(count)
    duration = np.exp(np.clip(log_group[group] + spread, np.log(_SHORTEST_S), np.log(_LONGEST_S)))
    return ClusterJobs(
        submit_s=_arrivals(count, seed, mean_interarrival, arrivals), duration_s=duration,
        gpus=gpus[group].astype(np.int32), group=group.astype(np.int32),
        user=owners[group].astype(np.int32), read=count, dropped={}, notes={})


def _sizes(jobs: int, seed: int, share: float, groups: int | None) -> Ints:
    """Draw the number of jobs of each group; recurring groups come first."""
    rng = stream(seed, "recurrent-groups")
    recurring = round(share * jobs)
    if recurring < _RECURRING:
        recurring = 0
    most = recurring // _RECURRING
    if groups is None:
        number = min(most, max(1, recurring // 25))
    else:
        number = as_whole(groups, "groups", 1 if recurring else 0, most)
    sizes = [np.zeros(0, dtype=np.int64)]
    if number:
        weights = 1 / np.arange(1, number + 1)
        more = rng.multinomial(recurring - _RECURRING * number, weights / weights.sum())
        sizes.append(_RECURRING + more)
    rest = jobs - recurring
    small = rng.integers(1, _RECURRING, size=rest)
    ends = np.cumsum(small)
    last = int(np.searchsorted(ends, rest))
    if rest:
        small = small[:last + 1]
        small[-1] -= int(ends[last]) - rest
        sizes.append(small)
    return np.concatenate(sizes)


def _gpus(sizes: Ints, seed: int, share: float) -> Ints:
    """Draw the number of GPUs of each group's jobs."""
    rng = stream(seed, "recurrent-gpus")
    gpus = rng.choice(_GPUS, size=len(sizes), p=_GPU_SHARES)
    return np.where(draw_single(sizes, share, rng), 1, gpus)


def _owners(groups: int, seed: int, users: int | None, jobs: int) -> Ints:
    """Draw the user of each group."""
    number = max(1, jobs // 50) if users is None else as_whole(users, "users", 1, 10**6)
    weights = 1 / np.arange(1, number + 1)
    return stream(seed, "recurrent-users").choice(number, size=groups, p=weights / weights.sum())


def _arrivals(jobs: int, seed: int, mean: Quantity, kind: str) -> Floats:
    """Draw the submission times, in seconds; the first is 0."""
    gap = parse_seconds(mean, "mean_interarrival", strict=True)
    if POSITIVE.number(gap) is None or gap * jobs > 1e12:
        raise InputError(f"mean_interarrival = {mean!r} is too long for {jobs:,} jobs",
                         "mean_interarrival")
    times = gap * np.cumsum(stream(seed, "recurrent-arrivals").standard_exponential(jobs))
    if kind == "diurnal":
        times = _make_diurnal(times)
    return times - times[0]


def _make_diurnal(times: Floats) -> Floats:
    """Map arrivals of a process with constant rate to one whose rate varies over the day.

    The rate at time t is 1 + s sin(w t), relative to the mean, so that t + (s/w) (1 - cos(w t))
    arrivals are expected until t, in units of the mean gap. This is inverted by interpolation on a
    grid of minutes, within which the rate hardly changes.
    """
    days, rest = np.divmod(times, _DAY_S)  # over a whole day, both processes expect the same
    grid = np.linspace(0, _DAY_S, 1441)
    turn = 2 * np.pi / _DAY_S
    expected = grid + _SWING / turn * (1 - np.cos(turn * grid))
    return days * _DAY_S + np.interp(rest, expected, grid)
