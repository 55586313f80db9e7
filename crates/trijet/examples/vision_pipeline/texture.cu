// The channels of each pixel, in planes: the definitions are in texture.rs. What can be counted in
// integers is, so that only the colour space needs more than one or two roundings.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

static __device__ float linear(u8 byte) {
    float c = (float)byte / 255.0f;
    return c <= 0.04045f ? c / 12.92f : powf((c + 0.055f) / 1.055f, 2.4f);
}

static __device__ float lab(float t) {
    return t > 216.0f / 24389.0f ? cbrtf(t) : (24389.0f / 27.0f * t + 16.0f) / 116.0f;
}

static __device__ u32 inside(u32 at, int by, u32 count) {
    long long moved = (long long)at + by;
    return moved < 0 ? 0 : moved >= count ? count - 1 : (u32)moved;
}

extern "C" __global__ void texture(
    u32 width, u32 height, const u8* rgb, u64 rgb_len, float* out, u64 out_len
) {
    u64 plane = (u64)width * height;
    u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (i >= plane) return;
    u32 x = (u32)(i % width), y = (u32)(i / width);

    long long gray[3][3], sum = 0, squares = 0;
    for (int down = 0; down < 3; ++down) {
        for (int right = 0; right < 3; ++right) {
            u64 row = inside(y, down - 1, height), column = inside(x, right - 1, width);
            const u8* p = rgb + 3 * (row * width + column);
            long long g = 77 * p[0] + 150 * p[1] + 29 * p[2];
            gray[down][right] = g;
            sum += g;
            squares += g * g;
        }
    }
    long long across = gray[0][2] + 2 * gray[1][2] + gray[2][2]
        - gray[0][0] - 2 * gray[1][0] - gray[2][0];
    long long along = gray[2][0] + 2 * gray[2][1] + gray[2][2]
        - gray[0][0] - 2 * gray[0][1] - gray[0][2];

    const u8* p = rgb + 3 * i;
    float r = linear(p[0]), g = linear(p[1]), b = linear(p[2]);
    float fx = lab((0.4124564f * r + 0.3575761f * g + 0.1804375f * b) / 0.95047f);
    float fy = lab(0.2126729f * r + 0.7151522f * g + 0.0721750f * b);
    float fz = lab((0.0193339f * r + 0.1191920f * g + 0.9503041f * b) / 1.08883f);
    float right = (2.0f * x + 1.0f - width) / width, down = (2.0f * y + 1.0f - height) / height;

    float* at = out + i;
    at[0 * plane] = p[0] / 255.0f;
    at[1 * plane] = p[1] / 255.0f;
    at[2 * plane] = p[2] / 255.0f;
    at[3 * plane] = (116.0f * fy - 16.0f) / 100.0f;
    at[4 * plane] = 500.0f * (fx - fy) / 128.0f;
    at[5 * plane] = 200.0f * (fy - fz) / 128.0f;
    at[6 * plane] = across / 261120.0f;
    at[7 * plane] = along / 261120.0f;
    at[8 * plane] = sqrtf((float)(across * across + along * along)) / 369279.45f;
    at[9 * plane] = (2.0f * x + 1.0f) / (2.0f * width);
    at[10 * plane] = (2.0f * y + 1.0f) / (2.0f * height);
    at[11 * plane] = sqrtf(0.5f * (right * right + down * down));
    at[12 * plane] = sqrtf((float)(9 * squares - sum * sum)) / 293760.0f;
}
