"""Digests of input files, so that an experiment reads the same contents again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from netsim.errors import InputError
from netsim.reading import read_bytes


def pinned(path: str | Path) -> dict[str, str]:
    """The keys that identify a file by its path and its digest."""
    digest = hashlib.sha256(read_bytes(path)).hexdigest()
    return {"file": os.path.abspath(path), "sha256": digest}


def check_digest(path: str | Path | None, sha256: str | None) -> None:
    """Check that there is a file with the expected digest, if one is given."""
    if sha256 is None:
        return
    if path is None:
        raise InputError("sha256 is for files, and no file is read")
    try:
        found = pinned(path)["sha256"]
    except OSError:
        return  # the reader reports the error
    if found != sha256:
        raise InputError(f"{path} has changed: its sha256 is {found}, "
                         f"not {sha256}")
