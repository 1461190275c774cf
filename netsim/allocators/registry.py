"""Which allocators there are, and how a name, a mapping or an instance becomes one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from netsim.errors import InputError
from netsim.fabric.allocator import Allocator
from netsim.plugins import build, copied, described, find, parse_named

__all__ = ["ALLOCATORS", "PRESETS", "allocator_options", "describe", "make_allocator",
           "parse_allocator"]

#: Name -> where the class is. The first line of its docstring is its one-line summary.
ALLOCATORS: dict[str, str] = {
    "aalo": "netsim.allocators.dclas:DCLAS",
    "aalo-lbsf": "netsim.allocators.first:AaloLBSF",
    "coflow-fair": "netsim.allocators.srtf:CoflowFair",
    "edf": "netsim.allocators.deadlines:EDF",
    "equal-split": "netsim.allocators.coflowsim:EqualSplit",
    "fifo": "netsim.allocators.ordered:FIFO",
    "lccf": "netsim.allocators.first:LCCF",
    "lcf": "netsim.allocators.ordered:LCF",
    "maxmin": "netsim.allocators.maxmin:MaxMin",
    "ncf": "netsim.allocators.ordered:NCF",
    "parrot": "netsim.allocators.parrot:Parrot",
    "reserved": "netsim.allocators.reserved:Reserved",
    "ring-contention": "netsim.allocators.contention:RingContention",
    "scf": "netsim.allocators.ordered:SCF",
    "sebf": "netsim.allocators.ordered:SEBF",
    "sincronia": "netsim.allocators.sincronia:Sincronia",
    "srpt": "netsim.allocators.first:JobSRPT",
    "srtf": "netsim.allocators.srtf:SRTF",
    "varys-deadline": "netsim.allocators.deadlines:VarysDeadline",
}

#: Other names by which the field knows some of them.
ALIASES = {"dclas": "aalo", "fair": "maxmin", "varys": "sebf"}

_AS_COFLOWSIM = {"decisions": "coflow", "work_conservation": "coflowsim"}

#: Name -> an allocator with options: the schemes of CoflowSim, to compare with its results.
PRESETS: dict[str, dict[str, Any]] = {
    "coflowsim-dark": {"name": "aalo", "weights": "strict", "fifo": "entry", "observe": "coflow",
                       "sharing": "equal", "decisions": "coflow"},
    "coflowsim-fair": {"name": "equal-split"},
    "coflowsim-fifo": {"name": "fifo", **_AS_COFLOWSIM},
    "coflowsim-lcf": {"name": "lcf", "key": "original", **_AS_COFLOWSIM},
    "coflowsim-ncf": {"name": "ncf", "key": "original", "width": "ports", **_AS_COFLOWSIM},
    "coflowsim-scf": {"name": "scf", "key": "original", **_AS_COFLOWSIM},
    "coflowsim-sebf": {"name": "sebf", "key": "original", **_AS_COFLOWSIM},
}


def make_allocator(policy: str | Mapping[str, Any] | Allocator | type[Allocator]) -> Allocator:
    """Return a fresh allocator.

    Parameters
    ----------
    policy : str, mapping, Allocator or class
        A name of `ALLOCATORS` or `PRESETS`, or ``"module:Class"``, with options as
        `parse_allocator` reads them; ``{"name": ..., option: ...}``, whose options go over
        those of a preset; a class; or an instance, which is copied so that its state serves
        one run only.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist; the choices are listed.
    InputError
        If it is not an allocator, or an option has a value that is not allowed.
    """
    if isinstance(policy, str):
        policy = parse_allocator(policy)
    if isinstance(policy, Mapping):
        options = dict(policy)
        name = options.pop("name", None)
        if not isinstance(name, str):
            raise InputError(f"an allocator given as a mapping needs a 'name', not {policy!r}")
        return _make_named(name, options)
    if isinstance(policy, type):
        return _make(policy, policy.__name__, {})
    if not isinstance(policy, Allocator):
        raise InputError(f"{policy!r} is not an allocator: it must derive from netsim.Allocator")
    return copied(policy, "allocator")


def parse_allocator(text: str) -> dict[str, Any]:
    """Return an allocator written on one line as ``{"name": ..., option: ...}``.

    Examples
    --------
    >>> parse_allocator("parrot:work_conservation=none:theta_max=0.6")
    {'name': 'parrot', 'work_conservation': 'none', 'theta_max': 0.6}
    """
    return parse_named(text)


def _make_named(name: str, options: dict[str, Any]) -> Allocator:
    preset = dict(PRESETS.get(name, {"name": name}))
    return _make(_find(preset.pop("name")), name, preset | options)


def _find(name: str) -> Any:
    return find("allocator", ALIASES.get(name, name), ALLOCATORS,
                [*ALLOCATORS, *ALIASES, *PRESETS])


def allocator_options(name: str) -> dict[str, Any]:
    """Return the options of a registered allocator or preset with their defaults."""
    preset = dict(PRESETS.get(name, {"name": name}))
    parameters = inspect.signature(_find(preset.pop("name"))).parameters
    return {option: parameter.default for option, parameter in parameters.items()} | preset


def _make(kind: Any, name: str, options: dict[str, Any]) -> Allocator:
    if not (isinstance(kind, type) and issubclass(kind, Allocator)):
        raise InputError(f"{name!r} is not an allocator: it must derive from netsim.Allocator")
    made: Allocator = build(kind, options, f"allocator {name!r}")
    return made


def describe(policy: Allocator) -> dict[str, Any]:
    """Return an allocator as ``{"name": ..., option: ...}``, for results and tables."""
    return described(policy, ALLOCATORS)
