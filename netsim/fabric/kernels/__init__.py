"""Compiled kernels. They are compiled when first called, and cached from then on."""

from __future__ import annotations

from numba import njit

__all__ = ["compiled"]

#: How every kernel is compiled. Division is NumPy's (x/0 is inf), without Python's check.
compiled = njit(cache=True, error_model="numpy")
