// What the launcher needs of each kernel: a function to call it with pointers to its arguments,
// the types of its parameters as text, and its launch bound. Included after the kernels.
#pragma once
#include "shim_api.h"

namespace shim {

template <class T, class Enable = void>
struct Component {  // a struct of the kernel's own
    typedef T type;
    static constexpr char kind = 'V';
};
template <class T>
struct Component<T, decltype(static_cast<void>(typename T::component()))> {  // int4 and the like
    typedef typename T::component type;
    static constexpr char kind = Component<type>::kind;
};
#define SHIM_COMPONENT(T, letter)               \
    template <>                                 \
    struct Component<T, void> {                 \
        typedef T type;                         \
        static constexpr char kind = letter;    \
    };
SHIM_COMPONENT(bool, 'b')
SHIM_COMPONENT(char, 'i')
SHIM_COMPONENT(signed char, 'i')
SHIM_COMPONENT(short, 'i')
SHIM_COMPONENT(int, 'i')
SHIM_COMPONENT(long, 'i')
SHIM_COMPONENT(long long, 'i')
SHIM_COMPONENT(unsigned char, 'u')
SHIM_COMPONENT(unsigned short, 'u')
SHIM_COMPONENT(unsigned, 'u')
SHIM_COMPONENT(unsigned long, 'u')
SHIM_COMPONENT(unsigned long long, 'u')
SHIM_COMPONENT(float, 'f')
SHIM_COMPONENT(double, 'f')
#undef SHIM_COMPONENT

// One parameter as the launcher reads it: component size, total size and alignment in bytes.
struct Parameter {
    char passing;  // 'p' pointer, 'c' pointer to const, 'v' value
    char kind;     // NumPy's letter, 'V' for a struct
    short component_bytes;
    short bytes;
    short alignment;
};

template <class T>
struct Describe {
    static constexpr Parameter as(char passing) {
        return {passing, Component<T>::kind, sizeof(typename Component<T>::type), sizeof(T),
                alignof(T)};
    }
    static constexpr Parameter parameter() { return as('v'); }
};
template <class T>
struct Describe<T*> {
    static constexpr Parameter parameter() { return Describe<T>::as('p'); }
};
template <class T>
struct Describe<const T*> {
    static constexpr Parameter parameter() { return Describe<T>::as('c'); }
};
template <>
struct Describe<void*> {
    static constexpr Parameter parameter() { return {'p', 'V', 1, 1, 1}; }
};
template <>
struct Describe<const void*> {
    static constexpr Parameter parameter() { return {'c', 'V', 1, 1, 1}; }
};

template <unsigned... I>
struct Indices {};
template <unsigned N, unsigned... I>
struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <unsigned... I>
struct MakeIndices<0, I...> {
    typedef Indices<I...> type;
};

template <class... Types, unsigned... I>
inline void call_with(void (*kernel)(Types...), void** arguments, Indices<I...>) {
    static_cast<void>(arguments);
    kernel(*static_cast<Types*>(arguments[I])...);
}
template <class... Types>
inline void call(void (*kernel)(Types...), void** arguments) {
    call_with(kernel, arguments, typename MakeIndices<sizeof...(Types)>::type());
}
template <class... Types>
inline int describe(void (*)(Types...), Parameter* out) {
    const Parameter parameters[] = {Describe<Types>::parameter()..., Parameter()};
    for (unsigned i = 0; i < sizeof...(Types); ++i) out[i] = parameters[i];
    return sizeof...(Types);
}

}  // namespace shim

// The launch bound is what __launch_bounds__ was given, or 1024.
#define SHIM_KERNEL(name, ...)                                                               \
    extern "C" void shim_call_##name(void** arguments) { shim::call(&name, arguments); }     \
    extern "C" int shim_parameters_##name(shim::Parameter* out) {                            \
        return shim::describe(&name, out);                                                   \
    }                                                                                        \
    extern "C" unsigned shim_bound_##name() {                                                \
        const unsigned bounds[] = {__VA_ARGS__};                                             \
        return bounds[0];                                                                    \
    }
