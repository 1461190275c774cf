"""Text that comes from files, made fit to be shown: nothing in it moves the cursor."""

from __future__ import annotations

__all__ = ["shortened", "visible"]

#: How many characters of a message are shown, and of longer ones how many of its end.
_MOST, _END = 2000, 400


def visible(text: object, *, lines: bool = False) -> str:
    r"""Return a text with all that is not printable escaped, as in ``repr``.

    A name may hold what a terminal takes for a command, such as to change its title, to go back
    and write over what stands there, or to change the direction of writing.

    Parameters
    ----------
    text : object
        Its string is shown.
    lines : bool
        Keep the ends of lines.

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


def shortened(text: str) -> str:
    """Return a text of at most 2,000 characters: the beginning and the end of a longer one.

    Examples
    --------
    >>> shortened("a" * 10_000)[1565:1615]
    'aaaaaa [... 8,029 characters ...] aaaaaaaaaaaaaaaa'
    """
    if len(text) <= _MOST:
        return text
    # As long as the note can be, for the number of characters that it replaces.
    room = _MOST - _END - len(f" [... {len(text):,} characters ...] ")
    note = f" [... {len(text) - room - _END:,} characters ...] "
    return text[:room] + note + text[-_END:]
