"""Hypothesis strategies for networks, views and small workloads, edge cases included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netsim.base.values import known_names
from netsim.fabric.allocation import Information
from netsim.fabric.view import FabricView
from netsim.network import BigSwitch, Topology
from netsim.testing.cases import draw_case, draw_network, draw_workload
from netsim.testing.trial import Pick, drawn
from netsim.workload import Workload

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


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
