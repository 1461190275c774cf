"""The wire format of protocol buffers: the fields of a message, without their meaning.

A field is a key, ``number << 3 | wire type``, and a value. No schema is compiled, so files of any
version can be read as far as they can be understood.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

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
