"""The worked cases that the golden tests run go through SimPy processes, too."""

from tests.golden.conftest import pytest_generate_tests

__all__ = ["pytest_generate_tests"]
