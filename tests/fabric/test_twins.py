"""The table of docs/validation.md that says to which readable version each kernel is held."""

import importlib
import re
from fnmatch import fnmatch
from functools import reduce
from pathlib import Path

import pytest

from netsim import reference
from netsim.fabric import kernels

ROOT = Path(kernels.__file__).parents[3]
TABLE = (ROOT / "docs" / "validation.md").read_text().partition(
    "## Each kernel beside a version to read")[2].partition("\n## ")[0]
#: Per row, the names in backticks of each column.
ROWS = [tuple(re.findall(r"`([^`]+)`", column) for column in row.split("|")[1:4])
        for row in re.findall(r"^\| `.*$", TABLE, re.MULTILINE)]


def public_kernels():
    """Functions in ``__all__`` of the modules of kernels, as ``module.name``."""
    for path in sorted(Path(kernels.__file__).parent.glob("[a-z]*.py")):
        module = importlib.import_module(f"{kernels.__name__}.{path.stem}")
        for name in module.__all__:
            kernel = getattr(module, name)
            if callable(kernel) and not isinstance(kernel, type):
                yield f"{path.stem}.{name}"


def test_each_kernel_is_held_to_something():
    patterns = [pattern for names, _, _ in ROWS for pattern in names]
    found = list(public_kernels())
    for kernel in found:
        assert any(fnmatch(kernel, pattern) for pattern in patterns), kernel
    for pattern in patterns:
        assert any(fnmatch(kernel, pattern) for kernel in found), pattern


@pytest.mark.parametrize(("names", "held_to", "by"), ROWS, ids=lambda names: names[0])
def test_a_row_names_a_test_that_mentions_its_twin(names, held_to, by):
    """There is such a reference, and a test that uses it."""
    (twin, *_), (test,) = held_to, by
    module, *path = twin.split(".")
    reduce(getattr, path, importlib.import_module(f"{reference.__name__}.{module}"))
    assert re.search(rf"\b{path[-1]}\(|\.{path[-1]}\b", (ROOT / test).read_text())
