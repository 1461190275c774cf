"""What tests of pictures share."""

from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def matplotlib() -> ModuleType:
    """Skip what draws where matplotlib is not installed; collecting tests does not load it."""
    for part in ("collections", "colors", "style", "text"):
        pytest.importorskip(f"matplotlib.{part}")
    return pytest.importorskip("matplotlib")
