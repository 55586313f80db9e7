"""Writes the HDF5 files of this folder, each with the array of its data set in an .npy file.

    python make.py

Made with h5py 3.16.0 (HDF5 1.14.6), hdf5plugin 7.1.0 and numpy 2.4.6 under Python 3.11.
"""

import os
import h5py
import hdf5plugin
import numpy

rng = numpy.random.default_rng(7)
bitshuffle, blosc = hdf5plugin.Bitshuffle, hdf5plugin.Blosc


def draw(code, shape):
    kind = numpy.dtype(code)
    if kind.kind == "c":
        return (draw("f8", shape) + 1j * draw("f8", shape)).astype(kind)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    # Small steps, which compress.
    return (numpy.cumsum(rng.integers(-3, 4, shape), -1) + 50).astype(kind)


def save(name, array, libver=None, change=None, **options):
    with h5py.File(f"{name}.h5", "w", libver=libver, track_order=False) as file:
        data = file.create_dataset("data", data=array, **options)
        if change:
            change(data)
        numpy.save(f"{name}.npy", numpy.ascontiguousarray(data[:]))


SMALL, LARGE = (2, 3, 4), (3, 6, 7)
for code in ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16", "?"]:
    save(f"plain-{numpy.dtype(code).name}", draw(code, SMALL))
for code in [">u2", ">f4", ">c8"]:
    save(f"big-{numpy.dtype(code).name}", draw(code, SMALL))
save("big-chunked", draw(">c8", SMALL), chunks=(2, 2, 4), shuffle=True, compression="gzip")
save("line", draw("u2", (100,)), chunks=(7,), compression="gzip")
save("image", draw("u2", (10, 9)))
save("series", draw("u2", (2, 3, 5, 4)), chunks=(1, 2, 5, 4), compression="gzip")
chunks = {"chunks": (2, 4, 4)}
save("chunked", draw("u2", LARGE), **chunks)
save("gzip", draw("u2", LARGE), compression="gzip", **chunks)
save("gzip-shuffle", draw("u2", LARGE), "v110", compression="gzip", shuffle=True, **chunks)
save("fletcher32", draw("u2", LARGE), "v110", compression="gzip", fletcher32=True, **chunks)
save("sparse", draw("u2", LARGE)[:0], maxshape=(None, 6, 7), fillvalue=77, **chunks,
     change=lambda data: (data.resize(3, 0), data.__setitem__((2, 5), 9)))
save("sparse-float", draw("f4", LARGE)[:0], maxshape=(None, 6, 7), fillvalue=-1.5, **chunks,
     change=lambda data: data.resize(3, 0))
save("smaller", draw("u2", LARGE), maxshape=(None, None, None), **chunks,
     change=lambda data: data.resize((2, 5, 6)))
plugins = {
    "bitshuffle": bitshuffle(cname="none"),
    "bitshuffle-lz4": bitshuffle(cname="lz4"),
    "bitshuffle-zstd": bitshuffle(cname="zstd"),
    "bitshuffle-block": bitshuffle(nelems=16, cname="lz4"),
    "lz4": hdf5plugin.LZ4(),
    "zstd": hdf5plugin.Zstd(),
    "blosc-lz4": blosc(cname="lz4", shuffle=blosc.SHUFFLE),
    "blosc-zstd": blosc(cname="zstd", shuffle=blosc.BITSHUFFLE),
    "blosc-blosclz": blosc(cname="blosclz", shuffle=blosc.NOSHUFFLE),
}
for name, plugin in plugins.items():
    save(name, draw("u2", LARGE), "v110", **chunks, **plugin)
save("frames-lz4", draw("u4", (4, 10, 12)), "v110", chunks=(1, 10, 12), **bitshuffle(cname="lz4"))
# The indices of chunks that newer versions of the library write.
latest = {"libver": "v114", "compression": "gzip"}
save("index-single", draw("u2", LARGE), chunks=LARGE, **latest)
save("index-fixed", draw("u2", LARGE), **chunks, **latest)
save("index-extensible", draw("u2", (40, 3, 4)), chunks=(1, 3, 4), maxshape=(None, 3, 4), **latest)
early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
early.set_chunk((2, 4, 4))


def low(name, array, plist, write=True, libver="v114"):
    with h5py.File(f"{name}.h5", "w", libver=libver) as file:
        space = h5py.h5s.create_simple(array.shape)
        kind = h5py.h5t.py_create(array.dtype)
        made = h5py.Dataset(h5py.h5d.create(file.id, b"data", kind, space, plist))
        if write:
            made[:] = array
        numpy.save(f"{name}.npy", made[:])


low("index-implicit", draw("u2", LARGE), early)
compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
compact.set_layout(h5py.h5d.COMPACT)
low("compact", draw("u2", SMALL), compact)
low("compact-big", draw(">u2", SMALL), compact)
# The mask of a chunk states the filters that were left out.
with h5py.File("mask.h5", "w") as file:
    data = file.create_dataset("data", (4, 6, 5), "u2", chunks=(1, 6, 5), shuffle=True,
                               compression="gzip")
    array = draw("u2", (4, 6, 5))
    data[:2] = array[:2]
    data.id.write_direct_chunk((2, 0, 0), array[2].tobytes(), 3)
    import zlib
    data.id.write_direct_chunk((3, 0, 0), zlib.compress(array[3].tobytes()), 1)
    numpy.save("mask.npy", array)
