"""Compilation of policies' rules by Numba, and what their code shows of them."""

from __future__ import annotations

import hashlib
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numba
from numba.core import ir
from numba.core.compiler import run_frontend
from numba.core.ir_utils import find_const, guard

from netsim.base.compiled_kernel import KernelCache, quickly
from netsim.base.files import cache_folder
from netsim.errors import InputError
from netsim.fabric.allocation import check_sees
from netsim.fabric.kernels import rule_rows, rules
from netsim.fabric.rule import COLUMNS, NEEDS, Rule, constants_of, functions_in

#: Rules that have been compiled in this process, by function; and whether a warning has said that
#: one cannot be cached.
_COMPILED: dict[Callable[..., None], Any] = {}


_said = False


class _RuleCache(KernelCache):
    """The cache of a rule, beside its file; what is in other files counts as well.

    These are the kernels that read what the rule writes, the functions that it calls, and the
    constants that all of them take.
    """

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), cache_folder().name, _digest(self._py_func))


def _digest(function: Callable[..., Any]) -> str:
    """Hash the code of a function and of all compiled functions that it calls, with constants."""
    digest = hashlib.sha256()
    for each in functions_in(function):
        digest.update(each.__code__.co_code)
        digest.update(repr(sorted(constants_of(each))).encode())
    return digest.hexdigest()


def address_of_rule(rule: Rule) -> int:
    """Return the address of a rule's machine code; it is compiled at the first call.

    An `InputError` says why, and names the line, if the rule cannot be compiled, or reads a column
    that it declares not to know, whatever its `reads` say.
    """
    if rule.function not in _COMPILED:
        _COMPILED[rule.function] = _compile(rule)
    for name, place in _hidden_columns_in(rule.function):
        check_sees(rule.name, f"{name!r} ({place})", rule.information, NEEDS[name])
    result = _COMPILED[rule.function].get_compile_result(rules.SIGNATURE)
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def _compile(rule: Rule) -> Any:
    # Whatever it writes beyond its arrays is an error, not damage.
    made: Any = numba.njit(error_model="numpy", boundscheck=True)(rule.function)
    try:
        made._cache = _RuleCache(rule.function)
    except RuntimeError:  # it has no file, or no folder can be written to
        _say_that_it_is_not_kept(rule)
    try:
        quickly(made.compile, rules.SIGNATURE.args)
    except Exception as error:
        raise InputError(f"{rule.name} cannot be compiled: {_why(rule, error)}") from error
    [result] = made.overloads.values()
    if (returned := result.signature.return_type) != numba.types.none:
        raise InputError(f"{rule.name} must return nothing, as it fills in its last argument, "
                         f"but returns {returned}")
    _refuse_writes(rule)
    return made


def _refuse_writes(rule: Rule) -> None:
    """Refuse a rule that sets fields of rows; whole columns are read-only arrays already."""
    for function in functions_in(rule.function):
        for name, line in _fields_set_in(function):
            raise InputError(
                f"{rule.name} writes the column {name!r} ({function.__code__.co_filename}, "
                f"line {line}), which it may only read: it fills in order")


def _say_that_it_is_not_kept(rule: Rule) -> None:
    global _said
    if not _said:
        _said = True
        code = rule.function.__code__
        warnings.warn_explicit(
            f"{rule.name} is compiled again in each process, as there is no file beside which "
            "its machine code can be cached; the same holds for other such rules",
            UserWarning, code.co_filename, code.co_firstlineno)


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
    for rows, others, other in ((rule_rows.COFLOWS, rule_rows.JOBS, "jobs"),
                                (rule_rows.JOBS, rule_rows.COFLOWS, "coflows")):
        if name in (others.names or ()):
            return (f"{name!r}{rule.line_of(name)} is a column of {other}, and the rows that "
                    f"it is read from have {', '.join(rows.names or ())}")
    return (f"there is no column {name!r}{rule.line_of(name)}; choose from: "
            f"of coflows {', '.join(rule_rows.COFLOWS.names or ())}; of jobs "
            + ", ".join(rule_rows.JOBS.names or ()))


def _fields_set_in(function: Callable[..., Any]) -> Iterator[tuple[str, int]]:
    """Yield the columns of which a function sets single fields, and the line of each."""
    code = run_frontend(function)
    for block in code.blocks.values():
        for found in block.find_insts((ir.SetAttr, ir.SetItem)):
            name = (found.attr if isinstance(found, ir.SetAttr)
                    else guard(find_const, code, found.index))
            if isinstance(name, str) and name in COLUMNS:
                yield name, found.loc.line


@cache
def _hidden_columns_in(function: Callable[..., Any]) -> tuple[tuple[str, str], ...]:
    """List where a function reads fields of columns that not every rule may read.

    Columns are found in whatever way they are written, also if a constant has their name; fields of
    constants, such as ``math.gamma``, do not count.
    """
    found = []
    for each in functions_in(function):
        code = run_frontend(each)
        for block in code.blocks.values():
            for read in block.find_exprs():
                name = (read.attr if read.op == "getattr"
                        else guard(find_const, code, read.index) if read.op == "getitem"
                        else read.index if read.op == "static_getitem" else None)
                if (isinstance(name, str) and name in NEEDS
                        and guard(find_const, code, read.value) is None):
                    found.append((name, f"{each.__code__.co_filename}, line {read.loc.line}"))
    return tuple(found)
