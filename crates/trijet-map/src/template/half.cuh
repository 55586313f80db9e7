// Numbers of 16 bits, which are float in expressions and are rounded to the
// nearest number (ties to even) where they are stored.
struct trijet_f16 {
    unsigned short bits;
    trijet_f16() = default;
    __device__ trijet_f16(float v) {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    }
    __device__ operator float() const {
        float v;
        asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
        return v;
    }
};
struct trijet_bf16 {
    unsigned short bits;
    trijet_bf16() = default;
    __device__ trijet_bf16(float v) {
        unsigned int all = __float_as_uint(v);
        unsigned int rounded = (all + 0x7fffu + (all >> 16 & 1u)) >> 16;
        bits = (unsigned short)(v == v ? rounded : 0x7fffu);
    }
    __device__ operator float() const {
        return __uint_as_float((unsigned int)bits << 16);
    }
};
