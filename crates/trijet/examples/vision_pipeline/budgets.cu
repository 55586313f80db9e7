// The tokens of each patch: the definitions are in budgets.rs. One block, a thread for each patch.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 PATCHES_MAX = 64;
constexpr u64 TOKENS = 4096, LEAST = 64, ROOM = 400 - 64;

static __device__ u64 weight_of(const float* scores) {
    u64 a = __float2uint_rn(scores[0] * 65536.0f);
    u64 b = __float2uint_rn(scores[1] * 65536.0f);
    u64 c = __float2uint_rn(scores[2] * 65536.0f);
    u64 spread = max(a, max(b, c)) - min(a, min(b, c));
    return 1 + (a + b + c) * (131072 - spread) / 131072;
}

extern "C" __global__ void __launch_bounds__(64) budgets(
    const float* scores, u64 scores_len, u32* tokens, u64 tokens_len
) {
    __shared__ u64 weight[PATCHES_MAX], given[PATCHES_MAX], rest[PATCHES_MAX];
    __shared__ u32 full[PATCHES_MAX];
    u32 n = (u32)tokens_len, i = threadIdx.x;
    bool is_patch = i < n;
    weight[i] = is_patch ? weight_of(scores + 3 * i) : 0;
    full[i] = 0;
    __syncthreads();

    u64 left, sum;
    for (;;) {
        left = TOKENS - LEAST * n;
        sum = 0;
        for (u32 k = 0; k < n; ++k) {
            if (full[k]) left -= ROOM;
            else sum += weight[k];
        }
        bool is_over = is_patch && !full[i] && weight[i] * left > ROOM * sum;
        if (!__syncthreads_or(is_over)) break;
        if (is_over) full[i] = 1;
        __syncthreads();
    }
    given[i] = full[i] ? ROOM : weight[i] * left / sum;
    rest[i] = full[i] ? 0 : weight[i] * left % sum;
    __syncthreads();
    if (!is_patch) return;
    u64 spare = left, before = 0;
    for (u32 k = 0; k < n; ++k) {
        if (!full[k]) spare -= given[k];
        before += rest[k] > rest[i] || (rest[k] == rest[i] && k < i);
    }
    // There are more patches with a remainder than spare tokens, so a full patch gets none.
    tokens[i] = (u32)(LEAST + given[i] + (before < spare));
}
