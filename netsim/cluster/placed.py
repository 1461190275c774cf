"""Stages of placed jobs: traffic between servers, and the parts of NICs that belong to GPUs.

Flows between GPUs of the same server do not use its NIC. Each runs at the rate within servers,
independently of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Ints
from netsim.base.units import Quantity, parse_rate
from netsim.errors import InputError
from netsim.jobs.patterns import exchanging_in_turn, model_coflows
from netsim.models import ParallelModel
from netsim.workload import Flows, JobSpec, Stage

#: Name of the pattern of rings.
_RING = "ring-all-reduce"


def placed_stages(stages: Sequence[Stage], servers: ArrayLike, intra: Quantity,
                  gpus: ArrayLike | None = None) -> tuple[Stage, ...]:
    """Convert stages for placed ranks: flows inside a server become time.

    A flow between two ranks of the same server takes bytes/intra, independently of other flows; a
    flow from a rank to itself takes no time. A stage completes when its flows on the network and
    the slowest of its flows inside servers have ended:

    - A stage without flows on the network becomes computation.
    - A stage with both kinds keeps its flows on the network. An additional `intra_server` stage, at
      the end of the list, must finish before it does.

    The given stages keep their order and names. If the GPUs of each server are given as `gpus`, the
    weight of each coflow becomes its `nic_share`.
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
    """Make the stages of an iteration of a placed model, given the server of each rank.

    All-reduces are converted as in `placed_stages`. For exchanges between stages, Eq. 5 of A-SRPT
    adds up the times to send and to receive, and adds up the time of traffic inside a server, at
    the rate B_intra, and the time of traffic over its NIC. So a rank that sends b bytes inside its
    server needs 2b/B_intra before the coflow begins. The slowest rank of a stage determines this
    time.

    If the GPUs of each server are given as `gpus`, the weight of each coflow becomes its
    `nic_share`, with `part` = 1 for an all-reduce, and 1/2 for an exchange between stages. The
    stages of an asynchronous pipeline then run as in
    `netsim.jobs.patterns.mixed.exchanging_in_turn`, so that no rank needs more than its part of a
    NIC.
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
    """Compute the share of its LP rates at which a coflow sends with its ranks' parts of NICs.

    A rank has 1/g of its server's NIC in each direction, where g is the number of the server's
    GPUs. If x ranks on a server send, they can use the fraction `part` * x/g of its NIC to send.
    The same holds for ranks that receive. The server on which the coflow's bytes take longest at
    this rate determines the share, which is in (0, 1], and 1 if no bytes cross the network. All
    NICs are assumed to be equally fast. Flows inside servers may be included; their ranks count in
    x, too.
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
    """Sort the servers of ranks within each stage of the model.

    This is possible because the replicas of a stage are alike. A ring of replicas then enters and
    leaves each server once, and the slices of a replica are adjacent.
    """
    places = np.array(servers, dtype=np.int64)
    first = 0
    for stage in model.stages:
        places[first:first + stage.gpus].sort()
        first += stage.gpus
    return places


def ring_of(job: JobSpec) -> JobSpec | None:
    """Convert a job to the pattern ``"ring-all-reduce"`` if it is a ring; otherwise None.

    It is a ring if it has this pattern already, or is a model of one stage whose replicas only
    all-reduce in a ring.
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
    """Check the servers of ranks, and return them as an array."""
    places: Any = np.asarray(servers)
    if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
        raise InputError("servers must be a list of whole numbers, one for each rank, not "
                         f"{servers!r}", "servers")
    needed = max((stage.flows.ranks for stage in stages if stage.flows is not None), default=0)
    if needed > len(places):
        raise InputError(f"stages have {needed} ranks, but servers has {len(places)}", "servers")
    found: Ints = places.astype(np.int64)
    return found


def _weighted(stage: Stage, places: Ints, gpus: ArrayLike | None, part: float = 1.0) -> Stage:
    """Set the weight of a stage to its share of NICs, if `gpus` is given."""
    if gpus is None or stage.flows is None:
        return stage
    return replace(stage, weight=nic_share(stage.flows, places, gpus, part))


def _split(stage: Stage, places: Ints) -> tuple[Flows | None, Flows]:
    """Split flows into those between servers (None without a coflow) and those inside servers."""
    flows = stage.flows
    if flows is None:
        return None, Flows.of([])
    apart = places[flows.src] != places[flows.dst]
    if apart.all():
        return flows, Flows.of([])
    far, near = (Flows(flows.src[which], flows.dst[which], flows.nbytes[which])
                 for which in (apart, ~apart & (flows.src != flows.dst)))
    return far, near


def _unused(name: str, names: set[str]) -> str:
    """Find a name that is not taken, and add it to `names`."""
    while name in names:
        name += "'"
    names.add(name)
    return name


def _check_slices(model: ParallelModel, places: Ints) -> None:
    """Check that the slices of each replica are on one server."""
    first = 0
    for number, stage in enumerate(model.stages):
        each = places[first:first + stage.gpus].reshape(stage.replicas, stage.slices)
        apart = np.flatnonzero((each != each[:, :1]).any(axis=1))
        if len(apart):
            raise InputError(
                f"stage {number} of model {model.name!r} has replicas of {stage.slices} slices, "
                f"which must be on one server, but those of replica {apart[0]} are on the servers "
                f"{each[apart[0]].tolist()}")
        first += stage.gpus
