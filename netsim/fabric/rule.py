"""Policies as compiled rules, which the fabric calls inside its own event loop."""

from __future__ import annotations

import dis
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import CodeType, ModuleType
from typing import Any, get_args

import numba
from numba.core import ir
from numba.core.compiler import run_frontend
from numba.core.dispatcher import Dispatcher
from numba.core.ir_utils import find_const, guard

from netsim.checks import is_number, is_whole
from netsim.compiled_kernel import quickly
from netsim.errors import InputError, UnknownNameError
from netsim.fabric.allocation import Event, Information, check_sees
from netsim.fabric.kernels import rules
from netsim.forking import same
from netsim.kernel_cache import KernelCache

__all__ = ["STRETCH", "Rule", "columns_in"]

#: What `Rule.stretch` may be, and what kernels call it.
STRETCH = {"none": rules.UNSTRETCHED, "all": rules.ALL, "others": rules.OTHERS}
_GIVES = ("flows", "order", "queues", "shares", "weights")
_LEFTOVER = ("greedy", "maxmin", "none")
_BY_SIZE = {"flows": "bytes left (it gives flows, which are served by them)",
            "shares": "LP rates (it gives shares of them)"}
_TIES = ("arrival", "job")

#: The information that a rule needs to read a column; others any rule may read.
_NEEDS: dict[str, Information] = {
    **dict.fromkeys(("total", "remaining", "gamma", "nominal_gamma", "longest", "active_gamma",
                     "longest_gamma"), "clairvoyant"),
    "predicted_s": "predicted", "ahead_s": "job-clairvoyant"}

#: Columns of the gammas of what is left, which the table brings up to date when it is asked to.
_GAMMAS = {"gamma", "active_gamma"}

_COLUMNS = {*rules.COFLOWS.names, *rules.JOBS.names}  # type: ignore[misc]

#: Rules that have been compiled in this process, by function; and whether it was said that one
#: cannot be kept.
_COMPILED: dict[Callable[..., None], Any] = {}
_said = False


@dataclass(frozen=True)
class Rule:
    """A compiled rule, and how its answer is applied; see `netsim.compiled`.

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
                                     ("ties", self.ties, _TIES),
                                     ("information", self.information, get_args(Information))):
            if value not in choices:
                raise UnknownNameError(name, value, choices)
        self._check_form()
        self._check_reads()
        for name, number in self.options.items():
            if not is_number(number) or number != number:
                raise InputError(f"option {name} of {self.name} must be a number, not {number!r}: "
                                 "a compiled rule takes numbers only")

    def _check_form(self) -> None:
        if self.leftover != "none" and self.gives not in ("order", "queues"):
            raise InputError(f"{self.name}: leftover={self.leftover!r} is for rules that give an "
                             f"order or queues, not {self.gives}")
        if self.gives in _BY_SIZE:
            check_sees(self.name, _BY_SIZE[self.gives], self.information, "clairvoyant")
        if self.stretch != "none" and self.gives not in ("order", "shares"):
            raise InputError(f"{self.name}: stretch={self.stretch!r} is for rules that give an "
                             f"order or shares, not {self.gives}")
        if self.stretch != "none" and self.leftover != "none":
            raise InputError(f"{self.name}: stretch goes with leftover='none', as the bandwidth "
                             "that it leaves cannot be followed flow by flow")
        if not is_whole(self.queues) or (self.gives == "queues") != (self.queues > 0):
            raise InputError(f"{self.name}: queues must be how many there are at most if the rule "
                             f"gives queues, and else 0, not {self.queues!r}")

    def _check_reads(self) -> None:
        for name in sorted(self.reads - _COLUMNS):
            raise UnknownNameError("column", name, _COLUMNS)
        for name in sorted(self.reads & _NEEDS.keys()):
            check_sees(self.name, f"{name!r}{self._line_of(name)}", self.information, _NEEDS[name])

    # --- what it is ------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the rule in error messages."""
        return f"rule {self.function.__name__}"

    @property
    def in_step(self) -> bool:
        """Whether the rule keeps the flows of each coflow in step."""
        return self.gives == "shares" or (self.gives == "order" and self.leftover == "none")

    @property
    def in_loop(self) -> bool:
        """Whether the event loop itself calls the rule when coflows come or go."""
        return self.gives in ("order", "queues", "shares")

    @property
    def needs_gammas(self) -> bool:
        """Whether gammas must be up to date, because the rule reads them or serves in step."""
        return self.in_step or not self.reads.isdisjoint(_GAMMAS)

    @property
    def place(self) -> str:
        """The file and line of the rule."""
        code = self.function.__code__
        return f"{code.co_filename}, line {code.co_firstlineno}"

    def with_options(self, **values: float) -> Rule:
        """Return this rule with other values of its options.

        Raises
        ------
        UnknownNameError
            If the rule has no such option.
        """
        for name in values:
            if name not in self.options:
                raise UnknownNameError("option", name, self.options)
        return replace(self, options={**self.options, **values})

    # --- compilation -----------------------------------------------------------------

    @property
    def address(self) -> int:
        """The address of the machine code; the rule is compiled at the first call.

        Raises
        ------
        InputError
            If it cannot be compiled, or reads a column that it declares not to know, whatever
            its `reads` say; the message says why, and names the line.
        """
        if self.function not in _COMPILED:
            _COMPILED[self.function] = self._compile()
        for name, place in _hidden_columns_in(self.function):
            check_sees(self.name, f"{name!r} ({place})", self.information, _NEEDS[name])
        result = _COMPILED[self.function].get_compile_result(rules.SIGNATURE)
        return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))

    def _compile(self) -> Any:
        # Whatever it writes beyond its arrays is an error, not damage.
        made: Any = numba.njit(error_model="numpy", boundscheck=True)(self.function)
        try:
            made._cache = KernelCache(self.function)
        except RuntimeError:  # it has no file, or no folder can be written to
            self._say_that_it_is_not_kept()
        try:
            quickly(made.compile, rules.SIGNATURE.args)
        except Exception as error:
            raise InputError(f"{self.name} cannot be compiled: {self._why(error)}") from error
        [result] = made.overloads.values()
        if (returned := result.signature.return_type) != numba.types.none:
            raise InputError(f"{self.name} must return nothing, as it fills in its last argument, "
                             f"but returns {returned}")
        self._refuse_writes()
        return made

    def _refuse_writes(self) -> None:
        """Refuse a rule that sets fields of rows; whole columns are read-only arrays already."""
        for function in _functions_in(self.function):
            for name, line in _fields_set_in(function):
                raise InputError(
                    f"{self.name} writes the column {name!r} ({function.__code__.co_filename}, "
                    f"line {line}), which it may only read: it fills in order")

    def _say_that_it_is_not_kept(self) -> None:
        global _said
        if not _said:
            _said = True
            code = self.function.__code__
            warnings.warn_explicit(
                f"{self.name} is compiled again in each process, as there is no file beside which "
                "its machine code can be cached; the same holds for other such rules",
                UserWarning, code.co_filename, code.co_firstlineno)

    def _why(self, error: Exception) -> str:
        if isinstance(error, KeyError):
            return self._no_column(str(error.args[0]))
        # Numba says where, and, in the first line that is not its own, what.
        said = re.sub(r"\x1b\[\d*m", "", str(error)).splitlines()
        lines = [line.strip() for line in said if line.strip()
                 and not line.startswith(("Failed in", "- ", "There are", ">>>"))]
        where = re.findall(r'File "(.+?)", line (\d+)', "\n".join(said))
        what = textwrap.shorten(lines[0] if lines else type(error).__name__, 200)
        if "Cannot modify readonly array" in "\n".join(said):
            what = "it writes columns of coflows or jobs, which it may only read: it fills in order"
        unknown = re.search(r"name '(\w+)' is not defined", what)
        if where:
            return f"{what} ({where[-1][0]}, line {where[-1][1]})"
        return what + (self._line_of(unknown[1] if unknown else "") or f" ({self.place})")

    def _no_column(self, name: str) -> str:
        for rows, others, other in ((rules.COFLOWS, rules.JOBS, "jobs"),
                                    (rules.JOBS, rules.COFLOWS, "coflows")):
            if name in (others.names or ()):
                return (f"{name!r}{self._line_of(name)} is a column of {other}, and the rows that "
                        f"it is read from have {', '.join(rows.names or ())}")
        return (f"there is no column {name!r}{self._line_of(name)}; choose from: "
                f"of coflows {', '.join(rules.COFLOWS.names or ())}; of jobs "
                + ", ".join(rules.JOBS.names or ()))

    def _line_of(self, name: str) -> str:
        """Return the line where the rule reads a column, in brackets; empty if not found."""
        code = self.function.__code__
        for instruction in dis.get_instructions(code):
            if instruction.argval == name and instruction.positions is not None:
                return f" ({code.co_filename}, line {instruction.positions.lineno})"
        return ""


