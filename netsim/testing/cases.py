"""Random problems for allocators, as plain data that can be drawn, printed and varied.

Random small workloads are drawn in the same way; both are offered as strategies of Hypothesis.
Variations of a case must not change the answer.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.values import known_names
from netsim.errors import InputError
from netsim.fabric.allocation import Information
from netsim.fabric.view import FabricView
from netsim.network import BigSwitch, Topology
from netsim.testing.made_view import make_view
from netsim.testing.trial import Pick, drawn
from netsim.workload import JobSpec, Stage, Workload

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

# --- cases ---------------------------------------------------------------------------------

#: Sizes are multiples of this number of bytes. Their eighths are then whole bytes, and sums are
#: exact whatever the order of addition, so that equal keys stay equal.
_GRAIN = 64

_PORT = 250_000.0

_GROUPS = (None, "a", "b")

#: The function that makes a view, in full, so that a printed call needs nothing but netsim.
_CALL = "netsim.testing.make_view"


@dataclass(frozen=True)
class Case:
    """A view as plain data: all arguments of `make_view`.

    ``str`` returns the call that builds the view, to be pasted after ``import netsim``.
    """

    network: Topology
    coflows: tuple[tuple[tuple[int, int, float], ...], ...]
    sent: tuple[float | tuple[float, ...], ...]
    jobs: tuple[int, ...]
    valid_s: tuple[float, ...]
    now: float
    weight: tuple[float, ...]
    deadline_s: tuple[float, ...]
    capacity: Mapping[int, float]
    arrival_s: tuple[float, ...]
    attained: tuple[float, ...]
    completed: tuple[int, ...]
    ahead_s: tuple[float, ...]
    running: tuple[tuple[int, ...], ...]
    predicted_s: tuple[float, ...]
    job_group: tuple[str | None, ...]

    def view(self, information: Information = "clairvoyant", sees_running: bool = True
             ) -> FabricView:
        """Build the view."""
        return make_view(**{each.name: getattr(self, each.name) for each in fields(self)},
                         information=information, sees_running=sees_running)

    def bytes_sent(self) -> tuple[tuple[float, ...], ...]:
        """The bytes that each flow has sent; the field `sent` may hold fractions instead."""
        return tuple(tuple(part * size for _, _, size in flows) if isinstance(part, float)
                     else part for flows, part in zip(self.coflows, self.sent, strict=True))

    def open_flows(self) -> list[tuple[int, int]]:
        """List (coflow, index in it) of each flow in the view, in the view's order."""
        return [(c, f) for c, sent in enumerate(self.bytes_sent())
                for f, nbytes in enumerate(sent) if nbytes < self.coflows[c][f][2]]

    def _defaults(self) -> dict[str, Any]:
        """The default values of the arguments of `make_view`."""
        count, jobs = len(self.coflows), len(self.arrival_s)
        return {"sent": (0.0,) * count, "jobs": tuple(range(count)), "valid_s": (0.0,) * count,
                "now": max(self.valid_s), "weight": (1.0,) * count,
                "deadline_s": (math.inf,) * count, "capacity": {},
                "arrival_s": (0.0,) * jobs, "attained": (0.0,) * jobs,
                "completed": (0,) * jobs, "ahead_s": (0.0,) * jobs, "running": ((),) * jobs,
                "predicted_s": (0.0,) * jobs, "job_group": (None,) * jobs}

    def __str__(self) -> str:
        lines = [f"{_CALL}({_network_text(self.network)}",
                 f"coflows={[list(flows) for flows in self.coflows]}"]
        for name, default in self._defaults().items():
            value = getattr(self, name)
            if value != default:
                text = str(list(value) if isinstance(value, tuple) else value)
                lines.append(f"{name}=" + text.replace("inf", "float('inf')"))
        return f",\n{' ' * len(_CALL)} ".join(lines) + ")"


def _network_text(network: Topology) -> str:
    """Write the expression that makes a network, if it is a big switch."""
    if not isinstance(network, BigSwitch):
        return repr(network)
    ports = network.capacity.tolist()
    out, into = ports[:network.hosts], ports[network.hosts:]
    loopback = ", loopback_uses_ports=True" if network.loopback_uses_ports else ""
    return f"netsim.BigSwitch({out}, {into}{loopback})"


def with_capacity(network: Topology, capacity: Floats) -> Topology:
    """Copy a network with other capacities of its links."""
    other = copy.copy(network)
    other.capacity = np.array(capacity, dtype=np.float64)
    other.capacity.flags.writeable = False
    return other


