"""Training by several kinds of parallelism at once: what a model's stages compute and exchange.

A *model stage* is a part of a neural network, as *replicas* on a GPU each: data parallelism within
the stage, pipeline parallelism between stages. One stage is plain data parallelism; stages of one
replica each are model parallelism. (Section III of A-SRPT.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from netsim.checks import check_sequence, check_whole
from netsim.errors import InputError
from netsim.units import parse_bytes, parse_seconds

__all__ = ["ALLREDUCES", "ModelStage", "ParallelModel"]

#: How replicas of a stage add up their gradients; "tree" is a double binary tree.
ALLREDUCES = ("ring", "tree")

#: Of the bytes between two stages, summed up by either.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ModelStage:
    """A part of a model.

    Parameters
    ----------
    replicas : int
        k: so many GPUs have a copy of it.
    forward_s, backward_s : quantity
        p^f and p^b: what an iteration computes on each.
    in_bytes, out_bytes : quantity
        d^in and d^out: activations that each replica receives of the stage before, and sends to
        the next one, in an iteration; gradients of as many bytes go the other way.
    param_bytes : quantity
        h: the parameters.

    Raises
    ------
    InputError
        If there are no replicas, or a quantity is negative.
    """

    replicas: int = 1
    forward_s: float = 0.0
    backward_s: float = 0.0
    in_bytes: float = 0.0
    out_bytes: float = 0.0
    param_bytes: float = 0.0

    def __post_init__(self) -> None:
        check_whole(self.replicas, "replicas of a stage", 1)
        for name, parse in (("forward_s", parse_seconds), ("backward_s", parse_seconds),
                            ("in_bytes", parse_bytes), ("out_bytes", parse_bytes),
                            ("param_bytes", parse_bytes)):
            object.__setattr__(self, name, parse(getattr(self, name), f"{name} of a stage"))


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

    Attributes
    ----------
    gpus : int
        One per replica of each stage.

    Raises
    ------
    InputError
        If there are no stages, or one sends other bytes than the next receives.

    Examples
    --------
    >>> ParallelModel([ModelStage(2, out_bytes="1MB"), ModelStage(1, in_bytes="2MB")]).gpus
    3
    """

    stages: tuple[ModelStage, ...]
    allreduce: str = "ring"
    name: str = "model"
    gpus: int = field(init=False, compare=False)

    def __init__(self, stages: Iterable[ModelStage], allreduce: str = "ring", name: str = "model"
                 ) -> None:
        owner = f"model {name!r}"
        given = check_sequence(stages, ModelStage, f"{owner}: stages", "ModelStage")
        if not given:
            raise InputError(f"{owner} has no stages")
        if allreduce not in ALLREDUCES:
            raise InputError(f"{owner}: allreduce must be one of {', '.join(ALLREDUCES)}, "
                             f"not {allreduce!r}")
        for number, (one, other) in enumerate(pairwise(given), 1):
            sent, received = one.replicas * one.out_bytes, other.replicas * other.in_bytes
            if not math.isclose(sent, received, rel_tol=_ROUNDING):
                raise InputError(
                    f"{owner}: stage {number - 1} sends {sent:g} bytes in an iteration "
                    f"({one.replicas} replicas, {one.out_bytes:g} each), and stage {number} "
                    f"receives {received:g} ({other.replicas} replicas, {other.in_bytes:g} each)")
        for name_of, value in (("stages", given), ("allreduce", allreduce), ("name", name),
                               ("gpus", sum(stage.replicas for stage in given))):
            object.__setattr__(self, name_of, value)
