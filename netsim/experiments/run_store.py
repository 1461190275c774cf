"""The finished runs of a sweep, each in a folder of its own that is whole or not there."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from netsim.errors import InputError, OutputError
from netsim.experiments.result import Result
from netsim.experiments.store import load_result, naming, save_result

__all__ = ["Files", "RunStore", "Scratch", "packed"]

#: The files of a run: name to contents.
Files = dict[str, bytes]

_INDEX, _SUMS = "sweep.json", "SHA256SUMS"


def packed(result: Result) -> Files:
    """Return the files that `Result.save` writes."""
    with tempfile.TemporaryDirectory(prefix="netsim-") as folder:
        save_result(result, Path(folder) / "run")
        return {path.name: path.read_bytes() for path in sorted((Path(folder) / "run").iterdir())}


class Scratch:
    """A folder that is gone when nobody holds this any more.

    Attributes
    ----------
    path : Path
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="netsim-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class RunStore:
    """A folder with what a sweep has computed so far.

    In it, ``sweep.json`` says of which sweep, and ``runs/<key>`` are the runs, with the digests of
    their files in ``SHA256SUMS``.

    Parameters
    ----------
    folder : path-like
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._runs = self.folder / "runs"

    def begin(self, index: Mapping[str, Any], resume: bool) -> None:
        """Make the folder, or go on with what is there.

        Parameters
        ----------
        index : mapping
            What `read_index` is to return from now on; ``experiment`` and ``code`` in it must be
            those of what is there.
        resume : bool
            Whether to keep the runs that are there.

        Raises
        ------
        InputError
            If there are runs of another experiment, or of another version of the code.
        OutputError
            If it cannot be written, or holds something else.
        """
        with naming(self.folder):
            if self.folder.is_dir() and any(self.folder.iterdir()):
                self._check_same(index, resume)
            self._runs.mkdir(parents=True, exist_ok=True)
            for path in self._runs.glob(".*"):  # of runs that were killed while they were written
                shutil.rmtree(path)
            if not resume:
                for path in self._runs.iterdir():
                    shutil.rmtree(path)
        self.write("sweep.json", json.dumps(index, indent=1) + "\n")

    def _check_same(self, index: Mapping[str, Any], resume: bool) -> None:
        if not (self.folder / _INDEX).is_file():
            raise OutputError(f"{self.folder}: holds something else than a sweep; give a new "
                              "folder, or empty this one")
        if not resume:
            return
        there = self.read_index()
        for key, what in (("experiment", "another experiment"),
                          ("code", f"another version of netsim's code, {there['code']}, and this "
                                   f"is {index['code']}")):
            if there[key] != index[key]:
                raise InputError(f"{self.folder}: holds a sweep of {what}; give another folder, or "
                                 "start afresh (--no-resume), which removes its runs")

    def read_index(self) -> dict[str, Any]:
        """Return what `begin` was given last.

        Raises
        ------
        InputError
            If there is no sweep in the folder, or it is damaged.
        """
        try:
            index: dict[str, Any] = json.loads((self.folder / _INDEX).read_text(encoding="utf-8"))
            missing = {"experiment", "code", "columns", "runs"} - set(index)
        except FileNotFoundError:
            raise InputError(f"{self.folder}: not a sweep: it has no {_INDEX}") from None
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{self.folder}: not a readable sweep: {error}") from error
        if missing:
            raise InputError(f"{self.folder}: not a readable sweep: {_INDEX} has no "
                             f"{', '.join(sorted(missing))}")
        return index

    def write(self, name: str, text: str) -> None:
        """Write a file, whole or not at all.

        Raises
        ------
        OutputError
            If it cannot be written.
        """
        temporary = self.folder / f".{secrets.token_hex(4)}.{name}"
        with naming(self.folder):
            try:
                temporary.write_text(text, encoding="utf-8")
                os.replace(temporary, self.folder / name)
            finally:
                temporary.unlink(missing_ok=True)

    def put(self, key: str, files: Files) -> None:
        """Keep a run.

        Raises
        ------
        OutputError
            If it cannot be written.
        """
        temporary = self._runs / f".{key}.{secrets.token_hex(4)}"
        with naming(self.folder):
            try:
                temporary.mkdir()
                for name, contents in files.items():
                    (temporary / name).write_bytes(contents)
                sums = [f"{hashlib.sha256(contents).hexdigest()}  {name}\n"
                        for name, contents in files.items()]
                (temporary / _SUMS).write_text("".join(sums), encoding="utf-8")
                shutil.rmtree(self._runs / key, ignore_errors=True)  # damaged, if it is there
                temporary.rename(self._runs / key)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)

    def summary(self, key: str) -> dict[str, Any] | None:
        """Return the summary of a run; None if it is not there, or not as it was written."""
        folder = self._runs / key
        try:
            lines = (folder / _SUMS).read_text(encoding="utf-8").splitlines()
            files = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
            if any(hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest
                   for name, digest in files.items()):
                return None
            stored: dict[str, Any] = json.loads((folder / "summary.json").read_bytes())
        except (OSError, ValueError):
            return None
        return stored if "summary.json" in files else None

    def result(self, key: str) -> Result:
        """Return a run.

        Raises
        ------
        InputError
            If it is not there, or cannot be read.
        """
        return load_result(self._runs / key)
