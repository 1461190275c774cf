"""Compiled rules: compiled by Numba, kept in the cache by a key, and called for a table of coflows.

`RuleRunner` holds the arrays that a rule reads and writes. `AheadRunner` puts there what a Python
policy answers that keeps coflows in step, and is asked at coflow events ahead of the clock.
"""

from __future__ import annotations

import dis
import hashlib
import linecache
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum, EnumMeta
from functools import cache, partial
from types import CodeType, EllipsisType, FunctionType, ModuleType
from typing import Any, NoReturn

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.compiling import Direct, cached, compiling, enabled, seal
from netsim.base.values import same
from netsim.errors import InputError
from netsim.fabric.allocation import Allocation, PriorityService, check_sees, kinds_of
from netsim.fabric.flow_table import FlowTable
from netsim.fabric.kernels import proportional, rules
from netsim.fabric.kernels.rules import COFLOWS, JOBS, RuleOutput
from netsim.fabric.rule import COLUMNS, NEEDS, STRETCH, Rule, functions_in, names_in

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
            if not stored:
                seal(self._call)
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
        for name, line, writes in _columns_used_in(function):
            if writes:
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


# --- the key of a rule in the cache --------------------------------------------------------
#: Whatever these have is described by its name.
_LIBRARIES = {"numba", "numpy", *sys.stdlib_module_names}

#: What `repr` describes.
_PLAIN = {bool, int, float, complex, str, bytes, slice, EllipsisType, type(None)}


class _UnknownError(Exception):
    """A rule takes something that might change unnoticed."""


def key_of(rule: Callable[..., Any]) -> str | None:
    """Return the key of a rule, the same in all processes; None if there is nothing to go by."""
    try:
        described = _Description().of_function(rule)
    except _UnknownError:
        return None
    return _digest(repr(described).encode())[:16]


class _Description:
    """Describes code, and all that it calls or takes by name, as tuples and lists of text."""

    def __init__(self) -> None:
        self._seen: dict[Any, int] = {}

    def of_function(self, function: Callable[..., Any]) -> Any:
        """Describe a function: its code, its file, its defaults, and what its names stand for."""
        if function in self._seen:  # it calls itself, say
            return self._seen[function]
        self._seen[function] = len(self._seen)
        code = function.__code__
        names = tuple(names_in(code))
        linecache.checkcache(code.co_filename)
        text = "".join(linecache.getlines(code.co_filename, function.__globals__))
        takes = *_taken_by(function), ("", function.__defaults__), ("", function.__kwdefaults__)
        return (self._of_code(code), _digest(text.encode()),
                [(name, self._of(value, names)) for name, value in takes])

    def _of_code(self, code: CodeType) -> Any:
        """Describe what code does, but for the values of names; instructions refer to these."""
        return (code.co_code, code.co_exceptiontable, code.co_flags, code.co_argcount,
                code.co_kwonlyargcount, code.co_names, code.co_varnames, code.co_freevars,
                code.co_cellvars, [self._of(each, ()) for each in code.co_consts])

    def _of(self, value: Any, names: tuple[str, ...]) -> Any:
        """Describe a value that code with these names takes."""
        kind = type(value)
        if kind in _PLAIN or isinstance(value, np.dtype | types.Number):
            return kind.__qualname__, repr(value)
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            layout = value.shape, value.flags.c_contiguous, value.flags.f_contiguous
            return kind.__qualname__, repr(value.dtype), layout, _digest(value.tobytes())
        if isinstance(value, CodeType):
            return self._of_code(value)
        if isinstance(value, tuple):
            return self._of(kind, names), [self._of(each, names) for each in value]
        if isinstance(value, set | frozenset):
            return kind.__qualname__, sorted(repr(self._of(each, names)) for each in value)
        if isinstance(value, dict):
            return kind.__qualname__, self._of(tuple(value.items()), names)
        if isinstance(value, Enum):
            return self._of(kind, names), value.name
        if isinstance(value, ModuleType | EnumMeta) or kind is type:
            return self._of_members(value, names)
        if hasattr(value, "targetoptions") and hasattr(value, "py_func"):  # Numba compiles it
            return self._of(value.targetoptions, ()), self.of_function(value.py_func)
        return _library_name(value)

    def _of_members(self, value: Any, names: tuple[str, ...]) -> Any:
        """Describe a module or class by its name, and what code may take of it."""
        with suppress(_UnknownError):
            return _library_name(value)
        if (value, names) in self._seen:
            return self._seen[value, names]
        self._seen[value, names] = len(self._seen)
        members: dict[str, Any]
        if isinstance(value, EnumMeta):
            members = {name: value.__members__[name].value for name in value.__members__}
        elif hasattr(value, "_field_defaults"):
            members = {**dict.fromkeys(value._fields), **value._field_defaults}
        else:
            members = {name: getattr(value, name) for name in names if hasattr(value, name)}
        return (getattr(value, "__module__", ""), value.__name__, getattr(value, "_fields", ()),
                [(name, self._of(each, names)) for name, each in members.items()])


