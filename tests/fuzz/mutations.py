"""Strategies for damaged files: valid ones whose bytes, words or values are changed."""

from __future__ import annotations

import copy
import datetime
import re
import zlib
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

__all__ = ["bombs", "changed", "damaged", "odd_numbers", "odd_texts", "odd_values"]

#: Sizes are small, and allowed, or far beyond what any computer holds, and are to be refused.
#: What lies between is for readers of files, which limit it: `_COUNTS`.
_WHOLE = [0, 1, 2, 3, 5, 8, 16, -1, -7, 10**9, 10**12, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64,
          10**30, -2**63, -10**30, 10**400]
_REAL = [0.0, -0.0, 0.5, 1.5, -1.0, 0.1, 1e-9, 1e-18, 1e-300, 5e-324, 1e9, 1e18, 1e300, 1e308,
         -1e308, float("inf"), float("-inf"), float("nan")]
_TEXT = ["", " ", "x", "0", "1", "-1", "1e308", "1e400", "nan", "inf", "true", "True", "None",
         "null", "10Gbps", "1bps", "1e-300bps", "1e308Gbps", "0B", "250MB", "1e308PB", "10ms",
         "0s", "1e-320s", "1e300d", "1µs", "10 MB", "10Gb", "٣", "1_0", "0x10", "٣Gbps", "é", "𝟙",
         "\u0000", "a\u0000b", "\ufeff", "\r", "\n", "\t", "\u2028", "\x1b[31m", "\u202e", "%s%n",
         "{0}", "a" * 5000, "9" * 5000, ".", "..", "../x", "/", "/dev/null", "a/b", "~", "CON",
         ":", "a:", ":b", "a:b", "netsim:nothing", "netsim.workload:JobSpec", "math:inf",
         "json:loads", "sys:exit", "parrot", "maxmin", "aalo", "fifo", "sjf-bco", "a-srpt",
         "a-online", "spjf", "random-forest", "first-fit", "mapped", "rar-contention", "asrpt",
         "fabric", "big-switch", "fat-tree", "graph", "edge-servers", "edge-listed", "edge-jobs",
         "synthetic", "tiresias", "json", "recurrent", "ring-jobs", "ecmp", "parrot-60",
         "parrot-fig2", "big-switch-128-10g", "jobs", "coflows", "flows", "links", "decisions",
         "poisson", "diurnal", "parrot:theta_max=0.6", "aalo:queues=3", "aalo:thresholds=[]",
         "lccf:work_conservation=none", "parrot:x", "=", "a=b"]
_DATES = [datetime.date(1979, 5, 27), datetime.time(7, 32), datetime.datetime(1979, 5, 27, 7, 32)]
_COUNTS = [10**4, 10**5, 999_999, 10**6, 10**7, 10**8, 10**14]
_JUNK = [b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xc3", b"\xed\xa0\x80", b"\r\n", b"\r", b"\n",
         b"\n\n", b"\x1f\x8b\x08", b'"', b"'", b'"""', b",", b";", b"\t", b" ", b"[", b"]", b"{",
         b"}", b"[[", b"=", b":", b"#", b"\\", b"\\u0000", b"\\ud800", b"<", b">", b"&", b"&x;",
         b"<!--", b"]]>", b"/", b"%", b"-", b"e", b".", b"NaN", b"Infinity", b"[" * 3000,
         b"{\"a\":" * 3000, b"a = [" * 300, b"\xf0\x9f\x92\xa9", b"\x0b", b"\x0c", b"\x1a"]
_TOKEN = re.compile(rb"[\w.+-]+")


odd_numbers = st.sampled_from([*_WHOLE, *_REAL]) | st.integers(-3, 40) | st.floats()
odd_texts = st.sampled_from(_TEXT) | st.text(max_size=12)
_plain = odd_numbers | odd_texts | st.booleans() | st.none()
odd_values = _plain | st.sampled_from(_DATES) | st.recursive(
    _plain, lambda inner: (st.lists(inner, max_size=3)
                           | st.dictionaries(odd_texts, inner, max_size=3)), max_leaves=5)


@st.composite
def damaged(draw: DrawFn, data: bytes, *, counts: bool = True) -> bytes:
    """Draw a file that differs from a valid one in some bytes, words or lines, or is in pieces.

    It may have huge counts, unless a program may ask for such, as for a million generated jobs.
    """
    kinds = [*_DAMAGES, _huge_count] if counts else _DAMAGES
    for _ in range(draw(st.integers(1, 3))):
        data = draw(st.sampled_from(kinds))(draw, data)
    return data


def _span(draw: DrawFn, data: bytes, longest: int = 40) -> tuple[int, int]:
    first = draw(st.integers(0, len(data)))
    return first, min(len(data), first + draw(st.integers(0, longest)))


def _cut_off(draw: DrawFn, data: bytes) -> bytes:
    return data[:draw(st.integers(0, len(data)))]


def _without(draw: DrawFn, data: bytes) -> bytes:
    first, last = _span(draw, data)
    return data[:first] + data[last:]


def _twice(draw: DrawFn, data: bytes) -> bytes:
    first, last = _span(draw, data, 400)
    return data[:last] + data[first:]


def _with_junk(draw: DrawFn, data: bytes) -> bytes:
    at = draw(st.sampled_from([0, len(data)]) | st.integers(0, len(data)))
    return data[:at] + draw(st.sampled_from(_JUNK) | st.binary(max_size=4)) + data[at:]


