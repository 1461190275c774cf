"""Models trained with several kinds of parallelism: what their stages compute and exchange.

A *model stage* is a part of a neural network of which there are *replicas*, each on a GPU: data
parallelism within the stage, pipeline parallelism between stages. A single stage is plain data
parallelism; stages of one replica each are model parallelism (Section III of A-SRPT).

The extensions of Section VI are off by default: tensor parallelism (replicas in slices), expert
parallelism (replicas that are groups of experts), synchronous pipelines of micro-batches, and
communication that overlaps with computation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from netsim.base.brief import brief
from netsim.base.units import parse_bytes, parse_seconds
from netsim.base.values import (
    as_choice,
    as_list,
    as_name,
    as_number,
    as_whole,
    convert,
    known_names,
    same,
)
from netsim.errors import InputError

#: Algorithms by which replicas of a stage all-reduce; "tree" is a double binary tree.
ALLREDUCES = ("ring", "tree")

#: Relative tolerance between the bytes that a stage sends and the bytes that the next receives.
_ROUNDING = 1e-9


@known_names
@dataclass(frozen=True, slots=True)
class ModelStage:
    """A stage of a model, which is a part of its layers.

    Parameters
    ----------
    replicas : int
        k, the number of copies of the stage. Each is on one GPU or, if it has slices, on one GPU
        per slice.
    forward_s, backward_s : quantity
        p^f and p^b: time of the forward and the backward computation of a replica in an iteration.
    in_bytes, out_bytes : quantity
        d^in and d^out: activations that each replica receives from the previous stage and sends
        to the next one in an iteration. Gradients of the same size go in the opposite directions.
    param_bytes : quantity
        h: size of the parameters of a replica, which replicas all-reduce.
    slices : int
        Tensor parallelism: number of GPUs that share a replica, each with a part of every tensor.
        They are all on one server.
    slice_bytes : quantity
        Bytes that the slices of a replica all-reduce in an iteration, forward and backward
        together.
    expert_bytes : quantity
        Expert parallelism: each replica is a group of experts, and sends this number of bytes to
        all other groups together in an iteration, on average, and receives the same.

    Attributes
    ----------
    gpus : int
        Number of GPUs: one per slice of each replica.

    Raises
    ------
    InputError
        If there are no replicas or slices, a quantity is negative, or there are bytes to exchange
        between slices or experts, but only one of them.
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
    __deepcopy__ = same

    def __post_init__(self) -> None:
        count = partial(as_whole, least=1)
        convert(self, "stage", replicas=count, forward_s=parse_seconds, backward_s=parse_seconds,
                in_bytes=parse_bytes, out_bytes=parse_bytes, param_bytes=parse_bytes,
                slices=count, slice_bytes=parse_bytes, expert_bytes=parse_bytes)
        if self.slice_bytes and self.slices == 1:
            raise InputError(f"stage: slice_bytes are {self.slice_bytes:g}, but it has one slice; "
                             "they need slices of at least 2", "slice_bytes")
        if self.expert_bytes and (self.replicas == 1 or self.slices > 1):
            raise InputError(
                f"stage: expert_bytes are {self.expert_bytes:g}, but it has {self.replicas} "
                f"replicas of {self.slices} slices; groups of experts are replicas, at least 2, "
                "of 1 slice", "expert_bytes")

    @property
    def gpus(self) -> int:
        """Number of GPUs of all replicas."""
        return self.replicas * self.slices


