"""Execution traces of Chakra as JSON: a graph in one object, or an object per message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from netsim.errors import TraceError, unknown_name
from netsim.traces.checked import json_problem
from netsim.traces.files import read_text
from netsim.traces.foreign import kind_of_json
from netsim.traces.training.chakra_file import (
    ATTRIBUTES,
    NODE_TYPES,
    Attribute,
    ChakraFile,
    ChakraNode,
    InputOutput,
)
from netsim.units import is_digits

#: The fields of a node, by their keys in the single object.
_GRAPH = {"Id": "id", "Name": "name", "NodeType": "type", "data_deps": "data_deps",
          "ctrlDeps": "ctrl_deps", "runtime": "duration_micros"}
#: The forms of its attributes, by their keys there.
_GRAPH_ATTRIBUTES = {"is_cpu_op": "bool", **dict.fromkeys(
    ("tensor_size", "comm_type", "comm_priority", "comm_size", "comm_src", "comm_dst", "comm_tag",
     "num_ops"), "int64"), "pg_name": "string"}

#: Fields of a message by their names without underscores and in lower case, as both cases occur.
_MESSAGE = {name.replace("_", ""): name for name in (
    "id", "name", "type", "ctrl_deps", "data_deps", "start_time_micros", "duration_micros")}

_FORMS = {f"{form}{suffix}": form for form, _ in ATTRIBUTES.values() for suffix in ("val", "list")}


def read_chakra_json(path: Path) -> ChakraFile:
    """Read an execution trace of Chakra from JSON, in either of its two forms."""
    documents = list(_documents(read_text(path), path))
    first = documents[0]
    if "workload_graph" not in first and (known := kind_of_json(first)):
        raise TraceError(f"is not a trace of Chakra{known}", path)
    if "workload_graph" in first:
        entries = first["workload_graph"]
        if not isinstance(entries, list):
            raise TraceError(f"workload_graph must be a list, not {entries!r}", path)
        rest = {key: value for key, value in first.items() if key != "workload_graph"}
        nodes = [_Entry(each, f"workload_graph[{k}]", path).of_graph()
                 for k, each in enumerate(entries)]
        return ChakraFile(path, "", rest, tuple(nodes), is_json=True)
    plain = {_plain(key) for key in first}
    if "id" in plain or "type" in plain:
        raise TraceError("the first message must be the metadata, not a node", path)
    nodes = [_Entry(each, f"message {k}", path).of_message()
             for k, each in enumerate(documents[1:], 1)]
    attributes = _Entry(first, "message 0", path).attributes()
    return ChakraFile(path, str(first.get("version", "")), attributes, tuple(nodes), is_json=True)


def _documents(text: str, path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file, one after another."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            made, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            problem = json_problem(error, text)
            raise TraceError(problem.message, path, problem.line) from error
        if not isinstance(made, dict):
            raise TraceError(f"must hold JSON objects, not {made!r}", path)
        yield made


def _plain(key: str) -> str:
    return key.replace("_", "").lower()


class _Entry:
    """A JSON object that is a node, with its position."""

    def __init__(self, given: object, where: str, path: Path) -> None:
        self._where, self._path = where, path
        if not isinstance(given, Mapping):
            self._refuse(f"must be an object, not {given!r}")
        self._given = given

    def _refuse(self, problem: str) -> NoReturn:
        raise TraceError(f"{self._where}: {problem}", self._path)

    def _whole(self, value: object, what: str) -> int:
        """Read a whole number, which may be written as text."""
        if isinstance(value, str) and is_digits(value.removeprefix("-"), 20):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or not -2**63 <= value < 2**64:
            self._refuse(f"{what} must be a whole number of 64 bits, not {value!r}")
        return value

    def _list(self, value: object, what: str) -> list[Any]:
        if not isinstance(value, list):
            self._refuse(f"{what} must be a list, not {value!r}")
        return value

    def _fields(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the fields of a node."""
        made: dict[str, Any] = {}
        for name, value in given.items():
            if name == "name":
                made[name] = value if isinstance(value, str) else str(value)
            elif name.endswith("_deps"):
                made[name] = tuple(self._natural(each, name) for each in self._list(value, name))
            elif name == "type" and isinstance(value, str) and not is_digits(value):
                made[name] = self._type(value)
            else:
                made[{"start_time_micros": "start_micros"}.get(name, name)] = self._natural(
                    value, name)
        return made

    def _natural(self, value: object, what: str) -> int:
        number = self._whole(value, what)
        if number < 0:
            self._refuse(f"{what} must be at least 0, not {value!r}")
        return number

    def _type(self, name: str) -> int:
        if name.removesuffix("_NODE") not in NODE_TYPES:
            self._refuse(unknown_name("node type", name, NODE_TYPES))
        return NODE_TYPES.index(name.removesuffix("_NODE"))

    def of_graph(self) -> ChakraNode:
        """Make the node of an entry in a single object."""
        for key in ("Id", "NodeType"):
            if key not in self._given:
                self._refuse(f"{key} is missing")
        attributes = {}
        for key, form in _GRAPH_ATTRIBUTES.items():
            if key in self._given:
                attributes[key] = Attribute(form, self._value(self._given[key], form, key))
        return ChakraNode(**self._fields({name: self._given[key] for key, name in _GRAPH.items()
                                          if key in self._given}), attributes=attributes)

    def of_message(self) -> ChakraNode:
        """Make the node of a message."""
        plain = {_plain(key): value for key, value in self._given.items()}
        made = self._fields({name: plain[key] for key, name in _MESSAGE.items() if key in plain})
        for name in ("inputs", "outputs"):
            if isinstance(plain.get(name), Mapping):
                made[name] = InputOutput(*(str(plain[name].get(key, ""))
                                           for key in InputOutput._fields))
        return ChakraNode(**made, attributes=self.attributes())

    def attributes(self) -> dict[str, Attribute]:
        """Convert the attributes of a message."""
        found = {}
        for each in self._list(self._given.get("attr", []), "attr"):
            if not isinstance(each, Mapping):
                self._refuse(f"attr must be objects, not {each!r}")
            attribute = Attribute("", None)
            for key, value in each.items():
                form = _FORMS.get(_plain(key))
                if form is not None and _plain(key).endswith("val"):
                    attribute = Attribute(form, self._value(value, form, str(each.get("name"))))
                elif form is not None:
                    values = value.get("values", []) if isinstance(value, Mapping) else value
                    attribute = Attribute(f"{form}_list", [
                        self._value(one, form, key) for one in self._list(values, key)])
            found[str(each.get("name", ""))] = attribute
        return found

    def _value(self, value: object, form: str, what: str) -> Any:
        if form in ("string", "bytes"):
            return str(value)
        if form in ("double", "float"):
            if (isinstance(value, bool) or not isinstance(value, int | float)
                    or not abs(value) < 1e300):
                self._refuse(f"{what} must be a number, not {value!r}")
            return float(value)
        return bool(self._whole(value, what)) if form == "bool" else self._whole(value, what)
