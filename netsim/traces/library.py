"""Ready-made workloads and other workload files: TOML that names a format and its options."""

from __future__ import annotations

import os
import re
import reprlib
import tomllib
from pathlib import Path
from typing import Any

from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.text import toml_problem
from netsim.traces.checked import parse_json
from netsim.traces.files import read_text, require_file
from netsim.traces.problems import Problem, TraceProblemsError

_SUFFIXES = (".toml", ".json")
_EXPERIMENT = ("network", "cluster", "edge_cloud", "allocator")

#: Prefix of the formats of edge-cloud jobs, which `netsim.edge` reads.
_EDGE = "edge-"


def _folder() -> Path:
    """Find the folder of ready-made workloads: in the package, or beside it in a checkout."""
    package = Path(__file__).parent.parent
    inside = package / "workloads"
    return inside if inside.is_dir() else package.parent / "workloads"


def ready_made() -> dict[str, str]:
    """List the ready-made workloads: names to one-line descriptions, sorted by name.

    They are the workload files (``*.toml`` with a ``description``) and explicit instances
    (``*.json`` with a ``note``) in the folder ``workloads``. Experiments in this folder are not
    listed, nor are jobs of edge-clouds, for which see `netsim.edge.files`.
    """
    found: dict[str, str] = {}
    for path in sorted(_folder().glob("*"), key=lambda path: path.stem):
        if path.suffix == ".toml":
            table = _load_toml(path)
            if not (_experiment_keys(table) or _is_edge(table)):
                found[path.stem] = str(table.get("description", ""))
        elif path.suffix == ".json":
            found[path.stem] = str(parse_json(read_text(path), path).get("note", ""))
    return found


def locate(source: str | Path) -> Path:
    """Find the file of a workload that is given by name (if ready-made) or by path."""
    if not isinstance(source, str | Path):
        raise InputError(f"source must be a name or a path, not {reprlib.repr(source)}")
    name = os.fspath(source)
    if isinstance(source, str) and name and Path(name).name == name:
        for suffix in _SUFFIXES:
            path = _folder() / (name + suffix)
            if os.path.isfile(path):
                return path
        if not (Path(name).suffix or os.path.exists(name)):
            raise UnknownNameError("workload", name, ready_made())
    return require_file(name)


def load_workload_file(path: Path) -> dict[str, Any]:
    """Read a workload file into a dict; refuse experiments, and jobs of edge-clouds."""
    table = _load_toml(path)
    keys = _experiment_keys(table)
    if keys:
        message = f"an experiment (it has a [{keys[0]}] table), not a workload; run it instead"
        raise TraceProblemsError([Problem(None, message)], path)
    if _is_edge(table):
        raise TraceError("describes jobs of an edge-cloud; read it with netsim.read_edge_jobs",
                         path)
    return table


def _is_edge(table: dict[str, Any]) -> bool:
    return str(table.get("format", "")).startswith(_EDGE)


def _experiment_keys(table: dict[str, Any]) -> list[str]:
    return [key for key in _EXPERIMENT if key in table]


def _load_toml(path: Path) -> dict[str, Any]:
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        place = re.search(r" \(at line (\d+), column \d+\)", str(error))
        line = int(place[1]) if place else None
        raise TraceProblemsError([Problem(line, toml_problem(error, text))], path) from error
