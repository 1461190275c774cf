"""Restrictions on untrusted experiments: no code, and no files outside of their folder."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from netsim.plugins import parse_named
from netsim.reading import read_text

#: Tables that may name a file.
_SOURCES = ("network", "edge_cloud", "workload")
_FILE = re.compile(rf"(sweep\.vary\.)?({'|'.join(_SOURCES)})(\.\d+)?\.file(\.\d+)?")

#: Keys that may name a file instead of an algorithm, with this suffix.
_PROGRAM = re.compile(r"(sweep\.vary\.)?workload(\.\d+)?\.pattern(\.\d+)?\.algorithm(\.\d+)?")
_XML = ".xml"

#: Tables in which all names are those of policies or of their parts.
_OF_POLICIES = ("allocator", "scheduler", "placement", "execution", "transport", "compare")
_VARIED = re.compile(rf"sweep\.vary\.({'|'.join(_OF_POLICIES)})\b.*")

#: Keys of other tables whose values are names, too: those tables also hold paths, and labels.
_NAMES = re.compile(r"(sweep\.vary\.)?(network(\.\d+)?\.kind|edge_cloud(\.\d+)?\.kind"
                    r"|workload(\.\d+)?\.(format|trace(\.\d+)?(\.name)?|pattern(\.\d+)?(\.name)?))(\.\d+)?")


def code_named(keys: Mapping[str, Any]) -> list[str]:
    """List the keys of an experiment whose values name code, ``"module:Class"``."""
    return [f"{path}: {value!r}" for _, _, path, value in _values(keys, "")
            if isinstance(value, str)
            and (path.partition(".")[0] in _OF_POLICIES or _VARIED.fullmatch(path)
                 or _NAMES.fullmatch(path))
            and _is_code(value)]


def _is_code(text: str) -> bool:
    table = parse_named(text)
    options = [value for _, _, _, value in _values(table, "") if isinstance(value, str)]
    return ":" in table["name"] or any(_is_code(value) for value in options if value != text)


def files_named(keys: dict[str, Any]) -> Iterator[tuple[Any, Any, str, str]]:
    """Yield the container, index, key path and value of each file named in an experiment."""
    for holder, place, path, value in _values(keys, ""):
        if isinstance(value, str) and (_FILE.fullmatch(path) or (
                value.endswith(_XML) and _PROGRAM.fullmatch(path))):
            yield holder, place, path, value


def _values(tree: Any, path: str) -> Iterator[tuple[Any, Any, str, Any]]:
    """Yield the container, index, key path and value of each value in tables and lists."""
    pairs: Any = ()
    if isinstance(tree, dict):
        pairs = list(tree.items())
    elif isinstance(tree, list):
        pairs = list(enumerate(tree))
    for place, value in pairs:
        below = ".".join(part.strip() for part in f"{path}.{place}".split(".")).lstrip(".")
        yield tree, place, below, value
        yield from _values(value, below)


def read_with(file: str | Path) -> Iterator[Path]:
    """Yield a file and the files that are read with it.

    The other files are those named in a TOML description, and further tables of a trace.
    """
    for path in (Path(file), *_named_in(Path(file))):
        yield path
        if path.name:  # it may be a folder, which the reader refuses
            yield path.with_suffix(".header")
        yield from path.parent.glob("pai_*_table.*")


def _named_in(path: Path) -> Iterator[Path]:
    try:
        named = tomllib.loads(read_text(path)).get("file")
    except (OSError, ValueError, RecursionError):
        return  # it is not a description; the reader reports the error
    if isinstance(named, str):
        yield path.parent / named
