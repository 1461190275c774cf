"""A disk that is full, and one that is read-only: an error that says so, and nothing is left."""

from __future__ import annotations

import builtins
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

COMMANDS = [
    ("run", "fig2.toml", "--out", "new"), ("run", "fig2.toml", "--out", "r"),
    ("run", "fig2.toml", "--out", "a/b/c", "--timeline"),
    ("compare", "fig2.toml", "--out", "new"), ("compare", "fig2.toml", "--out", "c"),
    ("sweep", "fig2.toml", "--seeds", "2", "--out", "new"), ("init", "new.toml"),
    ("trace", "convert", "parrot-fig2", "new.json"),
    ("plot", "r"), ("plot", "c", "--out", "new/a.svg"), ("report", "s"),
    ("topo", "show", "ring-8-100g", "--plot", "new.png"),
]


@contextmanager
def full_disk() -> Iterator[None]:
    """Allow no file to grow beyond a few bytes, whoever writes it.

    Bytecode is not written: older Pythons put what there is room for in its place, and every later
    process that imports the module fails.
    """
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def read_only_disk() -> Iterator[None]:
    """Let nothing be made or opened for writing; permissions would not keep root from it."""
    opened = builtins.open

    def read(file: object, mode: str = "r", *arguments: object, **options: object) -> object:
        if set(mode) & set("wax+"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(file))
        return opened(file, mode, *arguments, **options)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtins, "open", read)
        patch.setattr(io, "open", read)
        patch.setattr(os, "mkdir", refuse)
        yield


@pytest.fixture
def there(netsim: Callable[..., object]) -> None:
    """Make results of each kind."""
    netsim("run", "fig2.toml", "--out", "r")
    netsim("compare", "fig2.toml", "--out", "c")
    netsim("sweep", "fig2.toml", "--seeds", "2", "--out", "s")


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(("disk", "message"), [(full_disk, "File too large"),
                                               (read_only_disk, "Read-only file system")])
def test_nothing_is_left_and_what_was_there_stays(netsim, here: Path, disk, message) -> None:
    pytest.importorskip("matplotlib")
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    for command in COMMANDS:
        with disk():
            found = netsim(*command)
        assert found.exit_code == 2, command
        # Before it, a run says what it is about to replace.
        assert found.stderr.splitlines()[-1].startswith("error: "), command
        assert found.stderr.endswith(f"cannot be written: {message}\n"), command
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before
    assert {path.name for path in here.iterdir()} == {"fig2.toml", "r", "c", "s"}


@pytest.mark.usefixtures("there")
def test_a_sweep_that_fills_the_disk_keeps_its_runs(netsim, here: Path, monkeypatch) -> None:
    """What had ended is kept, and the same command goes on when there is room."""
    written = Path.write_bytes

    def write(self: Path, data: bytes) -> int:
        runs = len([path for path in (here / "s" / "runs").iterdir() if path.name[0] != "."])
        if runs == 4 and self.is_relative_to(here):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(self, data)

    command = ("sweep", "fig2.toml", "--seeds", "6", "--out", str(here / "s"))
    monkeypatch.setattr(Path, "write_bytes", write)
    found = netsim(*command)
    assert (found.exit_code, found.stderr) == (
        2, f"error: {here}/s: cannot be written: No space left on device\n")
    assert len(list((here / "s" / "runs").iterdir())) == 4
    monkeypatch.undo()
    assert netsim("sweep", str(here / "fig2.toml"), *command[2:]).exit_code == 0
    assert len(list((here / "s" / "runs").iterdir())) == 6
