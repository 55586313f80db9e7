// Real types as double: the values of elements, and elements with these values. Integers drop the
// fraction, as SciPy's casts do.
struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

template <typename T> struct Real {
  static DEV double value(T element) { return (double)element; }
  static DEV T element(double v) { return (T)v; }
};

template <> struct Real<double> {
  static DEV double value(double element) { return element; }
  static DEV double element(double v) {
    return v == v ? v : __longlong_as_double(0x7fffffffffffffffll);
  }
};

template <> struct Real<float> {
  static DEV double value(float element) { return (double)element; }
  static DEV float element(double v) { return v == v ? (float)v : __uint_as_float(0x7fffffffu); }
};

template <> struct Real<f16> {
  static DEV double value(f16 element) { return half_value(element.bits); }
  static DEV f16 element(double v) { return {nearest_f16(v)}; }
};

template <> struct Real<bf16> {
  static DEV double value(bf16 element) {
    return (double)__uint_as_float((u32)element.bits << 16);
  }
  static DEV bf16 element(double v) { return {nearest_bf16(v)}; }
};
