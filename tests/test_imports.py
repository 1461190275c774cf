"""Imports point one way, and the front door is light."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import netsim

PACKAGE = Path(netsim.__file__).parent

#: What each part may import of netsim, besides itself. Later parts may import earlier ones.
LAYERS = ["lazy", "brief", "watching", "text", "errors", "_version", "plain", "reading", "whole",
          "streams", "ties", "units", "checks", "compiling", "plugins", "parallel", "model",
          "history", "network", "fabric", "allocators", "jobs", "cluster", "edge", "experiments",
          "testing", "cli", "__main__"]
ONLY = {"traces": {"lazy", "brief", "errors", "plain", "reading", "whole", "units", "model",
                   "history", "parallel", "streams"},
        "analysis": {"lazy", "brief", "errors", "text", "whole", "units", "model", "network",
                     "traces", "fabric", "jobs", "experiments"},
        "allocators": {"lazy", "errors", "plain", "ties", "units", "checks", "plugins", "fabric"}}
#: Who may read traces; what they stand on must not.
READERS = {"analysis", "experiments", "testing", "cli", "__init__"}
SIMPY = {"cluster/engine.py", "cluster/timed.py", "edge/on_fabric/transport.py",
         "edge/on_fabric/wires.py", "experiments/events.py", "experiments/simulate.py",
         "experiments/simulate_cluster.py", "fabric/alarm.py", "fabric/fabric.py",
         "fabric/transfer.py", "jobs/process.py"}

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"
                 or path.parent != PACKAGE)


def imports(path):
    """The modules that a file imports, wherever in it the statement stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for module in imports(path):
        if not module.startswith("netsim."):
            continue
        other = module.split(".")[1]
        if other == part:
            continue
        if other == "traces":
            assert part in READERS, f"{part} must not import {module}"
        if part in ONLY:
            assert other in ONLY[part], f"{part} must not import {module}"
        elif other not in ("traces", "analysis"):
            assert LAYERS.index(other) < LAYERS.index(part), f"{part} must not import {module}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_the_engines_import_simpy(path):
    if any(module.split(".")[0] == "simpy" for module in imports(path)):
        assert path.relative_to(PACKAGE).as_posix() in SIMPY


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
    """Names of `__all__`, the modules, and what any module has; not what its own code imports."""
    listed = [name for name in dir(netsim) if not name.startswith("__")]
    modules = {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("_")}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert len(set(listed)) == len(listed)
    assert set(listed) == set(netsim.__all__) - {"__version__"} | modules | packages


PACKAGES = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: path.name)
def test_modules_are_loaded_when_they_are_first_used(folder, monkeypatch):
    """``netsim.analysis.links`` is there after ``import netsim``, whatever else was imported."""
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
                                  "analysis.curves.cdf_curves", "cluster.prediction.evaluate",
                                  "fabric.kernels.maxmin", "units.parse_rate"])
def test_parts_are_there_in_a_new_process(name):
    done = subprocess.run([sys.executable, "-c", f"import netsim; netsim.{name}"],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_modules_are_short():
    long = {path.name: count for path in PACKAGE.rglob("*.py")
            if (count := len(path.read_text().splitlines())) >= 700}
    assert long == {}
