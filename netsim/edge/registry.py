"""Schedulers of edge-clouds, and transports, by name."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from netsim.checks import check_options
from netsim.edge.setting import EdgeSetting
from netsim.edge.transport import Sharing
from netsim.errors import InputError
from netsim.plugins import build, described, find, named

__all__ = ["EDGE_SCHEDULERS", "TRANSPORTS", "TransportMaker", "make_edge_scheduler",
           "make_transport"]

#: Name -> where the class is: with ``begin``, of those that dispatch chunks, or ``run``.
EDGE_SCHEDULERS: dict[str, str] = {
    "a-online": "netsim.edge.online:AOnline",
    "a-online-e": "netsim.edge.online:AOnlineEdge",
    "batch": "netsim.edge.batch:BatchSche",
    "cloud-only": "netsim.edge.online:CloudOnly",
    "srtf": "netsim.edge.gang:SRTF",
    "tiresias-l": "netsim.edge.gang:TiresiasL",
}

#: Name -> where what makes one of a setting is; see `netsim.edge.transport.Transport`.
TRANSPORTS: dict[str, str] = {"constant": "netsim.edge.transport:Constant",
                              "fabric": "netsim.edge.on_fabric:OnFabric"}


@dataclass(frozen=True)
class TransportMaker:
    """Makes transports of one kind.

    Attributes
    ----------
    name : str
    options : mapping
    kind : callable
        Made with the setting and the options, and, if it takes that, `sharing`.
    """

    name: str
    options: Mapping[str, Any]
    kind: Any

    @property
    def takes(self) -> list[str]:
        """What it is made with beside its options."""
        return [name for name in ("setting", "sharing")
                if name in inspect.signature(self.kind).parameters]

    @property
    def shares_links(self) -> bool:
        """Whether there are links, that an allocator shares out."""
        return "sharing" in self.takes

    def problem_of(self, scheduler: Any) -> str | None:
        """Return why a scheduler does not go with it; None if it does."""
        if hasattr(scheduler, "begin") or self.name == "constant":
            return None
        name = described(scheduler, EDGE_SCHEDULERS)["name"]
        return (f"transport {self.name!r} is for schedulers of chunks; scheduler {name!r} has "
                "constant delays")

    def __call__(self, setting: EdgeSetting, sharing: Sharing) -> Any:
        """Return a transport.

        Raises
        ------
        InputError
            If it cannot be made with these options.
        """
        known: dict[str, Any] = {"setting": setting, "sharing": sharing}
        given = {name: known[name] for name in self.takes}
        return build(self.kind, {**self.options, **given}, f"transport {self.name!r}")


def make_edge_scheduler(given: Any) -> Any:
    """Return a scheduler.

    Parameters
    ----------
    given : str, mapping or object
        A name of `EDGE_SCHEDULERS`, or ``"module:Class"``, with options as in
        ``"batch:mode=periodic"``; ``{"name": ..., option: ...}``; or an object with ``begin`` (see
        `netsim.edge.online.Dispatcher`) or ``run`` (of an `EdgeSetting`, which returns a
        `Schedule`), which is copied.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    InputError
        If it is no scheduler, or an option has a value that is not allowed.
    """
    if isinstance(given, type) or not isinstance(given, str | Mapping):
        return copy.deepcopy(_checked(given() if isinstance(given, type) else given, given))
    name, options = named(given, "scheduler")
    kind = find("scheduler of an edge-cloud", name, EDGE_SCHEDULERS)
    return _checked(build(kind, options, f"scheduler {name!r}"), name)


def _checked(made: Any, said: object) -> Any:
    if not (hasattr(made, "begin") or hasattr(made, "run")):
        raise InputError(f"{said!r} is no scheduler of an edge-cloud: it needs a method begin, "
                         "or run")
    return made


def make_transport(given: str | Mapping[str, Any]) -> TransportMaker:
    """Return what makes a transport of a setting.

    Parameters
    ----------
    given : str or mapping
        A name of `TRANSPORTS`, or ``"module:Class"``, with options as in
        ``"fabric:mode=exact"``.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    """
    name, options = named(given, "transport")
    kind = find("transport", name, TRANSPORTS)
    made = TransportMaker(name, options, kind)
    check_options(kind, options, f"transport {name!r}", made.takes)
    return made
