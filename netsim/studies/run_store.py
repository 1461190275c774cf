"""The stored runs of a sweep, each in its own folder, which is written completely or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from netsim.base.files import atomic_write, read_bytes, read_text
from netsim.errors import InputError, NetsimWarning, OutputError
from netsim.results.result import Result, load_result
from netsim.results.store import naming

#: The files of a run: name to contents.
Files = dict[str, bytes]

_INDEX, _SUMS = "sweep.json", "SHA256SUMS"

#: Tables of all runs, which would be wrong for another grid.
_TABLES = ("runs.csv", "means.csv", "ratios.csv", "failures.csv", "claims.csv")

#: The folder of a run, and of one that is being written.
_RUN = re.compile(r"[0-9a-f]{16}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.[0-9a-f]{8}")


def packed(result: Result) -> Files:
    """The files that `Result.save` writes, by name."""
    with tempfile.TemporaryDirectory(prefix="netsim-") as folder:
        result.save(Path(folder) / "run")
        return {path.name: read_bytes(path) for path in sorted((Path(folder) / "run").iterdir())}


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Describe where two experiments differ."""
    return "; ".join(_changed(name, one.get(name), other.get(name)) for name in {**one, **other}
                     if one.get(name) != other.get(name))


def _changed(name: str, was: Any, now: Any) -> str:
    """Describe the change of a setting; objects made in Python are known by their digest."""
    if _is_digest(was) and _is_digest(now):
        return f"the {name} that is given in Python is another one"
    if _is_named(was) and _is_named(now) and was[0] == now[0]:
        return f"what {name} {now[0]!r} holds has changed"
    before, after = ("one made in Python" if _is_digest(value) else
                     repr(value[0] if _is_named(value) else value) for value in (was, now))
    return f"{name} was {before}, and is {after}"


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _is_named(value: Any) -> bool:
    """Whether a value is the name of a network or a workload, with the digest of its file."""
    return isinstance(value, list) and len(value) == 2 and all(
        isinstance(each, str) for each in value)


