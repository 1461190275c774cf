"""One execution trace of Chakra, a ``.et`` file: the wire format of its messages, and its nodes.

In the wire format of protocol buffers, a field is a key, ``number << 3 | wire type``, and a value.
No schema is compiled, so files of any version can be read as far as they can be understood.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from netsim.base.brief import brief
from netsim.base.files import read_bytes
from netsim.errors import TraceError

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
    try:
        data = read_bytes(path)
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", path) from error
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
