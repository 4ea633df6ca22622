// The type of feature values that kernels are compiled for: float32 or float64.

#ifndef DOUBLE
#define DOUBLE 0  // whether values are float64
#endif
#if DOUBLE
typedef double Value;
typedef int64 Key;  // an integer of the same size
#else
typedef float Value;
typedef int32 Key;
#endif
