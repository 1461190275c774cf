"""Download public traces that are not part of netsim, and keep copies of them."""

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

#: Limits of a download; they are many times what any of the traces needs.
_MOST_BYTES, _LONGEST_S = 100_000_000, 600.0

#: Timeout for the next bytes, and the number of bytes after which the limits are checked.
_WAIT_S, _CHUNK = 10.0, 64


@dataclass(frozen=True, slots=True)
class PublicTrace:
    """A published trace that `fetch` can download.

    Attributes
    ----------
    summary : str
        One-line description.
    url : str
        Address of the file; the last part is the file's name.
    licence : str
        The licence that its publisher states, or ``"not stated"``.
    sha256 : str
        Digest of the version that netsim is tested with.
    """

    summary: str
    url: str
    licence: str
    sha256: str

    @property
    def file(self) -> str:
        """The file's name."""
        return self.url.rpartition("/")[2]


#: The public traces, by the name of the format that reads them.
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
    """Download a public trace, unless an unchanged copy exists already.

    Parameters
    ----------
    name : str
        One of `PUBLIC_TRACES`.
    folder : path-like, optional
        Folder for the file; the user's cache if not given.
    source : str, optional
        A mirror: the URL of a folder that has a file of the same name.
    traces : mapping of str to PublicTrace
        The traces to choose from.

    Returns
    -------
    Path
        Absolute path of the file.

    Raises
    ------
    UnknownNameError
        If there is no such trace.
    FetchError
        If the trace cannot be downloaded, or its digest differs.
    OutputError
        If the file cannot be written, or a copy cannot be read. No partial file is left.
    MissingExtraError
        If pooch is needed but not installed.
    """
    if name not in traces:
        raise UnknownNameError("public trace", name, traces)
    trace = traces[name]
    target = Path(os.path.abspath(_cache() if folder is None else folder)) / trace.file
    if not _has_digest(target, trace.sha256):
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


def _has_digest(path: Path, sha256: str) -> bool:
    """Whether the file exists and has this digest."""
    try:
        return _digest(read_bytes(path)) == sha256
    except FileNotFoundError:
        return False
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _Received(io.BytesIO):
    """A buffer for a download that enforces its limits of size and time."""

    def __init__(self) -> None:
        super().__init__()
        self._began = time.monotonic()

    def write(self, data: Buffer, /) -> int:
        """Append the next bytes.

        Raises
        ------
        OSError
            If the download exceeds the limit of bytes or of time.
        """
        count = super().write(data)
        if self.tell() > _MOST_BYTES:
            raise OSError(f"received more than {_MOST_BYTES:,} bytes, which no public trace has")
        if time.monotonic() - self._began > _LONGEST_S:
            raise OSError(f"it took more than {_LONGEST_S:g} s, for {self.tell():,} bytes")
        return count


def _download(url: str, sha256: str) -> bytes:
    """Download a URL into memory, so that only checked bytes reach the disk."""
    received = _Received()
    try:
        _pooch().HTTPDownloader(chunk_size=_CHUNK, timeout=_WAIT_S)(url, received, None)
    except OSError as error:  # the exceptions of requests are subclasses of it
        raise FetchError(f"{url}: cannot be downloaded: {_reason(error)}") from error
    data = received.getvalue()
    if _digest(data) != sha256:
        raise FetchError(f"{url}: is not the expected file: the sha256 of the "
                         f"{len(data):,} bytes received is {_digest(data)}, not {sha256}")
    return data


def _reason(error: BaseException) -> str:
    """Describe a failed download for people: by the HTTP status, or by the root cause."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"the server says {response.status_code} {response.reason}"
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return str(getattr(error, "strerror", None) or error)


def _write(data: bytes, target: Path) -> None:
    with atomic_write(target, folders=True) as temporary:
        temporary.write_bytes(data)