@known_names
@dataclass(frozen=True, slots=True)
class ParallelModel:
    """A model and the way in which it is trained.

    Models are compared by value, and are hashable.

    Parameters
    ----------
    stages : sequence of ModelStage
        The stages, in order of the pipeline.
    allreduce : {"ring", "tree"}
        Algorithm by which replicas all-reduce.
    name : str
        A label.
    micro_batches : int
        mu, the number of micro-batches of a synchronous pipeline: stages process them one after
        the other, and all-reduce after the last stage has finished the last one. 0 for an
        asynchronous pipeline, in which stages do not wait for each other.
    backward_factor, allreduce_factor : float
        Factors of the times of the backward computation and of the all-reduce. They are below 1 if
        computation and communication overlap.

    Attributes
    ----------
    gpus : int
        Number of GPUs: one per slice of each replica of each stage.
    sliced : bool
        Whether replicas of a stage consist of several slices.

    Raises
    ------
    InputError
        If there are no stages, a stage sends other bytes than the next receives, the numbers of
        slices do not divide one another, or a factor is negative.

    Examples
    --------
    >>> ParallelModel([ModelStage(2, out_bytes="1MB"), ModelStage(1, in_bytes="2MB")]).gpus
    3
    """

    stages: Sequence[ModelStage]
    allreduce: str = "ring"
    name: str = "model"
    micro_batches: int = 0
    backward_factor: float = 1.0
    allreduce_factor: float = 1.0
    gpus: int = field(init=False, compare=False)
    sliced: bool = field(init=False, compare=False, repr=False)
    _hash: int = field(init=False, compare=False, repr=False)

    __repr__ = brief
    __deepcopy__ = same

    def __post_init__(self) -> None:
        convert(self, "model", name=as_name)
        owner = f"model {self.name!r}"
        convert(self, owner, stages=partial(as_list, kind=ModelStage, of="ModelStage"),
                allreduce=partial(as_choice, choices=ALLREDUCES), micro_batches=as_whole,
                backward_factor=_factor, allreduce_factor=_factor)
        if not self.stages:
            raise InputError(f"{owner} has no stages", "stages")
        _check_activations(self.stages, owner)
        _check_slices(self.stages, owner)
        for name, value in (
                ("gpus", sum(stage.gpus for stage in self.stages)),
                ("sliced", any(stage.slices > 1 for stage in self.stages)),
                # Of numbers only, whose hashes are the same in every process; cached, as models
                # are keys of dictionaries.
                ("_hash", hash((self.stages, self.micro_batches)))):
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return self._hash


def allreduce_edges(members: int, allreduce: str) -> Iterator[tuple[int, int, float]]:
    """Yield the edges of an all-reduce: two members, the lower first, and bytes per byte reduced.

    In a ring of k members, each sends ``2(k-1)/k`` to the next; two members have a single edge. In
    a double binary tree, each of two trees reduces half of the bytes, with ``(k-1)/k`` on each of
    its edges, both directions together. A pair of members may be an edge of both trees.
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
        # The second tree is the mirror image of the first (k even), or the first shifted by one.
        one, other = ((k - 1 - each if k % 2 == 0 else (each + 1) % k)
                      for each in (child, parent))
        yield *sorted((one, other)), (k - 1) / k  # type: ignore[misc]


def _parent(child: int, members: int) -> int:
    """Find the parent in the first tree: root 0, with an in-order binary tree of the others."""
    lowest = child & -child
    above = (child ^ lowest) | (2 * lowest)
    return above if above < members else child ^ lowest


def _check_activations(stages: Sequence[ModelStage], owner: str) -> None:
    """Check that each stage receives the bytes that the previous stage sends."""
    for number, (one, other) in enumerate(pairwise(stages), 1):
        sent, received = one.replicas * one.out_bytes, other.replicas * other.in_bytes
        if not math.isclose(sent, received, rel_tol=_ROUNDING):
            raise InputError(
                f"{owner}: stage {number - 1} sends {sent:g} bytes in an iteration "
                f"({one.replicas} replicas, {one.out_bytes:g} each), and stage {number} "
                f"receives {received:g} ({other.replicas} replicas, {other.in_bytes:g} each)",
                "stages")


def _check_slices(stages: Sequence[ModelStage], owner: str) -> None:
    """Check that numbers of slices divide one another, which `can_hold` relies on."""
    numbers = sorted({stage.slices for stage in stages})
    for fewer, more in pairwise(numbers):
        if more % fewer:
            raise InputError(f"{owner}: stages have {fewer} and {more} slices; "
                             "one must divide the other", "stages")


def _factor(value: float, what: str) -> float:
    return float(as_number(value, what, least=0))
