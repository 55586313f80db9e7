// Elements as unsigned keys of the same size, whose order is the order of the elements. The keys of
// floats are in the order of their values, with -0 below 0, and every NaN has the largest key.
// `Keys` in keys.rs. After elements.cuh.
struct Keys {
  u64 sign;      // the bit of the sign, or 0 for unsigned integers
  u64 infinity;  // the bits of infinity, or 0 for integers
};

template <typename T> DEV T key_of(T bits, const Keys& k) {
  const T sign = (T)k.sign;
  const T infinity = (T)k.infinity;
  if (infinity == 0) return bits ^ sign;
  if ((T)(bits & (T)~sign) > infinity) return (T)~(T)0;
  return bits & sign ? (T)~bits : (T)(bits | sign);
}

// The NaN of a key has all bits but the sign.
template <typename T> DEV T element_of(T key, const Keys& k) {
  const T sign = (T)k.sign;
  return k.infinity == 0 || key & sign ? (T)(key ^ sign) : (T)~key;
}
