"""Files that are written whole, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from netsim.errors import OutputError

__all__ = ["atomic_write"]


@contextmanager
def atomic_write(path: str | Path, *, folders: bool = False, named: str | Path | None = None
                 ) -> Iterator[Path]:
    """Give a temporary path whose file takes the place of `path` at the end, if all goes well.

    Parameters
    ----------
    path : path-like
    folders : bool
        Make the folders that are not there; they go again if the file is not written.
    named : path-like, optional
        What an error names; the path if not given.

    Raises
    ------
    OutputError
        If it cannot be written; nothing is left behind then.
    """
    target = Path(path)
    # It ends as the file does, by which some writers know what to write.
    temporary = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    made = [parent for parent in target.parents if not parent.exists()] if folders else []
    try:
        try:
            if folders:
                target.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            os.replace(temporary, target)
        finally:
            with suppress(OSError):  # where there is no folder, neither is there a file
                temporary.unlink(missing_ok=True)
            for parent in made:
                with suppress(OSError):  # it holds the file, if all went well
                    parent.rmdir()
    except (OSError, UnicodeEncodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"{named or path}: cannot be written: {reason}") from error
