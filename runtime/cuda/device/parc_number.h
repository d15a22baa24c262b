/* parc_number.h: implements the number functions of device code for the GPU:
 * conversions between f32, bf16 and f16, and elementary functions. They are
 * part 3 of parc_device.h, which documents them. */
#ifndef PARC_NUMBER_H
#define PARC_NUMBER_H

PARC_DEVICE float parc_from_bits(int32_t i)
{
    return __int_as_float(i);
}

PARC_DEVICE int32_t parc_bits(float x)
{
    return __float_as_int(x);
}

PARC_DEVICE float parc_from_bf16(parc_bf16 x)
{
    return __uint_as_float((uint32_t)x << 16);
}

PARC_DEVICE parc_bf16 parc_to_bf16(float x)
{
    parc_bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

PARC_DEVICE float parc_from_f16(parc_f16 x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

PARC_DEVICE parc_f16 parc_to_f16(float x)
{
    parc_f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

PARC_DEVICE uint32_t parc_pack_bf16(float low, float high)
{
    uint32_t y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

PARC_DEVICE uint32_t parc_pack_f16(float low, float high)
{
    uint32_t y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

PARC_DEVICE float parc_select(int condition, float y, float z)
{
    return condition ? y : z;
}

PARC_DEVICE float parc_max(float x, float y)
{
    float z;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}

PARC_DEVICE float parc_min(float x, float y)
{
    float z;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
    return z;
}

PARC_DEVICE float parc_abs(float x)
{
    return fabsf(x);
}

PARC_DEVICE float parc_exp(float x)
{
    return expf(x);
}

PARC_DEVICE float parc_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

PARC_DEVICE float parc_log(float x)
{
    return logf(x);
}

PARC_DEVICE float parc_sqrt(float x)
{
    return sqrtf(x);
}

PARC_DEVICE float parc_rsqrt(float x)
{
    return rsqrtf(x);
}

/* If e^-x exceeds 2^126 the quotient is 0; the exact result is below the
 * smallest normal number. */
PARC_DEVICE float parc_sigmoid(float x)
{
    return __fdividef(1.0f, 1.0f + expf(-x));
}

PARC_DEVICE float parc_tanh(float x)
{
    return tanhf(x);
}

PARC_DEVICE float parc_gelu_tanh(float x)
{
    return parc_tanh(0.797884561f * (x + 0.044715f * (x * x * x)));
}

/* GELU as approximated by tanh. */
PARC_DEVICE float parc_gelu(float x)
{
    return 0.5f * x * (1.0f + parc_gelu_tanh(x));
}

/* Its derivative. */
PARC_DEVICE float parc_gelu_slope(float x)
{
    float t = parc_gelu_tanh(x);
    float inner = 0.797884561f + 0.107032224f * (x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

PARC_DEVICE float parc_erf(float x)
{
    return erff(x);
}

/* Subtracts the nearest multiple of pi in double, as parc_cos does: the
 * library's sine uses a table in local memory for large x. */
PARC_DEVICE float parc_sin(float x)
{
    double t = (double)x * 0.31830988618379067, n = rint(t);
    float y = sinpif((float)(t - n));
    return (long long)n & 1 ? -y : y;
}

PARC_DEVICE float parc_cos(float x)
{
    double t = (double)x * 0.31830988618379067, n = rint(t);
    float y = cospif((float)(t - n));
    return (long long)n & 1 ? -y : y;
}

PARC_DEVICE float parc_pow(float x, float e)
{
    return powf(x, e);
}

#endif
