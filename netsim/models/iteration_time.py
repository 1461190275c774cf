"""The time of an iteration of a placed model (A-SRPT, Sections III and VI).

A placement is an array of shape (servers, stages): the number of GPUs of each server that work on
each stage. Each GPU has its own share of its server's NIC, B_inter/g. Jobs therefore do not slow
each other down, and the time of an iteration follows from the placement.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Floats, Ints
from netsim.base.values import about
from netsim.errors import InputError
from netsim.models import ParallelModel
from netsim.models.kernels import per_iteration_of
from netsim.models.servers import ServerKind


class StageTerms(NamedTuple):
    """The terms of `per_iteration` that do not depend on the placement; arrays of shape (stages,).

    Terms named "far" hold if all peers are on other servers, those named "near" if all are on the
    same server. Times are in seconds.
    """

    gpus: Floats  #: of the stage
    slices: Floats  #: of each of its replicas
    compute_s: Floats  #: forward and backward computation (Eq. 4)
    slices_s: Floats  #: all-reduce among the slices of a replica
    far_in_s: Floats  #: exchange with the previous stage (Eq. 5)
    near_in_s: Floats
    far_out_s: Floats  #: exchange with the next stage
    near_out_s: Floats
    far_experts_s: Floats  #: exchange with other groups of experts
    near_experts_s: Floats
    far_reduce_s: Floats  #: all-reduce with one of the stage's GPUs on the server
    near_reduce_s: Floats  #: with all of them (Eq. 6)


def stage_terms(model: ParallelModel, server: ServerKind) -> StageTerms:
    """Compute the terms of the iteration time that do not depend on the placement.

    Each of the t slices of a replica sends, receives and stores 1/t of the replica's bytes. The
    input of the first stage and the output of the last one count as 0.
    """
    most = max(stage.slices for stage in model.stages)
    if most > server.gpus:
        raise InputError(f"model {model.name!r} has a stage of {most} slices, which must be on one "
                         f"server, but servers have {server.gpus} GPUs")
    k, t, forward, backward, d_in, d_out, h, reduced, experts = np.array(
        [(stage.replicas, stage.slices, stage.forward_s, stage.backward_s, stage.in_bytes,
          stage.out_bytes, stage.param_bytes, stage.slice_bytes, stage.expert_bytes)
         for stage in model.stages], dtype=np.float64).T
    d_in[0] = d_out[-1] = 0.0
    far, near = server.gpus / server.nic, 1.0 / server.intra
    summed = model.allreduce_factor * 2 * (k - 1) * h / k
    return StageTerms(
        k * t, t, forward + model.backward_factor * backward, 2 * (t - 1) / t * reduced * near,
        2 * d_in / t * far, 2 * d_in / t * near, 2 * d_out / t * far, 2 * d_out / t * near,
        2 * experts * far, 2 * experts * near, summed * far, summed / t * near)


class IterationParts(NamedTuple):
    """Parts of the iteration time by server and stage; 0 where a server has no GPU of the stage."""

    compute_s: Floats
    communication_s: Floats
    allreduce_s: Floats


def iteration_parts(model: ParallelModel, placement: ArrayLike, server: ServerKind
                    ) -> IterationParts:
    """Compute the times of computation, communication and all-reduce (Eq. 4 to 6).

    For x GPUs of a stage on a server that also has the fractions f- of the previous stage and f+ of
    the next one (`ModelStage` defines p, d, h and k; `ServerKind` defines g and B)::

        compute        p^f + p^b
        communication  (2 d^in (1-f-) + 2 d^out (1-f+)) g/B_inter + (2 d^in f- + 2 d^out f+)/B_intra
        all-reduce     D g/(x B_inter), or D/B_intra if the server has the whole stage
        D = 2(k-1)h/k

    Communication also includes the all-reduce among t slices, 2(t-1)/t of ``slice_bytes`` at
    B_intra, and the exchange between groups of experts,
    ``2 expert_bytes ((1-f) g/B_inter + f/B_intra)``, where f = (x-1)/(k-1) is the fraction of the
    other groups that the server has. With slices, x still counts GPUs, and d^in, d^out and
    D/B_intra are divided by t.

    Parameters
    ----------
    model : ParallelModel
    placement : array_like of int, shape (servers, stages)
    server : ServerKind

    Raises
    ------
    InputError
        As `check_placement` does.
    """
    x = check_placement(model, placement, server).astype(np.float64)
    terms = stage_terms(model, server)
    here = (x > 0).astype(np.float64)
    fraction = x / terms.gpus
    before, behind = np.zeros_like(x), np.zeros_like(x)
    before[:, 1:], behind[:, :-1] = fraction[:, :-1], fraction[:, 1:]
    others = (x - 1) / np.maximum(terms.gpus - 1, 1)
    communication = (terms.slices_s
                     + terms.far_in_s * (1 - before) + terms.near_in_s * before
                     + terms.far_out_s * (1 - behind) + terms.near_out_s * behind
                     + terms.far_experts_s * (1 - others) + terms.near_experts_s * others)
    allreduce = np.where(x < terms.gpus, terms.far_reduce_s / np.maximum(x, 1), terms.near_reduce_s)
    return IterationParts(here * terms.compute_s, here * communication, here * allreduce)


def per_iteration(model: ParallelModel, placement: ArrayLike, server: ServerKind) -> float:
    """Compute the time of an iteration on a placement: alpha (Eq. 7), in seconds.

    It is the largest sum of `iteration_parts` over servers and stages. In a synchronous pipeline of
    mu micro-batches, stage s takes ``q_s = max(compute + communication)/mu`` for each micro-batch,
    and all-reduces after all of them::

        alpha = sum(q) + (mu - 1) max(q) + max(all-reduce)

    Parameters
    ----------
    model : ParallelModel
    placement : array_like of int, shape (servers, stages)
    server : ServerKind

    Raises
    ------
    InputError
        As `check_placement` does.

    Examples
    --------
    Two replicas that compute for 30 ms; each sends and receives 100 MB at a quarter of 1 GB/s.

    >>> from netsim import ModelStage, ParallelModel
    >>> model = ParallelModel([ModelStage(2, "10ms", "20ms", param_bytes="100MB")])
    >>> round(per_iteration(model, [[1], [1]], ServerKind(4, "8Gbps", "100GB/s")), 9)
    0.43
    """
    x = check_placement(model, placement, server)
    terms = np.array(stage_terms(model, server))
    return float(per_iteration_of(x, terms, model.micro_batches, np.empty(len(model.stages))))


def alpha_max(model: ParallelModel, server: ServerKind) -> float:
    """Compute the time of an iteration with every replica on a server of its own, in seconds.

    If ``B_inter/g <= B_intra``, no placement takes longer, because each term of `iteration_parts`
    is largest if all peers are on other servers and x, the number of GPUs of the stage on the
    server, is least.

    Raises
    ------
    InputError
        If a replica has more slices than a server has GPUs.
    """
    terms = stage_terms(model, server)
    apart = (terms.compute_s + terms.slices_s + terms.far_in_s + terms.far_out_s
             + terms.far_experts_s)
    return _alpha_of_stages(model, apart, terms.far_reduce_s / terms.slices)


def alpha_min_bound(model: ParallelModel, server: ServerKind) -> float:
    """Compute a lower bound on the time of an iteration over all placements, in seconds.

    Each term of `iteration_parts` is taken at its least, even if no placement makes all of them
    least. If B_intra is at least B_inter, the bound of an asynchronous pipeline without slices and
    experts is the maximum over stages of ``p^f + p^b + (2 d^in + 2 d^out + D)/B_intra``, which a
    placement on one server reaches. The symbols are those of `iteration_parts`.

    Parameters
    ----------
    model : ParallelModel
    server : ServerKind
        The kind of all servers.

    Raises
    ------
    InputError
        If a replica has more slices than a server has GPUs.
    """
    terms = stage_terms(model, server)
    together = (terms.compute_s + terms.slices_s + np.minimum(terms.far_in_s, terms.near_in_s)
                + np.minimum(terms.far_out_s, terms.near_out_s)
                + np.minimum(terms.far_experts_s, terms.near_experts_s))
    # The most GPUs of a stage on one server, if the stage is on several servers.
    most = np.minimum(terms.gpus - terms.slices, server.gpus // terms.slices * terms.slices)
    reduce = np.minimum(terms.near_reduce_s, terms.far_reduce_s / np.maximum(most, 1))
    return _alpha_of_stages(model, together, reduce)


def _alpha_of_stages(model: ParallelModel, before: Floats, reduce: Floats) -> float:
    """Compute alpha from the longest times of each stage before and in the all-reduce."""
    if not model.micro_batches:
        return float((before + reduce).max())
    q = before / model.micro_batches
    return float(q.sum() + (model.micro_batches - 1) * q.max() + reduce.max())


@about("placement")
def check_placement(model: ParallelModel, placement: ArrayLike, server: ServerKind) -> Ints:
    """Check a placement, an array of shape (servers, stages), and convert it to int64.

    It has whole numbers that add up to the GPUs of each stage, no more GPUs of a server than that
    has, and all slices of a replica on one server.
    """
    given: Any = np.asarray(placement)
    stages = model.stages
    if given.ndim != 2 or given.shape[1] != len(stages) or given.dtype.kind not in "iu":
        raise InputError(f"a placement of model {model.name!r} must be an array of whole numbers "
                         f"of shape (servers, {len(stages)}), not of {given.dtype} of shape "
                         f"{given.shape}")
    x: Ints = given.astype(np.int64)
    if x.size and (x.min() < 0 or x.sum(axis=1).max() > server.gpus):
        raise InputError(f"a placement must have 0 to {server.gpus} GPUs on each server, "
                         f"not {x.tolist()}")
    for number, stage in enumerate(stages):
        if x[:, number].sum() != stage.gpus:
            raise InputError(f"a placement of model {model.name!r} must have {stage.gpus} GPUs for "
                             f"stage {number}, not {int(x[:, number].sum())}")
        if (x[:, number] % stage.slices).any():
            raise InputError(f"stage {number} of model {model.name!r} has replicas of "
                             f"{stage.slices} slices, all on one server, but the placement has "
                             f"{x[:, number].tolist()} GPUs of it on the servers")
    return x
