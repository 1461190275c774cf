"""Make text for people: labels without modules, text from files escaped and of limited length."""

from __future__ import annotations

import re

__all__ = ["named", "said", "shortened", "toml_problem", "visible"]

#: A key of TOML with text that should be in quotes.
_UNQUOTED = re.compile(r"\s*([\w.-]+)\s*=\s*(?!true\b|false\b)"
                       r"""(\d[\d._]*)?([A-Za-z_/.][^"'#=]*)""")

#: The most characters of a message, and the characters of its end that are kept if it is longer.
_MOST, _END = 2000, 400


def visible(text: object, *, lines: bool = False) -> str:
    r"""Escape the characters of a text that are not printable, as ``repr`` does.

    Otherwise, a name could contain commands to the terminal, such as to change its title, to
    overwrite other text, or to change the direction of writing.

    Parameters
    ----------
    text : object
        The text, or an object that is converted to a string.
    lines : bool
        Whether to keep line ends.

    Examples
    --------
    >>> print(visible("\x1b]0;title\x07 of Zoë\n"))
    \x1b]0;title\x07 of Zoë\n
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(letter if letter.isprintable() or (lines and letter == "\n")
                   else letter.encode("unicode_escape").decode("ascii") for letter in shown)


def named(label: str) -> str:
    """Return a label without ``__main__:``, the module of classes of a script or a notebook.

    Matplotlib would leave a label that begins with an underscore out of a legend.

    Examples
    --------
    >>> named("fifo, __main__:Mine")
    'fifo, Mine'
    """
    return label.replace("__main__:", "")


def shortened(text: str) -> str:
    """Shorten a text to at most 2,000 characters, keeping its beginning and its end.

    Examples
    --------
    >>> shortened("a" * 10_000)[1565:1615]
    'aaaaaa [... 8,029 characters ...] aaaaaaaaaaaaaaaa'
    """
    if len(text) <= _MOST:
        return text
    # Computed with the longest possible note; the real number of characters may be shorter.
    room = _MOST - _END - len(f" [... {len(text):,} characters ...] ")
    note = f" [... {len(text) - room - _END:,} characters ...] "
    return text[:room] + note + text[-_END:]


def toml_problem(error: Exception, text: str) -> str:
    r"""Return what is wrong with a text that is not TOML, and what to write if quotes are missing.

    Parameters
    ----------
    error : Exception
        The parser's error.
    text : str

    Examples
    --------
    >>> toml_problem(ValueError("Invalid value (at line 2, column 13)"), "a = 1\nallocator = fifo")
    'is not TOML: Invalid value (at line 2, column 13); quote strings: allocator = "fifo"'
    """
    told = f"is not TOML: {error}"
    if (place := re.search(r"\(at line (\d+), column \d+\)", told)) is None:
        return told
    key = _UNQUOTED.match(text.split("\n")[int(place[1]) - 1])
    return told if key is None else (f'{told}; quote strings: {key[1]} = '
                                     f'"{key[2] or ""}{key[3].rstrip()}"')


def said(value: object) -> str:
    """Return the ``repr`` of a value; its type if that has several lines, as of a table.

    Examples
    --------
    >>> import pandas as pd
    >>> said("fifo"), said(pd.DataFrame({"job": [1]}))
    ("'fifo'", 'a DataFrame')
    """
    text = repr(value)
    return f"a {type(value).__name__}" if "\n" in text else text
