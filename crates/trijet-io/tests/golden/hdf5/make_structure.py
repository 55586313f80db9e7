"""Writes HDF5 files of this folder whose structure is unusual, with arrays as `make.py` does.

    python make_structure.py

Made with h5py 3.16.0 (HDF5 2.0.0) and numpy 2.4.6 under Python 3.11.
"""

import ctypes
import pathlib
import shutil
import h5py
import numpy

# Some settings have no function in h5py, so they are made in the library that it has loaded.
libraries = pathlib.Path(h5py.__file__).parents[1] / "h5py.libs"
library = ctypes.CDLL(str(next(libraries.glob("libhdf5-*"))))
rng = numpy.random.default_rng(11)
FULL, GZIP = {}, {"compression": "gzip"}


def call(name, plist, *values):
    assert getattr(library, name)(ctypes.c_int64(plist.id), *values) >= 0, name


def draw(code, shape):
    kind = numpy.dtype(code)
    if kind.kind == "c":
        return (draw("f8", shape) + 1j * draw("f8", shape)).astype(kind)
    return rng.integers(0, 90, shape).astype(kind)


def save(name, data):
    numpy.save(f"{name}.npy", numpy.ascontiguousarray(data[()]))


def make(name, array, libver="v114", write=None, change=None, **options):
    with h5py.File(f"{name}.h5", "w", libver=libver) as file:
        shape, kind = array.shape, array.dtype
        data = file.create_dataset("data", shape, kind, **options)
        for part in [slice(None)] if write is None else write:
            data[part] = array[part]
        if change:
            change(data)
        save(name, data)


def low(name, array, plist, limits=None, fcpl=None, libver="v114", write=None):
    """A file with settings of the data set and of the file."""
    fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    bound = {"earliest": 0, "v114": 4}[libver]
    fapl.set_libver_bounds(bound, h5py.h5f.LIBVER_LATEST)
    made = h5py.h5f.create(f"{name}.h5".encode(), h5py.h5f.ACC_TRUNC, fcpl, fapl)
    with h5py.File(made) as file:
        space = h5py.h5s.create_simple(array.shape, limits)
        kind = h5py.h5t.py_create(array.dtype)
        data = h5py.Dataset(h5py.h5d.create(file.id, b"data", kind, space, plist))
        for part in [slice(None)] if write is None else write:
            data[part] = array[part]
        save(name, data)


def chunks(*shape):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk(shape)
    return plist


# Arrays that index chunks, with pages. The second page was never written.
part = [slice(0, 9), slice(2060, 2100)]
make("fixed-pages", draw("u1", (2100,)), write=part, chunks=(1,), fillvalue=7)
for name, options in [("", FULL), ("-gzip", GZIP)]:
    make(f"super-blocks{name}", draw("u1", (600,)), chunks=(2,), maxshape=(None,), **options)
make("grown-axis", draw("u2", (3, 40, 3)), chunks=(1, 1, 2), maxshape=(4, None, 5))
make("grown-fixed", draw("u2", (3, 5)), chunks=(2, 2), maxshape=(4, 9))
for name, options in [("", FULL), ("-gzip", GZIP)]:
    make(f"tree-levels{name}", draw("u1", (17, 19)), chunks=(1, 1), maxshape=(None, None), **options)
    make(f"old-tree-levels{name}", draw("u1", (17, 9)), "earliest", chunks=(1, 1), **options)
make("no-elements", draw("u2", (0, 6, 7)), chunks=(1, 6, 7), maxshape=(None, 6, 7), **GZIP)
early = chunks(2, 2, 2)
early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
low("implicit-limits", draw("u2", (3, 5, 3)), early, (4, 9, 3))
# The first data block with pages. Only the second page of the second block was written, and no .npy
# file is beside this file.
with h5py.File("extensible_pages.h5", "w", libver="v114") as file:
    data = file.create_dataset("data", (140_000,), "u1", chunks=(1,), maxshape=(None,))
    first = 4 + 16 * (2**13 - 1)
    data[3], data[first + 2048 + 1500] = 5, 6