def _library_name(value: Any) -> tuple[str, str]:
    """Return the name of a module, class or function of a library."""
    home, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, ModuleType):
        home, name = value.__name__, ""
    if home is None or name is None or home.partition(".")[0] not in _LIBRARIES:
        raise _UnknownError
    return home, name


def _taken_by(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a function's code takes by name, from its module or from outer functions."""
    for name in dict.fromkeys(_globals_in(function.__code__)):
        if name in function.__globals__:  # else it is built in
            yield name, function.__globals__[name]
    yield from ((name, cell.cell_contents) for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True))


def _globals_in(code: CodeType) -> Iterator[str]:
    """Yield the names that code, and code within it, looks up in its module."""
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield each.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_in(constant)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- a compiled rule at work ---------------------------------------------------------------

_decide = Direct(rules.decide)


class RuleError(Exception):
    """A fault of a rule; the fabric's error names the policy."""


class RuleRunner:
    """Calls a compiled rule for the coflows in a table."""

    def __init__(self, rule: Rule, table: FlowTable) -> None:
        self.rule = rule
        self._compiled = self._for_kernels()
        self._table = table
        queues = max(rule.queues, 1)
        primary, backfill = kinds_of("queues" if rule.gives == "queues" else "madd", rule.leftover)
        self._form = np.zeros(1, rules.RULE)
        for name, value in {
                "most": float(rule.gives == "order"), "by_place": rule.gives != "shares",
                "stretch": STRETCH[rule.stretch], "by_job": rule.ties == "job",
                "merges": rule.rounding, "primary": primary, "backfill": backfill,
                "queues": queues, "notes": len(rule.notes)}.items():
            self._form[name] = value
        self._reads = np.zeros(1, rules.READS)
        for name in ("now", *rule.reads):
            self._reads[name] = True
        initial = math.inf, *[0.0] * queues, *[math.nan] * len(rule.notes), *rule.options.values()
        self._scalars = np.array([initial, initial], np.float64)
        self._shared = proportional.new_shared_links(0, 0, 0)
        self._loads: NDArray[Any] | None = None
        self._make_room()

    def _for_kernels(self) -> CompiledRule | None:
        """What kernels call; None if they ask Python instead."""
        return compiled_rule(self.rule)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loads": None}  # a copied table has its own

    def forget(self) -> None:
        """Forget the active coflows: their rows may belong to others now."""
        self._loads = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep what the rule saw last within this context, so that it decides as it did."""
        self._reads, reads = np.zeros(1, rules.READS), self._reads
        try:
            yield
        finally:
            self._reads = reads

    def _make_room(self) -> None:
        """Allocate arrays with one place per row; columns that the rule does not read are NaN."""
        size = len(self._table.rows)
        self._coflows = _unknown(size, rules.COFLOWS)
        self._jobs = _unknown(len(self._table.jobs), rules.JOBS)
        self._values, self._lists = np.empty((7, size)), np.empty((4, size), np.int64)

    def state(self) -> rules.RuleState:
        """Return the rule for kernels, with room for all rows of the table."""
        if len(self._table.rows) > len(self._coflows) or len(self._table.jobs) > len(self._jobs):
            before = self._coflows, self._jobs, self._values, self._lists
            self._make_room()
            after = self._coflows, self._jobs, self._values, self._lists
            for old, new in zip(before, after, strict=True):
                new[..., :old.shape[-1]] = old  # the decision stays in force
        return rules.RuleState(self._compiled, self._form, self._reads, self._coflows, self._jobs,
                               self._values, self._lists, self._scalars)

    def engine(self, check: bool) -> proportional.ProportionalState:
        """Return the engine for the event loop."""
        state, table = self.state(), self._table
        self._form["check"] = check
        rows, loads, links = len(self._coflows), table.loads, len(table.capacity)
        if (self._loads is not loads or len(self._shared.coflows) < rows
                or len(self._shared.links) < links):  # rows have moved, or there are more
            self._loads = loads
            self._shared = proportional.new_shared_links(rows, len(loads), links)
        return proportional.ProportionalState(state, self._shared, table.used)

    def ask(self, now: float) -> None:
        """Ask the rule; see `kernels.rules.decide`.

        A `RuleError` says that the rule fails, or writes an invalid answer.
        """
        table = self._table
        if self.rule.needs_gammas:
            table.refresh()
        # The clock of an environment of the user's may say a whole number.
        wrong = _decide(self.state(), table.coflows, table.jobs, float(now))
        if fault := self.fault(wrong) or self.unused():
            raise RuleError(fault)

    def unused(self) -> str:
        """Describe fields that a rule has written but that its form ignores; "" if none."""
        rule, order = self.rule, self._output
        lost = []
        if rule.gives in ("weights", "flows") and np.isfinite(order.limit).any():
            lost.append(("limit", "an order, shares or queues"))
        if not rule.in_step and (order.share.any() or (
                rule.gives == "order" and (order.most < 1).any())):
            lost.append(("share or most", "shares, or an order of which nothing is left over"))
        for name, what in lost:
            return (f"has a rule ({rule.place}) that has written {name}, which goes with {what}, "
                    f"but it gives {rule.gives}"
                    + (f" with leftover={rule.leftover!r}" if rule.leftover != "none" else ""))
        return ""

    def answer(self, now: float) -> bool:
        """Prepare the loop's next decision; the loop itself calls rules, but no Python policy."""
        raise NotImplementedError

    def fault(self, link: int) -> str:
        """Describe the fault of the rule that a kernel has found; "" if it has found none."""
        says = {rules.RAISED: self._raised, rules.UNSOUND: self.wrong, rules.UNUSED: self.unused}
        return says[link]() if link in says else ""

    def _raised(self) -> str:
        """Call the rule again as the kernel has called it, for its exception."""
        count = len(self._table.coflows)
        try:
            assert self._compiled is not None
            self._compiled.call(self._coflows[:count], self._jobs, float(self._form["time"][0]),
                                self._output)
        except IndexError:
            return ("has a rule that reads or writes beyond its arrays, of "
                    f"{count} coflows ({self.rule.place})")
        except Exception as error:
            return f"has a rule that raised {error!r} ({self.rule.place})"
        return f"has a rule that raised an exception, but not again ({self.rule.place})"

    # --- what it has said -----------------------------------------------------------

    @property
    def _output(self) -> rules.RuleOutput:
        """What the rule has written for the active coflows, as `rules.output_of` gives it."""
        count, written = len(self._table.coflows), self._scalars[rules.WRITTEN]
        key, tie, share, most, weight, _, limit = self._values[:, :count]
        notes = 1 + max(self.rule.queues, 1)
        options = notes + len(self.rule.notes)
        return rules.RuleOutput(key, tie, share, most, weight, self._lists[rules.QUEUE][:count],
                                limit, written[1:notes], written[:1], written[notes:options],
                                written[options:])

    @property
    def _sequence(self) -> Ints:
        """The active coflows, in the order of the last decision."""
        return self._lists[rules.SEQUENCE][:len(self._table.coflows)]

    @property
    def limit(self) -> Floats:
        """Bytes sent at which each coflow's rule is called again. Shape (active coflows,)."""
        return self._values[rules.LIMIT][:len(self._table.coflows)]

    @property
    def shares(self) -> Floats:
        """The shares of the last decision. Shape (active coflows,)."""
        return self._values[rules.SHARE][:len(self._table.coflows)]

    def given(self, link: int) -> NDArray[Any]:
        """The part of the answer that has a fault: an order, or shares."""
        return self._sequence if link == rules.NO_ORDER else self.shares

    @property
    def note(self) -> Mapping[str, float] | None:
        """The values that the rule has written for its last decision, without unwritten ones."""
        kinds = self.rule.notes
        return {name: kind(value) for (name, kind), value in zip(
            kinds.items(), self._output.note.tolist(), strict=True)
            if not math.isnan(value)} or None if kinds else None

    def allocation(self) -> Allocation:
        """Return the last decision in the form in which a Python policy would return it.

        Shares or a service that follow from an order come with that order, which is all that the
        rule itself has decided.
        """
        allocation = self._allocation()
        if self.rule.gives == "order" and allocation.order is None:
            allocation.order = self._sequence.copy()
        return allocation

    def _allocation(self) -> Allocation:
        rule, order = self.rule, self._output
        asks_at: dict[str, Any] = {"revisit_at": self.wake_at, "note": self.note}
        if rule.in_step and self._is_plain(order):
            return Allocation(order=self._sequence.copy(), **asks_at)
        if rule.in_step:
            self.forget()
            engine, table = self.engine(True), self._table
            proportional.update(engine.shared, table.coflows, table.loads, table.capacity)
            proportional.share_out(engine, len(table.coflows))
            return Allocation(shares=self.shares.copy(), **asks_at)
        if rule.gives == "weights":
            return Allocation(coflow_weights=order.weight.copy(), **asks_at)
        sequence = self._sequence.copy()
        if rule.gives == "order" and np.isinf(order.limit).all():
            return Allocation(order=sequence, leftover=rule.leftover, **asks_at)
        return Allocation(service=self._service(sequence, order), **asks_at)

    def _is_plain(self, order: rules.RuleOutput) -> bool:
        """Whether the answer is an order and nothing else."""
        return (self.rule.gives == "order" and self.rule.stretch == "none"
                and not order.share.any() and bool((order.most == 1).all()))

    @property
    def wake_at(self) -> float:
        """The latest time at which the rule must be called again, in seconds; inf if none."""
        return float(self._scalars[rules.WRITTEN, 0])

    def _service(self, sequence: Ints, order: rules.RuleOutput) -> PriorityService:
        rule = self.rule
        if rule.gives == "flows":
            return PriorityService(sequence, backfill="greedy", by_size=True)
        limit, queue = order.limit.copy(), order.queue.copy()
        if rule.gives == "order":
            return PriorityService(sequence, primary="madd", backfill=rule.leftover, limit=limit)
        return PriorityService(sequence[np.argsort(queue[sequence], kind="stable")],
                               primary="queues", backfill=rule.leftover, queue=queue,
                               queue_shares=order.part.copy(), limit=limit)

    def wrong(self) -> str:
        """Describe the fault in the rule's last answer."""
        field, at = int(self._form["field"][0]), int(self._form["place"][0])
        name = rules.RuleOutput._fields[field]
        value = self._output[field][at].item()
        if name == "wake_at":
            return f"has a rule ({self.rule.place}) that asks to be woken at {value!r} s, which " \
                   "is not after now"
        return (f"has a rule ({self.rule.place}) that has written {value!r} as {name}[{at}]; "
                + _ALLOWED[name])


