"""The operations of the CuPy peers of `trijet bench files`, by their arguments: `median` (of 3 x 3
pixels, those of an edge repeated) or `affine SCALE OFFSET` (a product and a sum, each rounded)."""
import cupy as cp
import numpy as np
from cupyx.scipy.ndimage import median_filter

AFFINE = cp.ElementwiseKernel(
    "uint16 x, float32 scale, float32 offset", "uint16 y",
    "y = (unsigned short) fminf(fmaxf(rintf(__fadd_rn(__fmul_rn((float) x, scale), offset)),"
    " 0.0f), 65535.0f)", "affine")


def compute(rule, x, y):
    if rule[0] == "median":
        median_filter(x, size=(1, 3, 3), mode="nearest", output=y)
    else:
        AFFINE(x, np.float32(rule[1]), np.float32(rule[2]), y)
