"""Allocators by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from netsim.base.plugins import Registry
from netsim.base.values import known_names
from netsim.errors import InputError, MissingExtraError, did_you_mean
from netsim.fabric.allocator import Allocator

_AS_COFLOWSIM = {"decisions": "coflow", "work_conservation": "coflowsim"}

#: Aliases are other common names of allocators. Presets reproduce the schemes of CoflowSim, for
#: comparison with its results.
ALLOCATORS = Registry(
    "allocator", {
        "aalo": "netsim.allocators.dclas:DCLAS",
        "aalo-lbsf": "netsim.allocators.first:AaloLBSF",
        "adadual": "netsim.allocators.adadual:AdaDUAL",
        "coflow-fair": "netsim.allocators.ordered:CoflowFair",
        "crux": "netsim.allocators.crux:Crux",
        "edf": "netsim.allocators.deadlines:EDF",
        "equal-split": "netsim.allocators.ordered:EqualSplit",
        "fifo": "netsim.allocators.ordered:FIFO",
        "lccf": "netsim.allocators.first:LCCF",
        "lcf": "netsim.allocators.ordered:LCF",
        "lp-order": "netsim.allocators.lp_order:LPOrder",
        "maxmin": "netsim.allocators.maxmin:MaxMin",
        "mltcp": "netsim.allocators.mltcp:MLTCP",
        "ncf": "netsim.allocators.ordered:NCF",
        "parrot": "netsim.allocators.parrot:Parrot",
        "reserved": "netsim.allocators.reserved:Reserved",
        "ring-contention": "netsim.allocators.contention:RingContention",
        "scf": "netsim.allocators.ordered:SCF",
        "sebf": "netsim.allocators.ordered:SEBF",
        "sincronia": "netsim.allocators.ordered:Sincronia",
        "srpt": "netsim.allocators.first:JobSRPT",
        "srtf": "netsim.allocators.ordered:SRTF",
        "varys-deadline": "netsim.allocators.deadlines:VarysDeadline",
    },
    aliases={"dclas": "aalo", "fair": "maxmin", "varys": "sebf"},
    presets={
        "coflowsim-dark": {"name": "aalo", "weights": "strict", "fifo": "entry",
                           "observe": "coflow", "sharing": "equal", "decisions": "coflow"},
        "coflowsim-fair": {"name": "equal-split"},
        "coflowsim-fifo": {"name": "fifo", **_AS_COFLOWSIM},
        "coflowsim-lcf": {"name": "lcf", "key": "original", **_AS_COFLOWSIM},
        "coflowsim-ncf": {"name": "ncf", "key": "original", "width": "ports", **_AS_COFLOWSIM},
        "coflowsim-scf": {"name": "scf", "key": "original", **_AS_COFLOWSIM},
        "coflowsim-sebf": {"name": "sebf", "key": "original", **_AS_COFLOWSIM},
    },
    accepts=Allocator, refusal="is not an allocator: it must derive from netsim.Allocator",
    group="allocators")


@known_names
def make_allocator(policy: str | Mapping[str, Any] | Allocator | type[Allocator]) -> Allocator:
    """Make a fresh allocator.

    Parameters
    ----------
    policy : str, mapping, Allocator or class
        A name from `ALLOCATORS`, an alias or a preset, or ``"module:Class"``, with options as in
        ``"aalo:queues=3"``; ``{"name": ..., option: ...}``, whose options override those of a
        preset; a class; or an instance, which is copied so that runs do not share its state.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist; the message lists the choices.
    InputError
        If the argument is not an allocator, or an option has an invalid value.
    """
    made: Allocator = ALLOCATORS.instantiate(policy)
    if getattr(made.allocate, "__func__", None) is Allocator.allocate and (
            made.compiled_rule is None):
        near = did_you_mean("allocate", [*vars(type(made))], 1)
        raise InputError(f"allocator {type(made).__qualname__} has no method allocate(view), which "
                         f"returns a netsim.Allocation{near}")
    return made


def check_installed(policy: str | Mapping[str, Any] | Allocator | type[Allocator]) -> None:
    """Check that what an allocator needs is installed, before a run takes time."""
    needs = make_allocator(policy).needs_extra
    if needs is not None and find_spec(needs[0]) is None:
        raise MissingExtraError(*needs)