_ALLOWED = {"key": "it must be a number", "tie": "it must be a number",
            "limit": "it must be a number of bytes",
            "share": "it must be finite and not negative", "most": "it must be from 0 to 1",
            "weight": "it must be finite and more than 0",
            "queue": "it must be the number of one of the rule's queues, from 0",
            "part": "parts are from 0 to 1, and add up to 1 at most"}


def _unknown(size: int, kind: np.dtype[Any]) -> NDArray[Any]:
    rows = np.zeros(size, kind)
    for name in kind.names or ():
        rows[name] = np.nan if kind[name].kind == "f" else -1
    return rows


# --- a Python policy, ahead of the clock ---------------------------------------------------
#: In place of the rule of a policy that is asked in Python; it is never called.
_NO_RULE = Rule(rule)


class AheadRunner(RuleRunner):
    """Stores the answers of a Python policy where the event loop expects those of a compiled rule.

    ``ask(now)`` must return the policy's answer, checked.
    """

    def __init__(self, table: FlowTable, ask: Callable[[float], Allocation]) -> None:
        super().__init__(_NO_RULE, table)
        self._ask = ask
        #: An answer that does not keep coflows in step, so that the event loop must stop.
        self.pending: Allocation | None = None
        self._given: Allocation | None = None

    def _for_kernels(self) -> None:
        """None: `answer` asks the policy."""

    def answer(self, now: float) -> bool:
        """Ask the policy for the next decision; return whether the event loop can apply it."""
        allocation = self._ask(now)
        if allocation.in_step:
            self.take(allocation)
            return True
        self.pending = allocation
        return False

    def take(self, allocation: Allocation) -> None:
        """Store an answer that keeps coflows in step, for the next decision."""
        self._given = allocation

    def engine(self, check: bool) -> proportional.ProportionalState:
        """Return the engine as `RuleRunner.engine` does, with the stored answer, if any, in it."""
        engine, given = super().engine(check), self._given
        if given is None:
            return engine
        self._given = None
        count, values = len(self._table.coflows), self._values
        sequence = self._lists[rules.SEQUENCE]
        self._scalars[rules.WRITTEN, 0] = given.revisit_at
        values[rules.LIMIT, :count] = np.inf
        if given.shares is not None:
            values[rules.SHARE, :count], values[rules.MOST, :count] = given.shares, 0.0
            sequence[:count] = np.arange(count)
        else:
            assert given.order is not None
            values[rules.SHARE, :count], values[rules.MOST, :count] = 0.0, 1.0
            sequence[:count] = given.order
        self._form["answered"] = 1
        return engine
