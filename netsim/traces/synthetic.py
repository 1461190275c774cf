"""Generate traces with the characteristics of the 60-job Tiresias trace."""

from __future__ import annotations

from typing import Any

from netsim.plain import plain_numbers
from netsim.streams import stream
from netsim.traces.problems import whole_option
from netsim.traces.tiresias import Construction, TiresiasRow
from netsim.workload import Workload

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


@plain_numbers
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
    whole_option(jobs, "jobs", 1, 10**6)
    whole_option(seed, "seed", 0)
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


@plain_numbers
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
    build = Construction(**construction)
    rows = synthetic_rows(jobs, seed if trace_seed is None else trace_seed)
    return build.workload(rows, "synthetic", seed)
