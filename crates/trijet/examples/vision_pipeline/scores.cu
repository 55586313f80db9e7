// The three scores of each patch: the definitions are in scores.rs. One block for each patch. Its
// threads sum every 256th pixel with compensation, so that the size of a patch costs no digits.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 CHANNELS = 13, CLASSES = 16, THREADS = 256;

static __device__ float unit(float v) { return fminf(fmaxf(v, 0.0f), 1.0f); }

// The sum over all threads of the block.
static __device__ float total(float mine, float* shared) {
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    float sum = shared[0];
    __syncthreads();
    return sum;
}

extern "C" __global__ void __launch_bounds__(256) scores(
    u32 width, u32 height, u32 side, const float* texture, u64 texture_len,
    const float* query, u64 query_len, float* out, u64 out_len
) {
    __shared__ u32 classes[CLASSES];
    __shared__ float shared[THREADS];
    u64 plane = (u64)width * height;
    u32 columns = width / side + (width % side != 0);
    u32 left = blockIdx.x % columns * side, top = blockIdx.x / columns * side;
    u32 across = min(side, width - left), pixels = across * min(side, height - top);
    if (threadIdx.x < CLASSES) classes[threadIdx.x] = 0;
    __syncthreads();

    float sum[CHANNELS] = {}, lost[CHANNELS] = {};
    for (u32 p = threadIdx.x; p < pixels; p += THREADS) {
        const float* at = texture + (u64)(top + p / across) * width + left + p % across;
#pragma unroll
        for (u32 c = 0; c < CHANNELS; ++c) {
            float value = at[c * plane] - lost[c], next = sum[c] + value;
            lost[c] = (next - sum[c]) - value;
            sum[c] = next;
        }
        u32 r = __float2uint_rn(255.0f * at[0]), g = __float2uint_rn(255.0f * at[plane]);
        u32 b = __float2uint_rn(255.0f * at[2 * plane]);
        atomicAdd(&classes[(77 * r + 150 * g + 29 * b) >> 12], 1u);
    }
    float mean[CHANNELS];
#pragma unroll
    for (u32 c = 0; c < CHANNELS; ++c) mean[c] = total(sum[c], shared) / (float)pixels;
    if (threadIdx.x != 0) return;

    float entropy = 0.0f, both = 0.0f, patch = 0.0f, wanted = 0.0f;
    for (u32 k = 0; k < CLASSES; ++k) {
        float share = (float)classes[k] / (float)pixels;
        if (share > 0.0f) entropy -= share * log2f(share);
    }
#pragma unroll
    for (u32 c = 0; c < CHANNELS; ++c) {
        both += mean[c] * query[c];
        patch += mean[c] * mean[c];
        wanted += query[c] * query[c];
    }
    float cosine = wanted > 0.0f ? both / (sqrtf(patch) * sqrtf(wanted)) : 0.0f;
    float* at = out + 3 * (u64)blockIdx.x;
    at[0] = unit(entropy / 4.0f);
    at[1] = unit(0.5f * (mean[8] + mean[12]) * (1.0f - 0.5f * mean[11]));
    at[2] = unit(0.5f + 0.5f * cosine);
}
