"""Compilation of kernels with Numba, when they are first called, and caching on disk.

Numba is imported with the first kernel that is called: most commands, and most mistakes, need none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
from typing import Any


class Kernel:
    """A function that Numba compiles at its first call, in Python or in another kernel.

    It looks to Numba like the result of its own decorators; `make` makes its dispatcher.
    """

    def __init__(self, function: Callable[..., Any], make: Callable[[Callable[..., Any]], Any],
                 inline: str = "never") -> None:
        update_wrapper(self, function)
        self.py_func, self.targetoptions = function, {"inline": inline}
        self._make = make

    def __call__(self, *args: Any) -> Any:
        return self.dispatcher(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python looks for, but does not need
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = self.py_func.__qualname__
        made = Kernel, (self.py_func, self._make, self.targetoptions["inline"])
        return made if "<locals>" in name else name  # others can be imported

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher."""
        return self._make(self.py_func)


def compiled(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel when it is first called, and cache it on disk.

    Division by zero follows NumPy: x/0 is inf, and no exception is raised.
    """
    # Explicit, as a caller that does not count references would otherwise hand that down.
    return Kernel(kernel, partial(_compiled, _nrt=True))


def in_place(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel that makes no arrays, without counting references to its arguments.

    Counting would take longer than the loops of many kernels. It may call a kernel that is
    `compiled`, which counts references to the arrays that it makes, but take no arrays from it.
    """
    return Kernel(kernel, partial(_compiled, _nrt=False))


def addressed(kernel: Callable[..., Any]) -> Any:
    """Compile as `in_place` does a kernel that is called by its address; see `address_of`."""
    return Kernel(kernel, partial(_compiled, _nrt=False, no_cpython_wrapper=True))


def inlined(kernel: Callable[..., Any]) -> Any:
    """Compile a kernel only as part of its callers.

    For kernels with one caller, and for short ones: Numba compiles a called kernel again with each
    of its callers.
    """
    return Kernel(kernel, _inlined, "always")


def summing(kernel: Callable[..., Any]) -> Any:
    """Compile as `in_place` does, and allow sums in any order, so that loops can be vectorised."""
    return Kernel(kernel, partial(_compiled, _nrt=False, fastmath={"reassoc", "nsz", "contract"}))


def _compiled(kernel: Callable[..., Any], **options: Any) -> Any:
    from netsim.base.compiled_kernel import cached_kernel

    return cached_kernel(kernel, options)


def _inlined(kernel: Callable[..., Any]) -> Any:
    import numba

    numba_njit: Any = numba.njit  # whose type hints do not cover these arguments
    return numba_njit(error_model="numpy", inline="always")(kernel)


class Direct:
    """Calls a compiled kernel without Numba's check of the types of all arguments.

    For named tuples of arrays, this check takes longer than many kernels.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self._entries: dict[Any, Callable[..., Any]] = {}

    def __call__(self, kind: Any, *args: Any) -> Any:
        """Call the kernel with `args`, whose types the hashable label `kind` determines.

        All calls of a kind must have exactly the same types, whether float or int, and only
        contiguous arrays: nothing checks it.
        """
        entry = self._entries.get(kind)
        if entry is not None:
            return entry(*args)
        returned = self.kernel(*args)
        from numba import typeof

        self._entries[kind] = self.kernel.get_overload(tuple(map(typeof, args)))
        return returned
