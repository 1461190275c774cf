"""Training by several kinds of parallelism at once: what a model's stages compute and exchange.

A *model stage* is a part of a neural network, as *replicas* on a GPU each: data parallelism within
the stage, pipeline parallelism between stages. One stage is plain data parallelism; stages of one
replica each are model parallelism. (Section III of A-SRPT.)

What Section VI adds is off unless it is asked for: replicas in tensor-parallel slices, replicas
that are groups of experts, a synchronous pipeline of micro-batches, and communication that overlaps
with computation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from netsim.brief import brief
from netsim.checks import LARGEST, check_name, check_sequence, check_whole, is_number
from netsim.errors import InputError
from netsim.plain import plain_numbers
from netsim.units import parse_bytes, parse_seconds

__all__ = ["ALLREDUCES", "ModelStage", "ParallelModel", "allreduce_edges"]

#: How replicas of a stage add up their gradients; "tree" is a double binary tree.
ALLREDUCES = ("ring", "tree")

#: Of the bytes between two stages, summed up by either.
_ROUNDING = 1e-9


@plain_numbers
@dataclass(frozen=True, slots=True)
class ModelStage:
    """A part of a model.

    Parameters
    ----------
    replicas : int
        k: so many copies there are of it, each on a GPU, or on one per slice.
    forward_s, backward_s : quantity
        p^f and p^b: what an iteration computes on each.
    in_bytes, out_bytes : quantity
        d^in and d^out: activations that each replica receives of the stage before, and sends to
        the next one, in an iteration; gradients of as many bytes go the other way.
    param_bytes : quantity
        h: the parameters that all replicas have, so those that an all-reduce is of.
    slices : int
        Tensor parallelism: so many GPUs share a replica, each with a part of every tensor. All of
        them are on one server.
    slice_bytes : quantity
        What the slices of a replica all-reduce among them in an iteration, forward and backward.
    expert_bytes : quantity
        Expert parallelism: each replica is a group of experts, and sends so much to the other
        groups altogether in an iteration, on average, and receives as much.

    Attributes
    ----------
    gpus : int
        One per slice of each replica.

    Raises
    ------
    InputError
        If there are no replicas or slices, a quantity is negative, or there is something to
        exchange, but nobody to exchange it with.
    """

    replicas: int = 1
    forward_s: float = 0.0
    backward_s: float = 0.0
    in_bytes: float = 0.0
    out_bytes: float = 0.0
    param_bytes: float = 0.0
    slices: int = 1
    slice_bytes: float = 0.0
    expert_bytes: float = 0.0

    __repr__ = brief

    def __post_init__(self) -> None:
        check_whole(self.replicas, "replicas of a stage", 1)
        check_whole(self.slices, "slices of a stage", 1)
        for name, parse in (("forward_s", parse_seconds), ("backward_s", parse_seconds),
                            ("in_bytes", parse_bytes), ("out_bytes", parse_bytes),
                            ("param_bytes", parse_bytes), ("slice_bytes", parse_bytes),
                            ("expert_bytes", parse_bytes)):
            object.__setattr__(self, name, parse(getattr(self, name), f"{name} of a stage"))
        if self.slice_bytes and self.slices == 1:
            raise InputError(f"slice_bytes of a stage are {self.slice_bytes:g}, but it has one "
                             "slice; they need slices of at least 2")
        if self.expert_bytes and (self.replicas == 1 or self.slices > 1):
            raise InputError(
                f"expert_bytes of a stage are {self.expert_bytes:g}, but it has {self.replicas} "
                f"replicas of {self.slices} slices; groups of experts are replicas, at least 2, "
                "of 1 slice")

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.replicas * self.slices


@plain_numbers
@dataclass(frozen=True, slots=True)
class ParallelModel:
    """A model and how it is trained: what jobs of one configuration have in common.

    Equal models are equal, and may be keys of a dictionary.

    Parameters
    ----------
    stages : iterable of ModelStage
        In order.
    allreduce : {"ring", "tree"}
    name : str
    micro_batches : int
        mu: stages work on so many parts of a batch one after the other, and all wait for the last
        one before the all-reduce. 0 for an asynchronous pipeline, in which nobody waits.
    backward_factor, allreduce_factor : float
        What of p^b, and of the all-reduce, counts, as they overlap; 1 where they do not.

    Attributes
    ----------
    gpus : int
        One per slice of each replica of each stage.

    Raises
    ------
    InputError
        If there are no stages, one sends other bytes than the next receives, the numbers of slices
        do not divide one another, or a factor is negative.

    Examples
    --------
    >>> ParallelModel([ModelStage(2, out_bytes="1MB"), ModelStage(1, in_bytes="2MB")]).gpus
    3
    """

    stages: tuple[ModelStage, ...]
    allreduce: str = "ring"
    name: str = "model"
    micro_batches: int = 0
    backward_factor: float = 1.0
    allreduce_factor: float = 1.0
    gpus: int = field(init=False, compare=False)
    _hash: int = field(init=False, compare=False, repr=False)

    __repr__ = brief

    def __init__(self, stages: Iterable[ModelStage], allreduce: str = "ring", name: str = "model",
                 micro_batches: int = 0, backward_factor: float = 1.0,
                 allreduce_factor: float = 1.0) -> None:
        check_name(name, "model: name")
        owner = f"model {name!r}"
        given = check_sequence(stages, ModelStage, f"{owner}: stages", "ModelStage")
        if not given:
            raise InputError(f"{owner} has no stages")
        if allreduce not in ALLREDUCES:
            raise InputError(f"{owner}: allreduce must be one of {', '.join(ALLREDUCES)}, "
                             f"not {allreduce!r}")
        check_whole(micro_batches, f"{owner}: micro_batches", 0)
        _check_activations(given, owner)
        _check_slices(given, owner)
        for name_of, value in (
                ("stages", given), ("allreduce", allreduce), ("name", name),
                ("micro_batches", micro_batches),
                ("backward_factor", _factor(backward_factor, f"{owner}: backward_factor")),
                ("allreduce_factor", _factor(allreduce_factor, f"{owner}: allreduce_factor")),
                ("gpus", sum(stage.gpus for stage in given)),
                # Of numbers alone, which every process hashes alike; once, as models are keys.
                ("_hash", hash((given, micro_batches)))):
            object.__setattr__(self, name_of, value)

    def __hash__(self) -> int:
        return self._hash


def allreduce_edges(members: int, allreduce: str) -> Iterator[tuple[int, int, float]]:
    """Yield who exchanges how much in an all-reduce, of every byte of what is reduced.

    In a ring, of k members, each sends ``2(k-1)/k`` to the next; two have one edge. In a double
    binary tree each of two trees has half of the bytes: ``(k-1)/k`` on each of its edges. A pair
    may be in both.

    Parameters
    ----------
    members : int
        k.
    allreduce : {"ring", "tree"}

    Yields
    ------
    (int, int, float)
        Two members, the lower one first, and the share.
    """
    k = members
    if k == 1:
        return
    if allreduce == "ring":
        for member in range(k if k > 2 else 1):
            yield *sorted((member, (member + 1) % k)), 2 * (k - 1) / k  # type: ignore[misc]
        return
    for child in range(1, k):
        parent = _parent(child, k)
        yield *sorted((child, parent)), (k - 1) / k  # type: ignore[misc]
        # The second tree: the first one's mirror image, or it moved on by one.
        one, other = ((k - 1 - each if k % 2 == 0 else (each + 1) % k)
                      for each in (child, parent))
        yield *sorted((one, other)), (k - 1) / k  # type: ignore[misc]


def _parent(child: int, members: int) -> int:
    """Return the parent in the first tree, whose root is 0; an in-order tree of the others."""
    lowest = child & -child
    above = (child ^ lowest) | (2 * lowest)
    return above if above < members else child ^ lowest


def _check_activations(stages: tuple[ModelStage, ...], owner: str) -> None:
    """Refuse a stage that receives other bytes than the one before sends."""
    for number, (one, other) in enumerate(pairwise(stages), 1):
        sent, received = one.replicas * one.out_bytes, other.replicas * other.in_bytes
        if not math.isclose(sent, received, rel_tol=_ROUNDING):
            raise InputError(
                f"{owner}: stage {number - 1} sends {sent:g} bytes in an iteration "
                f"({one.replicas} replicas, {one.out_bytes:g} each), and stage {number} "
                f"receives {received:g} ({other.replicas} replicas, {other.in_bytes:g} each)")


def _check_slices(stages: tuple[ModelStage, ...], owner: str) -> None:
    """Refuse 2 beside 3 slices: whether servers can hold those would be a hard question."""
    numbers = sorted({stage.slices for stage in stages})
    for fewer, more in pairwise(numbers):
        if more % fewer:
            raise InputError(f"{owner}: stages have {fewer} and {more} slices; "
                             "one must divide the other")


def _factor(value: float, what: str) -> float:
    if not (is_number(value) and 0 <= value <= LARGEST):
        raise InputError(f"{what} must be a finite number of at least 0, not {value!r}")
    return float(value)
