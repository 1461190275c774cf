"""One execution trace of Chakra, a ``.et`` file or JSON: the wire format, and the nodes.

In the wire format of protocol buffers, a field is a key, ``number << 3 | wire type``, and a value.
No schema is compiled, so files of any version can be read as far as they can be understood.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from netsim.base.brief import brief
from netsim.base.json_tree import json_problem
from netsim.base.reading import TraceProblemsError, read_bytes, read_text
from netsim.base.units import is_digits
from netsim.errors import TraceError, unknown_name
from netsim.traces.files import kind_of_json

# --- the wire format -----------------------------------------------------------------------

#: Wire types: a varint, eight bytes, a length and as many bytes, four bytes.
VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5

#: The longest varint, of 64 bits.
_LONGEST = 10


class BrokenMessage(ValueError):
    """Bytes that the wire format does not allow; `at` is their position in the file."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem)
        self.problem, self.at = problem, at


class Field(NamedTuple):
    """A field of a message; positions are bytes of the file, from 0."""

    number: int
    wire: int
    value: int  #: the bits of a varint, or four or eight bytes as a number
    begin: int  #: of the value, after its length if it has one
    end: int
    at: int  #: of the key


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode the varint at a byte, at most up to `end`; return it, and the byte after it."""
    value = 0
    for k in range(_LONGEST):
        if at + k >= end:
            raise BrokenMessage("a varint goes past the end", at)
        byte = data[at + k]
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + k + 1
    raise BrokenMessage("a varint is longer than 10 bytes", at)


def length_delimited(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each message of a file in which each message follows its length."""
    at = 0
    while at < len(data):
        length, begin = varint(data, at, len(data))
        if length > len(data) - begin:
            raise BrokenMessage(f"the message says {length} bytes, {len(data) - begin} are left",
                                at)
        yield begin, begin + length
        at = begin + length


def fields_of(data: bytes, begin: int, end: int) -> Iterator[Field]:
    """Yield the fields of a message between two bytes of a file."""
    at = begin
    while at < end:
        key, after = varint(data, at, end)
        number, wire = key >> 3, key & 7
        if not number:
            raise BrokenMessage("field number 0", at)
        value = 0
        if wire == VARINT:
            value, stop = varint(data, after, end)
        elif wire in (EIGHT, FOUR):
            stop = after + (8 if wire == EIGHT else 4)
        elif wire == LENGTH:
            length, after = varint(data, after, end)
            stop = after + length
        else:
            raise BrokenMessage(f"field {number} has wire type {wire}, which must be 0, 1, 2 or 5",
                                at)
        if stop > end:
            raise BrokenMessage(f"field {number} needs {stop - after} bytes, {end - after} are "
                                "left", at)
        if wire in (EIGHT, FOUR):
            value = int.from_bytes(data[after:stop], "little")
        yield Field(number, wire, value, after, stop, at)
        at = stop


def numbers_of(data: bytes, field: Field, wire: int) -> Iterator[int]:
    """Yield the numbers, of the given wire type, of a repeated field, packed or not."""
    if field.wire != LENGTH:
        yield field.value
        return
    at = field.begin
    while at < field.end:
        if wire == VARINT:
            value, at = varint(data, at, field.end)
            yield value
            continue
        stop = at + (8 if wire == EIGHT else 4)
        if stop > field.end:
            raise BrokenMessage(f"field {field.number} ends within a number", field.at)
        yield int.from_bytes(data[at:stop], "little")
        at = stop


def signed(value: int, bits: int) -> int:
    """Decode a number of `bits` bits in two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def zigzag(value: int) -> int:
    """Decode the zigzag form of a varint: 0, -1, 1, -2, ..."""
    return (value >> 1) ^ -(value & 1)


def pack(value: int) -> bytes:
    """Encode a number as a varint, negative ones in two's complement of 64 bits."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def encode(fields: Iterable[tuple[int, int | float | str | bytes]]) -> bytes:
    """Encode a message of fields ``(number, value)``.

    Whole numbers become varints, and floats eight bytes; texts and messages have a length.
    """
    made = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            made += pack(number << 3 | VARINT) + pack(value)
        elif isinstance(value, float):
            made += pack(number << 3 | EIGHT) + struct.pack("<d", value)
        else:
            content = value.encode() if isinstance(value, str) else value
            made += pack(number << 3 | LENGTH) + pack(len(content)) + content
    return bytes(made)


