"""Compiled kernels are cached on disk, in a folder of this version of all of them."""

import ast
import errno
import gc
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import event

import netsim
from netsim.base.compiled_kernel import CompiledKernel, _told, tell_not_kept
from netsim.base.compiling import compiled, in_place
from netsim.base.files import COMPILED
from tests.offenders import assert_none
from tests.pairs import exhaustive

PACKAGE = Path(netsim.__file__).parent

#: What modules of kernels import for type checkers, for what they raise, and to be found.
NOT_COMPILED = {"InputError", "Operations", "loading"}

RUN = """
import numba, numpy as np
from netsim.schedulers.kernels import before
_, count = before(*map(np.array, ([0], [1.001], [0.0], [0], [8])), 0, 1.0, 0.0, 1)
print(before._cache.cache_path)
print(numba.config.CACHE_DIR or "unset")
print(count, before.stats.cache_hits.total())
"""


def compiled_in(package, **environment):
    """Count the jobs before another: the folder, what is set, and the count with cache hits."""
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True,
                          cwd=package, env={**os.environ, **environment})
    path, left, result = done.stdout.splitlines()
    return Path(path), left, result


def test_an_edit_of_a_callee_compiles_and_one_elsewhere_does_not(tmp_path):
    """1.001 comes after 1, but if `EQUAL` of another file is a tenth they tie, and ids decide."""
    shutil.copytree(PACKAGE, tmp_path / "netsim", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": ""}
    before, left, result = compiled_in(tmp_path, **environment)
    assert before.is_relative_to(tmp_path / "netsim")
    assert (left, result) == ("unset", "0 0")
    other = tmp_path / "netsim" / "fabric" / "view.py"
    other.write_text(other.read_text() + "\n# another version\n")
    assert compiled_in(tmp_path, **environment) == (before, "unset", "0 1")
    callee = tmp_path / "netsim" / "ties.py"
    callee.write_text(callee.read_text().replace("EQUAL = 1e-9", "EQUAL = 0.1"))
    after, _, result = compiled_in(tmp_path, **environment)
    assert after != before
    assert result == "1 0"


def keyed():
    """The files on whose contents the name of the folder depends."""
    return {path for pattern in COMPILED for path in PACKAGE.glob(pattern)}


def test_all_that_is_compiled_is_in_the_key_and_what_it_imports():
    """But rules of policies: `fabric/rule_code.py` makes their key."""
    holding = {path for path in PACKAGE.rglob("*.py") if path.parent.name != "allocators"
               and re.search(r"^@(kernels\.)?(addressed|compiled|in_place|inlined|summing)\b",
                             path.read_text(), re.MULTILINE)}
    assert len(holding) > 20
    needed, waiting = set(), [*holding]
    while waiting:
        if (path := waiting.pop()) not in needed:
            needed.add(path)
            if path.parent.name != "base":  # what compiles takes nothing over from its imports
                waiting += imported_by(path)
    assert_none(sorted(needed - keyed()))


def imported_by(path):
    """Yield the files of netsim that a file imports, but for types and for what comes later."""
    for node in ast.parse(path.read_text()).body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names
                     if alias.name not in NOT_COMPILED]
        for name in names:
            *parts, last = name.split(".")
            for module in (PACKAGE.parent.joinpath(*parts, last), PACKAGE.parent.joinpath(*parts)):
                found = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
                if found.is_file() and found != PACKAGE / "__init__.py":
                    yield found
                    break


def test_the_users_folder_is_respected(tmp_path):
    path, left, _ = compiled_in(tmp_path, NUMBA_CACHE_DIR=str(tmp_path),
                                PYTHONPATH=str(PACKAGE.parent))
    assert path.is_relative_to(tmp_path)
    assert left == str(tmp_path)


