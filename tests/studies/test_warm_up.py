"""Allocators are compiled once, before runs need them."""

import os
import subprocess
import sys

import numba
import pytest
from click.testing import CliRunner

import netsim
from netsim.allocators import registry
from netsim.cli.main import main
from netsim.errors import MissingExtraError, UnknownNameError
from netsim.studies import warm_up as module
from netsim.studies.executors import Failure
from netsim.studies.tasks import CallTask, ExperimentTask
from tests.pairs import exhaustive


@pytest.fixture
def cold(tmp_path, monkeypatch):
    """Let nothing be compiled yet; the marks are in this folder."""
    monkeypatch.setattr(module, "cache_folder", lambda: tmp_path)
    return tmp_path


def test_what_is_warm_is_not_compiled_again(cold):
    assert netsim.warm_up(["maxmin", "fifo", "maxmin"], workers=1) == ["maxmin", "fifo"]
    assert {path.name.partition("-")[0] for path in cold.iterdir()} == {"maxmin", "fifo"}
    assert netsim.warm_up(["fifo", "sebf"], workers=1) == ["sebf"]


def test_another_numba_compiles_again(cold, monkeypatch):
    netsim.warm_up(["maxmin"])
    monkeypatch.setattr(numba, "__version__", "99.0")
    assert netsim.warm_up(["maxmin"]) == ["maxmin"]


def test_every_allocator_runs_the_small_case():
    for name in netsim.ALLOCATORS:
        CallTask({**module._SMALL, "allocator": name}).run()


def test_progress_counts_allocators(cold):
    told = []
    netsim.warm_up(["maxmin", "fifo"], workers=1, progress=lambda *each: told.append(each))
    assert told == [(1, 0, 2), (2, 0, 2)]


def test_unknown_names_list_the_choices(cold):
    with pytest.raises(UnknownNameError, match=r"sefb.*sebf"):
        netsim.warm_up(["sefb"])


@pytest.fixture
def without_scipy(monkeypatch):
    """Let SciPy not be installed."""
    monkeypatch.setattr(registry, "find_spec", lambda name: None)


def test_allocators_without_their_extra_are_passed_over(cold, without_scipy, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "compile_for", lambda names, *rest: asked.extend(names) or {})
    with pytest.warns(netsim.NetsimWarning, match=r"passed over lp-order: .*\[ilp\]"):
        assert netsim.warm_up() == []
    assert asked == [name for name in netsim.ALLOCATORS if name != "lp-order"]


def test_one_that_is_named_without_its_extra_is_refused_before_anything_compiles(
        cold, without_scipy):
    with pytest.raises(MissingExtraError, match=r"scipy is not installed.*\[ilp\]"):
        netsim.warm_up(["maxmin", "lp-order"])
    assert not list(cold.iterdir())


def test_a_comparison_is_refused_before_its_first_run(without_scipy, monkeypatch):
    monkeypatch.setattr(CallTask, "run", lambda *args, **more: pytest.fail("it runs"))
    with pytest.raises(MissingExtraError, match=r"scipy is not installed"):
        netsim.compare("parrot-fig2", "parrot-fig2", ["maxmin", "lp-order"])


def test_a_failure_is_told_and_not_marked(cold, monkeypatch):
    monkeypatch.setattr(module, "one_by_one", lambda tasks: [(0, Failure("no compiler"))])
    with pytest.raises(netsim.InputError, match="'maxmin' cannot be compiled: no compiler"):
        netsim.warm_up(["maxmin"], workers=1)
    assert not list(cold.iterdir())


@pytest.mark.parametrize(("task", "name"), [
    (CallTask({"allocator": "aalo:queues=3"}), "aalo"),
    (CallTask({"allocator": "varys"}), "varys"),
    (CallTask({"allocator": {"name": "aalo", "queues": 3}}), "aalo"),
    (CallTask({"allocator": object()}), None),
    (ExperimentTask({"allocator": {"name": "sebf"}}), "sebf"),
    (ExperimentTask({"allocator": {"name": "mine:Own"}}), None),
    (ExperimentTask({}), None)])
def test_the_allocator_of_a_run(task, name):
    assert module.allocator_of(task) == name


@exhaustive
def test_a_sweep_on_several_processes_compiles_before_they_start(cold, tmp_path):
    found = netsim.sweep("parrot-fig2", "parrot-fig2", allocator="maxmin", workers=2,
                         observe_interval=[0, "1s"], progress=False)
    assert len(found.table) == 2
    assert [path.name.partition("-")[0] for path in cold.iterdir()] == ["maxmin"]


def test_the_command(cold):
    """What a kernel is called with is compiled already; the marks are new."""
    done = [CliRunner().invoke(main, ["warm-up", "maxmin", "--workers", "1"]) for _ in range(2)]
    assert [each.exit_code for each in done] == [0, 0]
    assert done[0].stdout.startswith("compiled for maxmin, in ")
    assert done[1].stdout.startswith("everything was compiled already; kept in ")


@exhaustive
@pytest.mark.slow
def test_the_command_where_nothing_is_compiled(tmp_path):
    done = [subprocess.run([sys.executable, "-m", "netsim", "warm-up", "maxmin"], text=True,
                           capture_output=True, check=True,
                           env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}).stdout
            for _ in range(2)]
    assert done[0].startswith("compiled for maxmin, in ")
    assert done[1].startswith("everything was compiled already; kept in ")
    assert all(str(tmp_path) in each for each in done)
