"""Tuples of arrays that kernels hand to each other as one pointer.

Numba hands a tuple of arrays to a kernel as some seven numbers for each array. With the forty
arrays of an engine, that takes longer than many kernels, and compiling it takes longer still.

Python hands such tuples over as they are. The kernel that it calls refers to them by
`by_reference`, and the kernels below it get the pointer.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed, impl_ret_new_ref
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
)

_POINTER = ir.IntType(8).as_pointer()


class _Reference(types.Type):
    """The type of a pointer to a NamedTuple."""

    def __init__(self, fields: types.NamedTuple) -> None:
        self.fields = fields
        self.instance_class = fields.instance_class
        super().__init__(name=f"Reference({fields})")

    @property
    def key(self) -> types.NamedTuple:
        """The identity of the type: `name` does not tell the names of the fields."""
        return self.fields

    def place_of(self, name: str) -> int:
        """Return the place of a field in the tuple."""
        return int(self.fields.fields.index(name))


register_model(_Reference)(models.OpaqueModel)


@intrinsic
def by_reference(_typing: Any, given: Any) -> Any:
    """Return an argument, a NamedTuple, as a pointer that is valid until the kernel returns.

    Its fields are read as those of the tuple, and cannot be set. A field that is a NamedTuple is a
    pointer, too.
    """
    if isinstance(given, _Reference):
        return given(given), lambda _context, _builder, _signature, args: args[0]

    def lower(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(cgutils.alloca_once_value(builder, args[0]), _POINTER)
    return _Reference(given)(given), lower


@intrinsic
def owned(_typing: Any, given: Any) -> Any:
    """As `by_reference`, but the tuple may be replaced; it must be `released` at the end.

    If an exception passes before that, the arrays are never freed.
    """
    def lower(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        context.nrt.incref(builder, given, args[0])
        return builder.bitcast(cgutils.alloca_once_value(builder, args[0]), _POINTER)
    return _Reference(given)(given), lower


@intrinsic
def replace(_typing: Any, reference: Any, given: Any) -> Any:
    """Make a pointer that is `owned` refer to another tuple of the same type.

    Arrays that were read from it before must not be used any more.
    """
    def lower(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        place = builder.bitcast(args[0], context.get_value_type(given).as_pointer())
        context.nrt.incref(builder, given, args[1])
        context.nrt.decref(builder, given, builder.load(place))
        builder.store(args[1], place)
        return context.get_dummy_value()
    return types.void(reference, given), lower


@intrinsic
def released(_typing: Any, reference: Any) -> Any:
    """Return the tuple that a pointer refers to, which is no longer valid."""
    given = reference.fields

    def lower(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        place = builder.bitcast(args[0], context.get_value_type(given).as_pointer())
        return impl_ret_new_ref(context, builder, given, builder.load(place))
    return given(reference), lower


@infer_getattr
class _Fields(AttributeTemplate):
    """The types of the fields."""

    key = _Reference

    def generic_resolve(self, value: Any, attr: str) -> Any:  # type: ignore[override]
        """Return the type of a field; None if there is no such field."""
        if attr not in value.fields.fields:
            return None
        kind = value.fields.types[value.place_of(attr)]
        return _Reference(kind) if isinstance(kind, types.NamedTuple) else kind


@lower_getattr_generic(_Reference)
def _field_of(context: Any, builder: Any, reference: Any, pointer: Any, name: str) -> Any:
    """Load a field."""
    at = reference.place_of(name)
    kind = reference.fields.types[at]
    struct = builder.bitcast(pointer, context.get_value_type(reference.fields).as_pointer())
    place = builder.gep(struct, [ir.Constant(ir.IntType(32), k) for k in (0, at)], inbounds=True)
    if isinstance(kind, types.NamedTuple):
        return builder.bitcast(place, _POINTER)
    return impl_ret_borrowed(context, builder, kind, builder.load(place))


# --- kernels that are called by their address ----------------------------------------------


@intrinsic
def untyped(_typing: Any, reference: Any) -> Any:
    """Return a pointer without the type of what it refers to."""
    return types.voidptr(reference), lambda _context, _builder, _signature, args: args[0]


@intrinsic
def call_at(_typing: Any, address: Any, given: Any) -> Any:
    """Call the kernel at an address with a tuple of arguments; it returns a float.

    The arguments must have exactly the types for which the address was found; see `address_of`.
    """
    def lower(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        kinds = given.types
        function = context.call_conv.get_function_type(types.float64, kinds)
        status, result = context.call_conv.call_function(
            builder, builder.inttoptr(args[0], function.as_pointer()), types.float64, kinds,
            cgutils.unpack_tuple(builder, args[1]))
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
        return result
    return types.float64(address, given), lower


def type_of_reference(given: Any) -> types.Type:
    """Return the type of the pointer to a NamedTuple that Python has."""
    return _Reference(typeof(given))


def address_of(kernel: Any, *kinds: types.Type) -> int:
    """Compile a kernel for these types of arguments; return the address of its machine code."""
    result = kernel.get_compile_result(types.float64(*kinds))
    address = int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))
    assert address
    assert result.signature.return_type == types.float64
    return address
