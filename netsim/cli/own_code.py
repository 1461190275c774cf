"""Errors of the user's own code, in a line and with only the user's own frames."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Any

#: Packages through which calls reach the user's code, or which it calls.
_OTHERS = frozenset((
    "__main__", "click", "cloudpickle", "gymnasium", "joblib", "llvmlite", "loky", "matplotlib",
    "netsim", "networkx", "numba", "numpy", "pandas", "PIL", "pyarrow", "pydantic", "rich", "scipy",
    "simpy", "sklearn", "tomli_w", *sys.stdlib_module_names))


def told_by_own_frames(error: BaseException) -> str | None:
    """Describe an error that the user's own code has raised: who, when, what and where.

    None if no frame belongs to such code, so that the error is one of netsim itself.
    """
    from netsim.errors import causes_of, described

    for cause in causes_of(error):  # SimPy raises a copy of it
        own = [(frame, line) for frame, line in traceback.walk_tb(cause.__traceback__)
               if frame.f_globals.get("__name__", "").partition(".")[0] not in _OTHERS]
        if own:
            notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
            lines = traceback.format_list(traceback.StackSummary.extract(iter(own)))
            what = described(cause).removesuffix(notes)
            return f"{_who([frame for frame, _ in own])}: {what}\n{''.join(lines).rstrip()}{notes}"
    return None


def _who(frames: Sequence[FrameType]) -> str:
    """Name the policy, or else the function, to which the first frame belongs, and its time."""
    from netsim.allocators import ALLOCATORS
    from netsim.placements.registry import PLACEMENTS
    from netsim.schedulers.registry import SCHEDULERS
    from netsim.units import format_seconds

    first = frames[0]
    policy = first.f_locals.get("self")
    kind = next((registry.kind for registry in (ALLOCATORS, SCHEDULERS, PLACEMENTS)
                 if policy is not None and registry.takes(policy)), None)
    who = (f"{first.f_globals['__name__']}:{first.f_code.co_qualname}" if kind is None else
           f"{kind} {type(policy).__qualname__}")
    now = next((value.now for value in first.f_locals.values() if _has_time(value)), None)
    return who if now is None else f"{who} at {format_seconds(now)} of the simulation"


def _has_time(value: Any) -> bool:
    """Whether a value is a view of netsim, which knows the time."""
    return type(value).__module__.startswith("netsim.") and isinstance(
        getattr(value, "now", None), int | float)
