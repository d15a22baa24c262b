/* parc_number.h: implements the number functions of device code for the GPU:
 * conversions between f32, bf16 and f16, and elementary functions. They are
 * part 3 of parc_device.h, which documents them. */
#ifndef PARC_NUMBER_H
#define PARC_NUMBER_H

/* Functions that CUDA has under another name. */
#define PARC_CUDA(result, name, operand, function)                             \
    PARC_DEVICE result parc_##name(operand x)                                  \
    {                                                                          \
        return function(x);                                                    \
    }
PARC_CUDA(float, from_bits, int32_t, __int_as_float)
PARC_CUDA(int32_t, bits, float, __float_as_int)
PARC_CUDA(float, abs, float, fabsf)
PARC_CUDA(float, floor, float, floorf)
PARC_CUDA(float, exp, float, expf)
PARC_CUDA(float, log, float, logf)
PARC_CUDA(float, sqrt, float, sqrtf)
PARC_CUDA(float, rsqrt, float, rsqrtf)
PARC_CUDA(float, tanh, float, tanhf)
PARC_CUDA(float, erf, float, erff)

/* Functions that are one instruction: of one operand, and of two in f32. The
 * letters are the registers' types. */
#define PARC_INSTRUCTION(result, name, operand, text, to, from)                \
    PARC_DEVICE result parc_##name(operand x)                                  \
    {                                                                          \
        result y;                                                              \
        asm(text " %0, %1;" : "=" to(y) : from(x));                            \
        return y;                                                              \
    }
PARC_INSTRUCTION(float, exp2, float, "ex2.approx.ftz.f32", "f", "f")
PARC_INSTRUCTION(float, from_f16, parc_f16, "cvt.f32.f16", "f", "h")
PARC_INSTRUCTION(parc_f16, to_f16, float, "cvt.rn.f16.f32", "h", "f")
PARC_INSTRUCTION(parc_bf16, to_bf16, float, "cvt.rn.bf16.f32", "h", "f")

#define PARC_INSTRUCTION_2(result, name, text, to, first, second)              \
    PARC_DEVICE result parc_##name(float x, float y)                           \
    {                                                                          \
        result z;                                                              \
        asm(text " %0, %1, %2;" : "=" to(z) : "f"(first), "f"(second));        \
        return z;                                                              \
    }
PARC_INSTRUCTION_2(float, max, "max.NaN.f32", "f", x, y)
PARC_INSTRUCTION_2(float, min, "min.NaN.f32", "f", x, y)
/* The first operand is the high half. */
PARC_INSTRUCTION_2(uint32_t, pack_bf16, "cvt.rn.bf16x2.f32", "r", y, x)
PARC_INSTRUCTION_2(uint32_t, pack_f16, "cvt.rn.f16x2.f32", "r", y, x)

PARC_DEVICE float parc_from_bf16(parc_bf16 x)
{
    return __uint_as_float((uint32_t)x << 16);
}

PARC_DEVICE float parc_select(int condition, float y, float z)
{
    return condition ? y : z;
}

PARC_DEVICE float parc_pow(float x, float e)
{
    return powf(x, e);
}

/* If e^-x exceeds 2^126 the quotient is 0; the exact result is below the
 * smallest normal number. */
PARC_DEVICE float parc_sigmoid(float x)
{
    return __fdividef(1.0f, 1.0f + expf(-x));
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

/* Subtracts the nearest multiple of pi in double: the library's functions use
 * a table in local memory for large x. */
#define PARC_PERIODIC(name, function)                                          \
    PARC_DEVICE float parc_##name(float x)                                     \
    {                                                                          \
        double t = (double)x * 0.31830988618379067, n = rint(t);               \
        float y = function((float)(t - n));                                    \
        return (long long)n & 1 ? -y : y;                                      \
    }
PARC_PERIODIC(sin, sinpif)
PARC_PERIODIC(cos, cospif)

#endif
