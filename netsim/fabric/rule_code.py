"""Compilation of policies' rules by Numba, and what their code shows of them."""

from __future__ import annotations

import dis
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import FunctionType
from typing import Any, NoReturn

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from netsim.base.compiling import cached, compiling, enabled
from netsim.base.values import same
from netsim.errors import InputError
from netsim.fabric.allocation import check_sees
from netsim.fabric.kernels.rules import COFLOWS, JOBS, RuleOutput
from netsim.fabric.rule import COLUMNS, NEEDS, Rule, functions_in
from netsim.fabric.rule_key import key_of

_READ_ONLY = [types.Array(numba.from_dtype(rows), 1, "C", readonly=True)
              for rows in (COFLOWS, JOBS)]

_OUTPUT: Any = {**dict.fromkeys(RuleOutput._fields, np.empty(0)), "queue": np.empty(0, np.int64)}

#: What a rule takes: coflows, jobs, now, order.
_TAKES = (*_READ_ONLY, types.float64, numba.typeof(RuleOutput(**_OUTPUT)))

#: Of what kernels call in place of a rule.
SIGNATURE = types.int64(*_TAKES)


def rule(coflows: Any, jobs: Any, now: float, order: Any) -> None:
    """Stand for the rule, which is a global of the copies of `_call`."""


def _call(coflows: Any, jobs: Any, now: float, order: Any) -> int:
    """Call the rule that is a global of a copy; return 1 if it raises an exception, else 0."""
    try:
        rule(coflows, jobs, now, order)
    except Exception:
        return 1
    return 0


class CompiledRule(types.WrapperAddressProtocol):
    """A rule as kernels take it: Numba calls its machine code by its address."""

    __deepcopy__ = same

    def __init__(self, rule: Rule) -> None:
        _refuse_writes(rule)
        self._rule, self._key = rule, key_of(rule.function)
        #: What Python calls; what is written beyond an array is an error, not damage.
        self.function = _njit(rule.function)
        self._call = FunctionType(_call.__code__, {"rule": self.function}, _call.__name__)
        self._call.__module__, self._call.__qualname__ = __name__, f"rule-{self._key}"
        if enabled():
            self._address = self._compile()

    def __call__(self, *args: Any) -> int:
        """Do the same as `_call` in Python, and refuse results, as the compiler does."""
        try:
            returned = self.call(*args)
        except Exception:
            return 1
        if returned is not None:
            _refuse_result(self._rule, type(returned).__name__)
        return 0

    def call(self, coflows: NDArray[Any], jobs: NDArray[Any], now: float, order: RuleOutput) -> Any:
        """Call the rule from Python, with rows that it cannot write."""
        # Of a record array, columns can be read as attributes, as in compiled code.
        rows = [each.view(np.ndarray if enabled() else np.recarray) for each in (coflows, jobs)]
        for each in rows:
            each.flags.writeable = False
        return self.function(*rows, now, order)

    def __wrapper_address__(self) -> int:
        return self._address

    def signature(self) -> Any:
        """As Numba asks for it."""
        return SIGNATURE

    def _compile(self) -> int:
        with compiling(self._call) as stored:
            if not stored:
                self._compile_function()
            made = (_cfunc(SIGNATURE, self._call) if self._key is None
                    else cached(self._call, partial(_cfunc, SIGNATURE)))
        return int(made.address)

    def _compile_function(self) -> None:
        rule = self._rule
        try:
            self.function.compile(_TAKES)
        except Exception as error:
            raise InputError(f"{rule.name} cannot be compiled: {_why(rule, error)}") from error
        [result] = self.function.overloads.values()
        if (returned := result.signature.return_type) != types.none:
            _refuse_result(rule, returned)


def _njit(function: Callable[..., Any]) -> Any:
    decorator: Any = numba.njit  # whose type hints do not cover all options
    return decorator(error_model="numpy", boundscheck=True, no_cfunc_wrapper=True)(function)