def _other_word(draw: DrawFn, data: bytes) -> bytes:
    words = list(_TOKEN.finditer(data))
    if not words:
        return data
    word = draw(st.sampled_from(words))
    other = draw(st.sampled_from(words))[0] if draw(st.booleans()) else _written(
        draw(odd_numbers | odd_texts))
    return data[:word.start()] + other + data[word.end():]


def _written(value: object) -> bytes:
    try:
        return str(value).encode("utf-8", "surrogatepass")
    except ValueError:  # whole numbers of more digits than Python prints
        return b"1" * 5000


def _other_lines(draw: DrawFn, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at, to = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    match draw(st.sampled_from(["drop", "double", "move"])):
        case "drop":
            del lines[at]
        case "double":
            lines.insert(to, lines[at])
        case _:
            lines.insert(to, lines.pop(at))
    return b"".join(lines)


def _other_ends(draw: DrawFn, data: bytes) -> bytes:
    ends = [b"\r\n", b"\r", b"", b"\n\n", b"\n\r", b"\x0b"]
    return data.replace(b"\n", draw(st.sampled_from(ends)))


def _other_encoding(draw: DrawFn, data: bytes) -> bytes:
    name = draw(st.sampled_from(["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7", "cp037"]))
    return data.decode("latin-1").encode(name, "replace")


def _huge_count(draw: DrawFn, data: bytes) -> bytes:
    """Put a count that no memory holds, or that takes long, or a number of many digits."""
    numbers = list(re.finditer(rb"[0-9]+", data))
    if not numbers:
        return data
    number = draw(st.sampled_from(numbers))
    digits = draw(st.sampled_from([b"9", b"0", b"0.9", "\uff12".encode(), "\u0663".encode()]))
    other = draw(st.sampled_from([*(str(count).encode() for count in _COUNTS), b"1_000",
                                  digits * 50_000, digits * 50_000 + b"x", digits + b"e999"]))
    return data[:number.start()] + other + data[number.end():]


def _extra_cell(draw: DrawFn, data: bytes) -> bytes:
    """Add a cell to one line, or to all but the first, or to all."""
    lines = data.split(b"\n")
    first = draw(st.sampled_from([0, 1, draw(st.integers(0, len(lines) - 1))]))
    last = draw(st.sampled_from([first + 1, len(lines)]))
    cell = draw(st.sampled_from([b",", b",7", b",src", b" 7", b"\t", b";7"]))
    return b"\n".join(line + cell if line and first <= k < last else line
                      for k, line in enumerate(lines))


@st.composite
def bombs(draw: DrawFn, data: bytes) -> bytes:
    """Draw a gzip file that is much longer when it is unpacked than it is."""
    blank = draw(st.sampled_from([b" ", b"\0", b"[],", b"["])) * 2**20
    made = zlib.compressobj(1, zlib.DEFLATED, 31)
    parts = [made.compress(data[:-2])]
    parts += [made.compress(blank) for _ in range(draw(st.sampled_from([1, 8, 600])))]
    return b"".join([*parts, made.compress(data[-2:]), made.flush()])


_DAMAGES = [_cut_off, _without, _twice, _with_junk, _other_word, _other_word, _other_word,
            _other_lines, _other_lines, _other_ends, _other_encoding, _extra_cell]


@st.composite
def changed(draw: DrawFn, tree: Any, keys: Sequence[str] = (), values: Any = odd_values) -> Any:
    """Draw a document that differs from a valid one in some values or keys.

    Parameters
    ----------
    tree : dict or list
        Tables and lists of plain values.
    keys : sequence of str
        Keys that are added, or take the place of others.
    values : strategy
    """
    tree, values = copy.deepcopy(tree), values.map(copy.deepcopy)
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 4]))):
        places = [*_places(tree)]
        holders = [tree, *(holder[key] for holder, key in places
                           if isinstance(holder[key], dict | list))]
        kind = draw(st.sampled_from(["put", "put", "put", "drop", "copy", "swap", "add", "rename"]))
        if kind == "add" or not places:
            _add(draw(st.sampled_from(holders)), draw(_keys(keys)), draw(values))
            continue
        holder, key = draw(st.sampled_from(places))
        if kind == "put":
            holder[key] = draw(_like(holder[key]) | values)
        elif kind == "drop":
            del holder[key]
        elif kind == "rename" and isinstance(holder, dict):
            holder[draw(_keys(keys))] = holder.pop(key)
        elif kind == "copy":
            _add(draw(st.sampled_from(holders)), draw(_keys(keys)), copy.deepcopy(holder[key]))
        else:
            other, place = draw(st.sampled_from(places))
            # A copy, for one may hold the other.
            holder[key] = copy.deepcopy(other[place])
    return tree


def _like(value: object) -> st.SearchStrategy[Any]:
    """Return odd values of the same kind, which get farther than others."""
    if isinstance(value, str):
        return odd_texts
    return st.booleans() if isinstance(value, bool) else odd_numbers


def _keys(keys: Sequence[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(keys) | odd_texts if keys else odd_texts


def _add(holder: dict[str, Any] | list[Any], key: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[key] = value
    else:
        holder.append(value)


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Return where each value of a document is: what holds it, and under which key."""
    found: list[tuple[Any, Any]] = []
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(
        tree, list) else ()
    for key, value in entries:
        found += [(tree, key), *_places(value)]
    return found
