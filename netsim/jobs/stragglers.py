"""Stragglers: hosts that compute more slowly than jobs specify."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.values import Node, about, as_number, is_whole, plain
from netsim.errors import InputError
from netsim.jobs.plan import operations_of
from netsim.models import ParallelModel
from netsim.workload import JobSpec, Stage


def factors_of(stragglers: Mapping[Node, float] | None, hosts: int,
               numbers_of: Callable[[Any], int | Sequence[int]] | None = None) -> Floats:
    """Compute the factor, at least 1, by which computation takes longer on each host.

    `numbers_of` returns the number of a host given by name, or the numbers of all hosts for which a
    name stands.
    """
    factors = np.ones(hosts)
    if stragglers is None:
        return factors
    if not isinstance(stragglers, Mapping):
        raise InputError(f"stragglers must be a mapping of hosts to factors, not {stragglers!r}",
                         "stragglers")
    for host, factor in map(plain, stragglers.items()):
        named = host
        if isinstance(host, str | tuple) and numbers_of is not None:
            try:
                named = numbers_of(host)
            except InputError as error:
                raise InputError(f"stragglers: {error}", "stragglers") from None
        elif not is_whole(host) or not 0 <= host < hosts:
            raise InputError(f"stragglers: there is no host {host!r}; there are {hosts}, numbered "
                             "from 0", "stragglers")
        with about("stragglers"):
            check_factor(factor, f"stragglers: the factor of host {host}")
        factors[named] = factor
    return factors


def check_factor(factor: Any, what: str) -> None:
    """Check that a straggler's factor, called `what` in errors, is finite and at least 1."""
    as_number(factor, what, least=1)


def slowed_stages(stages: tuple[Stage, ...], factors: Floats) -> tuple[Stage, ...]:
    """Scale the computation of stages to slow hosts, given the factor of each rank's host.

    The computation of a stage takes as long as on the slowest rank that sends in its coflow, or on
    the slowest of all ranks if the stage sends nothing.

    Two workers push to a parameter server, rank 2, whose factor has no effect:

    >>> push = Stage("push", [(0, 2, 1.0), (1, 2, 1.0)], compute_s=3)
    >>> [slowed_stages((push,), np.array(slow))[0].compute_s for slow in ([1, 2, 1], [1, 1, 2])]
    [6.0, 3.0]
    """
    if (factors == 1).all():
        return stages
    return tuple(replace(stage, compute_s=stage.compute_s * _slowest(stage, factors))
                 if stage.compute_s else stage for stage in stages)


def _slowest(stage: Stage, factors: Floats) -> float:
    """Return the largest factor of the ranks that a stage waits for."""
    senders = stage.flows.src if stage.flows else slice(None)
    return float(factors[senders].max())


def slowed_job(job: JobSpec, factors: Floats
               ) -> tuple[JobSpec, Callable[[tuple[Stage, ...]], tuple[Stage, ...]]]:
    """Scale the computation of a job to slow hosts, given the factor of each rank's host.

    The returned function has to be applied to the stages of each iteration. It is `slowed_stages`
    for a job of stages; computations of ranks and models are scaled in the returned job itself.
    """
    if (factors == 1).all():
        return job, tuple
    if (operations := operations_of(job)) is not None:
        return replace(job, stages=(), operations=operations.slowed(factors)), tuple
    if job.model is None:
        return job, partial(slowed_stages, factors=factors)
    return replace(job, model=slowed_model(job.model, factors),
                   compute_s=job.compute_s * float(factors.max())), tuple


def slowed_model(model: ParallelModel, factors: Floats) -> ParallelModel:
    """Scale the computation of a model to slow hosts, given the factor of each rank's host.

    Each model stage takes as long as the slowest of its replicas.
    """
    if (factors == 1).all():
        return model
    bounds = np.cumsum([0, *(stage.gpus for stage in model.stages)])
    slowest = [float(factors[first:stop].max()) for first, stop in pairwise(bounds)]
    return replace(model, stages=tuple(
        replace(stage, forward_s=stage.forward_s * factor, backward_s=stage.backward_s * factor)
        for stage, factor in zip(model.stages, slowest, strict=True)))
