"""Make text for people: labels without modules, text from files escaped and of limited length."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

#: A key of TOML with text that should be in quotes.
_UNQUOTED = re.compile(r"\s*([\w.-]+)\s*=\s*(?!(?:true|false|inf|nan)\b)"
                       r"""(\d[\d._]*)?([A-Za-z_/.][^"'#=]*)""")

#: Such text in a list or in a table within braces.
_ENTRY = re.compile(r"""(?!(?:true|false|inf|nan)\b)[A-Za-z_/.][^"'#=,\[\]{}]*""")

#: The module of a class in the label of a policy.
_MODULE = re.compile(r"(?<![^\s=(])[^\W\d][\w.]*:(?=[^\W\d]\w*(?:[\s,)]|$))")

#: What Python would take for a number, or for none.
_NUMBER = re.compile(r"[\d.e_+-]*|nan|inf|none", re.IGNORECASE)

#: How other languages write what TOML writes in small letters.
_FLAGS = ("True", "TRUE", "False", "FALSE")

#: The most characters of a message, and the characters of its end that are kept if it is longer.
_MOST, _END = 2000, 400


def visible(text: object, *, lines: bool = False) -> str:
    """Escape the characters of a text that are not printable; with `lines`, all but line ends.

    Otherwise, a name could contain commands to the terminal, such as to change its title, to
    overwrite other text, or to change the direction of writing.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(letter if letter.isprintable() or (lines and letter == "\n")
                   else letter.encode("unicode_escape").decode("ascii") for letter in shown)


def named(label: str) -> str:
    """Remove ``__main__:``, the module of classes of a script or a notebook, from a label.

    Matplotlib would leave a label that begins with an underscore out of a legend.
    """
    return label.replace("__main__:", "")


def bare_names(labels: Iterable[str]) -> dict[str, str]:
    """Map labels of policies to those of figures and tables, in which classes have no module.

    A module stays where two labels would be the same without.
    """
    bare = {label: _MODULE.sub("", label) for label in labels}
    counts = Counter(bare.values())
    return {label: name if counts[name] == 1 else label for label, name in bare.items()}


def shortened(text: str) -> str:
    """Shorten a text to at most 2,000 characters, keeping its beginning and its end."""
    if len(text) <= _MOST:
        return text
    # Computed with the longest possible note; the real number of characters may be shorter.
    room = _MOST - _END - len(f" [... {len(text):,} characters ...] ")
    note = f" [... {len(text) - room - _END:,} characters ...] "
    return text[:room] + note + text[-_END:]


def toml_problem(error: Exception, text: str) -> str:
    r"""Say what is wrong with a text that is not TOML, and what to write if quotes are missing.

    >>> toml_problem(ValueError("Invalid value (at line 2, column 13)"), "a = 1\nallocator = fifo")
    'is not TOML: Invalid value (at line 2, column 13); quote strings: allocator = "fifo"'
    """
    told = f"is not TOML: {error}"
    if (place := re.search(r"\(at line (\d+), column (\d+)\)", told)) is None:
        return told
    line, column = text.split("\n")[int(place[1]) - 1], int(place[2])
    if (key := _UNQUOTED.match(line)) is not None:
        return told + _as_toml(f"{key[1]} = ", f"{key[2] or ''}{key[3].rstrip()}")
    number = re.search(r"[0-9.:_+-]*$", line[:column - 1])
    entry = _ENTRY.match(line, column - 1)
    # A list, or a table within braces, ends nowhere if a number has a unit.
    if entry is None or number is None or not (number[0] or "Invalid value" in told):
        return told
    return told + _as_toml("", f"{number[0]}{entry[0].rstrip()}")


def _as_toml(key: str, value: str) -> str:
    """Say how a value without quotes is written in TOML; nothing of what looks like a number."""
    if _NUMBER.fullmatch(value):
        return ""
    if value in _FLAGS:
        return f"; write {key}{value.lower()}"
    return f'; quote strings: {key}"{value}"'


def said(value: object) -> str:
    """The ``repr`` of a value, or its type if that has several lines, as of a table."""
    text = repr(value)
    return f"a {type(value).__name__}" if "\n" in text else text