def draw_network(pick: Pick, min_hosts: int, max_hosts: int) -> BigSwitch:
    """Draw a big switch with unequal ports."""
    ports = pick.several(min_hosts, max_hosts, lambda: (_PORT * pick(1, 8), _PORT * pick(1, 8)))
    out, into = map(list, zip(*ports, strict=True))
    return BigSwitch(out, into, loopback_uses_ports=bool(pick(0, 1)))


def check_sends(network: Topology) -> None:
    """Refuse a network on which no flow can cross a link, as on a single host."""
    if network.hosts == 1 and not network.loopback_uses_ports:
        raise InputError(f"network {network.name!r} has one host: no flow crosses a link")


def draw_case(pick: Pick, network: Topology, max_coflows: int, max_width: int) -> Case:
    """Draw coflows of several jobs in the middle of a run; links may be degraded or failed.

    All that belongs to a job or coflow is drawn together, so that Hypothesis can leave it out
    without a change of what is drawn for others.
    """
    check_sends(network)
    capacity, since, in_step = _draw_degraded(pick, network), 0.25 * pick(0, 4), pick(0, 1) == 0
    jobs = pick.several(1, max_coflows, lambda: _draw_job(pick, network))
    arrival = np.cumsum([job["arrival_s"] for job in jobs]).tolist()
    coflows = pick.several(1, max_coflows,
                           lambda: _draw_coflow(pick, network, max_width, arrival, in_step))
    coflows.sort(key=lambda coflow: (coflow["valid_s"], coflow["jobs"]))
    now = coflows[-1]["valid_s"] + since
    for coflow in coflows:
        coflow["deadline_s"] = max(now + coflow["deadline_s"], coflow["valid_s"] + 0.125)
    return Case(network=network, now=now, capacity=capacity, **_columns(coflows),
                **_columns(jobs) | {"arrival_s": tuple(arrival)})


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(row[name] for row in rows) for name in rows[0]}


def _draw_degraded(pick: Pick, network: Topology) -> dict[int, float]:
    """Draw up to two links that have failed, or have half of their capacity."""
    links = pick.several(0, 2, lambda: pick(0, network.links - 1))
    return {link: float(network.capacity[link]) * pick(0, 1) / 2 for link in links}


def _draw_job(pick: Pick, network: Topology) -> dict[str, Any]:
    """Draw the arguments of a job, with its arrival after the job before."""
    completed = pick(0, 3)
    return {"arrival_s": 0.25 * pick(0, 4), "completed": completed,
            "attained": _draw_nbytes(pick) if completed else 0.0,
            "ahead_s": 0.25 * pick(0, 20), "predicted_s": 0.25 * pick(0, 20),
            "job_group": _GROUPS[pick(0, 2)],
            "running": tuple(pick(0, network.hosts - 1) for _ in range(pick(0, 3)))}


def _draw_coflow(pick: Pick, network: Topology, max_width: int, arrival: Sequence[float],
                 in_step: bool) -> dict[str, Any]:
    """Draw the arguments of a coflow, at equal progress of its flows if `in_step`.

    Its deadline is from now on, may have passed, and comes after it becomes valid.
    """
    job, eighths = pick(0, len(arrival) - 1), pick(0, 7)
    coflow = {"jobs": job, "valid_s": arrival[job] + 0.25 * pick(0, 4), "weight": float(pick(1, 3)),
              "deadline_s": (math.inf, 0.5, 4.0, 0.0, -0.25)[pick(0, 4)]}
    flows = pick.several(1, max_width, lambda: _draw_flow(pick, network))
    if in_step:
        sent: Any = eighths / 8
    else:  # the last flow is never complete
        parts = [part for _, part in flows[:-1]] + [eighths]
        sent = tuple(flow[2] / 8 * part for (flow, _), part in zip(flows, parts, strict=True))
    return coflow | {"coflows": tuple(flow for flow, _ in flows), "sent": sent}


def _draw_flow(pick: Pick, network: Topology) -> tuple[tuple[int, int, float], int]:
    """Draw a flow that crosses a link, and the eighths of it that it may have sent."""
    src = pick(0, network.hosts - 1)
    if network.loopback_uses_ports:
        dst = pick(0, network.hosts - 1)
    else:
        dst = (src + pick(1, network.hosts - 1)) % network.hosts
    return (src, dst, _draw_nbytes(pick)), pick(0, 8)


def _draw_nbytes(pick: Pick) -> float:
    """Draw a size from 64 bytes to about a megabyte, with all magnitudes equally likely."""
    return float(_GRAIN * pick(1, 15) << pick(0, 10))


# --- workloads -----------------------------------------------------------------------------

_NBYTES = 50_000.0

_SECONDS = 0.25

_PATTERNS = ("ring-all-reduce", "all-to-all", "parameter-server")