# A block of the user before the file.
with h5py.File("userblock.h5", "w", userblock_size=512) as file:
    file["data"] = array = draw("u2", SMALL)
    numpy.save("userblock.npy", array)
with h5py.File("userblock-chunked.h5", "w", userblock_size=512) as file:
    array = draw("u2", LARGE)
    file.create_dataset("data", data=array, compression="gzip", **chunks)
    numpy.save("userblock-chunked.npy", array)
# NeXus: the default, found by attributes, under a second name.
with h5py.File("nexus.h5", "w", libver="v110") as file:
    array = draw("u2", SMALL)
    entry = file.create_group("entry")
    detector = entry.create_group("instrument/detector")
    detector["data"] = array
    detector["flat"] = draw("u2", SMALL)
    group = entry.create_group("data")
    group["data"] = detector["data"]
    group["angle"] = draw("f8", (2,))
    file.attrs["default"] = "entry"
    entry.attrs["default"] = "data"
    group.attrs["signal"] = "data"
    numpy.save("nexus.npy", array)
# One stack beside other data sets, under two names, in groups that contain each other.
with h5py.File("stack.h5", "w") as file:
    array = draw("u2", SMALL)
    inner = file.create_group("a/b")
    inner["stack"] = array
    file["second"] = inner["stack"]
    inner["up"] = file["a"]
    file["image"] = draw("u2", (3, 4))
    file["text"] = "a text"
    numpy.save("stack.npy", array)
with h5py.File("attributes.h5", "w", libver="v110") as file:
    data = file.create_dataset("data", data=draw("u2", SMALL))
    numpy.save("attributes.npy", data[:])
    data.attrs["unit"] = "counts"
    data.attrs["fixed"] = numpy.bytes_("abc")
    data.attrs["number"] = 5
    data.attrs["exposure"] = 0.25
    data.attrs["offsets"] = [1, 2, 3]
    data.attrs["missing"] = numpy.nan
    data.attrs["element_size_um"] = [3.0, 2.0, 1.0]
    data.attrs["link"] = data.ref
save("btree2", draw("u2", LARGE), "v114", maxshape=(None, None, 7), **chunks)
with h5py.File("soft.h5", "w") as file:
    file["entry/data"] = array = draw("u2", SMALL)
    file["entry/link"] = h5py.SoftLink("/entry/data")
    numpy.save("soft.npy", array)
# Files that are refused: no .npy file is beside them.
with h5py.File("several.h5", "w", libver="v110") as file:
    file["entry/one"] = draw("u2", SMALL)
    file["entry/two"] = draw("u2", SMALL)
    file["text"] = ["a", "b"]
    file["records"] = numpy.zeros((2, 3, 4), [("a", "i4"), ("b", "f4")])
    file["scalar"] = 5
    file.create_dataset("lzf", data=draw("u2", SMALL), compression="lzf")
    file.create_dataset("offset", data=draw("u2", SMALL), scaleoffset=0)
    file.create_dataset("blosc2", data=draw("u2", SMALL), **hdf5plugin.Blosc2())
    file.create_dataset("never", (2, 3, 4), "u2")
    layout = h5py.VirtualLayout((2, 3, 4), "u2")
    layout[:] = h5py.VirtualSource("other.h5", "data", (2, 3, 4))
    file.create_virtual_dataset("virtual", layout)
    file["away"] = h5py.ExternalLink("other.h5", "/data")
    file.create_dataset("outside", (2, 3, 4), "u2", external=[("other.raw", 0, 48)])


def checksum(data):
    """Jenkins' lookup3, the checksum of the structure."""
    bits = 0xFFFFFFFF
    turned = lambda x, n: (x << n | x >> (32 - n)) & bits
    a = b = c = (0xDEADBEEF + len(data)) & bits
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    words += [0] * (-len(words) % 3)
    for i in range(0, len(words), 3):
        a, b, c = (x + word & bits for x, word in zip((a, b, c), words[i : i + 3]))
        if i + 3 < len(words):
            for n, m, k in [(4, 6, 8), (16, 19, 4)]:
                a = (a - c & bits) ^ turned(c, n); c = c + b & bits
                b = (b - a & bits) ^ turned(a, m); a = a + c & bits
                c = (c - b & bits) ^ turned(b, k); b = b + a & bits
    for x, n in zip("cabcabc", [14, 11, 25, 16, 4, 14, 24]):
        if x == "c":
            c = (c ^ b) - turned(b, n) & bits
        elif x == "a":
            a = (a ^ c) - turned(c, n) & bits
        else:
            b = (b ^ a) - turned(a, n) & bits
    return c


# A fixed array whose pages have 2^200 entries, with the right checksum.
with open("index-fixed.h5", "rb") as file:
    data = bytearray(file.read())
at = data.index(b"FAHD")
assert checksum(data[at : at + 24]) == int.from_bytes(data[at + 24 : at + 28], "little")
data[at + 7] = 200
data[at + 24 : at + 28] = checksum(data[at : at + 24]).to_bytes(4, "little")
with open("pages.h5", "wb") as file:
    file.write(data)
if os.path.exists("other.raw"):
    os.remove("other.raw")
