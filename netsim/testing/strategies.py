"""Hypothesis strategies: random networks, views and small workloads, odd cases included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netsim.errors import MissingExtraError
from netsim.fabric.allocation import Information
from netsim.fabric.view import FabricView
from netsim.network import BigSwitch, Topology
from netsim.testing.cases import Pick, draw_case, draw_network
from netsim.testing.jobs import draw_workload
from netsim.workload import Workload

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

__all__ = ["networks", "views", "workloads"]


def networks(*, min_hosts: int = 2, max_hosts: int = 4) -> SearchStrategy[BigSwitch]:
    """Return a strategy for big switches with unequal ports, loopback on or off the ports.

    Parameters
    ----------
    min_hosts, max_hosts : int
        At least 2.

    Raises
    ------
    MissingExtraError
        If hypothesis is not installed; so do the other strategies.
    """
    return _drawn(draw_network, min_hosts, max_hosts)


def views(network: Topology | None = None, *, max_coflows: int = 4, max_width: int = 4,
          information: Information = "clairvoyant") -> SearchStrategy[FabricView]:
    """Return a strategy for what an allocator may see in the middle of a run.

    Jobs with several active coflows and with none, flows that have ended and flows on one
    pair of hosts, coflows in step and not, degraded and failed links.

    Parameters
    ----------
    network : Topology, optional
        Where; on `networks` if not given.
    max_coflows, max_width : int
        Coflows per view and flows per coflow.
    information : {"agnostic", "clairvoyant", "job-clairvoyant"}
        What the allocator may see.
    """
    def draw_view(pick: Pick) -> FabricView:
        where = draw_network(pick, 2, 4) if network is None else network
        return draw_case(pick, where, max_coflows, max_width).view(information)

    return _drawn(draw_view)


def workloads(hosts: int = 2, *, max_jobs: int = 4, chains: bool = False
              ) -> SearchStrategy[Workload]:
    """Return a strategy for small workloads.

    Chains, DAGs of stages with computation, release times and several active coflows, and
    patterns; zero-byte flows, flows from a host to itself, two flows on one pair of hosts;
    simultaneous arrivals.

    Parameters
    ----------
    hosts : int
        At least 2.
    max_jobs : int
        Jobs per workload.
    chains : bool
        Only jobs that are chains of explicit coflows, placed with rank r on host r.
    """
    return _drawn(draw_workload, hosts, max_jobs, chains)


def _drawn(function: Any, *arguments: Any) -> SearchStrategy[Any]:
    """Return a strategy for what a function of a `Pick` draws."""
    try:
        from hypothesis import strategies
    except ImportError:
        raise MissingExtraError("hypothesis", "test") from None

    @strategies.composite
    def build(draw: DrawFn) -> Any:
        return function(lambda low, high: draw(strategies.integers(low, high)), *arguments)

    return build()
