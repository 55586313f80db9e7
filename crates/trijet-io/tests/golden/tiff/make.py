"""Writes the TIFF files of this folder, each with the array that tifffile reads from it.

Made with Python 3.11, tifffile 2026.3.3, imagecodecs 2026.3.6, pillow 13.0.0, imageio 2.38.1 and
numpy 2.4.6. Run in this folder: python make.py
"""

import warnings

import imageio.v3
import numpy
import tifffile
from PIL import Image

random = numpy.random.default_rng(1)


def array(shape, dtype):
    """A smooth array with noise in its lowest bits, so that predictors and codecs have work."""
    count = int(numpy.prod(shape))
    values = numpy.arange(count) * 3 + random.integers(0, 3, count)
    dtype = numpy.dtype(dtype)
    if dtype.kind == "f":
        values = (values / 7 - 5).astype(dtype)
    return values.astype(dtype).reshape(shape)


def keep(name, data=None):
    """Saves the array that tifffile reads from a file, which must be `data`."""
    read = numpy.ascontiguousarray(tifffile.imread(name + ".tif"))
    if data is not None:
        assert numpy.array_equal(read, data), (name, read.shape, data.shape)
    numpy.save(name + ".npy", read.astype(read.dtype.newbyteorder("<")))


def tiff(name, data, **options):
    tifffile.imwrite(name + ".tif", data, software=False, **options)
    keep(name)


STACK = array((5, 9, 7), "u2")
COLOURS = array((2, 6, 5, 3), "u1")

# The default of tifffile, and its shapes.
tiff("stack", STACK)
tiff("image", STACK[0])
tiff("line", STACK[0, 0])
tiff("five-axes", array((2, 1, 3, 4, 5), "u2"), photometric="minisblack")
tiff("last-axis-1", array((2, 4, 5, 1), "u2"), photometric="minisblack")
tiff("no-description", STACK, metadata=None)
tiff("one-directory", STACK, metadata={}, truncate=True)
tiff("not-contiguous", STACK, contiguous=False, metadata=None, rowsperstrip=4)
with tifffile.TiffWriter("apart.tif") as file:
    for page in STACK:
        file.write(page, contiguous=False, metadata=None, software=False)
keep("apart", STACK)
with tifffile.TiffWriter("two-arrays.tif") as file:
    file.write(STACK, software=False)
    file.write(array((2, 4, 6), "f4"), software=False)
keep("two-arrays", STACK)
tiff("colours", COLOURS, photometric="rgb")
tiff("colours-one", COLOURS[0], photometric="rgb")
tiff("colours-four", array((2, 4, 5, 4), "u2"), photometric="rgb", extrasamples=["unassalpha"])
tiff("colours-lzw", COLOURS, photometric="rgb", compression="lzw", predictor=2)
tiff("colours-tiles", array((2, 20, 30, 3), "u1"), photometric="rgb", tile=(16, 16), compression="zlib")
tiff("white-is-zero", STACK, photometric="miniswhite", metadata=None)

# Types and byte orders.
for order, word in (("<", "little"), (">", "big")):
    for dtype in ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"):
        data = array((2, 5, 3), dtype)
        tiff(f"{word}-{dtype}", data, byteorder=order)
        if dtype in ("u1", "u2", "u4", "i2"):
            tiff(f"{word}-{dtype}-2", data, byteorder=order, compression="zlib", predictor=2)
        if dtype in ("f2", "f4", "f8"):
            tiff(f"{word}-{dtype}-3", data, byteorder=order, compression="zlib", predictor=3)
    tiff(f"{word}-bigtiff", STACK, byteorder=order, bigtiff=True)
    tiff(f"{word}-bigtiff-lzw", STACK, byteorder=order, bigtiff=True, compression="lzw", rowsperstrip=4)
    tiff(f"{word}-tiles", array((2, 18, 20), "u2"), byteorder=order, tile=(16, 16), metadata=None)
    tiff(f"{word}-strips", STACK, byteorder=order, rowsperstrip=4)

# Compressions.
for codec in ("zlib", "lzw", "packbits", "zstd"):
    tiff(f"{codec}", STACK, compression=codec, rowsperstrip=4)
    tiff(f"{codec}-tiles", array((2, 18, 20), "u2"), compression=codec, tile=(16, 16))
    if codec != "packbits":
        tiff(f"{codec}-predictor", STACK, compression=codec, predictor=2)
        tiff(f"{codec}-floats", array((2, 18, 17), "f4"), compression=codec, predictor=3, tile=(16, 16))
