"""The tables of docs/developers/kernels.md: what holds a kernel, and what reaches each regime."""

import ast
import importlib
import re
from fnmatch import fnmatch
from functools import reduce
from pathlib import Path

from netsim.fabric import kernels
from tests import twins
from tests.offenders import assert_none, check_each

ROOT = Path(kernels.__file__).parents[3]


def rows_of(section):
    """Return the rows of a section's table: per column, what is in backticks."""
    page = (ROOT / "docs" / "developers" / "kernels.md").read_text()
    table = page.partition(f"## {section}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|.*$", table, re.MULTILINE)[2:]
    return [tuple(re.findall(r"`([^`]+)`", column) for column in row.split("|")[1:4])
            for row in rows]


def held():
    return rows_of("Each kernel beside a version to read")


def elsewhere():
    return rows_of("Kernels of other rooms")


def public_kernels():
    """Functions of the modules of kernels that others may call, as ``module.name``."""
    for path in sorted(Path(kernels.__file__).parent.glob("[a-z]*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                yield f"{path.stem}.{node.name}"


def test_each_kernel_is_held_to_something():
    patterns = [pattern for names, _, _ in held() for pattern in names]
    found = list(public_kernels())
    for kernel in found:
        assert any(fnmatch(kernel, pattern) for pattern in patterns), kernel
    for pattern in patterns:
        assert any(fnmatch(kernel, pattern) for kernel in found), pattern


def used_in(test):
    """Return what a test file uses of `tests.twins`, in full, and all attributes in it."""
    known, used, attributes = {}, set(), set()
    tree = ast.parse((ROOT / test).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}"
                      for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.add(known.get(node.id, ""))
        elif isinstance(node, ast.Attribute):
            attributes.add(node.attr)
            if isinstance(node.value, ast.Name):
                used.add(f"{known.get(node.value.id, '')}.{node.attr}")
    return used, attributes


def test_a_row_names_a_test_that_uses_its_twin():
    """There is such a twin, and the code of the test calls it or hands it on."""
    check_each(names_a_test, held(), lambda row: ", ".join(row[0]))


def names_a_test(row):
    _, held_to, by = row
    (twin, *_), (test,) = held_to, by
    module, *path = twin.split(".")
    reduce(getattr, path, importlib.import_module(f"{twins.__name__}.{module}"))
    used, attributes = used_in(test)
    assert f"{twins.__name__}.{module}.{path[0]}" in used
    assert attributes.issuperset(path[1:])  # what is of a class is asked of its instances


def test_rooms_with_other_kernels_are_listed():
    """Modules that compile functions of their own; those of the fabric are in the first table."""
    package = ROOT / "netsim"
    found = {path.relative_to(ROOT).as_posix() for path in package.rglob("*.py")
             if re.search(r"^from netsim\.base\.compiling import .*\b(compiled|in_place|inlined)\b",
                          path.read_text(), re.MULTILINE)}
    listed = {names[0] for names, _, _ in elsewhere()}
    assert listed | {"netsim/fabric/kernels/__init__.py"} == found
    for names, _, by in elsewhere():
        for name in names[1:]:
            assert f"def {name}(" in (ROOT / names[0]).read_text()
        for test in by:
            assert (ROOT / test).exists()


def test_other_rooms_name_a_test_that_uses_the_twin():
    assert_none(f"{held_to[0]}: none of {by}" for _, held_to, by in elsewhere()
                if "tests.twins" in held_to and not any(
                    f"{twins.__name__}.{held_to[0]}" in used_in(test)[0] for test in by))


def test_what_reaches_a_regime_is_a_test():
    assert_none(f"{test}: {name}" for _, _, (test, name) in rows_of("What reaches each regime")
                if f"def {name}(" not in (ROOT / test).read_text())