# --- nodes ---------------------------------------------------------------------------------

#: The types of nodes, by number.
NODE_TYPES = ("INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV",
              "COMM_COLL")

#: The forms of an attribute: the field, its name, its wire type. The field after it is its list.
ATTRIBUTES = {3: ("double", EIGHT), 5: ("float", FOUR), 7: ("int32", VARINT),
              9: ("int64", VARINT), 11: ("uint32", VARINT), 13: ("uint64", VARINT),
              15: ("sint32", VARINT), 17: ("sint64", VARINT), 19: ("fixed32", FOUR),
              21: ("fixed64", EIGHT), 23: ("sfixed32", FOUR), 25: ("sfixed64", EIGHT),
              27: ("bool", VARINT), 29: ("string", LENGTH), 31: ("bytes", LENGTH)}

_OLDER = "written by an older Chakra schema; convert it to one of version 0.0.4"


class Attribute(NamedTuple):
    """The form and the value of an attribute of a node."""

    form: str  #: such as ``"int64"``, ``"bool"`` or ``"string_list"``; ``""`` without a value
    value: Any


class InputOutput(NamedTuple):
    """Inputs or outputs of a node, as texts."""

    values: str = ""
    shapes: str = ""
    types: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ChakraNode:
    """A node of an execution trace."""

    id: int = 0
    name: str = ""
    type: int = 0  #: an index into `NODE_TYPES`
    ctrl_deps: tuple[int, ...] = ()  #: ids of nodes that it depends on
    data_deps: tuple[int, ...] = ()
    start_micros: int = 0
    duration_micros: int = 0
    inputs: InputOutput = field(default_factory=InputOutput)
    outputs: InputOutput = field(default_factory=InputOutput)
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    __repr__ = brief

    def __str__(self) -> str:
        return f"node {self.id} ({self.name!r})"

    @property
    def kind(self) -> str:
        """``"skip"``, ``"cpu"``, ``"comp"``, ``"mem"``, ``"coll"``, ``"send"`` or ``"recv"``.

        The host's call of a collective is a ``"cpu"`` node.
        """
        given = self.attributes.get("is_cpu_op")
        if self.type < 2:
            return "skip"
        if given is not None and given.value:
            return "cpu"
        return {4: "comp", 5: "send", 6: "recv", 7: "coll"}.get(self.type, "mem")

    def whole(self, name: str) -> int | None:
        """Return an attribute that must be a whole number; None if there is none."""
        given = self.attributes.get(name)
        if given is None:
            return None
        if not isinstance(given.value, int):
            raise TraceError(f"{self}: {name} must be a whole number, not {given.value!r}")
        return int(given.value)


@dataclass(frozen=True, slots=True, eq=False)
class ChakraFile:
    """An execution trace of one rank."""

    path: Path
    version: str
    #: Metadata; any values in JSON of a single object, else `Attribute`.
    attributes: Mapping[str, Any]
    nodes: tuple[ChakraNode, ...]  #: in the order of the file
    is_json: bool = False
    __repr__ = brief


def read_chakra_file(path: str | Path) -> ChakraFile:
    """Read one execution trace of Chakra: a ``.et`` file.

    It is decoded without a schema: fields may be in any order, unknown fields are skipped, and
    numbers may be packed or not.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    TraceError
        If it cannot be read, has an older schema, or is damaged, with the message and the byte.
    """
    path = Path(path)
    data = read_bytes(path)
    if not data:
        raise TraceError("the file is empty", path)
    number, nodes = 0, []
    version: str = ""
    attributes: dict[str, Attribute] = {}
    try:
        for begin, end in length_delimited(data):
            if number:
                nodes.append(_node(data, begin, end))
            else:
                version, attributes = _metadata(data, begin, end)
            number += 1
    except BrokenMessage as error:
        if data.lstrip()[:1] in (b"{", b"["):
            raise TraceError("is JSON, not protobuf; its name must end in .json", path) from error
        raise TraceError(f"message {number}, byte {error.at}: {error.problem}", path) from error
    return ChakraFile(path, version, attributes, tuple(nodes))


def _metadata(data: bytes, begin: int, end: int) -> tuple[str, dict[str, Attribute]]:
    version: str = ""
    attributes = {}
    fields = list(fields_of(data, begin, end))
    for each in fields:
        if each.number == 3:  # the type of a node
            raise BrokenMessage(_OLDER, each.at)
    for each in fields:
        if each.number == 1:
            version = _text(data, each, "version")
        elif each.number == 2:
            _expect(each, LENGTH, "attr")
            name, attribute = _attribute(data, each)
            attributes[name] = attribute
    return version, attributes


