"""What an iteration of a job with several kinds of parallelism takes (A-SRPT, Section III, VI).

A placement is an array of counts, servers by stages: how many GPUs of a server work on a stage.
Each GPU has a share of its server's NIC that is its own, B_inter/g, so that jobs do not slow each
other down, and what an iteration takes is known as soon as a job is placed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.models import ParallelModel
from netsim.models.kernels import per_iteration_of
from netsim.models.servers import ServerKind

__all__ = ["IterationParts", "StageTerms", "alpha_max", "alpha_min_bound",
           "check_placement", "iteration_parts", "per_iteration", "stage_terms"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class StageTerms(NamedTuple):
    """What `per_iteration` adds up, in seconds; each an array with an entry per stage.

    Attributes
    ----------
    gpus, slices : ndarray
        Of the stage, and of a replica of it.
    compute_s : ndarray
        Forward and backward (Eq. 4).
    slices_s : ndarray
        The all-reduce among slices of a replica.
    far_in_s, near_in_s, far_out_s, near_out_s : ndarray
        All that is exchanged with the stage before, and with the next, were all of that stage's
        replicas on other servers, or all on this one (Eq. 5).
    far_experts_s, near_experts_s : ndarray
        The same of other groups of experts.
    far_reduce_s, near_reduce_s : ndarray
        The all-reduce if one GPU of several is on this server, and if all are (Eq. 6).
    """

    gpus: Floats
    slices: Floats
    compute_s: Floats
    slices_s: Floats
    far_in_s: Floats
    near_in_s: Floats
    far_out_s: Floats
    near_out_s: Floats
    far_experts_s: Floats
    near_experts_s: Floats
    far_reduce_s: Floats
    near_reduce_s: Floats


def stage_terms(model: ParallelModel, server: ServerKind) -> StageTerms:
    """Return what does not depend on the placement.

    A GPU's part of a replica of t slices is 1/t of what the replica sends, receives and has
    parameters of. The first stage receives nothing, and the last one sends nothing.

    Raises
    ------
    InputError
        If a replica has more slices than a server has GPUs.
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
    """What an iteration takes, by server and stage; 0 where no GPU of a server has the stage.

    Attributes
    ----------
    compute_s, communication_s, allreduce_s : ndarray of float, shape (servers, stages)
    """

    compute_s: Floats
    communication_s: Floats
    allreduce_s: Floats


def iteration_parts(model: ParallelModel, placement: ArrayLike, server: ServerKind
                    ) -> IterationParts:
    """Return computation, communication and all-reduce of each server and stage (Eq. 4 to 6).

    Of x GPUs of a stage on a server, f- and f+ being the fractions of the stages before and behind
    that are there too::

        compute        p^f + p^b
        communication  (2 d^in (1-f-) + 2 d^out (1-f+)) g/B_inter + (2 d^in f- + 2 d^out f+)/B_intra
        all-reduce     D g/(x B_inter), or D/B_intra if the whole stage is there; D = 2(k-1)h/k

    Communication has, besides, the all-reduce among t slices, 2(t-1)/t of ``slice_bytes`` at
    B_intra; and of groups of experts, of which the fraction f = (x-1)/(k-1) of the others is there,
    ``2 expert_bytes ((1-f) g/B_inter + f/B_intra)``. Slices have 1/t of d^in, d^out and D/B_intra
    each; their x counts GPUs.

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
    """Return what an iteration takes on a placement, in seconds: alpha (Eq. 7).

    That is the largest sum of `iteration_parts`. In a synchronous pipeline of mu micro-batches,
    stage s has ``q_s = max(compute + communication)/mu`` for each of these, and all-reduces when
    all are through::

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
    """Return what an iteration takes with every replica alone on a server of its own, in seconds.

    No placement takes longer, if ``B_inter/g <= B_intra``: each term of `iteration_parts` is
    largest if all neighbours are elsewhere and x is least.

    Raises
    ------
    InputError
        If a replica has more slices than a server has GPUs.
    """
    terms = stage_terms(model, server)
    apart = (terms.compute_s + terms.slices_s + terms.far_in_s + terms.far_out_s
             + terms.far_experts_s)
    return _of_worst(model, apart, terms.far_reduce_s / terms.slices)


def alpha_min_bound(model: ParallelModel, server: ServerKind) -> float:
    """Return seconds that no placement goes below: each term on its own as small as it can be.

    With all inside one server that is, where B_intra is no less than B_inter,
    ``max(p^f + p^b + (2 d^in + 2 d^out + D)/B_intra)``.

    Raises
    ------
    InputError
        If a replica has more slices than a server has GPUs.
    """
    terms = stage_terms(model, server)
    together = (terms.compute_s + terms.slices_s + np.minimum(terms.far_in_s, terms.near_in_s)
                + np.minimum(terms.far_out_s, terms.near_out_s)
                + np.minimum(terms.far_experts_s, terms.near_experts_s))
    # At most so many GPUs of a stage that is on several servers are on one of them.
    most = np.minimum(terms.gpus - terms.slices, server.gpus // terms.slices * terms.slices)
    reduce = np.minimum(terms.near_reduce_s, terms.far_reduce_s / np.maximum(most, 1))
    return _of_worst(model, together, reduce)


def _of_worst(model: ParallelModel, before: Floats, reduce: Floats) -> float:
    """Return alpha of what the worst server of each stage takes, before and for the all-reduce."""
    if not model.micro_batches:
        return float((before + reduce).max())
    q = before / model.micro_batches
    return float(q.sum() + (model.micro_batches - 1) * q.max() + reduce.max())


def check_placement(model: ParallelModel, placement: ArrayLike, server: ServerKind) -> Ints:
    """Return a placement as an array, or refuse it.

    Raises
    ------
    InputError
        If it is no array of whole numbers, servers by stages; a server has more GPUs than it has;
        a stage has another number of them; or a replica's slices are not all on one server.
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