def no_room(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def twice(x):
    return 2 * x


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Return the folder in which kernels of a test are kept, after `twice` has been compiled."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    tell_not_kept.cache_clear()
    _told.clear()
    assert compiled(twice)(3) == 6
    assert compiled_from_cache() == (6, 1)
    yield tmp_path / "kept"
    tell_not_kept.cache_clear()
    _told.clear()


def compiled_from_cache():
    """Call `twice` as a new process would; return its result, and how often it was in the cache."""
    kernel = compiled(twice)
    return kernel(3), kernel.stats.cache_hits.total()


def emptied(_):
    return b""


def cut(data):
    return data[:len(data) // 2]


def with_a_wrong_bit(data):
    """A file that can still be unpickled, in all likelihood; the machine code is wrong then."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:]


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", [emptied, cut, with_a_wrong_bit])
def test_damaged_files_are_made_again(kept, ending, damage):
    files = [path for path in kept.rglob(f"*{ending}") if path.is_file()]
    assert len(files) == 2  # of what Python calls, and of the part
    for path in files:
        path.write_bytes(damage(path.read_bytes()))
    assert compiled_from_cache() == (6, 0)
    assert compiled_from_cache() == (6, 1)


class Gone:
    """A class of an earlier version, in the types of what it compiled."""


def test_files_with_classes_that_are_gone_are_made_again(kept, monkeypatch):
    """As beside a user's file with a rule, after an update of netsim."""
    compiled(twice)._cache._cache_file._save_index({Gone(): "a kernel"})
    monkeypatch.delattr(sys.modules[__name__], "Gone")
    assert compiled_from_cache() == (6, 0)
    assert compiled_from_cache() == (6, 1)


def test_a_folder_in_place_of_a_file_is_named(kept):
    for path in [*kept.rglob("*.nbi")]:
        path.unlink()
        path.mkdir()
    with pytest.warns(netsim.NetsimWarning) as told:
        assert compiled_from_cache() == (6, 0)
    message = str(told.pop().message)
    assert not told.list
    assert re.search(rf"cannot be stored in {kept}\S+\.nbi: .*directory", message)
    assert "minute" not in message


def test_a_file_in_place_of_the_folder_is_named(kept):
    """Numba itself would then keep kernels beside their sources, and miss changes of callees."""
    shutil.rmtree(kept)
    kept.touch()
    with pytest.warns(netsim.NetsimWarning, match=f"cannot be stored in {kept}"):
        assert compiled_from_cache() == (6, 0)
    assert compiled_from_cache() == (6, 0)


def test_without_room_for_a_cache_kernels_are_compiled_all_the_same(kept, monkeypatch):
    """Where nothing can be written at all, and where the disk is full when it comes to that."""
    kernel = compiled(lambda x: 4 * x)
    assert kernel._cache.cache_path
    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "save", no_room)
    with pytest.warns(netsim.NetsimWarning, match="No space left"):
        assert kernel(3) == 12
    monkeypatch.setattr(numba.core.caching._CacheLocator, "ensure_cache_path", no_room)
    with pytest.warns(netsim.NetsimWarning, match="cannot be stored"):
        assert compiled(lambda x: 3 * x)(3) == 9


@pytest.fixture
def nothing_kept(tmp_path, monkeypatch):
    """Let nothing be compiled that an earlier run of the tests has kept."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))


@pytest.mark.usefixtures("nothing_kept")
def test_a_kernel_is_typed_once_for_python_and_other_kernels():
    """What other kernels call is a part, from which the machine code for Python is made."""
    @in_place
    def once(x):
        return x + 1.0

    @in_place
    def twice(x):
        return once(once(x))

    assert twice(1.0) == 3.0
    assert once.overloads == {}
    part, = once.part.overloads.values()
    assert once(1.0) == 2.0
    assert list(once.part.overloads.values()) == [part]


def test_parts_are_cached(tmp_path):
    """A kernel that is new needs only itself to be compiled."""
    (tmp_path / "first.py").write_text(
        "from netsim.base.compiling import in_place\n\n"
        "@in_place\ndef once(x):\n    return x + 1.0\n")
    for times, shown in ((2, "3.0 0"), (3, "4.0 1")):
        (tmp_path / "second.py").write_text(
            "from netsim.base.compiling import in_place\nfrom first import once\n\n@in_place\n"
            f"def several(x):\n    return {'once(' * times}x{')' * times}\n\n"
            "print(several(1.0), once.part.stats.cache_hits.total())\n")
        done = subprocess.run([sys.executable, "second.py"], cwd=tmp_path, capture_output=True,
                              text=True, check=True, env={
                                  **os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
                                  "PYTHONPATH": str(Path(netsim.__file__).parents[1])})
        assert done.stdout.strip() == shown


@exhaustive
def test_a_kernel_that_makes_arrays_is_cached_with_those_that_call_it(tmp_path):
    """What Python needs to know about the array is not lost if its caller, or a part, is loaded."""
    (tmp_path / "first.py").write_text(
        "import numpy as np\nfrom netsim.base.compiling import compiled\n\n"
        "@compiled\ndef pair(x):\n    return np.full(2, x)\n\n"
        "@compiled\ndef total(x):\n    return pair(x).sum()\n\n"
        "print(pair(1.0), total(2.0), pair(3.0), pair.stats.cache_hits.total())\n")
    for hits in (0, 1, 0):
        done = subprocess.run([sys.executable, "first.py"], cwd=tmp_path, capture_output=True,
                              text=True, check=True, env={
                                  **os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
                                  "PYTHONPATH": str(Path(netsim.__file__).parents[1])})
        assert done.stdout.strip() == f"[1. 1.] 4.0 [3. 3.] {hits}"
        for path in tmp_path.rglob("first.*.nb?") if hits else ():
            path.unlink()


@pytest.mark.usefixtures("nothing_kept")
def test_constants_and_narrow_integers_do_not_make_kernels_anew():
    @in_place
    def added(x, y):
        return x + y

    @in_place
    def total(x):
        return added(x, 1) + added(x, 2) + added(np.int32(3), x)

    assert total(4) == 18
    assert list(added.part.overloads) == [(numba.int64, numba.int64)]


class _Thresholds(event.Listener):
    """Keeps the garbage collector's thresholds as kernels begin to be compiled."""

    def __init__(self):
        self.seen = []

    def on_start(self, event):
        self.seen.append(gc.get_threshold())

    def on_end(self, event):
        pass


def test_garbage_is_looked_for_as_before_when_a_kernel_has_been_compiled():
    """Rarely meanwhile; not at all where the user has said so."""
    for before in ((600, 5, 7), (0, 5, 7)):
        kernel = CompiledKernel(lambda x: 2.0 * x, targetoptions={"nopython": True})
        held = gc.get_threshold()
        try:
            gc.set_threshold(*before)
            with event.install_listener("numba:compile", _Thresholds()) as listener:
                assert kernel(2.0) == 4.0
            after = gc.get_threshold()
        finally:
            gc.set_threshold(*held)
        assert after == before
        assert set(listener.seen) == {(1_000_000, 20, 100) if before[0] else before}
