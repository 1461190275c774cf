"""Functions that Numba compiles once, for Python and for all kernels that call them.

Numba makes machine code of each function, with a copy of all that it calls. Here, a function that
other kernels call stops before that, as a *part* in LLVM's language. Only what Python calls becomes
machine code: a part, with those that it calls, and a wrapper. Both are kept on disk; a damaged file
is compiled and written again.

Ctrl-C may come at any time: see `_QuietAPI` and `netsim.base.signals`.
"""

from __future__ import annotations

import gc
import hashlib
import io
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir as llvm_ir
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core import cgutils, event, ir, types
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    UserProvidedCacheLocator,
)
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags, compile_result
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment
from numba.core.pythonapi import PythonAPI
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic, overload

from netsim.base import display
from netsim.base.files import folder_below
from netsim.base.signals import check_signals
from netsim.errors import NetsimWarning


# --- files ---------------------------------------------------------------------------------
class _CheckedFile(IndexDataCacheFile):
    """The files of one kernel, each with a digest at its end, which unpickling passes over.

    Damaged files are as good as missing ones. Without a digest they might be loaded: machine code
    may be anything.
    """

    def _load_index(self) -> Any:
        try:
            _check(self._index_path)
            return super()._load_index()
        except (OSError, AttributeError, ImportError):
            return {}  # damaged, or of a version of netsim with classes that are gone

    def _load_data(self, name: str) -> Any:
        _check(self._data_path(name))  # Numba takes an OSError for a file that is not there
        return super()._load_data(name)

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        with super()._open_for_write(filepath) as file:
            written = io.BytesIO()
            yield written
            data = written.getvalue()
            file.write(data + _digest(data))


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _check(path: str) -> None:
    """Raise an OSError if a file is damaged, or cannot be read."""
    data = Path(path).read_bytes()
    size = hashlib.sha256().digest_size
    if _digest(data[:-size]) != data[-size:]:
        raise OSError(f"{path} is damaged")


class InOwnFolder(CompileResultCacheImpl):
    """Keeps compiled code in the folder of this version of netsim, or nowhere."""

    _locator_classes = [UserProvidedCacheLocator]  # noqa: RUF012 - as Numba declares it


class KernelCache(FunctionCache):
    """The cache of one kernel; what cannot be written is compiled again in the next process."""

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        self._cache_file = _CheckedFile(self._cache_path, self._impl.filename_base,
                                        self._impl.locator.get_source_stamp())

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a kernel if possible."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            file = str(error.filename2 or error.filename or self.cache_path)
            place = self.cache_path, error.strerror
            if place not in _told:
                _told.add(place)
                warnings.warn(NetsimWarning(
                    f"a compiled kernel cannot be stored in {file.partition('.tmp.')[0]}: "
                    f"{error.strerror or error}; each process compiles it again, unless "
                    "NUMBA_CACHE_DIR names another folder"), stacklevel=2)


#: Folders and reasons that have been reported: on a full disk, many kernels share them.
_told: set[tuple[str, str | None]] = set()


@cache
def tell_not_kept(folder: str) -> None:
    """Warn, once, that no compiled kernels can be stored, as a folder cannot be written."""
    warnings.warn(NetsimWarning(
        f"compiled kernels cannot be stored in {folder}; each process compiles them again, which "
        "takes about 20 s, unless NUMBA_CACHE_DIR names another folder"), stacklevel=2)


# --- compiling -----------------------------------------------------------------------------

# Numba's type hints cover neither its named tuples nor what is added here, nor all options.
_IR: Any = ir

_CONFIG: Any = numba.config

#: Thresholds of Python's garbage collector while kernels are compiled.
_RARELY = 1_000_000, 20, 100

#: Words on the stack of Python that are kept for the calls of the compiler.
_STACK = 1 << 16


