"""Imports point one way, and the front door is light."""

import ast
import importlib
import pickle
import pkgutil
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import netsim
from tests.offenders import assert_none, check_each

PACKAGE = Path(netsim.__file__).parent

#: The rooms of the package, each a module or a folder. One may import what stands above it.
ROOMS = (
    "_version", "text", "errors", "base", "ties", "collectives", "models", "workload", "operations",
    "predictors", "llm", "network", "fabric", "allocators", "traces", "jobs", "cluster",
    "placements", "engine", "edge", "schedulers", "results", "simulation", "gym", "scripting",
    "analysis", "experiment_file", "studies", "plots", "reproductions", "testing", "cli",
    "__main__")

#: Policies decide; they know nothing of runs, of results or of other kinds of policies.
POLICIES = {"allocators", "placements", "predictors", "schedulers"}
UNKNOWN_TO_POLICIES = {"simulation", "results", *POLICIES}
MAY_ASK = {"schedulers": {"placements", "predictors"}, "allocators": {"predictors"}}

#: The one import that points down the list: `Result.plot` and its like find their backend by name.
LATE = {("netsim.base.display", "netsim.plots.pictures")}

#: Who runs on SimPy.
SIMPY = ("fabric", "jobs/process.py", "engine", "edge/on_fabric", "simulation", "scripting")

FILES = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"):
         path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = sorted(FILES.keys() - {"netsim"})

_PLACE = re.compile(r"netsim(?:(?:\.\w+)+(?::\w+)?|:\w+)")


def imports(path):
    """Yield the modules that a file imports, on any line, or names in a string.

    A name, with or without ``":Class"`` after it, is one that can be imported when it is used.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: modules are imported by their whole names"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in FILES else node.module
        elif (isinstance(node, ast.Constant) and isinstance(node.value, str)
              and _PLACE.fullmatch(node.value)):
            yield node.value.partition(":")[0]


@cache
def imported(name):
    """The modules that one of netsim's imports, wherever they are from."""
    return set(imports(FILES[name]))


@cache
def arrows():
    """The modules of netsim's that each imports."""
    return {name: sorted({other for other in imported(name)
                          if other in FILES and (name, other) not in LATE} - {name})
            for name in MODULES}


def room_of(module):
    return module.partition(".")[2].partition(".")[0]


def test_every_room_has_its_place():
    assert {room_of(name) for name in MODULES} == set(ROOMS)


def test_no_module_comes_in_through_the_front_door():
    assert_none(name for name, others in arrows().items() if "netsim" in others)


def test_imports_point_one_way():
    assert_none(f"{name} must not import {other}" for name, others in arrows().items()
                for other in others if other != "netsim"
                and ROOMS.index(room_of(other)) > ROOMS.index(room_of(name)))


def test_no_files_import_each_other_in_a_circle():
    try:
        TopologicalSorter(arrows()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def test_policies_only_decide():
    wrong = []
    for name in MODULES:
        if (room := room_of(name)) in POLICIES:
            unknown = UNKNOWN_TO_POLICIES - {room} - MAY_ASK.get(room, set())
            wrong += [f"{name} must not import {other}" for other in arrows()[name]
                      if room_of(other) in unknown]
    assert_none(wrong)


def test_late_imports_that_are_allowed_exist():
    assert_none(arrow for arrow in sorted(LATE) if arrow[1] not in imported(arrow[0]))


def test_only_engines_import_simpy():
    using = [FILES[name].relative_to(PACKAGE).as_posix() for name in MODULES
             if name != "netsim.base.lazy"
             and ("simpy" in {module.split(".")[0] for module in imported(name)}
                  or "base.lazy import simpy" in FILES[name].read_text(encoding="utf-8"))]
    assert_none(path for path in using if not path.startswith(SIMPY))


def test_the_front_door_is_light():
    """``import netsim`` loads nothing heavy and compiles nothing."""
    code = ("import sys, netsim; heavy = {'numba', 'pandas', 'networkx', 'pydantic', 'simpy'};"
            "print(sorted(heavy & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there():
    for name in netsim.__all__:
        assert getattr(netsim, name) is not None
    assert set(netsim.__all__) <= set(dir(netsim))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = netsim.nothing


def test_the_front_door_lists_what_is_public_once():
    """Names of `__all__`, and the modules that the API reference has names of."""
    listed = [name for name in dir(netsim) if not name.startswith("__")]
    pages = "".join(path.read_text(encoding="utf-8")
                    for path in (PACKAGE.parent / "docs" / "api").glob("*.md"))
    modules = {*re.findall(r"\bnetsim\.([a-z_]+)\.\w", pages), "allocators"}
    assert len(set(listed)) == len(listed)
    assert set(listed) == set(netsim.__all__) - {"__version__"} | modules


PACKAGES = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))


def test_modules_are_loaded_when_they_are_first_used(monkeypatch):
    """``netsim.analysis.links`` is there after ``import netsim``, whatever else was imported."""
    check_each(lambda folder: _loads_when_used(folder, monkeypatch), PACKAGES)


def _loads_when_used(folder, monkeypatch):
    package = importlib.import_module(".".join(folder.relative_to(PACKAGE.parent).parts))
    for _, name, _ in pkgutil.iter_modules([str(folder)]):
        module = importlib.import_module(f"{package.__name__}.{name}")
        if name.startswith("_") or name in getattr(package, "__all__", ()):
            continue
        monkeypatch.delattr(package, name)
        assert getattr(package, name) is module
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing
    with pytest.raises(AttributeError, match="has no attribute '__wrapped__'"):
        _ = package.__wrapped__


@pytest.mark.parametrize("name", ["traces.fetch", "testing.check_allocator", "errors.InputError",
                                  "plots.curves.cdf_curves", "predictors.evaluate",
                                  "fabric.kernels.blocks", "base.units.parse_rate"])
def test_parts_are_there_in_a_new_process(name):
    done = subprocess.run([sys.executable, "-c", f"import netsim; netsim.{name}"],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_modules_are_short():
    long = {path.name: count for path in PACKAGE.rglob("*.py")
            if (count := len(path.read_text().splitlines())) >= 700}
    assert long == {}


def test_packages_and_late_libraries_are_sent_by_name():
    """A policy of a notebook refers to them, and is sent to other processes."""
    for module in (netsim, netsim.network, importlib.import_module("netsim.base.lazy").pd):
        assert pickle.loads(pickle.dumps(module)).__name__ == module.__name__


def test_functions_win_over_modules_of_their_name():
    """In whatever order they are imported."""
    code = ("import netsim.network.nccl, netsim.studies.sweep, netsim.traces.generators;"
            "print(all(map(callable, (netsim.network.nccl, netsim.sweep, netsim.network.htsim,"
            " netsim.traces.synthetic))))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
