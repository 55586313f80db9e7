// A kernel for `trijet map` with a halo. It computes each element of the output
// from a row of the input and the rows above and below it.
//
//     trijet map in.npy -o out.npy --kernel blur.cu --entry blur --halo 1

// The type of the elements of the array: unsigned char for u8, unsigned short
// for u16, float for f32; `trijet map --help` has the other types.
typedef TRIJET_T T;
static_assert(sizeof(T) <= 2 && T(-1) > 0,
              "blur is for u8 and u16: f32 needs a float sum");

// extern "C" keeps the name that --entry gives. No header is needed. Each --arg
// would follow rows_before, in its order.
extern "C" __global__ void blur(
    const T* x,                     // this chunk, with up to --halo rows on
                                    // each side
    unsigned long long x_len,       // the number of elements of x
    T* y,                           // the output, all of which is written
    unsigned long long y_len,       // the number of elements of y
    unsigned long long row_len,     // the number of elements of a row
    unsigned long long rows_before  // the rows of x before the first row of y:
                                    // --halo, or less near the beginning of the
                                    // array
) {
    // There is one thread for each element of y, in blocks of 256 threads. The
    // last block may have threads beyond the end.
    unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x;
    unsigned long long i = first + threadIdx.x;
    if (i >= y_len) return;
    // The same element in x. The rows above and below exist unless the array
    // begins or ends there.
    unsigned long long here = i + rows_before * row_len;
    unsigned int sum = x[here], count = 1;
    if (here >= row_len) sum += x[here - row_len], count++;
    if (here + row_len < x_len) sum += x[here + row_len], count++;
    y[i] = (T)((sum + count / 2) / count);
}
