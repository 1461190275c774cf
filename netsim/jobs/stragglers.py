"""Stragglers: hosts that take longer to compute than jobs say, and what waits for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.checks import is_whole
from netsim.errors import InputError
from netsim.models import ParallelModel
from netsim.plain import plain
from netsim.workload import JobSpec, Stage

__all__ = ["check_factor", "factors_of", "slowed_job", "slowed_model", "slowed_stages"]

Floats = NDArray[np.float64]


def factors_of(stragglers: Mapping[int, float] | None, hosts: int) -> Floats:
    """Return how many times as long each host takes to compute; 1 unless said. Shape (hosts,).

    Parameters
    ----------
    stragglers : mapping of int to float, optional
        Factors of at least 1, by host.
    hosts : int
        How many there are.

    Raises
    ------
    InputError
        If it is no such mapping, there is no such host, or a factor is below 1.
    """
    factors = np.ones(hosts)
    if stragglers is None:
        return factors
    if not isinstance(stragglers, Mapping):
        raise InputError(f"stragglers must be a mapping of hosts to factors, not {stragglers!r}")
    for host, factor in map(plain, stragglers.items()):
        if not is_whole(host) or not 0 <= host < hosts:
            raise InputError(f"stragglers: there is no host {host!r}; there are {hosts}, numbered "
                             "from 0")
        check_factor(factor, f"stragglers: the factor of host {host}")
        factors[host] = factor
    return factors


def check_factor(factor: Any, what: str) -> None:
    """Refuse what is no factor of a straggler.

    Raises
    ------
    InputError
        Beginning with `what`.
    """
    number = isinstance(factor, int | float) and not isinstance(factor, bool)
    if not (number and 1 <= factor < math.inf):
        raise InputError(f"{what} must be a finite number of at least 1, not {factor!r}")


def slowed_stages(stages: tuple[Stage, ...], factors: Floats) -> tuple[Stage, ...]:
    """Return stages with the computation that they have on slow hosts.

    A stage computes as long as the slowest of the ranks that send in its coflow; one that sends
    nothing, as the slowest of all.

    Parameters
    ----------
    stages : tuple of Stage
        In rank space.
    factors : ndarray of float, shape (ranks,)
        Of the host of each rank.

    Examples
    --------
    Two workers push to a parameter server, rank 2, which has nothing to compute.

    >>> push = Stage("push", [(0, 2, 1.0), (1, 2, 1.0)], compute_s=3)
    >>> [slowed_stages((push,), np.array(slow))[0].compute_s for slow in ([1, 2, 1], [1, 1, 2])]
    [6.0, 3.0]
    """
    if (factors == 1).all():
        return stages
    return tuple(replace(stage, compute_s=stage.compute_s * _slowest(stage, factors))
                 if stage.compute_s else stage for stage in stages)


def _slowest(stage: Stage, factors: Floats) -> float:
    senders = stage.flows.src if stage.flows else slice(None)
    return float(factors[senders].max())


def slowed_job(job: JobSpec, factors: Floats
               ) -> tuple[JobSpec, Callable[[tuple[Stage, ...]], tuple[Stage, ...]]]:
    """Return a job as it computes on slow hosts, and what makes its stages do so.

    Parameters
    ----------
    job : JobSpec
    factors : ndarray of float, shape (ranks,)
        Of the host of each rank.

    Returns
    -------
    job : JobSpec
        With `slowed_model`, where it has a model.
    slowed : callable
        `slowed_stages` for all other jobs.
    """
    if (factors == 1).all():
        return job, tuple
    if job.model is None:
        return job, partial(slowed_stages, factors=factors)
    return replace(job, model=slowed_model(job.model, factors),
                   compute_s=job.compute_s * float(factors.max())), tuple


def slowed_model(model: ParallelModel, factors: Floats) -> ParallelModel:
    """Return a model with the computation that it has on slow hosts.

    Each of its stages computes as long as the slowest of its replicas.

    Parameters
    ----------
    model : ParallelModel
    factors : ndarray of float, shape (GPUs,)
        Of the host of each rank, stage by stage.
    """
    if (factors == 1).all():
        return model
    bounds = np.cumsum([0, *(stage.gpus for stage in model.stages)])
    slowest = [float(factors[first:stop].max()) for first, stop in pairwise(bounds)]
    return replace(model, stages=tuple(
        replace(stage, forward_s=stage.forward_s * factor, backward_s=stage.backward_s * factor)
        for stage, factor in zip(model.stages, slowest, strict=True)))
