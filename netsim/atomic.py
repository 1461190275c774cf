"""Atomic writing of files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from netsim.errors import OutputError


@contextmanager
def atomic_write(path: str | Path, *, folders: bool = False, named: str | Path | None = None
                 ) -> Iterator[Path]:
    """Yield a temporary path whose file replaces `path` at the end, unless an error occurs.

    With `folders`, missing folders are made, and removed again if the file is not written. An
    `OutputError` names `named`, or else `path`; no partial file is left.
    """
    target = Path(path)
    # It has the suffix of the file, by which some writers choose the format.
    temporary = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    made = [parent for parent in target.parents if not parent.exists()] if folders else []
    try:
        try:
            if folders:
                target.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            os.replace(temporary, target)
        finally:
            with suppress(OSError):  # the folder may not exist
                temporary.unlink(missing_ok=True)
            for parent in made:
                with suppress(OSError):  # fails if the file was written, as the folder holds it
                    parent.rmdir()
    except (OSError, UnicodeEncodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"{named or path}: cannot be written: {reason}") from error
