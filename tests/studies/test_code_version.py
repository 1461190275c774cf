"""The version of the code in a run's key: what throws stored runs away, and what does not."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import netsim
from netsim.allocators.registry import ALLOCATORS
from netsim.base.plugins import Registry
from netsim.placements.registry import PLACEMENTS
from netsim.predictors.registry import PREDICTORS
from netsim.schedulers.registry import SCHEDULERS
from netsim.studies import code_version as versions
from netsim.studies.code_version import (
    RESULT_DATA,
    RESULT_PARTS,
    Module,
    code_version,
    digest_of_files,
    digest_of_source,
    homes_of,
    modules_of,
    own_modules,
    parse_module,
    result_modules,
)
from tests.offenders import check_each
from tests.pairs import but, few

PACKAGE = Path(netsim.__file__).parent

#: The parts that no result depends on; of the studies, all but the modules that do a single run.
OTHER_PARTS = {"__init__.py", "__main__.py", "gym.py", "scripting", "analysis", "plots",
               "reproductions", "testing", "cli", "studies"}

SOURCE = '''
"""What the module is for."""
LIMIT = 3

class Filler:
    """Shares capacity."""

    rate: float = 1.0
    """In bytes/s."""

    def fill(self, links):
        """Fill the links."""
        for link in links:  # in order
            if link > LIMIT:
                return link * 2
        return None
'''


# --- this package ----------------------------------------------------------------------


def test_the_package_is_parsed_once(tmp_path, monkeypatch) -> None:
    """What is found is kept by the bytes of the modules; what is damaged is made again."""
    parsed = []

    def modules(folder: Path) -> dict[str, Module]:
        parsed.append(folder)
        return {"stage.py": Module(f"{len(parsed)}", [], [], {}, {})}

    monkeypatch.setattr(versions, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(versions, "modules_in", modules)
    found = versions._modules.__wrapped__
    assert found() == found()
    assert parsed == [PACKAGE]
    (kept,) = (tmp_path / "cache").iterdir()
    for damaged in ("nonsense", "[]", '{"stage.py": [1]}'):
        kept.write_text(damaged)
        assert found() == found()
    assert len(parsed) == 4


def test_where_nothing_can_be_kept_the_package_is_parsed_each_time(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(versions, "cache_folder", lambda: tmp_path / "file" / "cache")
    monkeypatch.setattr(versions, "modules_in", lambda folder: {})
    assert versions._modules.__wrapped__() == {}


# --- one module ------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), [
    ("# in order", "# by number"), ("  # in order", ""), ("What the module", "All that it"),
    ('"""Shares capacity."""', '"""Shares."""'), ('        """Fill the links."""\n', ""),
    ('"""In bytes/s."""', "'In bits/s.'"), ("link * 2", "(link\n                        * 2)"),
    ("\nclass", "\n\n\nclass"), ("1.0", "1.00")])
def test_comments_docstrings_and_layout_do_not_count(old: str, new: str) -> None:
    assert old in SOURCE
    assert digest_of_source(SOURCE.replace(old, new).encode()) == digest_of_source(SOURCE.encode())


@pytest.mark.parametrize(("old", "new"), [
    ("LIMIT = 3", "LIMIT = 4"), ("LIMIT = 3", "LIMIT = 3.0"), ("rate: float = 1.0", "rate = 2.0"),
    ("link > LIMIT", "link >= LIMIT"), ("return None", "return 0"), ("for link in", "for one in"),
    ("class Filler", "class Filling"), ("LIMIT = 3", "LIMIT = 3\nLIMIT = 3")])
def test_constants_and_statements_count(old: str, new: str) -> None:
    assert old in SOURCE
    assert digest_of_source(SOURCE.replace(old, new).encode()) != digest_of_source(SOURCE.encode())


def test_a_string_that_is_a_value_counts() -> None:
    assert digest_of_source(b"def f():\n    return 'a'") != digest_of_source(
        b"def f():\n    return 'b'")


def test_what_is_no_source_counts_byte_by_byte() -> None:
    assert digest_of_source(b"\x7fELF\0one") != digest_of_source(b"\x7fELF\0two")


# --- the package -----------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Make a package with the parts of netsim, of one small module each."""
    for part in (*RESULT_PARTS, *OTHER_PARTS - {"studies"}):
        path = tmp_path / (part if part.endswith(".py") else f"{part}/inner/module.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SOURCE)
    (tmp_path / "studies" / "grid.py").write_text(SOURCE)
    (tmp_path / "models" / "catalogue.toml").write_text("# of papers\n[alexnet]\nbytes = 2.4e8\n")
    return tmp_path


def digest_of_package(folder: Path) -> str:
    """Hash what results depend on in a package, as the version of netsim's own code is."""
    return versions._digest_of({path: module.digest for path, module
                                in versions.modules_in(folder).items()}, folder)


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def _module_of(package: Path, part: str) -> Path:
    return package / (part if part.endswith(".py") else f"{part}/inner/module.py")


def test_of_a_part_that_results_depend_on_statements_count(package: Path) -> None:
    def counts(part: str) -> None:
        before = digest_of_package(package)
        _edit(_module_of(package, part), "# in order", "# by number")
        assert digest_of_package(package) == before
        _edit(_module_of(package, part), "LIMIT = 3", "LIMIT = 4")
        assert digest_of_package(package) != before

    check_each(counts, RESULT_PARTS)


def test_of_the_other_parts_nothing_counts(package: Path) -> None:
    before = digest_of_package(package)

    def counts_for_nothing(part: str) -> None:
        path = package / "studies" / "grid.py" if part == "studies" else _module_of(package, part)
        _edit(path, "LIMIT = 3", "LIMIT = 4")
        changed = digest_of_package(package)
        _edit(path, "LIMIT = 4", "LIMIT = 3")
        assert changed == before

    check_each(counts_for_nothing, sorted(OTHER_PARTS))


def test_numbers_of_the_catalogue_count_and_its_comments_do_not(package: Path) -> None:
    before = digest_of_package(package)
    _edit(package / RESULT_DATA[0], "# of papers", "# of three papers")
    assert digest_of_package(package) == before
    _edit(package / RESULT_DATA[0], "2.4e8", "2.5e8")
    assert digest_of_package(package) != before


def test_a_module_that_is_added_or_renamed_counts(package: Path) -> None:
    before = digest_of_package(package)
    (package / "fabric" / "inner" / "module.py").rename(package / "fabric" / "inner" / "other.py")
    assert digest_of_package(package) != before


# --- what a run can use ----------------------------------------------------------------

RULE = b"""
from netsim.allocators.first import Base
class Rule(Base): ...
"""
REGISTRY = b"""
KNOWN = Registry({"rule": "netsim.allocators.rule:Rule", "first": "netsim.allocators.first:First",
                  "other": "netsim.allocators.other:Other"},
                 aliases={"best": "rule"}, presets={"as-usual": {"name": "other", "k": 3}})
"""
SOURCES = {"fabric/view.py": b"x = 1", "allocators/registry.py": REGISTRY,
           "allocators/rule.py": RULE, "allocators/first.py": b"class Base: ...",
           "allocators/other.py": b"y = 2"}


@pytest.mark.parametrize(("text", "counted"), [
    ("", []), ("none:rule=3:k=2", ["first.py", "rule.py"]), ("best", ["first.py", "rule.py"]),
    ("rule:k=2", ["first.py", "rule.py"]), ("first", ["first.py"]), ("as-usual", ["other.py"])])
def test_policies_count_that_the_settings_name(text: str, counted: list[str]) -> None:
    """By name, alias or preset; with what they import."""
    every = {path: parse_module(source, "") for path, source in SOURCES.items()}
    assert modules_of([text], [], every) == {
        "fabric/view.py", "allocators/registry.py", *(f"allocators/{name}" for name in counted)}


@pytest.mark.parametrize("registry", [ALLOCATORS, SCHEDULERS, PLACEMENTS, PREDICTORS],
                         ids=lambda registry: registry.kind)
def test_the_module_of_every_policy_counts_by_its_name(registry: Registry) -> None:
    every = versions._modules()
    for name in registry:
        module = registry.resolve(name).__module__.removeprefix("netsim.").replace(".", "/")
        assert f"{module}.py" in modules_of([f"{name}:option=1"], [], every), name


def test_the_usual_choice_of_a_module_counts() -> None:
    """Its name is a text in a module that counts, but for the registry, which names all."""
    every = {path: parse_module(source, "") for path, source in
             {**SOURCES, "fabric/view.py": b'def f(policy="first"): ...'}.items()}
    assert "allocators/first.py" in modules_of([], [], every)
    assert "allocators/rule.py" not in modules_of([], [], every)


def test_the_class_of_an_object_counts_with_its_bases() -> None:
    every = versions._modules()
    assert "allocators/parrot.py" not in modules_of([], [], every)
    assert "allocators/parrot.py" in modules_of([], [netsim.allocators.parrot.Parrot], every)


SPECS = [{"network": "parrot-fig2", "workload": "parrot-fig2", "allocator": "parrot"},
         {"network": "parrot-fig2", "workload": "parrot-fig2", "allocator": "coflowsim-lcf"}]


@pytest.mark.parametrize("settings", few(SPECS, 1), ids=lambda settings: settings["allocator"])
def test_what_a_run_loads_of_policies_counts(settings: dict[str, str]) -> None:
    """In a process of its own, of which all loaded modules are known."""
    code = (f"import sys, netsim; netsim.simulate(**{settings!r}); "
            "print(*(name for name in sys.modules if name.startswith('netsim.')))")
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            check=True).stdout.split()
    every = versions._modules()
    policies = set().union(*homes_of(every).values())
    paths = {f"{name.removeprefix('netsim.').replace('.', '/')}.py" for name in loaded}
    assert paths & policies <= modules_of(settings.values(), [], every)