def _cfunc(signature: Any, function: Callable[..., Any], **options: Any) -> Any:
    decorator: Any = numba.cfunc  # as above
    return decorator(signature, error_model="numpy", **options)(function)


_COMPILED: dict[Callable[..., None], CompiledRule] = {}


def compiled_rule(rule: Rule) -> CompiledRule:
    """Return the compiled form of a rule; it is compiled at the first call.

    An `InputError` says why, and names the line, if the rule cannot be compiled, or reads a column
    that it declares not to know, whatever its `reads` say.
    """
    for name, place in _hidden_columns_in(rule.function):
        check_sees(rule.name, f"{name!r} ({place})", rule.information, NEEDS[name])
    if rule.function not in _COMPILED:
        _COMPILED[rule.function] = CompiledRule(rule)
    return _COMPILED[rule.function]


def _refuse_writes(rule: Rule) -> None:
    """Refuse a rule that sets fields of rows; whole columns are read-only arrays already."""
    for function in functions_in(rule.function):
        for name, line in _fields_set_in(function):
            raise InputError(
                f"{rule.name} writes the column {name!r} ({function.__code__.co_filename}, "
                f"line {line}), which it may only read: it fills in order")


def _refuse_result(rule: Rule, returned: Any) -> NoReturn:
    raise InputError(f"{rule.name} must return nothing, as it fills in its last argument, "
                     f"but returns {returned}")


def _why(rule: Rule, error: Exception) -> str:
    if isinstance(error, KeyError):
        return _no_column(rule, str(error.args[0]))
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
    return what + (rule.line_of(unknown[1] if unknown else "") or f" ({rule.place})")


def _no_column(rule: Rule, name: str) -> str:
    for rows, others, other in ((COFLOWS, JOBS, "jobs"),
                                (JOBS, COFLOWS, "coflows")):
        if name in (others.names or ()):
            return (f"{name!r}{rule.line_of(name)} is a column of {other}, and the rows that "
                    f"it is read from have {', '.join(rows.names or ())}")
    return (f"there is no column {name!r}{rule.line_of(name)}; choose from: "
            f"of coflows {', '.join(COFLOWS.names or ())}; of jobs "
            + ", ".join(JOBS.names or ()))


def _fields_set_in(function: Callable[..., Any]) -> Iterator[tuple[str, int]]:
    """Yield the columns of which a function sets single fields, and the line of each."""
    for name, line, writes in _columns_used_in(function):
        if writes:
            yield name, line


@cache
def _hidden_columns_in(function: Callable[..., Any]) -> tuple[tuple[str, str], ...]:
    """List where a function reads fields of columns that not every rule may read."""
    return tuple((name, f"{each.__code__.co_filename}, line {line}")
                 for each in functions_in(function)
                 for name, line, writes in _columns_used_in(each) if name in NEEDS and not writes)


def _columns_used_in(function: Callable[..., Any]) -> Iterator[tuple[str, int, bool]]:
    """Yield the columns that a function names, the line of each, and whether it is written.

    Columns are found as attributes, and as strings; attributes of what is outside of the function,
    such as ``math.gamma``, do not count.
    """
    outside, text = False, ""
    for each in dis.get_instructions(function):
        line = each.positions.lineno if each.positions else 0
        attribute = each.opname in ("LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR")
        if attribute and each.argval in COLUMNS and not outside:
            yield each.argval, line or 0, each.opname == "STORE_ATTR"
        if text in COLUMNS:
            # The key of an augmented assignment is copied, to be read by and then written to.
            yield text, line or 0, each.opname in ("STORE_SUBSCR", "COPY")
        outside = (each.opname in ("LOAD_GLOBAL", "LOAD_DEREF")
                   or (outside and attribute))
        found = (each.argval if each.opname == "LOAD_CONST"
                 else function.__globals__.get(each.argval) if each.opname == "LOAD_GLOBAL" else "")
        text = found if isinstance(found, str) else ""
