// The type of feature values that kernels are compiled for: float32 or float64.

#ifndef DOUBLE
#define DOUBLE 0  // whether values are float64
#endif
#if DOUBLE
typedef double Value;
#else
typedef float Value;
#endif
