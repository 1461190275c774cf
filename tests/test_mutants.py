"""The mutants of `mutants.toml` stay where the code is; `mutants.py` tries them."""

import re

from tests.mutants import Mutant, faults_of, mutants


def test_all_mutants_can_be_put_in():
    """Code that has moved, or a test that has another name, takes its mutant along."""
    listed = mutants()
    assert [fault for mutant in listed for fault in faults_of(mutant)] == []
    assert len(listed) >= 40
    assert all(mutant.old != mutant.new and mutant.tests for mutant in listed)


def test_what_has_moved_is_told():
    here = "tests/test_mutants.py"
    for file, old, said in (("netsim/none.py", "x", "0 times"), (here, "\n", r"\d\d times")):
        [fault] = faults_of(Mutant("m", "a fault", file, old, "", [here]))
        assert re.match(f"m: its code is {said} in {file}, not once; move the mutant", fault)
    gone = ["tests/test_none.py", f"{here}::test_none[1]", f"{here}::TestNone::test_none"]
    faults = faults_of(Mutant("m", "a fault", here, "import " + "re", "", gone))
    assert faults == [f"m: there is no {test}" for test in gone]