class Scratch:
    """A temporary folder, removed when no reference to this object is left."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="netsim-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class RunStore:
    """A folder with the finished runs of a sweep.

    ``sweep.json`` describes the sweep. ``runs/<key>`` are the runs, with the digests of their files
    in ``SHA256SUMS``.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._runs = self.folder / "runs"

    @contextmanager
    def begun(self, index: Mapping[str, Any], resume: bool) -> Iterator[None]:
        """Create the folder, or continue an existing one, and lock it against other processes.

        `index` is the new contents of ``sweep.json``. If `resume`, stored runs are kept, and their
        ``experiment`` must be that of `index`; a warning tells of tables of another grid that are
        replaced. Raises `InputError` if the stored runs are of another experiment or another
        process uses the folder, `OutputError` if it cannot be written or holds anything else.
        """
        made = [path for path in (self._runs, *self._runs.parents) if not path.exists()]
        try:
            with naming(self.folder):
                self._check_same(index, resume)
                self._runs.mkdir(parents=True, exist_ok=True)
                with self._alone():
                    self._check_same(index, resume)
                    if resume:
                        self._tell_of_other_tables(index)
                    self._clear(resume)
                    self.write(_INDEX, json.dumps(index, indent=1) + "\n")
                    yield
        finally:
            for path in made:
                with suppress(OSError):  # not empty, if all went well
                    path.rmdir()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the folder of runs; the system releases the lock when the process ends."""
        lock = FileLock(self._runs / ".lock", blocking=False)
        try:
            lock.acquire()
        except Timeout:
            raise InputError(f"{self.folder}: another sweep is working on it; wait for its end, or "
                             "give another folder") from None
        try:
            yield
        finally:
            with suppress(OSError):  # Windows cannot remove open files
                os.unlink(lock.lock_file)
            lock.release()

    def _clear(self, resume: bool) -> None:
        """Remove unfinished runs and summary tables, and unless `resume`, all stored runs."""
        for path in [path for path in self._runs.iterdir() if path.is_dir()]:
            if _UNFINISHED.fullmatch(path.name) or (not resume and _RUN.fullmatch(path.name)):
                shutil.rmtree(path)
        for name in _TABLES:
            (self.folder / name).unlink(missing_ok=True)
        shutil.rmtree(self.folder / "failed", ignore_errors=True)

    def _check_same(self, index: Mapping[str, Any], resume: bool) -> None:
        if not (self.folder / _INDEX).is_file():
            there = self.folder.iterdir() if self.folder.exists() else ()
            if others := {path.name for path in there} - {self._runs.name}:
                raise OutputError(f"{self.folder}: holds something else than a sweep, "
                                  f"{min(others)!r}; give a new folder, or empty this one")
            return
        if not resume:
            return
        held = self.read_index()
        if held["experiment"] != index["experiment"]:
            raise InputError(f"{self.folder}: holds a sweep of another experiment: "
                             f"{_difference(held['experiment'], index['experiment'])}; give "
                             "another folder, or start afresh (--no-resume; resume=False in "
                             "Python), which removes its runs")

    def _tell_of_other_tables(self, index: Mapping[str, Any]) -> None:
        """Warn if tables that are replaced show more than those of the new index will."""
        tables = [name for name in _TABLES if (self.folder / name).is_file()]
        if not (tables and (self.folder / _INDEX).is_file()):
            return
        held, keys = self.read_index(), {run["key"] for run in index["runs"]}
        lost = sum(run["key"] not in keys for run in held["runs"])
        if lost or held.get("baseline") != index.get("baseline"):
            why = (f"{lost:,} of its {len(held['runs']):,} runs are not in this one, or code has "
                   "changed" if lost else f"its baseline was {held.get('baseline')!r}")
            warnings.warn(NetsimWarning(
                f"{self.folder}: holds another sweep: {why}. Its tables ({', '.join(tables)}) are "
                "replaced, its runs stay. Give another folder to keep both"), stacklevel=2)

    def take_over(self, keys: Iterable[str], folders: Iterable[str | Path]) -> None:
        """Copy missing runs from the folders of other sweeps."""
        held = {path.name: store for store in map(RunStore, folders)
                for path in store._runs.glob("*")}
        for key in keys:
            if key in held and self.summary(key) is None and held[key].summary(key) is not None:
                self.put(key, {path.name: read_bytes(path)
                               for path in sorted((held[key]._runs / key).iterdir())
                               if path.name != _SUMS})

    def read_index(self) -> dict[str, Any]:
        """Read and check ``sweep.json``, the index that `begun` was last called with.

        A file that is missing, unreadable or damaged is an `InputError`.
        """
        try:
            index: dict[str, Any] = json.loads(read_text(self.folder / _INDEX))
            if not isinstance(index["experiment"], dict) or not isinstance(index["code"], str):
                raise ValueError("experiment must be a table, and code a string")
            if not isinstance(index.get("baseline"), str | None):
                raise ValueError("baseline must be a string")
            for run in index["runs"]:
                for name in ("key", "seed", *index["columns"]):
                    run[name]
                if not _RUN.fullmatch(run["key"]):  # it names a folder
                    raise ValueError(f"{run['key']!r} is no key of a run")
        except FileNotFoundError:
            raise InputError(f"{self.folder}: not a sweep: it has no {_INDEX}") from None
        except OSError as error:
            raise InputError(f"{self.folder}: not a readable sweep: {_INDEX}: {error.strerror}"
                             ) from error
        except (ValueError, TypeError, LookupError) as error:
            raise InputError(f"{self.folder}: not a readable sweep: {_INDEX}: "
                             f"{type(error).__name__}: {error}") from error
        return index

    def other_runs(self, keys: Collection[str], columns: Sequence[str]) -> list[dict[str, Any]]:
        """List the runs of the index with the same columns that are not among some keys."""
        if not (self.folder / _INDEX).is_file():
            return []
        index = self.read_index()
        return [run for run in index["runs"]
                if index["columns"] == list(columns) and run["key"] not in keys]

    def write(self, name: str, text: str) -> None:
        """Write a file completely or not at all; `OutputError` if it cannot be written."""
        with atomic_write(self.folder / name, folders=True, named=self.folder) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def put(self, key: str, files: Files) -> None:
        """Store a run completely or not at all; `OutputError` if it cannot be written."""
        temporary = self._runs / f".{key}.{secrets.token_hex(4)}"
        with naming(self.folder):
            try:
                temporary.mkdir()
                for name, contents in files.items():
                    (temporary / name).write_bytes(contents)
                sums = [f"{hashlib.sha256(contents).hexdigest()}  {name}\n"
                        for name, contents in files.items()]
                (temporary / _SUMS).write_text("".join(sums), encoding="utf-8")
                shutil.rmtree(self._runs / key, ignore_errors=True)  # it is damaged, or not there
                temporary.rename(self._runs / key)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)

    def summary(self, key: str) -> dict[str, Any] | None:
        """Load the summary of a run; None if the run is missing or damaged."""
        folder = self._runs / key
        try:
            lines = read_text(folder / _SUMS).splitlines()
            files = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
            if any(Path(name).name != name
                   or hashlib.sha256(read_bytes(folder / name)).hexdigest() != digest
                   for name, digest in files.items()):
                return None
            stored: dict[str, Any] = json.loads(read_text(folder / "summary.json"))
        except (OSError, ValueError):
            return None
        return stored if "summary.json" in files else None

    def result(self, key: str) -> Result:
        """Load the result of a run; `InputError` if it is missing or cannot be read."""
        return load_result(self._runs / key)