def columns_in(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the columns named in a function or in compiled functions that it calls.

    Any name that is equal to the name of a column counts, since an extra column costs little.
    """
    for each in _functions_in(function):
        yield from _COLUMNS.intersection(_names_in(each.__code__))


def _functions_in(function: Callable[..., Any], seen: set[Any] | None = None
                  ) -> Iterator[Callable[..., Any]]:
    """Yield a function and all compiled functions that it calls, directly or not."""
    seen = set() if seen is None else seen
    if function in seen:
        return
    seen.add(function)
    yield function
    names = {*_names_in(function.__code__)}
    known = [function.__globals__.get(name) for name in names]
    known += [cell.cell_contents for cell in function.__closure__ or ()]
    known += [vars(module).get(name) for module in known if isinstance(module, ModuleType)
              for name in names]
    for called in known:
        if isinstance(called, Dispatcher):
            yield from _functions_in(called.py_func, seen)


def _fields_set_in(function: Callable[..., Any]) -> Iterator[tuple[str, int]]:
    """Yield the columns of which a function sets single fields, and the line of each."""
    code = run_frontend(function)
    for block in code.blocks.values():
        for found in block.find_insts((ir.SetAttr, ir.SetItem)):
            name = (found.attr if isinstance(found, ir.SetAttr)
                    else guard(find_const, code, found.index))
            if isinstance(name, str) and name in _COLUMNS:
                yield name, found.loc.line


@cache
def _hidden_columns_in(function: Callable[..., Any]) -> tuple[tuple[str, str], ...]:
    """Return columns that not every rule may read of which a function reads fields, with places.

    Columns are found however they are written, also if a constant has their name; fields of
    constants, such as ``math.gamma``, are none.
    """
    found = []
    for each in _functions_in(function):
        code = run_frontend(each)
        for block in code.blocks.values():
            for read in block.find_exprs():
                name = (read.attr if read.op == "getattr"
                        else guard(find_const, code, read.index) if read.op == "getitem"
                        else read.index if read.op == "static_getitem" else None)
                if (isinstance(name, str) and name in _NEEDS
                        and guard(find_const, code, read.value) is None):
                    found.append((name, f"{each.__code__.co_filename}, line {read.loc.line}"))
    return tuple(found)


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names and strings in a function's code and in nested code."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):
            yield from _names_in(constant)
