// Undefined behaviour, found by the checks that -fsanitize=... compiles into the kernels of the
// flavour `undefined`. They call the handlers below, in place of the sanitizer's own library.
#pragma once
#include "launch_state.h"

namespace shim {

// Every handler's first argument begins with the place in the source.
struct CheckedPlace {
    const char* file;
    unsigned line;
    unsigned column;
};

[[noreturn]] inline void fail_check(const char* what, const void* data) {
    const auto* place = static_cast<const CheckedPlace*>(data);
    fail("undefined behaviour: %s (%s line %u)", what, base_name(place->file), place->line);
}

}  // namespace shim

extern "C" {
#define SHIM_CHECK_1(name, what) \
    void __ubsan_handle_##name(void* data, void*) { shim::fail_check(what, data); }
#define SHIM_CHECK_2(name, what) \
    void __ubsan_handle_##name(void* data, void*, void*) { shim::fail_check(what, data); }
SHIM_CHECK_1(out_of_bounds, "index outside its array")
SHIM_CHECK_1(float_cast_overflow, "conversion of a floating-point value outside the range")
SHIM_CHECK_1(negate_overflow, "signed overflow of a negation")
SHIM_CHECK_2(add_overflow, "signed overflow of a sum")
SHIM_CHECK_2(sub_overflow, "signed overflow of a difference")
SHIM_CHECK_2(mul_overflow, "signed overflow of a product")
SHIM_CHECK_2(divrem_overflow, "integer division by zero, or its overflow")
SHIM_CHECK_2(shift_out_of_bounds, "shift by a negative number of bits, or more than there are")
#undef SHIM_CHECK_1
#undef SHIM_CHECK_2
}
