"""Jobs on servers: what of their flows crosses the network, and the part of NICs their GPUs have.

Flows between GPUs of one server do not touch its NIC. They run at the speed inside servers, each on
its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.errors import InputError
from netsim.jobs.patterns import exchanging_in_turn, model_coflows
from netsim.models import ParallelModel
from netsim.units import Quantity, parse_rate
from netsim.workload import Flows, JobSpec, Stage

__all__ = ["nic_share", "placed_model", "placed_stages", "ring_of", "servers_of_model"]

Ints = NDArray[np.int64]

#: Of whom a ring is made: a job's pattern, by name.
_RING = "ring-all-reduce"


def placed_stages(stages: Sequence[Stage], servers: ArrayLike, intra: Quantity,
                  gpus: ArrayLike | None = None) -> tuple[Stage, ...]:
    """Return stages as they run on servers: flows inside a server become time.

    A flow between two ranks of one server takes bytes/intra, whatever else goes on; a rank sends
    to itself at once. A stage completes when its flows on the network and the slowest of those
    inside servers have ended:

    - A stage all of whose flows stay inside becomes computation.
    - One that has both keeps its flows on the network, and an `intra_server` stage, last in the
      list, must finish before it does.

    Parameters
    ----------
    stages : sequence of Stage
        One iteration, in rank space.
    servers : array_like of int, shape (ranks,)
        The server of each rank.
    intra : quantity
        Bytes per second between two GPUs of one server.
    gpus : array_like of int, shape (servers,), optional
        GPUs of each server, if the weight of a coflow is to be its `nic_share`.

    Returns
    -------
    tuple of Stage
        Those given, in their order, by their names; then what they exchange inside.

    Raises
    ------
    InputError
        If a flow's rank has no server, or `intra` is not more than 0.

    Examples
    --------
    Ranks 0 and 1 share a server, so that rank 0 sends 6 bytes in 2 s beside the network.

    >>> stage = Stage("all", [(0, 1, 6), (0, 2, 4)], compute_s=1)
    >>> for each in placed_stages([stage], [5, 5, 7], 3.0):
    ...     print(each.name, each.compute_s, each.flows and list(each.flows), each.finishes_before)
    all 1.0 [Flow(src=0, dst=2, nbytes=4.0)] ('all inside',)
    all inside 3.0 None ()
    """
    places = _servers(stages, servers)
    speed = parse_rate(intra, "intra", strict=True)
    names = {stage.name for stage in stages}
    placed, inside = [], []
    for stage in stages:
        stage, (flows, near) = _weighted(stage, places, gpus), _split(stage, places)
        seconds = float(near.nbytes.max(initial=0.0)) / speed
        if not seconds:
            placed.append(replace(stage, flows=flows))
        elif not len(flows):  # type: ignore[arg-type]
            placed.append(replace(stage, flows=None, compute_s=stage.compute_s + seconds))
        else:
            name = _unused(f"{stage.name} inside", names)
            placed.append(replace(stage, flows=flows,
                                  finishes_before=(*stage.finishes_before, name)))
            inside.append(Stage(name, None, stage.compute_s + seconds, stage.after,
                                release_s=stage.release_s, intra_server=True))
    return (*placed, *inside)


def placed_model(model: ParallelModel, servers: ArrayLike, intra: Quantity,
                 gpus: ArrayLike | None = None) -> tuple[Stage, ...]:
    """Return an iteration of a model as it runs on servers.

    All-reduces run as `placed_stages` says. Of what stages exchange, Eq. 5 of A-SRPT adds what goes
    on inside a server, at B_intra, to what goes over its NIC, and what is received to what is sent:
    a rank that sends b bytes inside its server does so, and receives as many, in 2b/B_intra, before
    the coflow; the slowest rank of a stage counts.

    Parameters
    ----------
    model : ParallelModel
    servers : array_like of int, shape (GPUs,)
        The server of each rank; see `netsim.jobs.patterns.model_stages`.
    intra : quantity
        Bytes per second between two GPUs of one server.
    gpus : array_like of int, shape (servers,), optional
        GPUs of each server, if the weight of a coflow is to be its `nic_share`: of all that its
        ranks have for an all-reduce, of half of it for what stages exchange. The stages of an
        asynchronous pipeline then run as `netsim.jobs.patterns.mixed.exchanging_in_turn` says, so
        that nobody needs more than that.

    Raises
    ------
    InputError
        As `placed_stages` and `model_stages` do, and if a replica's slices are not all on one
        server.
    """
    coflows = model_coflows(model)
    count = len(coflows)
    if gpus is not None and len(model.stages) > 1 and not model.micro_batches:
        coflows = exchanging_in_turn(model)
    places = _servers([each.stage for each in coflows], servers)
    _check_slices(model, places)
    speed = parse_rate(intra, "intra", strict=True)
    stages = []
    inside_s: dict[str, float] = {}
    for made, exchange, charged in coflows:
        stage = _weighted(made, places, gpus, 0.5 if exchange else 1.0)
        if exchange:
            flows, near = _split(stage, places)
            sent = float(np.bincount(near.src, near.nbytes, 1).max())
            name = charged or stage.name
            inside_s[name] = inside_s.get(name, 0.0) + 2 * sent / speed
            stage = replace(stage, flows=flows if flows else None)
        stages.append(stage)
    stages = [replace(stage, compute_s=stage.compute_s + inside_s.get(stage.name, 0.0))
              for stage in stages]
    return (*placed_stages(stages[:count], places, speed), *(
        Stage(stage.name, None, stage.compute_s, stage.after, intra_server=True)
        for stage in stages[count:]))


def nic_share(flows: Flows, servers: ArrayLike, gpus: ArrayLike, part: float = 1.0) -> float:
    """Return the share of its LP rates that a coflow gets of the part of NICs that its ranks have.

    A rank has 1/g of its server's NIC, in either direction, g being the server's GPUs. So the x
    ranks that send from a server have `part` of x/g to send with; those that receive, to receive.
    Each of these servers alone would let the coflow take a time, and it takes the longest one: at
    the share that is returned, and at NICs that are equally fast.

    Parameters
    ----------
    flows : Flows
        In rank space, those inside servers included: who sends inside has its part all the same.
    servers : array_like of int, shape (ranks,)
        The server of each rank.
    gpus : array_like of int, shape (servers,)
        GPUs of each server.
    part : float
        What of the ranks' part this coflow has, in (0, 1].

    Returns
    -------
    float
        In (0, 1]; 1 if nothing crosses the network.

    Examples
    --------
    Two of 4 GPUs send 3 bytes each to one that receives them on a quarter of a NIC.

    >>> nic_share(Flows.of([(0, 2, 3), (1, 2, 3)]), [0, 0, 1], [4, 4])
    0.25
    """
    places, g = np.asarray(servers, dtype=np.int64), np.asarray(gpus, dtype=np.float64)
    load, slowest = 0.0, 0.0
    far = places[flows.src] != places[flows.dst]
    for ends in (flows.src, flows.dst):
        nbytes = np.bincount(places[ends], flows.nbytes * far, len(g))
        x = np.bincount(places[np.unique(ends)], minlength=len(g))
        load = max(load, float(nbytes.max()))
        has = nbytes > 0
        slowest = max(slowest, float((nbytes[has] * g[has] / (part * x[has])).max(initial=0.0)))
    return load / slowest if slowest else 1.0


def servers_of_model(model: ParallelModel, servers: ArrayLike) -> Ints:
    """Return servers with those of each model stage sorted, as its replicas are all alike.

    So a ring of replicas enters and leaves each server once, and slices are next to one another.
    """
    places = np.array(servers, dtype=np.int64)
    first = 0
    for stage in model.stages:
        places[first:first + stage.gpus].sort()
        first += stage.gpus
    return places


def ring_of(job: JobSpec) -> JobSpec | None:
    """Return a job as a ring all-reduce, ``JobSpec(pattern="ring-all-reduce", ...)``, if it is one.

    A model of one stage is, too, if its replicas only all-reduce, in a ring.

    Returns
    -------
    JobSpec or None
        None for other jobs.
    """
    name: Any = job.pattern.get("name") if isinstance(job.pattern, dict) else job.pattern
    if name == _RING:
        return job
    model = job.model
    if model is None or len(model.stages) > 1 or model.allreduce != "ring":
        return None
    stage, = model.stages
    if stage.slices > 1 or stage.expert_bytes or model.allreduce_factor != 1:
        return None
    return replace(job, model=None, pattern=_RING, nbytes=stage.param_bytes,
                   compute_s=job.compute_s + stage.forward_s
                   + model.backward_factor * stage.backward_s)


def _servers(stages: Sequence[Stage], servers: ArrayLike) -> Ints:
    places: Any = np.asarray(servers)
    if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
        raise InputError("servers must be a list of whole numbers, one for each rank, not "
                         f"{servers!r}")
    needed = max((stage.flows.ranks for stage in stages if stage.flows is not None), default=0)
    if needed > len(places):
        raise InputError(f"stages have {needed} ranks, but servers has {len(places)}")
    found: Ints = places.astype(np.int64)
    return found


def _weighted(stage: Stage, places: Ints, gpus: ArrayLike | None, part: float = 1.0) -> Stage:
    """Return a stage whose weight is its share of NICs, if that is asked for."""
    if gpus is None or stage.flows is None:
        return stage
    return replace(stage, weight=nic_share(stage.flows, places, gpus, part))


def _split(stage: Stage, places: Ints) -> tuple[Flows | None, Flows]:
    """Return the flows between servers, and those inside one; None for those of no coflow."""
    flows = stage.flows
    if flows is None:
        return None, Flows.of([])
    near = (places[flows.src] == places[flows.dst]) & (flows.src != flows.dst)
    apart = places[flows.src] != places[flows.dst]
    if apart.all():
        return flows, Flows.of([])
    return _some(flows, apart), _some(flows, near)


def _some(flows: Flows, which: NDArray[np.bool_]) -> Flows:
    return Flows(flows.src[which], flows.dst[which], flows.nbytes[which])


def _unused(name: str, names: set[str]) -> str:
    while name in names:
        name += "'"
    names.add(name)
    return name


def _check_slices(model: ParallelModel, places: Ints) -> None:
    first = 0
    for number, stage in enumerate(model.stages):
        each = places[first:first + stage.gpus].reshape(stage.replicas, stage.slices)
        apart = np.flatnonzero((each != each[:, :1]).any(axis=1))
        if len(apart):
            raise InputError(
                f"stage {number} of model {model.name!r} has replicas of {stage.slices} slices, "
                f"all on one server, but those of replica {apart[0]} are on the servers "
                f"{each[apart[0]].tolist()}")
        first += stage.gpus
