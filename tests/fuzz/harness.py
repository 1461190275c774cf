"""What every fuzz test has: its share of the examples, a guard around each, and a count."""

from __future__ import annotations

import math
import os
import resource
import shutil
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from netsim.errors import NetsimError, NetsimWarning, SpecError, TraceError, causes_of
from tests.examples import examples

#: Of all readers together; a few where nobody asks for more, as in the gate.
EXAMPLES = int(os.environ.get("NETSIM_FUZZ", "0"))
_SMOKE = 400

#: Examples of one test: progress is told from test to test.
_PART = 500

#: What an example may take before it counts as a hang: seconds of the CPU, and how much memory
#: more than there is. Readers have no more than this; what runs or compiles has `LONG`.
_SECONDS, _BYTES, LONG = 20, 2 << 30, 300


def fuzzed(percent: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a test so many of all examples, in parts."""
    share = math.ceil((EXAMPLES or _SMOKE) * percent / 100)
    drawn = share if EXAMPLES else examples(share)
    parts = math.ceil(drawn / _PART)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        # Outside of `make fuzz` always the same examples: the gate is no lottery.
        test = settings(max_examples=math.ceil(drawn / parts), deadline=None,
                        derandomize=not EXAMPLES, suppress_health_check=list(HealthCheck))(test)
        return pytest.mark.parametrize("part", range(parts))(test)

    return decorate


class StuckError(BaseException):
    """An example has taken too long, or too much; no `except Exception` takes it for a refusal."""


class Guard:
    """Runs examples, and lets nothing pass but a result or an error of netsim's.

    Parameters
    ----------
    folder : Path
        Where each example has a folder of its own.
    seconds : int
        Seconds of the CPU that an example may take.

    Attributes
    ----------
    counts : Counter
        Of examples: accepted and refused.
    """

    def __init__(self, folder: Path, seconds: int = _SECONDS) -> None:
        self._folder, self._seconds = folder / "example", seconds
        self.counts: Counter[str] = Counter()

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Give an empty folder."""
        self._folder.mkdir()
        try:
            yield self._folder
        finally:
            shutil.rmtree(self._folder)

    def __call__(self, call: Callable[[], Any], named: str | Path = "",
                 whole: Path | None = None, seconds: int | None = None) -> Any:
        """Return what a call returns, or None if it refuses; then its error names something.

        Parameters
        ----------
        named : str or path
            What the error must name.
        whole : Path, optional
            A folder in which a call that refuses leaves everything as it was.
        seconds : int, optional
            Seconds of the CPU, in place of those of the guard.
        """
        before = _files(whole)
        try:
            with limited(seconds or self._seconds):
                result = call()
        except NetsimError as error:
            if _is_of_memory(error):
                raise StuckError(f"no answer within {_BYTES >> 30} GB") from error
            refused = error
        except MemoryError as error:
            raise StuckError(f"no answer within {_BYTES >> 30} GB") from error
        else:
            self.counts["accepted"] += 1
            return result
        self.counts["refused"] += 1
        assert str(refused).strip()
        assert str(named) in str(refused), f"{refused!r} does not say where"
        assert not isinstance(refused, TraceError) or refused.path is not None
        assert not isinstance(refused, SpecError) or refused.problems
        assert _files(whole) == before, "a refused call has left something behind"
        return None


def _is_of_memory(error: BaseException) -> bool:
    """Whether an error was made of a `MemoryError`, so that another computer would give another."""
    return any(isinstance(each, MemoryError) or "malloc of size" in str(each)
               for each in causes_of(error))


@contextmanager
def limited(seconds: int = LONG) -> Iterator[None]:
    """Bound the time and the memory of what runs here; warnings but netsim's are errors."""
    def stuck(*_: object) -> None:
        raise StuckError(f"no answer within {seconds} s of the CPU")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    previous = signal.signal(signal.SIGVTALRM, stuck)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    resource.setrlimit(resource.RLIMIT_AS, (held + _BYTES, hard))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", NetsimWarning)
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def _files(folder: Path | None) -> dict[str, bytes | None]:
    """Return what is in a folder: the contents of files by their paths."""
    if folder is None:
        return {}
    return {str(path): path.read_bytes() if path.is_file() else None
            for path in folder.rglob("*")}
