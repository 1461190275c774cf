"""Policies as compiled rules, which the fabric asks inside its own event loop."""

from __future__ import annotations

import dis
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numba
from numba.core.dispatcher import Dispatcher

from netsim.checks import is_number
from netsim.errors import InputError, UnknownNameError
from netsim.fabric.allocation import Event, Information
from netsim.fabric.kernels import rules
from netsim.forking import same

__all__ = ["STRETCH", "Rule", "columns_in"]

#: What `Rule.stretch` may be, and what kernels call it.
STRETCH = {"none": rules.UNSTRETCHED, "all": rules.ALL, "others": rules.OTHERS}
_GIVES = ("flows", "order", "queues", "shares", "weights")
_LEFTOVER = ("greedy", "maxmin", "none")
_TIES = ("arrival", "job")

#: Columns that are sizes, and those of what a job has yet to send.
_SIZES = {"total", "remaining", "gamma", "alone", "longest", "active_gamma",
          "longest_gamma"}
_AHEAD = {"ahead_s"}

_COLUMNS = {*rules.COFLOWS.names, *rules.JOBS.names}  # type: ignore[misc]

#: Rules that have been compiled in this process, by function; and whether it was said that one
#: cannot be kept.
_COMPILED: dict[Callable[..., None], Any] = {}
_said = False


@dataclass(frozen=True)
class Rule:
    """A compiled rule, and how what it gives is put into force; see `netsim.compiled`.

    Parameters
    ----------
    function : callable
        ``function(coflows, jobs, now, order)``.
    gives, leftover, stretch, ties, rounding, reads, options, notes
        See `netsim.compiled`.
    information : Information
    wakes_on : Event
    """

    function: Callable[..., None]
    gives: str = "order"
    leftover: str = "none"
    stretch: str = "none"
    ties: str = "job"
    rounding: bool = False
    information: Information = "clairvoyant"
    wakes_on: Event = Event.COFLOW
    reads: frozenset[str] = frozenset()
    options: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, type] = field(default_factory=dict)
    queues: int = 0
    __deepcopy__ = same

    def __post_init__(self) -> None:
        for name, value, choices in (("gives", self.gives, _GIVES),
                                     ("leftover", self.leftover, _LEFTOVER),
                                     ("stretch", self.stretch, STRETCH),
                                     ("ties", self.ties, _TIES)):
            if value not in choices:
                raise UnknownNameError(name, value, choices)
        self._check_form()
        self._check_reads()
        for name, number in self.options.items():
            if not is_number(number):
                raise InputError(f"option {name} of {self.name} must be a number, not {number!r}: "
                                 "a compiled rule takes numbers only")

    def _check_form(self) -> None:
        if self.leftover != "none" and self.gives not in ("order", "queues"):
            raise InputError(f"{self.name}: leftover={self.leftover!r} is for rules that give an "
                             f"order or queues, not {self.gives}")
        if self.stretch != "none" and self.gives not in ("order", "shares"):
            raise InputError(f"{self.name}: stretch={self.stretch!r} is for rules that give an "
                             f"order or shares, not {self.gives}")
        if self.stretch != "none" and self.leftover != "none":
            raise InputError(f"{self.name}: stretch goes with leftover='none', as the bandwidth "
                             "that it leaves cannot be followed flow by flow")
        if (self.gives == "queues") != (self.queues > 0):
            raise InputError(f"{self.name}: queues must be how many there are at most if the rule "
                             f"gives queues, and else 0, not {self.queues!r}")

    def _check_reads(self) -> None:
        for name in sorted(self.reads - _COLUMNS):
            raise UnknownNameError("column", name, _COLUMNS)
        unseen = (self.reads & _AHEAD if self.information != "job-clairvoyant" else set()) | (
            self.reads & _SIZES if self.information == "agnostic" else set())
        for name in sorted(unseen):
            raise InputError(f"{self.name} reads {name!r}{self._line_of(name)}, but declares "
                             f"information={self.information!r}, by which it may not know that")

    # --- what it is ------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What errors call it."""
        return f"rule {self.function.__name__}"

    @property
    def in_step(self) -> bool:
        """Whether it keeps the flows of each coflow in step."""
        return self.gives == "shares" or (self.gives == "order" and self.leftover == "none")

    @property
    def place(self) -> str:
        """Where it is written."""
        code = self.function.__code__
        return f"{code.co_filename}, line {code.co_firstlineno}"

    def with_options(self, **values: float) -> Rule:
        """Return this rule with other values of its options.

        Raises
        ------
        UnknownNameError
            If it has no such option.
        """
        for name in values:
            if name not in self.options:
                raise UnknownNameError("option", name, self.options)
        return replace(self, options={**self.options, **values})

    # --- compilation -----------------------------------------------------------------

    @property
    def address(self) -> int:
        """Where its machine code is; it is compiled when that is first asked.

        Raises
        ------
        InputError
            If it cannot be compiled; the message says why, and names the line.
        """
        if self.function not in _COMPILED:
            _COMPILED[self.function] = self._compile()
        result = _COMPILED[self.function].get_compile_result(rules.SIGNATURE)
        return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))

    def _compile(self) -> Any:
        # Whatever it writes beyond its arrays is an error, not damage.
        made: Any = numba.njit(error_model="numpy", boundscheck=True)(self.function)
        try:
            made.enable_caching()
        except RuntimeError:  # it has no file, or no folder can be written to
            _say_that_it_is_not_kept(self.name)
        try:
            made.compile(rules.SIGNATURE.args)
        except Exception as error:
            raise InputError(f"{self.name} cannot be compiled: {self._why(error)}") from error
        [result] = made.overloads.values()
        if (returned := result.signature.return_type) != numba.types.none:
            raise InputError(f"{self.name} must return nothing, as it fills in its last argument, "
                             f"but returns {returned}")
        return made

    def _why(self, error: Exception) -> str:
        if isinstance(error, KeyError):
            name = str(error.args[0])
            return (f"there is no column {name!r}{self._line_of(name)}; choose from: "
                    + ", ".join(sorted(_COLUMNS)))
        return " ".join(str(error).split())

    def _line_of(self, name: str) -> str:
        """Return where the rule reads a column, if that can be seen, in brackets."""
        code = self.function.__code__
        for instruction in dis.get_instructions(code):
            if instruction.argval == name and instruction.positions is not None:
                return f" ({code.co_filename}, line {instruction.positions.lineno})"
        return ""


def _say_that_it_is_not_kept(name: str) -> None:
    global _said
    if not _said:
        _said = True
        warnings.warn(f"{name} is compiled anew in each process, as there is no file beside which "
                      "its machine code could be kept; so are others like it", stacklevel=2)


def columns_in(function: Callable[..., Any], seen: set[Any] | None = None) -> Iterator[str]:
    """Yield the columns that a function names, or a compiled function that it calls."""
    seen = set() if seen is None else seen
    if function in seen:
        return
    seen.add(function)
    for name in function.__code__.co_names:
        if name in _COLUMNS:
            yield name
        called = function.__globals__.get(name)
        if isinstance(called, Dispatcher):
            yield from columns_in(called.py_func, seen)
    for cell in function.__closure__ or ():
        if isinstance(cell.cell_contents, Dispatcher):
            yield from columns_in(cell.cell_contents.py_func, seen)
