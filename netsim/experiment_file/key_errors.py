"""Attribution of errors to the keys of an experiment that caused them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from netsim.errors import InputError, UnknownNameError
from netsim.text import visible

#: Tags that pydantic adds to the path of a key that may be a table or a list of tables.
KINDS = TABLE, LIST = "<table>", "<list>"

Built = TypeVar("Built")


class KeyErrors(ValueError):
    """Several problems of one table, raised together; pydantic carries them to `problems_of`.

    Each is a key path below the table, which may be empty, and a message.
    """

    def __init__(self, found: Iterable[tuple[str, str]]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(message for _, message in self.found))


def build(make: Callable[..., Built], table: Mapping[str, Any], skeleton: Sequence[str]) -> Built:
    """Call ``make(**table)``, and attribute its InputErrors to keys of the table.

    An error is attributed to a key whose removal leaves no error; if there is no such key, to a key
    whose removal leads to another error. The key is then removed, and the search is repeated to
    find further errors. Keys of the skeleton, which `make` requires, are not removed; an error is
    attributed to one of them, in their order, only if it cannot be attributed to another key.
    """
    try:
        return make(**table)
    except InputError as error:
        raise KeyErrors(_blame(make, dict(table), skeleton, str(error))) from error


def _blame(make: Callable[..., Any], table: dict[str, Any], skeleton: Sequence[str],
           message: str | None) -> list[tuple[str, str]]:
    found = []
    while message is not None:
        key = _culprit(make, table, skeleton, message)
        found.append((key, message))
        if not key or key in skeleton:
            break
        del table[key]
        message = _failure(make, table)
    return found


def culprit(make: Callable[..., Any], table: Mapping[str, Any], skeleton: Sequence[str]
            ) -> tuple[str, str]:
    """Find the key to which an error is attributed, and the message of the error.

    It is the first key outside of the skeleton whose removal leaves no error; if there is none, the
    first key of the skeleton in the table; if there is none either, "". Arguments are as for
    `build`.
    """
    options = [key for key in table if key not in skeleton]
    mended = (key for key in options if _failure(make, _without(key, table)) is None)
    key = next(mended, next((key for key in skeleton if key in table), ""))
    return key, _failure(make, table) or ""


def _culprit(make: Callable[..., Any], table: Mapping[str, Any], skeleton: Sequence[str],
             message: str) -> str:
    keys = [key for key in table if key not in skeleton]
    keys += [key for key in skeleton if key in table]
    failures = {key: _failure(make, _without(key, table)) for key in keys}
    mended = (key for key, failure in failures.items() if failure is None)
    changed = (key for key, failure in failures.items() if failure != message)
    return next(mended, next(changed, ""))


def _without(key: str, table: Mapping[str, Any]) -> dict[str, Any]:
    return {other: value for other, value in table.items() if other != key}


def _failure(make: Callable[..., Any], table: Mapping[str, Any]) -> str | None:
    try:
        make(**table)
    except InputError as error:
        return str(error)
    return None


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[str]:
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
