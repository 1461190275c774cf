"""Placements by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from netsim.base.plugins import Registry

if TYPE_CHECKING:
    from netsim.placements.placement import Placement


def _is_placement(made: Any) -> bool:
    from netsim.placements.placement import Placement

    return isinstance(made, Placement)


PLACEMENTS = Registry(
    "placement", {
        "consolidated": "netsim.placements.placement:Consolidated",
        "first-fit": "netsim.placements.placement:FirstFit",
        "least-busy-servers": "netsim.placements.placement:LeastBusyServers",
        "least-loaded": "netsim.placements.placement:LeastLoaded",
        "mapped": "netsim.placements.mapped:MappedPlacement",
        "random": "netsim.placements.placement:RandomChoice",
    },
    accepts=_is_placement,
    refusal="is no placement: it needs methods scope and choose", group="placements")


def make_placement(given: str | Mapping[str, Any] | Placement | type, seed: int = 0) -> Placement:
    """Make a placement from a name with options, such as ``"least-busy-servers:lam=2"``.

    A class may be given as well, or an instance, which is copied. `seed` is for a placement that
    has an option `seed`, unless the option is given.
    """
    made: Placement = PLACEMENTS.instantiate(given, seed=seed)
    return made