# Chunks at the ends of axes without filters.
for name, limits in [("fixed", None), ("extensible", (h5py.h5s.UNLIMITED, 6, 7)),
                     ("tree", (h5py.h5s.UNLIMITED, h5py.h5s.UNLIMITED, 7))]:
    plist = chunks(2, 4, 4)
    plist.set_shuffle()
    plist.set_deflate(5)
    call("H5Pset_chunk_opts", plist, ctypes.c_uint(2))
    low(f"raw-edges-{name}", draw("u2", (3, 6, 7)), plist, limits)
    low(f"raw-edges-{name}-big", draw(">u4", (3, 6, 7)), plist, limits)

# Layouts of version 5.
shape, limit = (3, 6, 7), {"chunks": (1, 6, 7), "maxshape": (None, 6, 7)}
for name, options in [("single", {"chunks": shape}), ("fixed", {"chunks": (2, 4, 4)}),
                      ("extensible", limit),
                      ("tree", {"chunks": (2, 4, 4), "maxshape": (None, None, 7)})]:
    make(f"version5-{name}", draw("u2", shape), "v200", **options, **GZIP)

# Fill values of types that have no number of their own in many programs.
for code, value in [("f2", 1.5), (">f2", 1.5), ("c8", 1 + 2j), (">c16", 1 + 2j), (">i4", 7)]:
    kind = numpy.dtype(code)
    make(f"fill-{kind.name}{'-big' if code[0] == '>' else ''}", draw(code, (4, 5)), write=[0],
         chunks=(2, 2), fillvalue=kind.type(value), **GZIP)
make("fill-old-header", draw("i2", (4, 5)), "earliest", write=[0], chunks=(2, 2), fillvalue=-3)

# Types.
with h5py.File("committed.h5", "w", libver="v114") as file:
    file["type"] = numpy.dtype("<u2")
    file["data"] = h5py.Dataset(h5py.h5d.create(
        file.id, None, file["type"].id, h5py.h5s.create_simple((2, 3))))
    file["data"][:] = draw("u2", (2, 3))
    file["data"].attrs.create("own", 7, dtype=file["type"])
    save("committed", file["data"])
with h5py.File("committed-old.h5", "w", libver="earliest") as file:
    file["type"] = numpy.dtype("<f4")
    file["data"] = h5py.Dataset(h5py.h5d.create(
        file.id, None, file["type"].id, h5py.h5s.create_simple((2, 3))))
    file["data"][:] = draw("f4", (2, 3))
    save("committed-old", file["data"])
colours = h5py.enum_dtype({"red": 1, "green": 500}, basetype="<i2")
with h5py.File("enumeration.h5", "w") as file:
    file["data"] = draw("i2", (2, 3)).astype(colours)
    numpy.save("enumeration.npy", file["data"][:].astype("<i2"))
with h5py.File("enumeration-new.h5", "w", libver="v114") as file:
    file["data"] = draw("i2", (2, 3)).astype(colours)
    numpy.save("enumeration-new.npy", file["data"][:].astype("<i2"))
# Types that h5py does not convert to.
for name, code, kind in [("complex64-class", "<c8", h5py.h5t.COMPLEX_IEEE_F32LE),
                         ("complex128-class-big", ">c16", h5py.h5t.COMPLEX_IEEE_F64BE)]:
    with h5py.File(f"{name}.h5", "w", libver="v200") as file:
        space, array = h5py.h5s.create_simple((2, 3)), draw(code, (2, 3))
        h5py.h5d.create(file.id, b"data", kind, space).write(space, space, array, kind)
        numpy.save(f"{name}.npy", array)
# No .npy file is beside this file, because numpy has no such type.
half = h5py.h5t.IEEE_F16LE.copy()
half.set_fields(15, 7, 8, 0, 7)
half.set_ebias(127)
with h5py.File("bfloat16.h5", "w", libver="v114") as file:
    space = h5py.h5s.create_simple((2, 3))
    data = h5py.h5d.create(file.id, b"data", half, space)
    data.write(space, space, numpy.arange(0x3F80, 0x3F86, dtype="<u2"), half)

# Superblocks: sizes of addresses and lengths, the version 1, and the versions for writers that
# others follow.
for address, length in [(4, 4), (8, 2), (4, 8)]:
    fcpl = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    fcpl.set_sizes(address, length)
    for libver in ["earliest", "v114"]:
        low(f"sizes-{address}-{length}-{libver}", draw("u2", (5, 6)), chunks(2, 2), fcpl=fcpl,
            libver=libver)