tiff("deflate-32946", STACK, compression=32946)

# OME-TIFF.
tiff("ome", array((2, 3, 2, 4, 5), "u2"), ome=True, metadata={
    "axes": "TZCYX", "PhysicalSizeX": 0.5, "PhysicalSizeXUnit": "µm", "PhysicalSizeY": 0.25,
    "PhysicalSizeYUnit": "µm", "PhysicalSizeZ": 2.0, "PhysicalSizeZUnit": "µm"})
tiff("ome-ctz", array((2, 3, 2, 4, 5), "u2"), ome=True, metadata={"axes": "CTZYX"}, byteorder=">")
tiff("ome-colours", COLOURS, ome=True, photometric="rgb", metadata={"axes": "ZYXS"})
with tifffile.TiffWriter("ome-levels.tif", ome=True) as file:
    file.write(array((2, 32, 32), "u1"), subifds=1, tile=(16, 16), metadata={"axes": "ZYX"})
    file.write(array((2, 16, 16), "u1"), subfiletype=1, tile=(16, 16))
keep("ome-levels")
PLANES = """<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"><Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint16" SizeX="7" SizeY="9" SizeZ="5" SizeC="1" SizeT="1"><Channel ID="Channel:0:0" SamplesPerPixel="1"/><TiffData IFD="2" FirstZ="0"/><TiffData IFD="0" FirstZ="1" PlaneCount="2"/><TiffData IFD="3" FirstZ="3" PlaneCount="2"/></Pixels></Image></OME>"""
tifffile.imwrite("ome-order.tif", STACK[[1, 2, 0, 3, 4]], description=PLANES, metadata=None, software=False)
keep("ome-order", STACK)

# ImageJ, which writes the highest byte first.
tiff("imagej", array((2, 3, 2, 4, 5), "u2"), imagej=True, resolution=(2.0, 4.0),
     metadata={"axes": "TZCYX", "spacing": 3.0, "unit": "um"})
tiff("imagej-big", array((4, 5, 6), "u2"), imagej=True, byteorder=">", metadata={"axes": "ZYX"})
tiff("imagej-colours", array((2, 4, 5, 3), "u1"), imagej=True, metadata={"axes": "ZYXS"})
# As ImageJ writes a stack above 4 GiB: one directory, and `images=5` without the axis.
tifffile.imwrite("imagej-one-directory.tif", array((5, 4, 6), "u2"), truncate=True, software=False,
                 metadata=None, byteorder=">",
                 description="ImageJ=1.54f\nimages=5\nslices=5\nunit=micron\nspacing=0.5\nloop=false\n")
keep("imagej-one-directory")

# Levels of a pyramid.
LEVELS = array((32, 32), "u2")
with tifffile.TiffWriter("levels.tif") as file:
    file.write(LEVELS, subifds=1, tile=(16, 16), software=False)
    file.write(LEVELS[::2, ::2], subfiletype=1, tile=(16, 16), software=False)
keep("levels", LEVELS)
with tifffile.TiffWriter("levels-in-pages.tif") as file:
    file.write(LEVELS, tile=(16, 16), software=False, metadata=None)
    file.write(LEVELS[::2, ::2], subfiletype=1, tile=(16, 16), software=False, metadata=None)
keep("levels-in-pages", LEVELS)

# Other writers.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    imageio.v3.imwrite("imageio.tif", STACK)
keep("imageio", STACK)
images = [Image.fromarray(page) for page in STACK]
for codec in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
    name = "pillow-" + codec.replace("tiff_", "").replace("_", "-")
    images[0].save(name + ".tif", save_all=True, append_images=images[1:], compression=codec)
    keep(name, STACK)
Image.fromarray(COLOURS[0]).save("pillow-colours.tif", compression="tiff_lzw", dpi=(300, 300))
keep("pillow-colours", COLOURS[0])

# Samples in planes of their own.
tiff("planes", array((3, 9, 7), "u2"))
tiff("planes-stack", array((2, 3, 9, 7), "u2"))
planes = {"photometric": "rgb", "planarconfig": "separate", "metadata": None}
tiff("planes-strips", array((2, 3, 9, 7), "u2"), rowsperstrip=4, compression="zlib", **planes)
tiff("planes-tiles", array((4, 20, 40), "u1"), tile=(16, 16), compression="lzw", **planes)
tiff("planes-big", array((3, 9, 7), "f4"), byteorder=">", **planes)
