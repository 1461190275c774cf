"""Errors for tables that a result lacks, which say how to record them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from netsim.errors import NotRecordedError

_SINGULAR = ("training", "held")
_OF_EDGE = ("chunks", "training", "held", "workers", "servers", "ps")


def on_edge(run: Mapping[str, Any]) -> bool:
    """Whether a run, given by its identity, was on an edge-cloud."""
    execution = run.get("execution")
    return isinstance(execution, Mapping) and execution.get("name") == "edge"


def shares_links(run: Mapping[str, Any]) -> bool:
    """Whether the jobs of a run shared links, so that an allocator had something to do."""
    execution = run.get("execution") or {}
    # Where nothing is allocated, the allocator has the name of what takes its place.
    instead = (execution.get("name"), execution.get("transport"))
    return (run.get("allocator") or {}).get("name") not in instead


def not_recorded(run: Mapping[str, Any], name: str) -> NotRecordedError:
    """Make the error for a table that a result lacks, given the identity of the run."""
    execution = run.get("execution") or {}
    model = execution.get("name", "fabric")
    if name == "gpus":
        return _of_others(name, "netsim.Cluster")
    if on_edge(run):
        return _on_edge(run, name)
    if name in _OF_EDGE:
        return _of_others(name, "netsim.EdgeCloud")
    record = list(dict.fromkeys(("jobs", "coflows", name)))
    if not shares_links(run):
        given: dict[str, Any] = {"execution": "fabric"}
        return _error(f"there are no {name}: jobs ran by the model {model!r}, and sent nothing "
                      "over a network; `gpus` says which job had which GPU",
                      given if name == "coflows" else given | {"record": record})
    return _unrecorded(name, record)


def _unrecorded(name: str, record: list[str]) -> NotRecordedError:
    """Make the error for a table that can be recorded."""
    return _error(f"{name} {'was' if name in _SINGULAR else 'were'} not recorded",
                  {"record": record})


def _of_others(name: str, target: str) -> NotRecordedError:
    """Make the error for a table of another kind of run."""
    return NotRecordedError(f"there {'is' if name in _SINGULAR else 'are'} no {name}",
                            *[f"only runs on a {target} have them"] * 2)


def _on_edge(run: Mapping[str, Any], name: str) -> NotRecordedError:
    """Make the error for a table of a run on an edge-cloud."""
    if name in ("coflows", "flows"):
        return NotRecordedError(f"there are no {name} of a run on an edge-cloud",
                                *["`training` says what trained where, from when to when"] * 2)
    record: dict[str, Any] = {"record": ["jobs", name]}
    if name == "chunks":
        return _error("chunks were not recorded, or the scheduler is one for whole jobs", record)
    if name == "held":
        return _error("held was not recorded, or the scheduler is one for chunks", record)
    if name in _OF_EDGE or shares_links(run):
        return _unrecorded(name, record["record"])
    return _error(f"there are no {name}: with transport {run['execution']['transport']!r} no links "
                  "are shared", {"transport": "fabric"} | record)


def _error(problem: str, settings: Mapping[str, Any]) -> NotRecordedError:
    """Make the error with the settings to simulate with, in Python and on the command line."""
    keywords = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    options = " ".join(f"--set {key}={value}" if isinstance(value, str)
                       else f"--set '{key}={json.dumps(value)}'" for key, value in settings.items())
    return NotRecordedError(problem, f"simulate with {keywords}", f"run it again with {options}")
