"""Writes the NIfTI files of this folder, each with its array in an .npy file.

    python make.py

Made with nibabel 5.4.2 and numpy 2.4.6 under Python 3.11.
"""

import gzip
import numpy
import nibabel

rng = numpy.random.default_rng(7)


def draw(code, shape):
    kind = numpy.dtype(code)
    if kind.kind == "c":
        return (draw("f8", shape) + 1j * draw("f8", shape)).astype(kind)
    return (rng.normal(size=shape) * 100).astype("i8" if kind.kind in "iu" else kind).astype(kind)


def image(version, array, order="<"):
    kind = nibabel.Nifti1Image if version == 1 else nibabel.Nifti2Image
    header = kind.header_class(endianness=order)
    header.set_data_dtype(array.dtype.newbyteorder(order))
    made = kind(array, numpy.diag([1.5, 2.5, 3.5, 1.0]), header)
    made.header.set_xyzt_units("mm", "sec")
    return made


def save(name, made, array):
    nibabel.save(made, f"{name}.nii")
    numpy.save(f"{name}.npy", numpy.ascontiguousarray(array.T))


for code in ["u1", "i2", "i4", "f4", "c8", "f8", "i1", "u2", "u4", "i8", "u8", "c16"]:
    array = draw(code, (4, 3, 2))
    save(f"one-{code}", image(1, array), array)
array = draw("i2", (4, 3, 2))
save("big", image(1, array, ">"), array)
save("two", image(2, array), array)
save("two-big", image(2, array, ">"), array)
array = draw("i2", (4, 3, 2, 5))
save("series", image(1, array), array)
array = draw("i2", (6,))
save("line", image(1, array), array)
made = image(1, draw("i2", (4, 3, 2)))
made.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"a note"))
save("extension", made, numpy.asarray(made.dataobj))
# Values that are no elements: no .npy file is beside these.
made = image(1, draw("f4", (4, 3, 2)))
made.header.set_data_dtype("i2")
nibabel.save(made, "scaled.nii")
colours = numpy.zeros((4, 3, 2), [("R", "u1"), ("G", "u1"), ("B", "u1")])
nibabel.save(nibabel.Nifti1Image(colours, numpy.eye(4)), "colours.nii")
# Larger than the buffers of a decoder, in two members.
array = draw("u2", (30, 20, 10, 2)) & 0xFF0F
made = image(1, array, ">")
data = made.to_bytes()
half = len(data) // 3
numpy.save("zipped.npy", numpy.ascontiguousarray(array.T))
with open("zipped.nii.gz", "wb") as file:
    file.write(gzip.compress(data[:half], mtime=0) + gzip.compress(data[half:], mtime=0))
