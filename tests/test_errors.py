"""What errors and warnings say, and how."""

import inspect
import pickle
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim import errors
from netsim.base.reading import Problem, TraceProblemsError
from netsim.errors import (
    InputError,
    MissingExtraError,
    NetsimError,
    NetsimWarning,
    OutputError,
    SpecError,
    TraceError,
    UnknownNameError,
)
from netsim.plots.curves import cdf_curves
from netsim.text import shortened, visible
from tests.offenders import check_each

#: Sets the title of a terminal; goes back, writes over what is there; writes from right to left.
NAMES = ["\x1b]0;title\x07", "a\rb\x08", "\u202egnp.exe", "\x9b31m", "\ud800", "\x7f", "a\x00b"]

#: Each kind of message with a text in it.
MADE = {
    "input": InputError,
    "name": lambda text: UnknownNameError(text, text, [text]),
    "trace": lambda text: TraceError(text, text, 3),
    "problems": lambda text: TraceProblemsError([Problem(1, text), Problem(2, text)], text),
    "spec": lambda text: SpecError([text, text], text),
    "output": OutputError,
    "extra": lambda text: MissingExtraError(text, text),
    "warning": lambda text: NetsimWarning(text, text),
}


def test_messages_have_no_control_characters():
    def harmless(given):
        kind, name = given
        said = str(MADE[kind](name))
        assert said.replace("\n", "").isprintable()
        assert visible(name) in said or repr(name)[1:-1] in said

    check_each(harmless, product(MADE, NAMES))


def test_a_name_that_does_not_exist_blames_an_argument():
    """Also where the message has a word for people, as in "unknown distribution 'x'"."""
    jobs = [netsim.JobSpec(0, hosts=[0, 1], stages=[netsim.Stage("a", [(0, 1, 1e6)])])]
    net = netsim.big_switch(2, 1e6)
    run = netsim.Simulation(net, jobs)
    calls = {
        "allocators": lambda: netsim.warm_up(["x"], progress=False),
        "format": lambda: run.result().save("x", format="x"),
        "kind": lambda: run.on("x", print),
        "method": lambda: netsim.Points(3, "x"),
        "name": lambda: netsim.network.profile("x"),
        "of": lambda: cdf_curves({"a": run.result()}, of="x"),
        "which": lambda: netsim.lower_bounds(net, netsim.Workload(jobs), which=["x"]),
    }
    found = {}
    for key, call in calls.items():
        with pytest.raises(UnknownNameError) as error:
            call()
        found[key] = error.value.key
    assert found == {key: key for key in calls}


def test_messages_are_of_at_most_2000_characters():
    """Of longer ones the beginning and the end are kept, and how much is left out."""
    def short(given):
        kind, length = given
        said = str(MADE[kind]("x" * length))
        assert len(said) <= 2000
        assert length <= 2000 or "characters ..." in said

    check_each(short, product(MADE, [1500, 2001, 10**6]))


def test_attributes_hold_what_was_given():
    text = "\x1b" * 5000
    assert TraceError(text, "p").message == text
    assert UnknownNameError("kind", text, []).name == text
    assert SpecError([text, text]).problems == [text, text]


def test_every_error_has_that_base():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)
             if issubclass(kind, Exception | Warning) and kind.__module__ == "netsim.errors"]
    assert len(kinds) > 10
    for kind in kinds:
        assert kind is errors._Printable or issubclass(kind, errors._Printable)


@pytest.mark.parametrize("kind", [kind for kind in MADE if kind != "warning"])
def test_long_messages_travel_between_processes(kind):
    error = MADE[kind]("\x1bx" * 5000)
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, NetsimError)
    assert str(again) == str(error)


@given(st.text())
def test_what_is_visible_is_printable(text):
    shown = visible(text)
    assert shown.isprintable()
    assert shown == "".join(map(visible, text))
    if text.isprintable():
        assert shown == text


@given(st.text(max_size=5000), st.integers(1, 3))
def test_what_is_shortened_keeps_its_ends(text, times):
    given_text = text * times
    short = shortened(given_text)
    assert len(short) <= 2000
    if len(given_text) <= 2000:
        assert short == given_text
    else:
        assert given_text.startswith(short.partition(" [... ")[0][:1000])
        assert given_text.endswith(short[-400:])


def test_line_ends_are_kept_where_there_are_lines():
    assert visible("a\n\tb", lines=True) == "a\n\\tb"
    assert visible("a\nb") == "a\\nb"


def test_causes_that_go_round_in_a_circle_end():
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert [*errors.causes_of(one)] == [one, other]
    assert errors.interruption_of(one) is None
    one.__cause__ = KeyboardInterrupt()
    assert errors.interruption_of(other) is one.__cause__
