"""Translation of typed functions to LLVM code, in fewer instructions than Numba's.

Numba translates each operation on its own: it builds a record of the whole array for each access
to an element, gives memory to every variable, and checks after each call whether it has failed.
LLVM removes nearly all of that again. But building, printing and parsing these instructions takes
much of the time to compile. So the operations that fill the engine have a short translation here;
all others have Numba's. Compiled functions must respect two rules, which Numba does not have: they
raise no errors and call nothing that does, because calls are not checked; and they own no
references (``_nrt`` is off), because nothing counts them. A ``raise`` is refused.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from llvmlite import ir as llvm
from numba import types
from numba.core import cgutils, ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import register_pass
from numba.core.errors import UnsupportedError
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering

from gpuboost.backends.numba.array_access import IndexedArray, array_field, is_plain_access

_RAISES = ir.StaticRaise, ir.DynamicRaise, ir.StaticTryRaise, ir.DynamicTryRaise


class _Lower(Lower):
    """Numba's translation with shorter forms of common operations."""

    # ---- variables: LLVM values where they are assigned once -------------------------------------

    def _find_singly_assigned_variable(self):
        assigned = [each for block in self.blocks.values() for each in block.find_insts(ir.Assign)]
        n_assigned = Counter(each.target.name for each in assigned)
        self._is_value = {name for name, n in n_assigned.items() if n == 1}
        self._values = {}
        self._unit_ranges = {
            each.target.name for each in assigned if self._is_unit_range(each.value)
        } & self._is_value

    def _is_unit_range(self, value):
        """Whether an expression is a call of ``range`` without a step."""
        is_call = isinstance(value, ir.Expr) and value.op == "call"
        return is_call and self._callee(value) is range and len(value.args) < 3

    def _callee(self, call):
        """Return the Python function that Numba implements and a call calls, or None."""
        kind = self.typeof(call.func.name)
        return kind.typing_key if isinstance(kind, types.Function) else None

    def lower_function_body(self):
        reached = compute_cfg_from_blocks(self.blocks).topo_order()  # assignments before uses
        for offset in reached:
            self.blkmap[offset] = self.function.append_basic_block(f"B{offset}")
        self.pre_lower()
        entry = self.builder.basic_block
        for offset in reached:
            self.builder.position_at_end(self.blkmap[offset])
            for instruction in self.blocks[offset].body:
                self.loc = instruction.loc
                self.lower_inst(instruction)
        self.post_lower()
        return entry

    def lower_inst(self, inst):
        if isinstance(inst, _RAISES):
            raise UnsupportedError("compiled functions cannot raise errors", loc=self.loc)
        if isinstance(inst, ir.Assign):
            value = self.lower_assign(self.typeof(inst.target.name), inst)
            self.storevar(value, inst.target.name)
        elif not isinstance(inst, ir.Del):
            super().lower_inst(inst)

    def getvar(self, name):
        if name not in self.varmap:
            self.varmap[name] = self.alloca(name, self.typeof(name))
        return self.varmap[name]

    def loadvar(self, name):
        if name in self._is_value:
            return self._values[name]
        return self.builder.load(self.getvar(name))

    def storevar(self, value, name, argidx=None):
        if name in self._is_value:
            self._values[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    # ---- elements and views of arrays ------------------------------------------------------------

    def lower_getitem(self, resty, expr, value, index, signature):
        indexed = self._indexed(value, index)
        if indexed is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        if isinstance(resty, types.Array):
            return indexed.view(resty)
        kind = indexed.array.dtype
        element = self.context.unpack_value(self.builder, kind, indexed.element_pointer())
        return self.context.cast(self.builder, element, kind, resty)

    def lower_setitem(self, target_var, index_var, value_var, signature):
        indexed = self._indexed(target_var, index_var)
        if indexed is None or not indexed.is_element:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        kind, given = indexed.array.dtype, self.typeof(value_var.name)
        value = self.context.cast(self.builder, self.loadvar(value_var.name), given, kind)
        self.context.pack_value(self.builder, kind, value, indexed.element_pointer())
        return None

    def _indexed(self, array_var, index_var):
        """Return an array with the numbers and slices that index it; None if other things do."""
        array, index = self.typeof(array_var.name), self.typeof(index_var.name)
        kinds = tuple(index) if isinstance(index, types.BaseTuple) else (index,)
        if not is_plain_access(array, kinds):
            return None
        value, indices = self.loadvar(array_var.name), [self.loadvar(index_var.name)]
        if isinstance(index, types.BaseTuple):
            indices = cgutils.unpack_tuple(self.builder, indices[0], len(kinds))
        return IndexedArray(self.context, self.builder, array, value, kinds, indices)

    # ---- expressions -------------------------------------------------------------------

    def lower_expr(self, resty, expr):
        name = expr.attr if expr.op == "getattr" else None
        translate = _SHORT_EXPRESSIONS.get((expr.op, name))
        if translate is not None:
            found = translate(self, resty, expr.value.name, self.typeof(expr.value.name))
            if found is not None:
                return found
        return super().lower_expr(resty, expr)

    # ---- calls -----------------------------------------------------------------------------------

    def _lower_call_normal(self, fnty, expr, signature):
        if isinstance(fnty, types.Dispatcher):
            compiled = fnty.dispatcher.overloads[signature.args]
            return self._call(compiled, self._arguments(fnty, signature, expr))
        result, callee = signature.return_type, self._callee(expr)
        if callee in (range, slice) and len(expr.args) < 3:
            return self._record_of_bounds(
                result, signature.args, self._arguments(fnty, signature, expr)
            )
        if callee is len:
            kind = self.typeof(expr.args[0].name)
            if isinstance(kind, types.Array):
                shape = array_field(self.builder, self.loadvar(expr.args[0].name), "shape")
                return self.builder.extract_value(shape, 0)
        return super()._lower_call_normal(fnty, expr, signature)

    def _arguments(self, fnty, signature, expr):
        """Return the arguments of a call."""
        return self.fold_call_args(fnty, signature, expr.args, expr.vararg, expr.kws)

    def _call(self, compiled, arguments):
        """Call a compiled function, which does not fail."""
        builder, described = self.builder, compiled.fndesc
        if isinstance(described.restype, types.Optional):
            raise UnsupportedError("helpers return a value or None, not either", loc=self.loc)
        function = self.context.declare_function(builder.module, described)
        returned = cgutils.alloca_once(builder, function.args[0].type.pointee)
        error = self.call_conv._get_excinfo_argument(self.function)  # never written
        packed = self.call_conv._get_arg_packer(described.argtypes).as_arguments(builder, arguments)
        builder.call(function, [returned, error, *packed])
        self.library.add_linking_library(compiled.library)
        result = builder.load(returned)
        return self.context.get_returned_value(builder, described.restype, result)

    def _record_of_bounds(self, result, kinds, bounds):
        """Return a range or slice with step 1."""
        record = self.context.get_value_type(result)
        number = record.elements[0]
        largest = number((1 << (number.width - 1)) - 1)
        start, stop = [number(0), *bounds] if len(bounds) == 1 else bounds
        kinds = [types.none, *kinds][-2:]
        start = number(0) if isinstance(kinds[0], types.NoneType) else start
        stop = largest if isinstance(kinds[1], types.NoneType) else stop
        value = llvm.Constant(record, llvm.Undefined)
        for place, each in enumerate((start, stop, number(1))):
            value = self.builder.insert_value(value, each, place)
        return value


def _range_iterator(lower, resty, name, kind):
    """Return the iterator of a range with step 1: the next number, and how many follow."""
    if name not in lower._unit_ranges:
        return None
    builder, numbers = lower.builder, lower.loadvar(name)
    start, stop, step = (builder.extract_value(numbers, i) for i in range(3))
    iterator = llvm.Constant(lower.context.get_value_type(resty), llvm.Undefined)
    following = cgutils.alloca_once_value(builder, start)
    n_left = cgutils.alloca_once_value(builder, builder.sub(stop, start))
    for field, value in enumerate((following, stop, step, n_left)):
        iterator = builder.insert_value(iterator, value, field)
    return iterator


def _next_of_range(lower, resty, name, kind):
    """Return the next number of a range, and whether there is one."""
    if not isinstance(kind, types.RangeIteratorType):
        return None
    builder, iterator = lower.builder, lower.loadvar(name)
    following, step, n_left = (builder.extract_value(iterator, i) for i in (0, 2, 3))
    number, n = builder.load(following), builder.load(n_left)
    builder.store(builder.add(number, step), following)
    builder.store(builder.sub(n, n.type(1)), n_left)
    pair = llvm.Constant(lower.context.get_value_type(resty), llvm.Undefined)
    pair = builder.insert_value(pair, number, 0)
    return builder.insert_value(pair, builder.icmp_signed(">", n, n.type(0)), 1)


def _first_of_pair(lower, resty, name, kind):
    return lower.builder.extract_value(lower.loadvar(name), 0)


def _second_of_pair(lower, resty, name, kind):
    return lower.builder.extract_value(lower.loadvar(name), 1)


def _shape(lower, resty, name, kind):
    if not isinstance(kind, types.Array):
        return None
    return array_field(lower.builder, lower.loadvar(name), "shape")


# Translations of expressions, which return None if an expression is not of the kind they are for.
_SHORT_EXPRESSIONS = {
    ("getiter", None): _range_iterator,
    ("iternext", None): _next_of_range,
    ("pair_first", None): _first_of_pair,
    ("pair_second", None): _second_of_pair,
    ("getattr", "shape"): _shape,
}


@register_pass(mutates_CFG=True, analysis_only=False)
class Lowering(BaseNativeLowering):
    """The pass that translates a function, with `_Lower`."""

    _name: Any = "gpuboost_lowering"

    @property
    def lowering_class(self):
        return _Lower
