// Every intrinsic that the shim provides, one column of results each.

extern "C" __global__ void bits(const uint64* in, int64* out, int32 columns)
{
    const uint64 wide = in[threadIdx.x];
    const uint32 narrow = (uint32)wide;
    int64* row = out + (int64)threadIdx.x * columns;
    row[0] = __popc(narrow);
    row[1] = __popcll(wide);
    row[2] = __ffs((int32)narrow);
    row[3] = __ffsll((int64)wide);
    row[4] = __clz((int32)narrow);
    row[5] = __clzll((int64)wide);
    row[6] = __brev(narrow);
    row[7] = (int64)__brevll(wide);
    row[8] = __mulhi((int32)narrow, (int32)(narrow ^ 0x5bd1e995u));
    row[9] = __umulhi(narrow, 0x9e3779b9u);
    row[10] = (int64)__umul64hi(wide, 0x9e3779b97f4a7c15ull);
    row[11] = __mul64hi((int64)wide, 0x1e3779b97f4a7c15ll);
    row[12] = __double_as_longlong(__longlong_as_double((int64)wide));
    row[13] = __float_as_int(__uint_as_float(narrow));
    row[14] = __float_as_uint(__int_as_float((int32)narrow));
    row[15] = __hiloint2double((int32)(wide >> 32), (int32)narrow) == __longlong_as_double((int64)wide);
    row[16] = __double2hiint(__longlong_as_double((int64)wide));
    row[17] = __double2loint(__longlong_as_double((int64)wide));
}

extern "C" __global__ void arithmetic(const double* a, const double* b, double* out, int32 columns)
{
    const double x = a[threadIdx.x], y = b[threadIdx.x];
    double* row = out + (int64)threadIdx.x * columns;
    row[0] = __dadd_rn(x, y);
    row[1] = __dsub_rn(x, y);
    row[2] = __dmul_rn(x, y);
    row[3] = __ddiv_rn(x, y);
    row[4] = x * y + x;  // must not be contracted
    row[5] = __dsqrt_rn(fabs(x));
    row[6] = floor(x);
    row[7] = ceil(x);
    row[8] = rint(x);
    row[9] = trunc(x);
    row[10] = min(x, y);
    row[11] = max(x, y);
    row[12] = __double2float_rn(x);
    row[13] = __double2float_rd(x);
    row[14] = (double)__double2ll_rn(x);
    row[15] = __fadd_rn((float)x, (float)y);
    row[16] = (float)x * (float)y + (float)x;
    row[17] = __fdiv_rn((float)x, (float)y);
    row[18] = sqrtf(fabsf((float)x));
    row[19] = copysign(x, y);
    row[20] = ldexp(x, 3);
    row[21] = isnan(x) + 2 * isinf(x) + 4 * isfinite(x) + 8 * signbit(x);
    row[22] = __fma_rn(x, y, x);
}

// Each atomic by every thread on one word; the old values must be the ones of some order.
extern "C" __global__ void atomics(const int32* in, int32* narrow, uint32* plain, uint64* wide,
                                   int64* extremes)
{
    const int32 value = in[threadIdx.x];
    atomicAdd(&narrow[0], value);
    atomicSub(&narrow[1], value);
    atomicMax(&narrow[2], value);
    atomicMin(&narrow[3], value);
    atomicExch(&narrow[4], 7);
    atomicCAS(&narrow[5], 0, 1 + (int32)threadIdx.x);
    atomicAdd(&plain[0], (uint32)value);
    atomicSub(&plain[1], (uint32)value);
    atomicMax(&plain[2], (uint32)value);
    atomicMin(&plain[3], (uint32)value);
    atomicOr(&plain[4], 1u << (threadIdx.x & 15));
    atomicAnd(&plain[5], ~(1u << (threadIdx.x & 15)));
    atomicXor(&plain[6], 1u << (threadIdx.x & 31));
    atomicAdd(&wide[0], (uint64)(int64)value);
    atomicOr(&wide[1], 1ull << (threadIdx.x & 63));
    atomicCAS(&wide[2], 0ull, 1ull << 40);
    atomicMax(&extremes[0], (int64)value << 32);
    atomicMin(&extremes[1], (int64)value << 32);
}

// Shuffles of 64-bit values in segments of `width` lanes, and the votes of a half warp.
extern "C" __global__ void shuffles(const int64* in, int32 by, int32 width, int64* out, uint32* votes)
{
    const int lane = threadIdx.x;
    const int64 value = in[lane];
    out[lane] = __shfl_sync(FULL_MASK, value, by, width);
    out[32 + lane] = __shfl_up_sync(FULL_MASK, value, by, width);
    out[64 + lane] = __shfl_down_sync(FULL_MASK, value, by, width);
    out[96 + lane] = __shfl_xor_sync(FULL_MASK, value, by, width);
    const uint32 half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    votes[lane] = __ballot_sync(half, value > 0);
    votes[32 + lane] = __any_sync(half, value > 900) | __all_sync(half, value > -999) << 1;
}

extern "C" __global__ void vectors(const uchar4* bytes, const int2* pairs, const longlong2* longs,
                                   int64* out)
{
    const uchar4 b = bytes[threadIdx.x];
    const int2 p = pairs[threadIdx.x];
    const longlong2 l = longs[threadIdx.x];
    const ulonglong2 u = make_ulonglong2((uint64)l.x, (uint64)l.y);
    out[threadIdx.x] = b.x + 10 * b.y + 100 * b.z + 1000 * b.w + p.x * p.y + (int64)(u.x - u.y);
}
