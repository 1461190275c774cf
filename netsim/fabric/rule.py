"""Policies as compiled rules, which the fabric calls inside its own event loop."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType, ModuleType
from typing import Any, get_args

from netsim.base.values import as_choice, as_flag, as_whole, convert, is_number, plain, same
from netsim.errors import InputError, UnknownNameError
from netsim.fabric.allocation import Event, Information, check_sees
from netsim.fabric.kernels import rules

#: What `Rule.stretch` may be, and what kernels call it.
STRETCH = {"none": rules.UNSTRETCHED, "all": rules.ALL, "others": rules.OTHERS}

_GIVES = ("flows", "order", "queues", "shares", "weights")

_LEFTOVER = ("greedy", "maxmin", "none")

_BY_SIZE = {"flows": "bytes left (it gives flows, which are served by them)",
            "shares": "LP rates (it gives shares of them)"}

_TIES = ("arrival", "job")

#: The information that a rule needs to read a column; others any rule may read.
NEEDS: dict[str, Information] = {
    **dict.fromkeys(("total", "remaining", "gamma", "nominal_gamma", "longest", "active_gamma",
                     "longest_gamma"), "clairvoyant"),
    "predicted_s": "predicted", "ahead_s": "job-clairvoyant"}

#: Columns of the gammas of the bytes left, which the table updates on request only.
_GAMMAS = {"gamma", "active_gamma"}

COLUMNS = {*rules.COFLOWS.names, *rules.JOBS.names}  # type: ignore[misc]


@dataclass(frozen=True)
class Rule:
    """A compiled rule, and how its answer is applied; for the fields, see `netsim.compiled`."""

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
        for name, choices in (("gives", _GIVES), ("leftover", _LEFTOVER), ("stretch", STRETCH),
                              ("ties", _TIES), ("information", get_args(Information))):
            as_choice(getattr(self, name), name, choices)
        convert(self, rounding=as_flag, options=plain, queues=as_whole)
        self._check_form()
        self._check_reads()
        for name, number in self.options.items():
            if not is_number(number) or number != number:
                raise InputError(f"option {name} of {self.name} must be a number, not {number!r}: "
                                 "a compiled rule takes numbers only", name)

    def _check_form(self) -> None:
        if self.leftover != "none" and self.gives not in ("order", "queues"):
            raise InputError(f"{self.name}: leftover={self.leftover!r} is for rules that give an "
                             f"order or queues, not {self.gives}", "leftover")
        if self.gives in _BY_SIZE:
            check_sees(self.name, _BY_SIZE[self.gives], self.information, "clairvoyant")
        if self.stretch != "none" and self.gives not in ("order", "shares"):
            raise InputError(f"{self.name}: stretch={self.stretch!r} is for rules that give an "
                             f"order or shares, not {self.gives}", "stretch")
        if self.stretch != "none" and self.leftover != "none":
            raise InputError(f"{self.name}: stretch goes with leftover='none', as the bandwidth "
                             "that it leaves cannot be followed flow by flow", "stretch")
        if (self.gives == "queues") != (self.queues > 0):
            raise InputError(f"{self.name}: queues must be how many there are at most if the rule "
                             f"gives queues, and else 0, not {self.queues}", "queues")

    def _check_reads(self) -> None:
        for name in sorted(self.reads - COLUMNS):
            raise UnknownNameError("column", name, COLUMNS, key="reads")
        for name in sorted(self.reads & NEEDS.keys()):
            check_sees(self.name, f"{name!r}{self.line_of(name)}", self.information, NEEDS[name])

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
        """Return this rule with other values of its options."""
        for name in values:
            if name not in self.options:
                raise UnknownNameError("option", name, self.options, key=name)
        return replace(self, options={**self.options, **values})

    def line_of(self, name: str) -> str:
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
    for each in functions_in(function):
        yield from COLUMNS.intersection(names_in(each.__code__))


def functions_in(function: Callable[..., Any], seen: set[Any] | None = None
                  ) -> Iterator[Callable[..., Any]]:
    """Yield a function and all compiled functions that it calls, directly or not."""
    seen = set() if seen is None else seen
    if function in seen:
        return
    seen.add(function)
    yield function
    for _, called in _known_to(function):
        if (compiled := getattr(called, "py_func", None)) is not None:
            yield from functions_in(compiled, seen)


def _known_to(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield what the names in a function's code stand for, also as attributes of its modules."""
    names = {*names_in(function.__code__)}
    known = [(name, function.__globals__.get(name)) for name in names]
    known += [(name, cell.cell_contents) for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True)]
    yield from known
    for _, module in known:
        if isinstance(module, ModuleType):
            yield from ((name, vars(module).get(name)) for name in names)


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the names and strings in a function's code and in nested code."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, CodeType):
            yield from names_in(constant)