def draw_workload(pick: Pick, hosts: int, max_jobs: int, chains: bool) -> Workload:
    """Draw a workload; see `netsim.testing.workloads`."""
    jobs = []
    for job in range(pick(1, max_jobs)):
        kind = 0 if chains else pick(0, 2)
        spec = JobSpec(job, arrival_s=_SECONDS * pick(0, 4), iterations=pick(1, 2),
                       compute_s=_SECONDS * pick(0, 1),
                       **_draw_pattern(pick, hosts) if kind == 2 else
                       {"stages": (_draw_chain, _draw_graph)[kind](pick, hosts)})
        if chains or pick(0, 1):
            spec = replace(spec, hosts=tuple(range(hosts)))
        jobs.append(spec)
    return Workload(tuple(jobs), "random", seed=pick(0, 9))


def _draw_stage_flows(pick: Pick, hosts: int) -> list[tuple[int, int, float]]:
    """Draw flows, possibly none; some may be loopback or have no bytes."""
    return [(pick(0, hosts - 1), pick(0, hosts - 1), _NBYTES * pick(0, 20))
            for _ in range(pick(0, 4))]


def _draw_chain(pick: Pick, hosts: int) -> list[Stage]:
    """Draw stages that follow each other."""
    return [Stage(f"stage-{k}", _draw_stage_flows(pick, hosts), compute_s=_SECONDS * pick(0, 1),
                  after=(f"stage-{k - 1}",) if k else ()) for k in range(pick(1, 3))]


def _draw_graph(pick: Pick, hosts: int) -> list[Stage]:
    """Draw stages in topological order. Some only compute, some wait for others to finish."""
    stages: list[Stage] = []
    for k in range(pick(1, 4)):
        relation = [pick(0, 3) for _ in stages]
        stages.append(Stage(
            f"stage-{k}", _draw_stage_flows(pick, hosts) if pick(0, 3) else None,
            compute_s=_SECONDS * pick(0, 2), release_s=_SECONDS * pick(0, 2),
            weight=float(pick(1, 3)),
            after=[stage.name for stage, how in zip(stages, relation, strict=True) if how == 1],
            finishes_before=[stage.name for stage, how in zip(stages, relation, strict=True)
                             if how == 2]))
    return stages


