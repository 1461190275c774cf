"""The Registry: names, aliases, presets, options, help, and code of the user's own."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

from netsim.base.plugins import (
    Registry,
    instantiate,
    labelled,
    parse_named,
    parse_policy,
    refuse_code,
    without_code,
)
from netsim.errors import InputError, UnknownNameError


class Shape:
    """The base of all shapes."""


@dataclass
class Square(Shape):
    """A square.

    More about it.
    """

    side: float = 1.0
    colour: str = "red"
    area: float = dataclasses.field(init=False, default=0.0)


class Blob(Shape):
    """A shape without options; it is no dataclass."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed


class Locked(Shape):
    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise RuntimeError("holds a lock")


def a_square() -> Square:
    """Make a square of 5."""
    return Square(5.0)


HERE = __name__
SHAPES = Registry("shape", {"square": f"{HERE}:Square", "blob": f"{HERE}:Blob"},
                  aliases={"box": "square"},
                  presets={"big": {"name": "square", "side": 10.0}},
                  accepts=Shape, refusal="is no shape: it must derive from Shape")


def test_the_registered_names_are_iterated_and_all_can_be_given() -> None:
    assert list(SHAPES) == ["square", "blob"]
    assert len(SHAPES) == 2
    assert "square" in SHAPES
    assert "box" not in SHAPES
    assert 3 not in SHAPES
    assert SHAPES.names == ("square", "blob", "box", "big")
    assert repr(SHAPES) == "<Registry of shape: square, blob>"


@pytest.mark.parametrize("name", ["square", "box", "big", f"{HERE}:Square"])
def test_a_name_stands_for_a_class(name: str) -> None:
    assert SHAPES.resolve(name) is Square


@pytest.mark.parametrize(("name", "message"), [
    ("squar", r"unknown shape 'squar' \(did you mean 'square'\?\); choose from: big, blob, box"),
    ("", "unknown shape ''"), (":Square", "unknown shape ':Square'"), ("a:", "unknown shape 'a:'"),
    ([], r"unknown shape \[\]"), (None, "unknown shape None"),
])
def test_names_that_are_none(name: Any, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        SHAPES.resolve(name)
    if isinstance(name, str):
        with pytest.raises(UnknownNameError, match=message):
            SHAPES.instantiate(name)


@pytest.mark.parametrize(("name", "message"), [
    ("no_such_module:X", "shape 'no_such_module:X' cannot be loaded: No module named"),
    (f"{HERE}:Round", "cannot be loaded: the module '.*' has no attribute 'Round'"),
])
def test_code_that_cannot_be_loaded(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SHAPES.instantiate(name)


@pytest.mark.parametrize(("given", "made"), [
    ("square", Square()), ("square:side=3", Square(3)), ("box: colour = blue", Square(1, "blue")),
    ({"name": "square", "side": 2}, Square(2)), (Square, Square()), (Square(7), Square(7)),
    ("big", Square(10)), ("big:colour=blue", Square(10, "blue")), ("big:side=4", Square(4)),
    (f"{HERE}:Square:side=3", Square(3)),
])
def test_what_is_made(given: Any, made: Square) -> None:
    assert SHAPES.instantiate(given) == made
    assert SHAPES.instantiate(given) is not given


@pytest.mark.parametrize(("given", "message"), [
    (3, "3 is no shape: it must derive from Shape"), (dict, "'dict' is no shape"),
    (f"{HERE}:a_square", f"'{HERE}:a_square' is no shape"),  # for it must be a class
    ("square:sid=3", r"unknown option of shape 'square' 'sid' \(did you mean 'side'\?\)"),
    ({"side": 3}, "shape must be a name, or a mapping with a 'name' and options, not"),
    (Locked(), "shape: .* cannot be copied for a run: holds a lock"),
])
def test_what_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SHAPES.instantiate(given)


def test_what_is_accepted_may_be_told_by_a_function() -> None:
    """Then a function may make it."""
    free = Registry("shape", {}, accepts=lambda made: hasattr(made, "side"), refusal="has no side")
    assert free.instantiate(f"{HERE}:a_square") == Square(5)
    with pytest.raises(InputError, match=r"'.*:Blob' has no side"):
        free.instantiate(f"{HERE}:Blob")


def test_what_is_offered_is_taken_by_those_that_have_it() -> None:
    assert SHAPES.instantiate("blob", seed=5).seed == 5
    assert SHAPES.instantiate("blob:seed=2", seed=5).seed == 2
    assert SHAPES.instantiate(Blob, seed=5).seed == 5
    assert SHAPES.instantiate("square", seed=5) == Square()


def test_options_are_those_of_the_class() -> None:
    assert SHAPES.options("square") == {"side": 1.0, "colour": "red"}
    assert SHAPES.options("big") == {"side": 10.0, "colour": "red"}
    assert SHAPES.options("blob") == {"seed": 0}


def test_help_is_the_first_line_of_the_docstring() -> None:
    assert SHAPES.help("square") == "A square."
    assert SHAPES.help("big") == "preset: square, side = 10.0"


def test_instances_are_described_by_name_and_options() -> None:
    assert SHAPES.to_dict(Square(3)) == {"name": "square", "side": 3, "colour": "red"}
    assert SHAPES.to_dict(Blob()) == {"name": "blob"}
    assert SHAPES.to_dict(Locked()) == {"name": f"{HERE}:Locked"}
    assert labelled(SHAPES.to_dict(Square(3))) == "square (side=3, colour=red)"


def test_messages_may_have_another_noun() -> None:
    edges = Registry("shape of an edge", {"square": Square}, noun="shape")
    with pytest.raises(UnknownNameError, match="unknown shape of an edge 'x'"):
        edges.instantiate("x")
    with pytest.raises(UnknownNameError, match="unknown option of shape 'square' 'x'"):
        edges.instantiate("square:x=1")
    assert edges.to_dict(Square())["name"] == "square"


def test_names_and_their_options() -> None:
    assert parse_named("a:b=1: c = x") == {"name": "a", "b": 1, "c": "x"}
    assert parse_policy("a:b=1", "thing") == ("a", {"b": 1})
    assert parse_policy({"name": "a", "b": 1}, "thing") == ("a", {"b": 1})
    with pytest.raises(InputError, match="thing must be a name, or a mapping with a 'name'"):
        parse_policy(3, "thing")  # type: ignore[arg-type]


@pytest.mark.parametrize(("error", "message"), [
    (TypeError("no"), r"it cannot be made of \{'x': 1\}: no"),
    (KeyError("no"), r"it cannot be made: KeyError: 'no' \(.*test_plugins.py, line"),
    (SystemExit(3), r"it cannot be made: SystemExit: 3 \(.*test_plugins.py, line"),
    (InputError("x is wrong"), "^x is wrong$"),
])
def test_what_goes_wrong_is_an_input_error(error: Exception, message: str) -> None:
    def make(x: int) -> None:
        raise error

    with pytest.raises(InputError, match=message):
        instantiate(make, {"x": 1}, "it")


def test_without_code_only_what_is_registered_is_loaded() -> None:
    with without_code():
        assert SHAPES.resolve("square") is Square
        for load in (SHAPES.resolve, lambda name: refuse_code("shape", name)):
            with pytest.raises(InputError, match="names code to load, which is not allowed"):
                load(f"{HERE}:Square")
        refuse_code("shape", "whatever")
    assert SHAPES.resolve(f"{HERE}:Square") is Square