fcpl = h5py.h5p.create(h5py.h5p.FILE_CREATE)
call("H5Pset_istore_k", fcpl, ctypes.c_uint(2))
low("superblock1", draw("u2", (9, 6)), chunks(1, 1), fcpl=fcpl, libver="earliest")
make("superblock2", draw("u2", (2, 3)), "v108")

# A layout of version 1, as HDF5 1.4 wrote it, in place of the version 3.
for name, layout in [("plain", FULL), ("chunked", {"chunks": (4,)})]:
    make(f"layout1-{name}", draw("u2", (10,)), "earliest", **layout)
    with open(f"layout1-{name}.h5", "r+b") as file:
        data = bytearray(file.read())
        at = data.index(bytes([8, 0, 24, 0])) + 8
        sizes = [10, 2] if layout is FULL else [4, 2]
        start = at + 2 if layout is FULL else at + 3

        kind = 1 if layout is FULL else 2
        new = bytes([1, 2, kind, 0, 0, 0, 0, 0]) + data[start : start + 8]
        data[at : at + 24] = new + b"".join(size.to_bytes(4, "little") for size in sizes)
        file.seek(0)
        file.write(data)
    with h5py.File(f"layout1-{name}.h5") as file:
        assert (file["data"][:] == numpy.load(f"layout1-{name}.npy")).all()

# A committed type in the form of HDF5 1.4: the place of an entry of a group, and not an address.
shutil.copy("committed-old.npy", "committed-1.npy")
with open("committed-old.h5", "rb") as file:
    data = bytearray(file.read())
at = data.index(bytes([3, 0, 16, 0, 3, 0, 0, 0, 2]))
address = data[at + 10 : at + 18]
gap = data.index(bytes([0, 0, 112, 0]), at)
new = bytes([3, 0, 24, 0, 3, 0, 0, 0, 1]) + bytes(15) + address
data[at : gap + 16] = new + data[at + 24 : gap] + bytes([0, 0, 104, 0]) + bytes(4)
with open("committed-1.h5", "wb") as file:
    file.write(data)
with h5py.File("committed-1.h5") as file:
    assert (file["data"][:] == numpy.load("committed-1.npy")).all()

# Links. The data sets are found without a path, because soft links are no other data sets.
for name, libver in [("old", "earliest"), ("new", "v114")]:
    with h5py.File(f"links-{name}.h5", "w", libver=libver) as file:
        file["a/b/data"] = array = draw("u2", (2, 3, 4))
        save(f"links-{name}", file["a/b/data"])
        for at, target in [
            ("relative", "a/b/data"), ("a/sibling", "b/data"), ("a/b/absolute", "/a/b/./data"),
            ("group", "a/b"), ("twice", "group/absolute"), ("once", "twice"), ("nowhere", "a/none"),
            ("circle", "/circle"), ("left", "right"), ("right", "left/x"), ("self", "/"),
            ("through", "a/b/data/x"),
        ]:
            file[at] = h5py.SoftLink(target)
        for number in range(18):
            file[f"chain{number}"] = h5py.SoftLink(f"chain{number + 1}" if number < 17 else "a/b/data")
# Many links in a heap, whose root is a table of blocks, with an index by creation and without one.
for name, order in [("links-dense", False), ("links-ordered", True)]:
    with h5py.File(f"{name}.h5", "w", libver="v114", track_order=order) as file:
        group = file.create_group("many", track_order=order)
        for number in range(90):
            group[f"a link to the group itself, number {number}"] = group
        group["stack"] = draw("u2", (2, 3, 4))
        group["soft"] = h5py.SoftLink("stack")
        save(name, group["stack"])
with h5py.File("nexus-soft.h5", "w") as file:
    file["entry/instrument/detector/counts"] = array = draw("u2", (2, 3, 4))
    file["entry/instrument/detector/flat"] = draw("u2", (2, 3, 4))
    group = file.create_group("entry/data")
    group["data"] = h5py.SoftLink("/entry/instrument/detector/counts")
    file["start"] = h5py.SoftLink("entry")
    file.attrs["default"], file["entry"].attrs["default"] = "start", "data"
    group.attrs["signal"] = numpy.bytes_("data")
    numpy.save("nexus-soft.npy", array)

