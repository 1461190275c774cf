"""Experiment files: ready-made ones by name, overrides, and a template."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from netsim.allocators import parse_allocator
from netsim.errors import OutputError, SpecError, UnknownNameError
from netsim.experiments.spec import Experiment
from netsim.units import parse_value

__all__ = ["load_experiment", "ready_made_experiments", "template", "write_template"]


def load_experiment(source: str | Path, overrides: Iterable[str] = ()) -> Experiment:
    """Read an experiment file.

    Parameters
    ----------
    source : path-like or str
        A TOML file, or the name of a ready-made experiment.
    overrides : iterable of str
        Settings that replace those of the file: ``"seed=3"``, ``"network.capacity=40Gbps"``,
        ``"events.0.at=5s"``. What is not a TOML value is a string.

    Returns
    -------
    Experiment
        Its `file` keys are relative to the experiment file, or where they come from an
        override, to the current folder.

    Raises
    ------
    SpecError
        With everything that is wrong in the file, each problem beginning with its key path.
    UnknownNameError
        If there is neither such a file nor such a ready-made experiment.
    """
    path = _locate(source)
    keys = _read(path)
    for table in ("network", "workload"):
        if isinstance(keys.get(table), dict) and isinstance(keys[table].get("file"), str):
            keys[table]["file"] = os.path.abspath(path.parent / keys[table]["file"])
    _expand_allocator(keys)
    for override in overrides:
        _override(keys, override)
    keys.setdefault("name", re.sub(r"[^\w.+-]+", "-", path.stem).strip("-") or "experiment")
    try:
        return Experiment(**keys)
    except SpecError as error:
        raise SpecError(error.problems, path) from None


def ready_made_experiments() -> dict[str, str]:
    """Return the ready-made experiments: name to one-line description."""
    tables = {path.stem: _read(path) for path in sorted(_folder().glob("*.toml"))}
    return {name: str(table.get("description", "")) for name, table in tables.items()
            if "network" in table}


def template() -> str:
    """Return an experiment file with every option, explained."""
    return Path(__file__).with_name("template.toml").read_text(encoding="utf-8")


def write_template(path: str | Path) -> Path:
    """Write `template` to a new file.

    Raises
    ------
    OutputError
        If the file exists or cannot be written.
    """
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError:
        raise OutputError(f"{path}: exists already, and is left as it is") from None
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    return Path(path)


def _folder() -> Path:
    """Return where the ready-made experiments are, installed or in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "workloads"
    return installed if installed.is_dir() else package.parent / "workloads"


def _locate(source: str | Path) -> Path:
    name = os.fspath(source)
    if isinstance(source, Path) or Path(name).name != name or Path(name).suffix:
        return Path(source)
    known = ready_made_experiments()
    if name in known:
        return _folder() / f"{name}.toml"
    if os.path.exists(name):
        return Path(name)
    raise UnknownNameError("experiment", name, known)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError([f"cannot be read: {error.strerror}"], path) from error
    except (ValueError, RecursionError) as error:
        raise SpecError([f"is not TOML: {error}"], path) from error


def _override(keys: dict[str, Any], override: str) -> None:
    """Put the value of ``key.path=value`` into the tables."""
    where, equals, text = override.partition("=")
    *parents, last = [part.strip() for part in where.split(".")]
    if not (equals and last and all(parents)):
        raise SpecError([f"{override!r} is not a setting; write it as key.path=value"])
    table: Any = keys
    for part in parents:
        table = _entry(table, part, override)
    table[_key(table, last, override)] = parse_value(text)
    _expand_allocator(keys)


def _entry(table: Any, part: str, override: str) -> Any:
    """Return the table or list at a key, a new table if nothing is there."""
    key = _key(table, part, override)
    entry = table[key] if isinstance(table, list) else table.setdefault(key, {})
    if not isinstance(entry, dict | list):
        raise SpecError([f"{override!r}: {part!r} is not a table, but {entry!r}"])
    return entry


def _key(table: Any, part: str, override: str) -> Any:
    if isinstance(table, dict):
        return part
    if not (part.isdecimal() and int(part) < len(table)):
        raise SpecError([f"{override!r}: {part!r} is not the number of an entry; there are "
                         f"{len(table)}, numbered from 0"])
    return int(part)


def _expand_allocator(keys: dict[str, Any]) -> None:
    """Make a table of a mere name, so that an override can add an option."""
    if isinstance(keys.get("allocator"), str):
        keys["allocator"] = parse_allocator(keys["allocator"])
