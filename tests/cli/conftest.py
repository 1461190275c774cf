"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from netsim.cli.main import main

FIG2 = """\
observe_interval = "100ms"
[network]
name = "parrot-fig2"
[workload]
name = "parrot-fig2"
[compare]
allocators = ["parrot", "lccf:work_conservation=none"]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to an empty folder but for an experiment, ``fig2.toml``, of the Parrot example."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fig2.toml").write_text(FIG2)
    return tmp_path


@pytest.fixture
def netsim(here: Path) -> Callable[..., Result]:
    """Return a function that runs the command in that folder; no exception may get out."""

    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(main, arguments, prog_name="netsim")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def refused(netsim: Callable[..., Result], here: Path) -> Callable[..., str]:
    """Return a function that runs a command that must be refused: its message.

    The exit code is 2, nothing but the message is printed, and nothing is written.
    """

    def run(*arguments: str) -> str:
        before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
        result = netsim(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before
        assert result.stderr.startswith("error: ")
        return result.stderr.removeprefix("error: ")

    return run