# Attributes in a heap, one of them larger than its blocks.
with h5py.File("attributes-dense.h5", "w", libver="v114") as file:
    data = file.create_dataset("data", data=draw("u2", (2, 3)), track_order=True)
    save("attributes-dense", data)
    for number in range(12):
        data.attrs[f"number{number}"] = number
    data.attrs["large"] = numpy.arange(600, dtype=">f8")
    data.attrs["yes"] = True
    data.attrs["half"] = numpy.float16(-1.5)
    data.attrs["words"] = ["a", "", "ccc"]
    data.attrs["table"] = numpy.array([[1, 2], [3, 4]], "u1")
    data.attrs["nothing"], data.attrs["no words"] = h5py.Empty("f4"), h5py.Empty("S3")
# The index of the attributes has two levels.
with h5py.File("attributes-levels.h5", "w", libver="v114") as file:
    data = file.create_dataset("data", data=numpy.arange(6, dtype="u2").reshape(2, 3),
                               chunks=(1, 3))
    save("attributes-levels", data)
    for number in range(60):
        data.attrs[f"n{number}"] = numpy.uint8(number)

# Files that are refused: no .npy file is beside them.
with h5py.File("only_away.h5", "w") as file:
    file["entry/data"] = h5py.ExternalLink("other.h5", "/data")
fcpl = h5py.h5p.create(h5py.h5p.FILE_CREATE)
call("H5Pset_shared_mesg_nindexes", fcpl, ctypes.c_uint(1))
call("H5Pset_shared_mesg_index", fcpl, ctypes.c_uint(0), ctypes.c_uint(1 << 3), ctypes.c_uint(1))
with h5py.File(h5py.h5f.create(b"shared_messages.h5", h5py.h5f.ACC_TRUNC, fcpl)) as file:
    file["data"], file["more"] = draw("u2", (2, 3)), draw("u2", (2, 3))
# Links to other files beside a data set.
for name, libver in [("old", "earliest"), ("new", "v114")]:
    with h5py.File(f"away_{name}.h5", "w", libver=libver) as file:
        file["a/b/data"] = draw("u2", (2, 3, 4))
        file["away"] = h5py.ExternalLink("other.h5", "/data")
# The default of NeXus cannot be read, and there is another stack.
for name in ["away", "entry_away", "missing", "group", "number"]:
    with h5py.File(f"nexus_{name}.h5", "w") as file:
        file["flats/flat"] = draw("u2", (2, 3, 4))
        file.attrs["default"] = "entry"
        if name == "entry_away":
            file["entry"] = h5py.ExternalLink("other.h5", "/entry")
            continue
        group = file.create_group("entry/data")
        file["entry"].attrs["default"] = "data"
        group.attrs["signal"] = 1 if name == "number" else "data"
        if name == "number":
            group.attrs["default"] = "."
        if name == "away":
            group["data"] = h5py.ExternalLink("raw.h5", "/data")
        elif name == "group":
            group.create_group("data")
# One data set is at a depth that is searched, and one below it.
with h5py.File("deep_groups.h5", "w", libver="v114") as file:
    file["stack"] = draw("u2", (2, 3, 4))
    file["/".join(["a"] * 17) + "/stack"] = draw("u2", (2, 3, 4))
# Copies of files that are open for writing. The second one has other readers.
for name in ["open_write", "open_swmr"]:
    with h5py.File("copied.h5", "w", libver="v114") as file:
        data = file.create_dataset("data", (0, 3, 4), "u2", chunks=(1, 3, 4), maxshape=(None, 3, 4))
        if name == "open_swmr":
            file.swmr_mode = True
        data.resize(2, 0)
        data[:] = draw("u2", (2, 3, 4))
        file.flush()
        shutil.copy("copied.h5", f"{name}.h5")
pathlib.Path("copied.h5").unlink()
# Texts of any length in files with short lengths. The default of NeXus is such a text.
for length in [2, 4]:
    fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    fcpl = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    fcpl.set_sizes(8, length)
    made = h5py.h5f.create(f"text-8-{length}.h5".encode(), h5py.h5f.ACC_TRUNC, fcpl, fapl)
    with h5py.File(made) as file:
        file["flat"] = draw("u2", (2, 3, 4))
        file["data"] = draw("u2", (2, 3, 4))
        file.attrs["signal"] = "data"
        file["data"].attrs["words"] = ["counts", "of", "photons per second"]
        save(f"text-8-{length}", file["data"])
