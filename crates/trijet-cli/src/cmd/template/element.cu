// A kernel for `trijet map`. It computes each element of the output from one
// element of the input.
//
//     trijet map in.npy -o out.npy --kernel gain.cu --entry gain --arg factor=2

// The type of the elements of the array: unsigned char for u8, unsigned short
// for u16, float for f32; `trijet map --help` has the other types.
typedef TRIJET_T T;
static_assert(sizeof(T) <= 2 && T(-1) > 0,
              "gain is for u8 and u16: f32 needs y[i] = v");

// extern "C" keeps the name that --entry gives. No header is needed.
extern "C" __global__ void gain(
    const T* x,                // the input in this chunk, which is only read
    unsigned long long x_len,  // the number of elements of x
    T* y,                      // the output in this chunk, all of it written
    unsigned long long y_len,  // the number of elements of y: here x_len
    float factor               // the first --arg; others follow in their order
) {
    // There is one thread for each element of y, in blocks of 256 threads. The
    // last block may have threads beyond the end.
    unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x;
    unsigned long long i = first + threadIdx.x;
    if (i >= y_len) return;
    float v = factor * x[i];
    // Round to the nearest number, and stay in the range of T.
    const float most = sizeof(T) == 1 ? 255.0f : 65535.0f;
    v = v < 0.0f ? 0.0f : v > most ? most : v;
    y[i] = (T)__float2int_rn(v);
}