#: The fields of a node that are numbers, texts and lists of numbers.
_NUMBERS = {1: "id", 3: "type", 6: "start_micros", 7: "duration_micros"}

_LISTS = {4: "ctrl_deps", 5: "data_deps"}

_INPUTS = {8: "inputs", 9: "outputs"}


def _node(data: bytes, begin: int, end: int) -> ChakraNode:
    made: dict[str, Any] = {}
    attributes: dict[str, Attribute] = {}
    for each in fields_of(data, begin, end):
        number = each.number
        if number in _NUMBERS:
            _expect(each, VARINT, _NUMBERS[number])
            made[_NUMBERS[number]] = each.value
        elif number == 2:
            made["name"] = _text(data, each, "name")
        elif number in _LISTS:
            name = _LISTS[number]
            if each.wire != LENGTH:
                _expect(each, VARINT, name)
            made.setdefault(name, []).extend(numbers_of(data, each, VARINT))
        elif number in _INPUTS:
            _expect(each, LENGTH, _INPUTS[number])
            made[_INPUTS[number]] = _input_output(data, each)
        elif number == 10:
            _expect(each, LENGTH, "attr")
            name, attribute = _attribute(data, each)
            attributes[name] = attribute
        elif number <= 20:
            raise BrokenMessage(_OLDER, each.at)
    for name in _LISTS.values():
        made[name] = tuple(made.get(name, ()))
    return ChakraNode(**made, attributes=attributes)


def _expect(given: Field, wire: int, name: str) -> None:
    if given.wire != wire:
        raise BrokenMessage(f"field {given.number} ({name}) has wire type {given.wire}, which must "
                            f"be {wire}", given.at)


def _text(data: bytes, given: Field, name: str) -> str:
    _expect(given, LENGTH, name)
    return data[given.begin:given.end].decode("utf-8", "replace")


def _input_output(data: bytes, given: Field) -> InputOutput:
    names = ("values", "shapes", "types")
    made = {names[each.number - 1]: _text(data, each, names[each.number - 1])
            for each in fields_of(data, given.begin, given.end) if each.number <= 3}
    return InputOutput(**made)


def _attribute(data: bytes, given: Field) -> tuple[str, Attribute]:
    name, found = "", Attribute("", None)
    for each in fields_of(data, given.begin, given.end):
        if each.number == 1:
            name = _text(data, each, "name")
        elif each.number in ATTRIBUTES:
            form, wire = ATTRIBUTES[each.number]
            _expect(each, wire, form)
            found = Attribute(form, _value(data, each, form))
        elif each.number - 1 in ATTRIBUTES:
            form, wire = ATTRIBUTES[each.number - 1]
            _expect(each, LENGTH, f"{form}_list")
            found = Attribute(f"{form}_list", _values(data, each, form, wire))
    return name, found


def _values(data: bytes, given: Field, form: str, wire: int) -> list[Any]:
    made: list[Any] = []
    for each in fields_of(data, given.begin, given.end):
        if each.number != 1:
            continue
        if wire == LENGTH:
            _expect(each, LENGTH, f"{form}_list")
            made.append(_value(data, each, form))
            continue
        if each.wire != LENGTH:
            _expect(each, wire, f"{form}_list")
        made += [_number(value, form) for value in numbers_of(data, each, wire)]
    return made


def _value(data: bytes, given: Field, form: str) -> Any:
    content = data[given.begin:given.end]
    if form == "string":
        return content.decode("utf-8", "replace")
    return content if form == "bytes" else _number(given.value, form)


def _number(bits: int, form: str) -> float | int | bool:
    """Decode the number in the bits of a field."""
    if form == "bool":
        return bool(bits)
    if form in ("double", "float"):
        size, code = (8, "<d") if form == "double" else (4, "<f")
        return float(struct.unpack(code, bits.to_bytes(size, "little"))[0])
    width = 32 if form.endswith("32") else 64
    if form.startswith("sint"):
        return zigzag(bits)
    if form.startswith(("int", "sfixed")):
        return signed(bits, width)
    return bits & ((1 << width) - 1)


# --- JSON ----------------------------------------------------------------------------------

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
            raise TraceProblemsError([json_problem(error, text)], path) from error
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
