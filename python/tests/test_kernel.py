"""Kernels of a program as steps of a job. They run on a GPU only; without one they are refused in a sentence."""

import os

import numpy as np
import pytest

import trijet

DEVICE = os.environ["TRIJET_DEVICE"]
needs_gpu = pytest.mark.skipif(DEVICE == "host", reason="TRIJET_DEVICE names no GPU")

COPY = """
extern "C" __global__ void same(const TRIJET_T* x, unsigned long long x_len, TRIJET_U* y, unsigned long long y_len) {
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < y_len) y[i] = x[i];
}
"""
TWICE = """
extern "C" __global__ void twice(const TRIJET_T* x, unsigned long long x_len, TRIJET_U* y, unsigned long long y_len) {
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < y_len) y[i] = x[i] + x[i];
}
"""
PAIR = """
extern "C" __global__ void pair(
    const TRIJET_T* x, unsigned long long x_len,
    TRIJET_U* y, unsigned long long y_len,
    unsigned long long row_len, unsigned long long rows_before
) {
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= y_len) return;
    unsigned long long row = i / row_len, column = i % row_len;
    const TRIJET_T* first = x + (rows_before + 2 * row) * row_len + column;
    y[i] = (TRIJET_U)((float)first[0] + (float)first[row_len]);
}
"""
AROUND = """
extern "C" __global__ void around(
    const TRIJET_T* x, unsigned long long x_len,
    TRIJET_U* y, unsigned long long y_len,
    unsigned long long row_len, unsigned long long rows_before
) {
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= y_len) return;
    unsigned long long at = rows_before * row_len + i;
    TRIJET_T before = at >= row_len ? x[at - row_len] : x[at];
    TRIJET_T after = at + row_len < x_len ? x[at + row_len] : x[at];
    y[i] = before + x[at] + after;
}
"""
REAL = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]


def drawn(dtype, shape=(6, 64, 40)):
    """Values from 0 to 40, whose sums every type can hold."""
    return np.random.default_rng(3).integers(0, 41, shape).astype(dtype)


@needs_gpu
@pytest.mark.parametrize("dtype", [*REAL, "c8", "c16"])
def test_a_kernel_copies_elements_of_every_type(dtype):
    x = drawn(dtype) * (1 + 2j) if dtype in ("c8", "c16") else drawn(dtype)
    found = trijet.map(x.astype(dtype), [trijet.Kernel(COPY, "same")], device=DEVICE, chunk="20 KiB")
    assert found.dtype == dtype and np.array_equal(found, x)


@needs_gpu
@pytest.mark.parametrize("dtype", REAL)
def test_a_kernel_computes_in_every_real_type(dtype):
    x = drawn(dtype)
    found = trijet.map(x, [trijet.Kernel(TWICE, "twice")], device=DEVICE, chunk="20 KiB")
    assert found.dtype == dtype and np.array_equal(found, x + x)


@needs_gpu
@pytest.mark.parametrize("into", ["u1", "i4", "f2", "f4", "f8"])
@pytest.mark.parametrize("dtype", ["u1", "i2", "f2", "f4", "f8"])
def test_a_kernel_writes_other_rows_of_another_type(dtype, into):
    x = drawn(dtype)
    kernel = trijet.Kernel(PAIR, "pair", out_rows="1/2", out_dtype=into)
    found = trijet.map(x, [kernel], device=DEVICE, chunk="20 KiB")
    assert found.dtype == into
    assert np.array_equal(found, (x[:, 0::2].astype("f4") + x[:, 1::2].astype("f4")).astype(into))


@needs_gpu
@pytest.mark.parametrize("dtype", REAL)
def test_a_kernel_reads_the_rows_around_its_own(dtype):
    """One image, so that the chunks share rows."""
    x = drawn(dtype, (512, 40))
    found = trijet.map(x, [trijet.Kernel(AROUND, "around", halo=1)], device=DEVICE, chunk="2 KiB")
    around = np.pad(x, ((1, 1), (0, 0)), mode="edge")
    assert found.dtype == dtype and np.array_equal(found, around[:-2] + x + around[2:])


@pytest.mark.skipif(DEVICE != "host", reason="TRIJET_DEVICE names a GPU")
def test_a_kernel_without_a_gpu_is_refused():
    with pytest.raises(trijet.TrijetError, match="GPU"):
        trijet.map(drawn("f4"), [trijet.Kernel(TWICE, "twice")], device="host")
