"""Values of an experiment file, digests of files that it names, and errors that name its keys."""

from __future__ import annotations

import hashlib
import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ValidationError, WithJsonSchema

from netsim.base.files import read_bytes
from netsim.base.units import LONG_INTERVAL, UNITS, parse_bytes, parse_rate, parse_seconds
from netsim.base.values import as_whole, plain, refuse_set
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.stragglers import check_factor
from netsim.text import visible


# --- digests of files ----------------------------------------------------------------------
def pinned(path: str | Path) -> dict[str, str]:
    """The keys that identify a file by its path and its digest."""
    digest = hashlib.sha256(read_bytes(path)).hexdigest()
    return {"file": os.path.abspath(path), "sha256": digest}


def check_digest(path: str | Path | None, sha256: str | None) -> None:
    """Check that there is a file with the expected digest, if one is given."""
    if sha256 is None:
        return
    if path is None:
        raise InputError("sha256 is for files, and no file is read", "sha256")
    try:
        found = pinned(path)["sha256"]
    except OSError:
        return  # the reader reports the error
    if found != sha256:
        raise InputError(f"{path} has changed: its sha256 is {found}, not {sha256}", "sha256")


# --- values --------------------------------------------------------------------------------

#: Most seeds of a sweep; more are taken for a typing error, and would fill the memory.
_MOST_SEEDS = 10**6

#: What the schema says of a quantity, by base unit; "" if it depends on other keys.
_SAID = {"s": 'Seconds, or with a unit: "10ms".', "B": 'Bytes, or with a unit: "40MB".',
         "B/s": 'Bytes per second, or with a unit: "10Gbps".',
         "": "Seconds, bytes or bytes per second, or with a unit."}


def quantity_schema(unit: str) -> dict[str, Any]:
    """The JSON schema of a quantity, by its base unit, a key of `UNITS`, or ""."""
    known = [name for each in ([unit] if unit else UNITS) for name in UNITS[each]]
    number = r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
    return {"description": _SAID[unit], "type": ["number", "string"], "minimum": 0,
            "pattern": rf"^\s*{number}\s*({'|'.join(known)})?\s*$"}


#: A duration or an instant, ``"10ms"`` or a number of seconds; kept in seconds.
Seconds = Annotated[float, BeforeValidator(lambda value: parse_seconds(value)),
                    WithJsonSchema(quantity_schema("s"))]

#: The same, but not 0; None where it is not given.
PositiveSeconds = Annotated[float | None, BeforeValidator(
    lambda value: None if value is None else parse_seconds(value, strict=True)),
    WithJsonSchema(quantity_schema("s") | {"exclusiveMinimum": 0})]


def _interval(value: Any) -> float:
    parse_seconds(value)  # its errors do not repeat the key
    return parse_seconds(value, "observe_interval", usual=LONG_INTERVAL)


#: The same, for the observe interval.
Interval = Annotated[float, BeforeValidator(_interval), WithJsonSchema(quantity_schema("s"))]

#: ``"40MB"`` or a number of bytes.
Bytes = Annotated[float, BeforeValidator(lambda value: parse_bytes(value)),
                  WithJsonSchema(quantity_schema("B"))]

#: ``"10Gbps"`` or a number of bytes per second; kept in bytes per second.
Rate = Annotated[float, BeforeValidator(lambda value: parse_rate(value, "capacity")),
                 WithJsonSchema(quantity_schema("B/s"))]


def _stragglers(given: object) -> object:
    if not isinstance(given, Mapping):
        raise InputError(f"must be a table of hosts and factors, not {given!r}")
    given = dict(map(plain, given.items()))
    for host, factor in given.items():
        check_factor(factor, f"the factor of host {host}")
    return {str(host): float(factor) for host, factor in given.items()}


#: Factors by host; keys are strings, as in a file.
Stragglers = Annotated[dict[str, float], BeforeValidator(_stragglers), WithJsonSchema(
    {"type": "object", "additionalProperties": {"type": "number", "minimum": 1}})]


def _name_or_number(of: str, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"must be a {of}'s name or number, not {value!r}")
    return value


#: A link's name or number.
LinkName = Annotated[Any, BeforeValidator(partial(_name_or_number, "link")),
                     WithJsonSchema({"type": ["string", "integer"]})]

