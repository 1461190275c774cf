"""Executions, how placed jobs run, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.cluster.contention import Contention
from netsim.errors import UnknownNameError
from netsim.plugins import build, named

__all__ = ["EXECUTIONS", "make_execution"]

#: How placed jobs run: name -> one line.
EXECUTIONS: dict[str, str] = {
    "asrpt": "models by the time of an iteration on their GPUs, as A-SRPT has it",
    "fabric": "as coflows on the network, under an allocator",
    "rar-contention": "rings that contend for NICs, as the model of SJF-BCO says",
}


def make_execution(given: str | Mapping[str, Any]) -> tuple[str, Contention]:
    """Return how placed jobs run, and the contention model: that runs them, or plans go by it.

    Parameters
    ----------
    given : str or mapping
        A name of `EXECUTIONS`, with options of `Contention` as in
        ``"rar-contention:time=continuous"``; or ``{"name": ..., option: ...}``.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    InputError
        If an option has a value that is not allowed.
    """
    name, options = named(given, "execution")
    if name not in EXECUTIONS:
        raise UnknownNameError("execution", name, EXECUTIONS)
    if name == "asrpt":
        if options:
            raise UnknownNameError(f"option of execution {name!r}", next(iter(options)), ())
        return name, Contention(time="continuous")
    if name == "fabric":  # which has no slots
        options = {"time": "continuous"} | options
    return name, build(Contention, options, f"execution {name!r}")