@intrinsic
def _check_signals(_typing: Any) -> Any:
    """Let Python handle signals that have arrived; if that raises, leave all kernels."""
    def lower(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        check = cgutils.get_or_insert_function(
            builder.module, llvm_ir.FunctionType(llvm_ir.IntType(32), ()), "PyErr_CheckSignals")
        raised = cgutils.is_not_null(builder, builder.call(check, ()))
        with builder.if_then(raised, likely=False):
            context.call_conv.return_exc(builder)
        return context.get_dummy_value()
    return types.void(), lower


@overload(check_signals, inline="always")
def _checking() -> Any:
    return lambda: _check_signals()  # type: ignore[call-arg]


#: Makes tuples of any class without running Python code, as the class itself would.
_NEW_TUPLE = tuple.__new__


class _QuietAPI(PythonAPI):
    """Hands results to Python without running Python code on the way.

    Numba finds classes by unpickling, and calls those of named tuples. In such code, Python handles
    the signals that have arrived while the kernel ran; when that raises, Numba crashes.
    """

    def get_env_manager(self, *given: Any) -> Any:
        """Keep the place of constant objects."""
        self._constants = super().get_env_manager(*given)
        return self._constants

    def serialize_object(self, obj: Any) -> Any:
        """Leave an object as it is, for `unserialize`."""
        return obj

    def unserialize(self, obj: Any) -> Any:
        """Return an object that is kept as a constant; an exception is unpickled."""
        if isinstance(obj, llvm_ir.Value):
            return super().unserialize(obj)
        constant = self._constants.read_const(self._constants.add_const(obj))
        self.incref(constant)
        return constant

    def call(self, callee: Any, args: Any = None, kws: Any = None) -> Any:
        """Make a tuple of a class; nothing else is called to hand over a result."""
        given = self.tuple_pack([callee, args])
        new = self.unserialize(_NEW_TUPLE)
        made = super().call(new, given)
        self.decref(new)
        self.decref(given)
        return made


class _Library(JITCodeLibrary):
    """Code that is optimised once, when all of it is together."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Set the data layout alone: `_optimize_final_module` optimises all functions together."""
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Optimise without the cheap passes that help to find counts of references to remove."""
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _PartLibrary(_Library):
    """The code of a part, neither optimised nor machine code."""

    def _optimize_final_module(self) -> None:
        """Do nothing: the libraries that include this one optimise it."""

    def _finalize_final_module(self) -> None:
        """Finish without machine code."""
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """The bitcode, which is cached."""
        return self.name, "part", self._final_module.as_bitcode()


class _QuickFlags(Flags):
    """Flags of the compiler that are compared at once, not option by option."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _QuickFlags) and self._values == other._values

    def __hash__(self) -> int:
        return 0  # as Numba's, which all have the same one


class PartCompiler(Compiler):
    """Compiles a part."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile, but do not look for machine code."""
        context = self.state.targetctx
        self.state.flags = _QuickFlags(self.state.flags)
        self.state.flags.no_compile = True
        self.state.library = _PartLibrary(context.codegen(), func.__qualname__)
        result = _with_entry(super().compile_extra(func))
        context.insert_user_function(result.entry_point, result.fndesc, [result.library])
        return result


def _with_entry(part: Any) -> Any:
    """Give a compiled part an entry point, by which Numba tells it from others; never call that."""
    part.library._ensure_finalized()
    return part._replace(entry_point=_dynfunc.make_function(
        part.fndesc.lookup_module(), part.fndesc.qualname, "", 0, part.environment,
        (part.library,)))


class _PartCacheImpl(InOwnFolder):
    """Stores parts in separate files."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        """Begin the names of files with ``part-``."""
        return "part-" + str(super().get_filename_base(fullname, abiflags))

    def check_cachable(self, _part: Any) -> bool:
        """Accept every part; what must not be cached is found in the machine code."""
        return True

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """Rebuild a stored part; see Numba's `CompileResult._rebuild`."""
        ((name, _, bitcode), fndesc, environment, signature, objectmode, lifted, annotation,
         reload_init, referenced_envs) = payload
        library = _PartLibrary(target_context.codegen(), name)
        library._final_module = llvm.parse_bitcode(bitcode)
        return _with_entry(compile_result(
            typing_context=target_context.typing_context, target_context=target_context,
            type_annotation=annotation, signature=signature, objectmode=objectmode, lifted=lifted,
            fndesc=fndesc, library=library, environment=environment, reload_init=reload_init,
            referenced_envs=referenced_envs))


class _PartCache(KernelCache):
    """The cache of a part."""

    _impl_class = _PartCacheImpl  # type: ignore[assignment]


class _WholeCache(KernelCache):
    """The cache of the kernels that Python calls."""

    _impl_class = InOwnFolder  # type: ignore[assignment]


class _Part(CPUDispatcher):
    """A kernel as other kernels see it."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile once for all constants of a type; signed integers are handed over as int64."""
        return super().get_call_template(tuple(map(_widest, args)),
                                         {name: _widest(kind) for name, kind in kws.items()})

    def enable_caching(self) -> None:
        """Cache the part."""
        self._cache = _PartCache(self.py_func)


def _widest(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return types.int64 if kind in types.signed_domain else kind


class CompiledKernel(CPUDispatcher):
    """A kernel that Python or other kernels call, with the arguments of Numba's `Dispatcher`."""

    def __init__(self, py_func: Callable[..., Any], locals: Any = None, targetoptions: Any = None,
                 pipeline_class: Any = PartCompiler) -> None:
        super().__init__(py_func, locals or {}, targetoptions, pipeline_class)
        self.part = _Part(py_func, locals or {},
                          {**(targetoptions or {}), "no_cpython_wrapper": True}, pipeline_class)
        compiler: Any = vars(self)["_compiler"]
        compiler.compile = self._complete

    @property
    def _numba_type_(self) -> types.Dispatcher:
        """The type of the kernel in other kernels."""
        return types.Dispatcher(self.part)

    def enable_caching(self) -> None:
        """Cache both the kernel that Python calls and the part that other kernels call."""
        self._cache = _WholeCache(self.py_func)
        self.part.enable_caching()

    def compile(self, sig: Any) -> Any:
        """Compile for Python."""
        return quickly(super().compile, sig)

    def _complete(self, args: Any, _return_type: Any) -> Any:
        """Make machine code of the part for these types of arguments."""
        self.part.compile(args)
        part: Any = self.part.overloads[tuple(args)]
        made = part.library
        # A part from the cache does not know whether references are counted.
        context: Any = self.targetctx.subtarget(enable_nrt=self.targetoptions.get("_nrt", True))
        library = _Library(context.codegen(), made.name)
        library.enable_object_caching()
        library.add_llvm_module(made._final_module.clone())
        described, environment = copy(part.fndesc), part.environment
        if not self.targetoptions.get("no_cpython_wrapper"):
            # What the wrapper needs of Python is in an environment of its own: under one name, that
            # of the part, which has nothing, could take its place.
            described.env_name += ".python"
            environment = Environment.from_fndesc(described)
            context.get_python_api = partial(_QuietAPI, context)
            context.create_cpython_wrapper(library, described, environment, None)
        entry = context.get_executable(library, described, environment)
        return part._replace(library=library, target_context=context, fndesc=described,
                             environment=environment, entry_point=entry, metadata={})


def cached_kernel(kernel: Callable[..., Any], options: Mapping[str, Any]) -> CompiledKernel:
    """Make a kernel that is cached on disk, in a folder whose name depends on all kernels.

    Numba itself checks only a kernel's own file to see whether a cached kernel is out of date, but
    kernels call kernels of other files.
    """
    made = CompiledKernel(kernel, targetoptions={
        "nopython": True, "error_model": "numpy", "no_cfunc_wrapper": True, **options})
    before = _CONFIG.CACHE_DIR
    _CONFIG.CACHE_DIR = folder_below(before)
    try:
        made.enable_caching()
    except RuntimeError:  # the folder cannot be made, or written to
        tell_not_kept(_CONFIG.CACHE_DIR)
    finally:
        _CONFIG.CACHE_DIR = before
    return made


class _Listener(event.Listener):
    """Tells the user that kernels are compiled, which takes long."""

    def on_start(self, event: Any) -> None:
        """Count a kernel of netsim."""
        if _is_ours(event):
            display.begun()

    def on_end(self, event: Any) -> None:
        """Count it as compiled."""
        if _is_ours(event):
            display.ended()


def _is_ours(event: Any) -> bool:
    return (event.data["dispatcher"].py_func.__module__ or "").startswith("netsim.")


event.register("numba:compile", _Listener())


def quickly(compile_it: Callable[[Any], Any], sig: Any) -> Any:
    """Compile for a signature, with what makes Numba faster: see `_shortcuts` and `_with_stack`.

    Ctrl-C ends it only where that does no harm; see `_Interruption`.
    """
    with _shortcuts(), _Interruption.between_passes():
        return _with_stack(compile_it, sig)


def _with_stack(call: Callable[..., Any], *args: Any) -> Any:
    """Call a function with enough of Python's stack for all that it calls.

    Python 3.11 grows its stack by 16 KB, and gives that back when it is not used any more. A call
    across this border thus takes two system calls, and the compiler makes 500,000 of them.
    """
    return call(*args)


_with_stack.__code__ = _with_stack.__code__.replace(co_stacksize=_STACK)


@contextmanager
def _shortcuts() -> Iterator[None]:
    """Look rarely for garbage, and let copies of code share what describes its variables.

    Numba copies all variables of a function with each block of code that it inlines.
    """
    with global_compiler_lock:
        if "__deepcopy__" in vars(_IR.Scope):  # while another kernel is compiled
            yield
            return
        before = gc.get_threshold()
        if before[0]:
            gc.set_threshold(*_RARELY)
        _IR.Scope.__deepcopy__ = _IR.Loc.__deepcopy__ = _itself
        try:
            yield
        finally:
            del _IR.Scope.__deepcopy__, _IR.Loc.__deepcopy__
            gc.set_threshold(*before)


def _itself(kept: Any, _memo: Any) -> Any:
    return kept


class _Interruption(event.Listener):
    """Keeps Ctrl-C and SIGTERM until the compiler is about to begin another pass, or is done.

    Within a pass they might be lost, as LLVM calls Python and ignores errors of that; or the kernel
    might count as compiled without its machine code, and every later call of it would fail.
    """

    def __init__(self, handlers: Mapping[Any, Any]) -> None:
        self._handlers = handlers
        self._pending: list[tuple[int, Any]] = []
        self._keeps = True

    def on_start(self, event: Any) -> None:
        """Handle the signals that have arrived; mostly, that raises."""
        while self._pending:
            number, frame = self._pending.pop(0)
            self._handlers[number](number, frame)

    def on_end(self, event: Any) -> None:
        """Do nothing."""

    def _keep(self, number: int, frame: Any) -> None:
        self._pending.append((number, frame))
        if not self._keeps:
            self.on_start(None)

    @classmethod
    @contextmanager
    def between_passes(cls) -> Iterator[None]:
        """In this context, let signals be handled between passes only."""
        found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        handlers = {number: each for number, each in found.items() if callable(each)}
        if not handlers or threading.current_thread() is not threading.main_thread():
            yield
            return
        listener = cls(handlers)
        for number in handlers:
            signal.signal(number, listener._keep)
        try:
            with event.install_listener("numba:run_pass", listener):
                yield
        finally:
            listener._keeps = False  # a signal may come before all handlers are back
            for number, handler in handlers.items():
                signal.signal(number, handler)
            listener.on_start(None)