#: The same, for a host.
HostName = Annotated[Any, BeforeValidator(partial(_name_or_number, "host")),
                     WithJsonSchema({"type": ["string", "integer"]})]


def seeds_of(given: int | Iterable[int], first: int = 0) -> list[int]:
    """List and check seeds, given as a list or as a number of seeds that count up from `first`."""
    refuse_set(given, "seeds")
    given = plain(given)
    if isinstance(given, int):
        if not 1 <= given <= _MOST_SEEDS:
            raise InputError(f"seeds must be a number from 1 to {_MOST_SEEDS:,}, or a list of "
                             f"them, not {reprlib.repr(given)}")
        given = range(first, first + given)
    elif isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InputError("seeds must be a whole number, or a list of them, not "
                         f"{reprlib.repr(given)}")
    listed = plain(list(given))
    if not listed:
        raise InputError("seeds must be a number, or a list of them, which is empty")
    for seed in listed:
        as_whole(seed, "seeds: each")
    if len(set(listed)) < len(listed):
        raise InputError(f"seeds: a seed occurs twice in {listed}")
    return listed


# --- errors that name keys -----------------------------------------------------------------

#: Tags that pydantic adds to the path of a key that may be a table or a list of tables.
KINDS = TABLE, LIST = "<table>", "<list>"

Built = TypeVar("Built")


class KeyErrors(ValueError):
    """Several problems of one table, raised together; pydantic carries them to `described`.

    Each is a key path below the table, which may be empty, and a message.
    """

    def __init__(self, found: Iterable[tuple[str, str]]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(message for _, message in self.found))


def build(make: Callable[..., Built], table: Mapping[str, Any], skeleton: Sequence[str]) -> Built:
    """Call ``make(**table)``, and attribute its InputErrors to keys of the table.

    An error without a key of the table is attributed to the first key of the skeleton that the
    table has: to what decides which other keys there are.
    """
    try:
        return make(**table)
    except InputError as error:
        raise KeyErrors(_problems(make, table, skeleton, error)) from error


def _problems(make: Callable[..., Any], table: Mapping[str, Any], skeleton: Sequence[str],
              error: InputError) -> Iterator[tuple[str, str]]:
    """Yield the keys and messages of an error, and of those that are left without these keys.

    What is made from a table may stop at the first wrong value, and a file should be mended once.
    """
    usual = next((key for key in skeleton if key in table), "")
    wrong = {}
    for each in (error, *error.others):
        key = each.key if each.key in table else usual
        wrong[key] = each
        yield key, str(each)
    left = {key: value for key, value in table.items() if key not in wrong}
    if len(left) < len(table) and wrong.keys().isdisjoint(skeleton):
        try:
            make(**left)
        except InputError as other:
            yield from _problems(make, left, skeleton, other)


def described(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Format the errors of pydantic, each beginning with its key path."""
    problems = []
    for detail in error.errors():
        cause = detail.get("ctx", {}).get("error")
        where = tuple(part for part in detail["loc"] if part not in KINDS)
        if isinstance(cause, KeyErrors):
            problems += [_line((*where, *filter(None, (key,))), text) for key, text in cause.found]
        else:
            problems.append(_line(where, _message(detail, cause, model)))
    return problems


def _line(where: Iterable[str | int], message: str) -> str:
    path = visible(".".join(map(str, where)))
    return f"{path}: {message}" if path else message


def _message(detail: Mapping[str, Any], cause: object, model: type[BaseModel]) -> str:
    if cause is not None:
        return str(cause)
    if detail["type"] == "missing":
        return "is required"
    if detail["type"] == "extra_forbidden":
        return str(UnknownNameError("key", detail["loc"][-1], _keys(model, detail["loc"][:-1])))
    if detail["type"] in ("model_type", "dict_type"):
        return f"must be a table, not {detail['input']!r}"
    return f"{detail['msg'].replace('Input should be', 'must be')}, not {detail['input']!r}"


def _keys(model: type[BaseModel], where: Iterable[str | int]) -> list[str]:
    """List the fields of the table at a key path."""
    for part in where:
        if isinstance(part, str):
            kind = model.model_fields[part].annotation
            model = (get_args(kind) or (kind,))[0]
    return list(model.model_fields)
