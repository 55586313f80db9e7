"""Writes npy.txt: .npy files as numpy writes them, for every element type.

    pip install numpy ml_dtypes
    python npy.py > npy.txt

Each line is a file of an array of 2 x 3 elements: the name of the type, the
version of the format, the length of the header's text, the text without the
spaces at its end, the data, and the data in little-endian C order. A file of
each type has both byte orders, both orders of the elements and every version.
"""

import io

import ml_dtypes
import numpy
from numpy.lib import format as npy

NAMES = """bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16
float32 float64 complex64 complex128"""


def array(name):
    """An array whose bytes differ, of values that every type has."""
    dtype = numpy.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)
    if name == "bool":
        return numpy.array([[0, 1, 1], [0, 0, 1]], dtype)
    bytes_ = (numpy.arange(6 * dtype.itemsize) * 37 + 11) % 120
    return numpy.frombuffer(bytes_.astype("u1").tobytes(), dtype).reshape(2, 3)


def line(name, stored, plain, version):
    file = io.BytesIO()
    npy.write_array(file, stored, version=version)
    file = file.getvalue()
    start = 10 if version[0] == 1 else 12
    length = int.from_bytes(file[8:start], "little")
    text = file[start : start + length].decode()
    data = file[start + length :]
    body = text.rstrip(" \n")
    assert text == body + " " * (length - len(body) - 1) + "\n"
    versions = ".".join(map(str, version))
    return "\t".join([name, versions, str(length), body, data.hex(), plain.hex()])


for name in NAMES.split():
    little = array(name)
    plain = little.tobytes()
    for order in "<>":
        swapped = little.astype(little.dtype.newbyteorder(order))
        if name == "bfloat16" and order == ">":
            swapped = little.view("<u2").byteswap().view(little.dtype.newbyteorder(">"))
        for elements in (numpy.ascontiguousarray, numpy.asfortranarray):
            for version in ((1, 0), (2, 0), (3, 0)):
                print(line(name, elements(swapped), plain, version))