# --- netsim itself ---------------------------------------------------------------------

_PLACE = re.compile(r"netsim(?:\.\w+)*:\w+")


def _imports(path: Path) -> set[str]:
    """Return the names that a file imports, or gives as a place, ``"module:Class"``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(f"{node.module}{end}" for end in (
                "", *(f".{alias.name}" for alias in node.names)))
        elif (isinstance(node, ast.Constant) and isinstance(node.value, str)
              and _PLACE.fullmatch(node.value)):
            found.add(node.value.partition(":")[0])
    return found


def _path_of(module: str) -> Path | None:
    path = PACKAGE.parent / module.replace(".", "/")
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py")
                 if each.is_file()), None)


@pytest.mark.parametrize("root", but(["netsim.simulation.simulation", "netsim.studies.run"],
                                     "netsim.studies.run"))
def test_all_that_a_run_imports_counts(root: str) -> None:
    """From a call and from an experiment, lazy imports and policies by name included."""
    seen: set[Path] = set()
    waiting = [root]
    while waiting:
        path = _path_of(waiting.pop())
        if path is not None and path not in seen and path != PACKAGE / "__init__.py":
            seen.add(path)
            waiting += _imports(path)
    # A package that only says what a folder is for has no part in any result.
    seen -= {path for path in seen if path.parent.name == "studies" and path.stem == "__init__"}
    assert len(seen) > 200
    assert seen <= set(result_modules(PACKAGE))


def test_every_part_is_on_one_of_the_lists() -> None:
    parts = {path.name for path in PACKAGE.iterdir()
             if path.suffix == ".py" or (path.is_dir() and any(path.rglob("*.py")))}
    assert parts == OTHER_PARTS | {part for part in RESULT_PARTS if "/" not in part}
    assert all((PACKAGE / name).exists() for name in (*RESULT_PARTS, *RESULT_DATA))


def test_the_version_names_netsim_s_code_and_that_of_own_modules(tmp_path, monkeypatch) -> None:
    version, digest = code_version().split()
    assert (version, digest) == (netsim.__version__, digest_of_package(PACKAGE))
    assert own_modules(["netsim.allocators.first:LCCF", "__main__:Mine"]) == ()
    (tmp_path / "own_module_of_versions.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    __import__("own_module_of_versions")
    modules = own_modules("own_module_of_versions:Filler")
    assert modules == own_modules({"scheduler": {"name": "a-srpt", "predictor": [
        "own_module_of_versions:Filler:rate=2"]}, "transport": "fabric"})
    filler = sys.modules["own_module_of_versions"].Filler
    assert modules == own_modules([filler])
    assert modules == own_modules(netsim.JobSpec(0, pattern=filler(), ranks=2))
    assert code_version(*modules) == (
        f"{version} {digest} {digest_of_source(SOURCE.encode())}")


def test_files_that_differ_in_a_comment_are_one_version(tmp_path, monkeypatch) -> None:
    path = tmp_path / "edited_module_of_versions.py"
    path.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    __import__(path.stem)
    version, files = code_version(path.stem), digest_of_files(path.stem)
    assert files == digest_of_files(path.stem) != digest_of_files()
    path.write_text(SOURCE + "# a comment\n")
    assert code_version(path.stem) == version
    assert digest_of_files(path.stem) != files
