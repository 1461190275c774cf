"""Public traces that are not part of netsim: where they are, and a copy of them on this machine."""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from netsim.atomic import atomic_write
from netsim.errors import FetchError, MissingExtraError, OutputError, UnknownNameError
from netsim.reading import read_bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["PUBLIC_TRACES", "PublicTrace", "fetch"]

#: Of a download: many times as much as any of the traces takes.
_MOST_BYTES, _LONGEST_S = 100_000_000, 600.0

#: How long to wait for the next bytes, and how many are waited for before the limits are looked at.
_WAIT_S, _CHUNK = 10.0, 64


@dataclass(frozen=True, slots=True)
class PublicTrace:
    """A trace that others have published.

    Attributes
    ----------
    summary : str
        One line.
    url : str
        Where it is; the last part is the file's name.
    licence : str
        As its source states it, or ``"not stated"``.
    sha256 : str
        Of the file that netsim is tested with.
    """

    summary: str
    url: str
    licence: str
    sha256: str

    @property
    def file(self) -> str:
        """The file's name."""
        return self.url.rpartition("/")[2]


#: By the name of the format that reads them.
PUBLIC_TRACES: Mapping[str, PublicTrace] = {
    "coflow-benchmark": PublicTrace(
        "an hour of a MapReduce cluster at Facebook: 526 coflows on 150 ports",
        "https://raw.githubusercontent.com/coflow/coflow-benchmark/master/FB2010-1Hr-150-0.txt",
        "not stated", "cdd0d94d26c6ab10ce3634cf6a0f836859578e914de6b6faa980a245237dbc6e"),
    "tiresias": PublicTrace(
        "60 training jobs of a GPU cluster at Microsoft: the trace of the Parrot paper",
        "https://raw.githubusercontent.com/SymbioticLab/Tiresias/master/simulator/60_job.csv",
        "Apache-2.0", "17575949a6e570960db42bc5576739de9c334ed4c664859841c4f01ede38bd1b"),
}


def fetch(name: str, folder: str | Path | None = None, *, source: str | None = None,
          traces: Mapping[str, PublicTrace] = PUBLIC_TRACES) -> Path:
    """Return a public trace's file; it is downloaded unless it is there already, unchanged.

    Parameters
    ----------
    name : str
        One of `PUBLIC_TRACES`.
    folder : path-like, optional
        Where it is kept; the user's cache if not given.
    source : str, optional
        A mirror: the URL of a folder that has the file, by the same name.
    traces : mapping of str to PublicTrace
        What there is to choose from.

    Returns
    -------
    Path
        Absolute.

    Raises
    ------
    UnknownNameError
        If there is no such trace.
    FetchError
        If it cannot be downloaded, or its digest is another one.
    OutputError
        If it cannot be kept there. In no case is anything left behind.
    MissingExtraError
        If pooch is not installed, and needed.
    """
    if name not in traces:
        raise UnknownNameError("public trace", name, traces)
    trace = traces[name]
    target = Path(os.path.abspath(_cache() if folder is None else folder)) / trace.file
    if not _is_there(target, trace.sha256):
        url = trace.url if source is None else f"{source.rstrip('/')}/{trace.file}"
        _write(_download(url, trace.sha256), target)
    return target


def _pooch() -> ModuleType:
    try:
        import pooch
    except ImportError:
        raise MissingExtraError("pooch", "data") from None
    module: ModuleType = pooch
    return module


def _cache() -> Path:
    return Path(_pooch().os_cache("netsim"))


def _is_there(path: Path, sha256: str) -> bool:
    try:
        return _digest(read_bytes(path)) == sha256
    except FileNotFoundError:
        return False
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _Received(io.BytesIO):
    """What has been received of a download, up to the limits."""

    def __init__(self) -> None:
        super().__init__()
        self._began = time.monotonic()

    def write(self, data: Buffer, /) -> int:
        """Take the next bytes.

        Raises
        ------
        OSError
            If they are too many, or come too late.
        """
        count = super().write(data)
        if self.tell() > _MOST_BYTES:
            raise OSError(f"more than {_MOST_BYTES:,} bytes came, which no public trace has")
        if time.monotonic() - self._began > _LONGEST_S:
            raise OSError(f"it took more than {_LONGEST_S:g} s, for {self.tell():,} bytes")
        return count


def _download(url: str, sha256: str) -> bytes:
    """Return what is at a URL; into memory, so that nothing is on disk before it is checked."""
    received = _Received()
    try:
        _pooch().HTTPDownloader(chunk_size=_CHUNK, timeout=_WAIT_S)(url, received, None)
    except OSError as error:  # of which those of requests are
        raise FetchError(f"{url}: cannot be downloaded: {_reason(error)}") from error
    data = received.getvalue()
    if _digest(data) != sha256:
        raise FetchError(f"{url}: is not the file that netsim knows: the sha256 of the "
                         f"{len(data):,} bytes received is {_digest(data)}, not {sha256}")
    return data


def _reason(error: BaseException) -> str:
    """Return what a person makes something of: the status, or what is at the root of it all."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server says {response.status_code} {response.reason}"
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return str(getattr(error, "strerror", None) or error)


def _write(data: bytes, target: Path) -> None:
    with atomic_write(target, folders=True) as temporary:
        temporary.write_bytes(data)