def _draw_pattern(pick: Pick, hosts: int) -> dict[str, object]:
    """Draw a pattern with its ranks and message size."""
    return {"pattern": _PATTERNS[pick(0, 2)], "ranks": 2 * pick(1, hosts // 2),
            "nbytes": _NBYTES * pick(1, 20), "redraw": bool(pick(0, 1))}


# --- strategies ----------------------------------------------------------------------------


@known_names
def networks(*, min_hosts: int = 2, max_hosts: int = 4) -> SearchStrategy[BigSwitch]:
    """Return a strategy for big switches with unequal ports, with or without loopback on the ports.

    Parameters
    ----------
    min_hosts, max_hosts : int
        Bounds of the number of hosts, at least 2.

    Raises
    ------
    MissingExtraError
        If hypothesis is not installed; the other strategies raise it too.
    """
    return drawn(lambda pick: draw_network(pick, min_hosts, max_hosts))


@known_names
def views(network: Topology | None = None, *, max_coflows: int = 4, max_width: int = 4,
          information: Information = "clairvoyant") -> SearchStrategy[FabricView]:
    """Return a strategy for views of an allocator in the middle of a run.

    The views have jobs with several active coflows and with none, finished flows, flows on the same
    pair of hosts, coflows whose flows are at equal or different progress, and degraded and failed
    links.

    Parameters
    ----------
    network : Topology, optional
        Network of the views. By default, it is drawn from `networks`.
    max_coflows, max_width : int
        Largest number of coflows per view and of flows per coflow.
    information : {"agnostic", "clairvoyant", "predicted", "job-clairvoyant"}
        Information that the view gives.
    """
    def draw_view(pick: Pick) -> FabricView:
        where = draw_network(pick, 2, 4) if network is None else network
        return draw_case(pick, where, max_coflows, max_width).view(information)

    return drawn(draw_view)


@known_names
def workloads(hosts: int = 2, *, max_jobs: int = 4, chains: bool = False
              ) -> SearchStrategy[Workload]:
    """Return a strategy for small workloads.

    They have chains, patterns and DAGs of stages with computation, release times and simultaneous
    coflows; flows without bytes, loopback flows and two flows on the same pair of hosts; and
    simultaneous arrivals.

    Parameters
    ----------
    hosts : int
        Number of hosts, at least 2.
    max_jobs : int
        Largest number of jobs per workload.
    chains : bool
        Draw only chains of explicit coflows, with rank r placed on host r.
    """
    return drawn(lambda pick: draw_workload(pick, hosts, max_jobs, chains))


# --- variations ----------------------------------------------------------------------------
def rename_hosts(case: Case, names: Sequence[int]) -> Case:
    """Renumber the hosts of a big switch, with their ports: host h becomes ``names[h]``."""
    hosts = case.network.hosts
    link = [*names, *(hosts + name for name in names)]
    capacity = case.network.capacity.copy()
    capacity[link] = case.network.capacity
    return replace(
        case, network=with_capacity(case.network, capacity),
        coflows=tuple(tuple((names[src], names[dst], nbytes) for src, dst, nbytes in flows)
                      for flows in case.coflows),
        capacity={link[old]: value for old, value in case.capacity.items()},
        running=tuple(tuple(names[host] for host in hosts) for hosts in case.running))


def reorder_flows(case: Case, orders: Sequence[Sequence[int]]) -> tuple[Case, list[int]]:
    """List the flows of coflow c in the order ``orders[c]``.

    The result has also the index in the old view of each flow of the new one.
    """
    sent = case.bytes_sent()
    other = replace(
        case, coflows=tuple(tuple(flows[f] for f in order)
                            for flows, order in zip(case.coflows, orders, strict=True)),
        sent=tuple(tuple(sent[c][f] for f in order) if isinstance(case.sent[c], tuple)
                   else case.sent[c] for c, order in enumerate(orders)))
    old = {flow: place for place, flow in enumerate(case.open_flows())}
    return other, [old[c, orders[c][f]] for c, f in other.open_flows()]


def renumber_jobs(case: Case, numbers: Sequence[int]) -> Case:
    """Give job j the number ``numbers[j]``, in increasing order; add idle jobs for the gaps."""
    def spread(values: Sequence, idle: Sequence) -> tuple:
        found = list(idle)
        for number, value in zip(numbers, values, strict=True):
            found[number] = value
        return tuple(found)

    count = numbers[-1] + 1
    # An idle job arrives together with the next job that is not idle.
    arrival = [min(at for at, number in zip(case.arrival_s, numbers, strict=True)
                   if number >= place) for place in range(count)]
    return replace(case, jobs=tuple(numbers[job] for job in case.jobs), arrival_s=tuple(arrival),
                   attained=spread(case.attained, [4096.0] * count),
                   completed=spread(case.completed, [1] * count),
                   ahead_s=spread(case.ahead_s, [0.5] * count),
                   predicted_s=spread(case.predicted_s, [0.5] * count),
                   running=spread(case.running, [()] * count),
                   job_group=spread(case.job_group, [None] * count))


def scale_time(case: Case, factor: float) -> Case:
    """Measure time in units `factor` times as long, so that rates are `factor` times as large."""
    return replace(
        case, network=with_capacity(case.network, factor * case.network.capacity),
        capacity={link: factor * value for link, value in case.capacity.items()},
        now=case.now / factor, **{name: tuple(at / factor for at in getattr(case, name))
                                  for name in ("valid_s", "arrival_s", "ahead_s", "predicted_s",
                                               "deadline_s")})


def scale_bytes(case: Case, factor: float) -> Case:
    """Measure bytes in units of 1/factor, so that sizes and rates are `factor` times as large."""
    return replace(
        case, network=with_capacity(case.network, factor * case.network.capacity),
        capacity={link: factor * value for link, value in case.capacity.items()},
        coflows=tuple(tuple((src, dst, factor * nbytes) for src, dst, nbytes in flows)
                      for flows in case.coflows),
        sent=tuple(part if isinstance(part, float) else tuple(factor * each for each in part)
                   for part in case.sent),
        attained=tuple(factor * nbytes for nbytes in case.attained))


def more_unsent(case: Case, factors: Sequence[float]) -> Case:
    """Multiply the bytes that each flow has yet to send by the flow's factor."""
    sent = case.bytes_sent()
    coflows = [list(flows) for flows in case.coflows]
    for (c, f), factor in zip(case.open_flows(), factors, strict=True):
        src, dst, nbytes = coflows[c][f]
        coflows[c][f] = src, dst, sent[c][f] + factor * (nbytes - sent[c][f])
    return replace(case, coflows=tuple(map(tuple, coflows)), sent=sent)


def more_ahead(case: Case, seconds: float, name: str = "ahead_s") -> Case:
    """Give each job more coflows to send later; the first job gets most of them."""
    changed: dict[str, Any] = {name: tuple(ahead + seconds / (1 + job)
                                           for job, ahead in enumerate(getattr(case, name)))}
    return replace(case, **changed)
