"""Named tuples passed by reference."""
import hashlib
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.core.datamodel import register_default
from numba.core.imputils import lower_getattr_generic, impl_ret_borrowed, Registry
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic


class Reference(types.Type):
    def __init__(self, record):
        self.record = record
        digest = hashlib.sha256(str(record).encode()).hexdigest()[:12]
        super().__init__(name=f"{record.instance_class.__name__}_{digest}")

    @property
    def key(self):
        return self.record


def reference_to(kind):
    return Reference(kind) if isinstance(kind, types.BaseNamedTuple) else kind


@register_default(Reference)
class _ReferenceModel(PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, dmm.lookup(fe_type.record).get_value_type().as_pointer())


@infer_getattr
class _ReferenceAttribute(AttributeTemplate):
    key = Reference

    def generic_resolve(self, reference, attribute):
        record = reference.record
        if attribute in record.fields:
            return reference_to(record.types[record.fields.index(attribute)])


@lower_getattr_generic(Reference)
def _field(context, builder, kind, value, attribute):
    record = kind.record
    i = record.fields.index(attribute)
    place = cgutils.gep_inbounds(builder, value, 0, i)
    field = record.types[i]
    if isinstance(field, types.BaseNamedTuple):
        return place
    loaded = builder.load(place)
    if not isinstance(field, types.NoneType):
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return impl_ret_borrowed(context, builder, field, loaded)


@intrinsic
def by_reference(typing_context, value):
    target = reference_to(value)

    def generate(context, builder, signature, arguments):
        if not isinstance(target, Reference):
            return impl_ret_borrowed(context, builder, target, arguments[0])
        place = cgutils.alloca_once(builder, arguments[0].type)
        builder.store(arguments[0], place)
        return place

    return target(value), generate
