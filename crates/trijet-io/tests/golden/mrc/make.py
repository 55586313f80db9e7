"""Writes the MRC files of this folder, each with its array in an .npy file.

    python make.py

Made with mrcfile 1.5.4 and numpy 2.4.6 under Python 3.11.
"""

import numpy
import mrcfile

rng = numpy.random.default_rng(7)


def save(name, array, change=None):
    with mrcfile.new(f"{name}.mrc", overwrite=True) as mrc:
        mrc.set_data(array)
        if change:
            change(mrc)
        # The header of mrcfile has the time of writing.
        mrc.header.label[0] = b"Made for a test"
        numpy.save(f"{name}.npy", numpy.ascontiguousarray(mrc.data))


def draw(code, shape):
    kind = numpy.dtype(code)
    if kind.kind == "c":
        return (draw("f4", shape) + 1j * draw("f4", shape)).astype(kind)
    return (rng.normal(size=shape) * 100).astype(kind)


def stack(mrc):
    mrc.set_image_stack()
    mrc.voxel_size = (1.5, 2.5, 3.5)


def extended(mrc):
    mrc.set_extended_header(numpy.zeros(100, "V1"))
    mrc.header.exttyp = b"MRCO"
    mrc.voxel_size = (1.5, 2.5, 3.5)


def turned(mrc):
    mrc.voxel_size = (1.5, 2.5, 3.5)
    mrc.header.mapc, mrc.header.mapr, mrc.header.maps = 3, 2, 1


for code in ["i1", "i2", "f4", "c8", "u2", "f2"]:
    save(f"little-{code}", draw("<" + code, (2, 3, 4)))
    if code != "i1":
        save(f"big-{code}", draw(">" + code, (2, 3, 4)))
save("image", draw("<i2", (3, 4)))
save("stack", draw("<i2", (5, 3, 4)), stack)
save("extended", draw("<i2", (5, 3, 4)), extended)
save("turned", draw("<i2", (5, 3, 4)), turned)
save("volumes", draw("<i2", (2, 5, 3, 4)))
