"""A stage of a job: computation, then a coflow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netsim.brief import brief
from netsim.checks import (
    MOST_ID,
    check_collection,
    check_flag,
    check_name,
    check_weight,
    check_whole,
    refuse_twice,
)
from netsim.columns import Flows
from netsim.errors import InputError
from netsim.forking import same
from netsim.plain import known_names, plain
from netsim.units import Quantity, parse_seconds


@known_names
@dataclass(frozen=True, slots=True, eq=False, init=False)
class Stage:
    """A node of a job's per-iteration DAG: compute, then one coflow.

    Attributes
    ----------
    name : str
        Unique within the job.
    flows : Flows or None
        The stage's coflow, with flows between ranks; may be given as tuples (src, dst, nbytes),
        as in ``(0, 1, "1GB")``. None if the stage only computes. A coflow without bytes
        completes as soon as it is valid.
    compute_s : float
        Seconds of computation before the coflow becomes valid.
    after : tuple of str
        Stages of the same iteration that must complete before this one starts.
    finishes_before : tuple of str
        Stages of the same iteration that must finish before this one does: the coflow runs
        in parallel with them, and completes when its bytes are sent and they have finished.
    release_s : float
        Seconds after the job's arrival before which the stage cannot start.
    weight : float
        How much the coflow counts among those of its job, for policies that use weights; its own
        weight is this times that of the job, `JobSpec.weight`.
    coflow_id : int or None
        The coflow's id in results, unique in the workload, and thus possible only for a job of
        one iteration. If None, coflows are numbered by job, iteration and stage, after these ids.
    deadline_s : float or None
        Seconds after the coflow has become valid by which it should finish; None for no deadline.
    intra_server : bool
        Whether the stage represents traffic inside servers, in parallel with a job's coflows. It
        sends nothing over the network, and is not counted when coflows are numbered.
    steps : tuple of (ndarray of int, int)
        The steps of a collective, if the coflow merges several: for each kind of step, the indices
        of its flows, and the number of steps of this kind. Empty if the coflow is a single step.
        The overhead of the coflow includes that of all steps, see
        `netsim.network.Wire.overhead_of`.
    overhead_s : float or None
        Seconds of software and launch between the time when the coflow becomes valid and its first
        byte; no bandwidth is used meanwhile. None for the network's value. Ignored if no flow
        crosses a link.
    ranks : tuple of int
        The ranks that each compute for `compute_s`, when it is their turn, before the coflow
        becomes valid. Empty if the computation belongs to no particular rank.
    stream : str
        Computations on the same stream of a rank take turns, in the order in which they could
        begin, then in the order of stages. Different streams run in parallel.
    after_previous : tuple of str
        Stages of the previous iteration that must complete before this one starts. A stage with
        neither `after` nor this waits for the whole previous iteration.
    """

    name: str
    flows: Flows | None
    compute_s: float
    after: tuple[str, ...]
    finishes_before: tuple[str, ...]
    release_s: float
    weight: float
    coflow_id: int | None
    deadline_s: float | None
    intra_server: bool
    steps: tuple[tuple[NDArray[np.int64], int], ...]
    overhead_s: float | None
    ranks: tuple[int, ...]
    stream: str
    after_previous: tuple[str, ...]
    __repr__ = brief
    __deepcopy__ = same

    def __init__(self, name: str, flows: Flows | Iterable[tuple[int, int, Quantity]] | None = None,
                 compute_s: Quantity = 0.0, after: Iterable[str] = (),
                 finishes_before: Iterable[str] = (), release_s: Quantity = 0.0,
                 weight: float = 1.0, coflow_id: int | None = None,
                 deadline_s: Quantity | None = None, *, intra_server: bool = False,
                 steps: tuple[tuple[NDArray[np.int64], int], ...] = (),
                 overhead_s: Quantity | None = None, ranks: Iterable[int] = (),
                 stream: str = "compute", after_previous: Iterable[str] = ()) -> None:
        owner = f"stage {name!r}"
        if flows is not None and not isinstance(flows, Flows):
            flows = Flows.of(flows)
        weight, coflow_id = check_weight(weight, f"{owner}: weight"), plain(coflow_id)
        check_flag(intra_server, f"{owner}: intra_server")
        check_name(name, f"{owner}: name")
        if coflow_id is not None:
            check_whole(coflow_id, f"{owner}: coflow_id", most=MOST_ID)
        values = {"name": name, "flows": flows,
                  "after": check_collection(after, str, f"{owner}: after", "names"),
                  "compute_s": parse_seconds(compute_s, f"{owner}: compute_s"),
                  "finishes_before": check_collection(finishes_before, str,
                                                      f"{owner}: finishes_before", "names"),
                  "release_s": parse_seconds(release_s, f"{owner}: release_s"),
                  "weight": weight, "coflow_id": coflow_id,
                  "deadline_s": None if deadline_s is None else parse_seconds(
                      deadline_s, f"{owner}: deadline_s", strict=True),
                  "intra_server": intra_server, "steps": steps,
                  "overhead_s": None if overhead_s is None else parse_seconds(
                      overhead_s, f"{owner}: overhead_s"),
                  "ranks": _ranks(ranks, f"{owner}: ranks"), "stream": stream,
                  "after_previous": check_collection(after_previous, str,
                                                     f"{owner}: after_previous", "names")}
        check_name(stream, f"{owner}: stream")
        if intra_server and flows is not None:
            raise InputError(f"{owner}: a stage inside servers cannot have flows")
        for field_name, value in values.items():
            object.__setattr__(self, field_name, value)

    def again(self, name: str, after: tuple[str, ...]) -> Stage:
        """Return the same stage with another name and other predecessors, which are not checked."""
        other = object.__new__(Stage)
        for field_name in self.__slots__:
            object.__setattr__(other, field_name, getattr(self, field_name))
        object.__setattr__(other, "name", name)
        object.__setattr__(other, "after", after)
        return other

    def scaled(self, time: float, nbytes: float, compute: float) -> Stage:
        """Return the same stage with its release, bytes and computation multiplied by factors."""
        other = self.again(self.name, self.after)
        flows = self.flows
        if flows is not None:
            flows = Flows(flows.src, flows.dst, flows.nbytes * nbytes)
        for field_name, value in (("flows", flows), ("release_s", self.release_s * time),
                                  ("compute_s", self.compute_s * compute)):
            object.__setattr__(other, field_name, value)
        return other


def _ranks(given: Iterable[int], what: str) -> tuple[int, ...]:
    """Check the ranks of a stage."""
    ranks = check_collection(given, int | np.integer, what, "whole numbers")
    for rank in ranks:
        check_whole(plain(rank), what, most=MOST_ID)
    refuse_twice(list(ranks), f"{what} has twice the rank")
    return tuple(map(int, ranks))


def is_ranked(stages: Iterable[Stage]) -> bool:
    """Whether stages have ranks that compute, or `after_previous`."""
    return any(stage.ranks or stage.after_previous for stage in stages)
