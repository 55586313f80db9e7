// background: y = x - y for the elements of two arrays. y is the background before the call.
// Integers wrap. Floats are rounded once; a NaN has all bits but the sign.
//
// Covers the shorter of x and y. Estimate: two loads and a store for each element and about 40
// instructions: bound by the memory of the device, far above the link that feeds it.
#include "elements.cuh"

extern "C" __global__ void subtract(u32 type, const u8* x, u64 x_len, u8* y, u64 y_len) {
  const u32 bytes = bytes_of(type);
  EACH(i, low_of(x_len, y_len) / bytes) {
    if (is_integer(type)) {
      put_bits(y, i, bytes, bits_at(x, i, bytes) - bits_at(y, i, bytes));
    } else {
      put_real(y, i, type, float_at(x, i, type) - float_at(y, i, type));
    }
  }
}
