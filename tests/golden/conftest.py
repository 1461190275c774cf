"""Worked cases: those under NETSIM_GOLDEN, and the project's own in `cases`."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("NETSIM_GOLDEN", HERE.parents[2] / "shared" / "golden"))


def cases(kind: str, pattern: str = "*.json") -> list[Path]:
    """Return the files of one kind, the project's own first."""
    return [*sorted((HERE / "cases" / kind).glob(pattern)), *sorted((SHARED / kind).glob(pattern))]


def pytest_generate_tests(metafunc):
    """Run a test that takes ``<kind>_case`` once per file; skip it where there is none.

    Of ``<kind>_<part>_case``, per file of the kind that has the part as its name, or else whose
    name begins with it; of
    ``bounded_case``, per file of the coflow policies that has lower bounds.
    """
    for name in metafunc.fixturenames:
        if name == "bounded_case":
            files = [path for path in cases("coflow") if '"bounds"' in path.read_text()]
            metafunc.parametrize(name, files, ids=lambda path: path.stem)
        elif name.endswith("_case"):
            kind, _, part = name.removesuffix("_case").partition("_")
            arrays = cases(kind, "*.npz") if kind == "maxmin" else []
            files = (part and cases(kind, f"{part}.json")) or cases(kind, f"{part}*.json") + arrays
            metafunc.parametrize(name, files, ids=lambda path: path.stem)
