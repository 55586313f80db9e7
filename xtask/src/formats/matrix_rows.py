"""The rows of the matrix: files that each library writes by default and with its usual options.

A row of a file that `trijet` refuses has a word that the message must contain. Every other file is
also read by its own library, so a row holds the array that users of Python see.
"""

import dataclasses
import pathlib
import zlib

import h5py
import hdf5plugin
import imageio.v2
import imageio.v3
import mrcfile
import nibabel
import numcodecs
import numpy
import PIL.Image
import tifffile
import zarr
from zarr import codecs

SHAPE = (5, 37, 41)
COMMON = ["u1", "u2", "f4", "i2", "f8"]
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
REAL = INTEGERS + ["f2", "f4", "f8"]
ALL = ["?"] + REAL + ["c8", "c16"]


@dataclasses.dataclass
class Row:
    writer: str
    options: str
    path: pathlib.Path
    array: numpy.ndarray | None = None
    inner: str = ""
    arguments: tuple = ()
    refused: str = ""
    warned: str = ""

    @property
    def input(self):
        return f"{self.path}::{self.inner}" if self.inner else str(self.path)


def draw(code, shape=SHAPE, seed=1):
    """Elements of the whole range of a type. Floats have NaN and infinity, but not -0.0, to which
    affine:1,0 adds 0.0."""
    kind = numpy.dtype(code)
    random = numpy.random.default_rng([seed, zlib.crc32(kind.str.encode())])
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(kind)
    if kind.kind in "iu":
        limits = numpy.iinfo(kind)
        drawn = random.integers(limits.min, limits.max, shape, kind.newbyteorder("="), True)
        return drawn.astype(kind)
    if kind.kind == "c":
        part = numpy.dtype(f"f{kind.itemsize // 2}")
        drawn = numpy.empty(shape, kind.newbyteorder("="))
        drawn.real, drawn.imag = draw(part, shape, 2), draw(part, shape, 3)
        return drawn.astype(kind)
    drawn = random.normal(size=shape) * 1000
    drawn.flat[:4] = [numpy.nan, numpy.inf, -numpy.inf, 0.5]
    return drawn.astype(kind)


def text(options):
    show = lambda value: getattr(value, "__name__", None) or (
        type(value).__name__ if hasattr(value, "to_dict") else str(value)
    )
    return " ".join(f"{key}={show(value)}" for key, value in options.items()) or "default"


def little(array):
    """The bytes that an output has: little-endian, in C order, with bool as u8."""
    array = numpy.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return array.view("u1") if array.dtype == bool else array


class Rows(list):
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def make(self, writer, options, name, write, read=None, drawn=None, **others):
        """Writes a file. `read` is the reader of its library, and `drawn` the array as written."""
        folder = self.folder / f"{len(self):03}"
        folder.mkdir(parents=True)
        path = folder / name
        try:
            write(path)
            array = None if read is None else little(read(path))
        except Exception as error:
            raise RuntimeError(f"{writer} cannot write the row {options}") from error
        if drawn is not None:
            same = array.tobytes() == little(drawn).tobytes()
            assert same, f"{writer} reads other elements than it has written: {options}"
        self.append(Row(writer, options, path, array, **others))

    def refuse(self, writer, options, name, write, word, **others):
        self.make(writer, options, name, write, refused=word, **others)


def tiff(rows):
    read = tifffile.imread
    usual = [{"compression": name} for name in ["zlib", "zstd", "lzw", "packbits"]]
    usual += [{"compression": name, "predictor": True} for name in ["zlib", "zstd", "lzw"]]
    usual += [
        {"tile": (16, 16)},
        {"tile": (32, 32), "compression": "zlib", "predictor": True},
        {"bigtiff": True},
        {"byteorder": ">"},
        {"byteorder": ">", "compression": "zlib", "predictor": True},
        {"byteorder": ">", "bigtiff": True, "tile": (16, 16)},
        {"rowsperstrip": 5},
        {"rowsperstrip": 5, "compression": "lzw"},
        {"metadata": None},
        {"ome": True},
        {"ome": True, "compression": "zlib", "bigtiff": True, "metadata": {"axes": "TYX"}},
    ]
    cases = [({}, code) for code in REAL]
    cases += [(options, code) for options in usual for code in COMMON]
    imagej = [{"imagej": True}, {"imagej": True, "metadata": {"axes": "ZYX", "spacing": 2.0}}]
    imagej += [{"imagej": True, "compression": "zlib"}]
    cases += [(options, code) for options in imagej for code in ["u1", "u2", "f4"]]
    for options, code in cases:
        array = draw(code)
        write = lambda path: tifffile.imwrite(path, array, **options)
        rows.make("tifffile", f"{text(options)} {code}", "in.tif", write, read, array)
    for options in [{}, {"compression": "zlib", "predictor": True}, {"tile": (16, 16)}]:
        for shape in [(37, 41, 3), (5, 37, 41, 3), (5, 37, 41, 4)]:
            array = draw("u1", shape)
            write = lambda path: tifffile.imwrite(path, array, photometric="rgb", **options)
            rows.make("tifffile", f"rgb {shape} {text(options)}", "in.tif", write, read, array)
    for shape in [(41,), (37, 41), (2, 5, 37, 41)]:
        array = draw("u2", shape)
        write = lambda path: tifffile.imwrite(path, array)
        rows.make("tifffile", f"{shape}", "in.tif", write, read, array)

    array = draw("u2")

    def pages(path):
        with tifffile.TiffWriter(path) as file:
            for image in array:
                file.write(image, contiguous=True)

    def pyramid(path):
        with tifffile.TiffWriter(path, ome=True) as file:
            file.write(array, subifds=1, tile=(16, 16), metadata={"axes": "ZYX"})
            file.write(array[:, ::2, ::2], subfiletype=1, tile=(16, 16))

    def mapped(path):
        memory = tifffile.memmap(path, shape=array.shape, dtype=array.dtype)
        memory[:] = array
        memory.flush()

    def folder(path):
        path.mkdir()
        for number, image in enumerate(array):
            tifffile.imwrite(path / f"image{number}.tif", image)

    joined = lambda path: tifffile.TiffSequence(f"{path}/*.tif").asarray()
    rows.make("tifffile", "contiguous pages u2", "in.tif", pages, read, array)
    warned = "smaller versions of the images"
    rows.make("tifffile", "ome subifds u2", "in.ome.tif", pyramid, read, array, warned=warned)
    rows.make("tifffile", "memmap u2", "in.tif", mapped, read, array)
    rows.make("tifffile", "a folder of images u2", "in", folder, joined, array)
    # An axis of length 3 or 4 makes tifffile write colours, each as a plane.
    for shape in [(3, 37, 41), (2, 3, 37, 41), (5, 4, 37, 41)]:
        for options in [{}, {"compression": "zlib"}, {"tile": (16, 16), "metadata": None}]:
            planes = draw("u2", shape)
            options = {"photometric": "rgb", "planarconfig": "separate", **options} if options else {}
            write = lambda path: tifffile.imwrite(path, planes, **options)
            rows.make("tifffile", f"planes {shape} {text(options)}", "in.tif", write, read, planes)
    refused = [
        ({"compression": "jpeg"}, "JPEG", "u1"),
        ({"compression": "jpeg2000"}, "JPEG 2000", "u1"),
        ({"compression": "webp", "photometric": "rgb"}, "WebP", "u1"),
        ({"compression": "lerc"}, "LERC", "f4"),
        ({"compression": "png"}, "PNG", "u1"),
        ({"compression": "jpegxl"}, "JPEG XL", "u1"),
        ({"compression": "lzma"}, "LZMA", "u2"),
        ({"photometric": "palette", "colormap": numpy.zeros((3, 256), "u2")}, "palette", "u1"),
        ({"photometric": "minisblack"}, "1 bit", "?"),
        ({"photometric": "minisblack"}, "complex", "c8"),
    ]
    for options, word, code in refused:
        colours = options.get("photometric") == "rgb"
        array = draw(code, (37, 41, 3) if colours else SHAPE)
        write = lambda path: tifffile.imwrite(path, array, **options)
        shown = {key: value for key, value in options.items() if key != "colormap"}
        rows.refuse("tifffile", f"{text(shown)} {code}", "in.tif", write, word)


def images(rows):
    for code in ["u1", "u2", "f4"]:
        array = draw(code)
        write = lambda path: imageio.v3.imwrite(path, array)
        rows.make("imageio", f"v3 default {code}", "in.tif", write, imageio.v3.imread, array)
        write = lambda path: imageio.v2.mimwrite(path, list(array))
        # Each image is a series of its own: tifffile reads the first one.
        left = {"drawn": array[0], "warned": "4 pages after the first array"}
        rows.make("imageio", f"v2 mimwrite {code}", "in.tif", write, tifffile.imread, **left)
        write = lambda path: imageio.v2.volwrite(path, array)
        rows.make("imageio", f"v2 volwrite {code}", "in.tif", write, imageio.v2.volread, array)
        write = lambda path: imageio.v2.imwrite(path, array[0])
        rows.make("imageio", f"v2 imwrite {code}", "in.tif", write, tifffile.imread, array[0])
    for compression in ["raw", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "packbits"]:
        for code in ["u1", "u2", "f4"]:
            array = draw(code)

            def pages(path):
                first, *others = [PIL.Image.fromarray(image) for image in array]
                first.save(path, save_all=True, append_images=others, compression=compression)

            rows.make("pillow", f"{compression} {code}", "in.tif", pages, tifffile.imread, array)
    for code in ["u1", "u2"]:
        array = draw(code)

        def folder(path):
            path.mkdir()
            for number, image in enumerate(array):
                imageio.v3.imwrite(path / f"image{number:03}.png", image)

        joined = lambda path: numpy.stack([imageio.v3.imread(p) for p in sorted(path.iterdir())])
        rows.make("imageio", f"a folder of png {code}", "in", folder, joined, array)
    write = lambda path: imageio.v3.imwrite(path, draw("u1"))
    rows.refuse("imageio", "gif u1", "in.gif", write, "GIF")
    write = lambda path: imageio.v3.imwrite(path, draw("u1", (37, 41, 3)))
    rows.refuse("imageio", "jpg u1", "in.jpg", write, "JPEG")


def hdf5(rows):
    plugin = lambda made: dict(made)
    blosc = lambda name, shuffle: plugin(hdf5plugin.Blosc(cname=name, shuffle=shuffle))
    usual = [
        ("chunks=True", {"chunks": True}),
        ("chunks=(2, 16, 16)", {"chunks": (2, 16, 16)}),
        ("gzip", {"compression": "gzip"}),
        ("shuffle gzip", {"shuffle": True, "compression": "gzip"}),
        ("one axis grows", {"maxshape": (None, 37, 41)}),
        ("two axes grow", {"maxshape": (None, None, 41), "compression": "gzip"}),
        ("fletcher32", {"fletcher32": True}),
        ("shuffle gzip fletcher32", {"shuffle": True, "compression": "gzip", "fletcher32": True}),
        ("Bitshuffle none", plugin(hdf5plugin.Bitshuffle(cname="none"))),
        ("Bitshuffle lz4", plugin(hdf5plugin.Bitshuffle(cname="lz4"))),
        ("Bitshuffle zstd", plugin(hdf5plugin.Bitshuffle(cname="zstd"))),
        ("LZ4", plugin(hdf5plugin.LZ4())),
        ("Zstd", plugin(hdf5plugin.Zstd())),
        ("Blosc", plugin(hdf5plugin.Blosc())),
    ]
    shuffle = hdf5plugin.Blosc
    for name in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]:
        usual.append((f"Blosc {name} bitshuffle", blosc(name, shuffle.BITSHUFFLE)))
    read = lambda path: h5py.File(path)["data"][:]
    cases = [("default", {}, code) for code in ALL]
    cases += [(name, options, code) for name, options in usual for code in COMMON]
    cases += [("big-endian", {}, f">{code}") for code in ["i2", "u2", "f4", "f8", "c8"]]
    cases += [("big-endian gzip", {"compression": "gzip"}, f">{code}") for code in ["u2", "f4"]]
    for name, options, code in cases:
        array = draw(code)

        def write(path):
            with h5py.File(path, "w") as file:
                file.create_dataset("data", data=array, **options)

        rows.make("h5py", f"{name} {code}", "in.h5", write, read, array)
    missing = [("no fill value", {}), ("fillvalue=7", {"fillvalue": 7})]
    for name, options in missing + [("fillvalue=7 gzip", {"fillvalue": 7, "compression": "gzip"})]:
        for code in COMMON:

            def write(path):
                with h5py.File(path, "w") as file:
                    data = file.create_dataset("data", SHAPE, code, chunks=(2, 16, 16), **options)
                    data[2:3, 16:32, :16] = draw(code)[2:3, 16:32, :16]

            rows.make("h5py", f"missing chunks {name} {code}", "in.h5", write, read)
    array = draw("u2")

    def nested(path):
        with h5py.File(path, "w") as file:
            file["entry/instrument/detector/data"] = array
            file["entry/other"] = draw("f4")

    def only(path):
        with h5py.File(path, "w") as file:
            file["entry/data"] = array
            file["entry/angles"] = draw("f8", (5,))

    inner = "entry/instrument/detector/data"
    read = lambda path: h5py.File(path)[inner][:]
    rows.make("h5py", "nested group u2", "in.h5", nested, read, array, inner=inner)
    rows.refuse("h5py", "two data sets", "in.h5", nested, "2 data sets")
    rows.make("h5py", "one stack u2", "in.h5", only, lambda p: h5py.File(p)["entry/data"][:], array)
    for version in ["earliest", "v108", "v110", "v114", "v200"]:
        for options in [{}, {"chunks": (2, 16, 16), "compression": "gzip", "shuffle": True}]:

            def write(path):
                with h5py.File(path, "w", libver=version) as file:
                    file.create_dataset("data", data=array, **options)

            read = lambda path: h5py.File(path)["data"][:]
            rows.make("h5py", f"{version} {text(options)} u2", "in.h5", write, read, array)
    refused = [
        ("lzf", {"data": array, "compression": "lzf"}, "LZF"),
        ("scaleoffset", {"data": array, "scaleoffset": 0}, "scale-offset"),
        ("Blosc2", {"data": array, **hdf5plugin.Blosc2()}, "blosc2"),
        ("BZip2", {"data": array, **hdf5plugin.BZip2()}, "bzip2"),
        ("Zfp", {"data": draw("f4"), **hdf5plugin.Zfp(reversible=True)}, "ZFP"),
        ("compound", {"data": numpy.zeros(SHAPE, [("a", "u2"), ("b", "f4")])}, "compound"),
        ("strings", {"data": numpy.full(SHAPE, b"text")}, "string"),
    ]
    for name, options, word in refused:

        def write(path):
            with h5py.File(path, "w", libver="v110") as file:
                file.create_dataset("data", **options)

        rows.refuse("h5py", name, "in.h5", write, word, inner="data")

    def virtual(path):
        with h5py.File(path, "w") as file:
            layout = h5py.VirtualLayout(SHAPE, "u2")
            layout[:] = h5py.VirtualSource("other.h5", "data", SHAPE)
            file.create_virtual_dataset("data", layout)

    def link(kind, *place):
        def write(path):
            with h5py.File(path, "w", libver="v110") as file:
                file["data"] = kind(*place)

        return write

    def soft(path):
        with h5py.File(path, "w") as file:
            file["entry/data"] = array
            file["data"] = h5py.SoftLink("/entry/data")

    rows.refuse("h5py", "virtual", "in.h5", virtual, "virtual", inner="data")
    away = link(h5py.ExternalLink, "other.h5", "/data")
    rows.refuse("h5py", "external link", "in.h5", away, "external links", inner="data")
    read = lambda path: h5py.File(path)["data"][:]
    rows.make("h5py", "soft link u2", "in.h5", soft, read, array, inner="data")


def zarr_arrays(rows):
    create = zarr.create_array
    usual = [
        {"compressors": None},
        {"chunks": (2, 16, 16)},
        {"chunks": (2, 16, 16), "shards": (4, 32, 48)},
        {"chunks": (1, 37, 41), "shards": (5, 37, 41), "compressors": None},
        {"compressors": codecs.GzipCodec()},
        {"compressors": codecs.ZstdCodec(level=3)},
        {"compressors": codecs.BloscCodec()},
        {"compressors": codecs.BloscCodec(cname="lz4", shuffle="bitshuffle")},
        {"serializer": codecs.BytesCodec(endian="big")},
        {"filters": codecs.TransposeCodec(order=(2, 0, 1)), "chunks": (2, 16, 16)},
        {"chunks": (2, 16, 16), "chunk_key_encoding": {"name": "default", "separator": "."}},
        {"chunks": (2, 16, 16), "chunk_key_encoding": {"name": "v2", "separator": "/"}},
        {"chunks": (2, 16, 16), "chunk_key_encoding": {"name": "v2", "separator": "."}},
    ]
    older = [
        {"compressors": None},
        {"chunks": (2, 16, 16), "order": "F"},
        {"compressors": numcodecs.GZip()},
        {"compressors": numcodecs.Zlib()},
        {"compressors": numcodecs.Zstd()},
        {"compressors": numcodecs.LZ4()},
        {"compressors": numcodecs.Blosc()},
        {"compressors": numcodecs.Blosc("zstd", shuffle=numcodecs.Blosc.BITSHUFFLE)},
        {"chunks": (2, 16, 16), "chunk_key_encoding": {"name": "v2", "separator": "/"}},
    ]
    cases = [(3, {}, code) for code in ALL] + [(2, {}, code) for code in ALL]
    cases += [(3, options, code) for options in usual for code in COMMON]
    cases += [(2, options, code) for options in older for code in COMMON]
    cases += [(2, {}, f">{code}") for code in ["i2", "u2", "f4", "f8", "c8"]]
    cases += [(2, {"filters": numcodecs.Shuffle(2)}, "u2")]
    read = lambda path: zarr.open_array(path, mode="r")[:]
    for version, options, code in cases:
        array = draw(code)
        given = {key: value for key, value in options.items() if key != "order"}
        if "order" in options:
            given["order"] = "F"
        write = lambda path: create(path, data=array, zarr_format=version, **given)
        row = f"v{version} {text(options)} {code}"
        rows.make("zarr", row, "in.zarr", write, read, array)
    fills = [("u2", 7), ("i2", -7), ("f4", numpy.nan), ("f8", -numpy.inf), ("f4", 1.5)]
    for version in [2, 3]:
        for code, fill in fills:

            def write(path):
                options = {"chunks": (2, 16, 16), "fill_value": fill, "zarr_format": version}
                made = create(path, shape=SHAPE, dtype=code, **options)
                made[2:3, 16:32, :16] = draw(code)[2:3, 16:32, :16]

            row = f"v{version} missing chunks fill_value={fill} {code}"
            rows.make("zarr", row, "in.zarr", write, read)

    array = draw("u2")

    def sparse(path):
        made = create(path, shape=SHAPE, dtype="u2", chunks=(1, 8, 8), shards=(4, 32, 48))
        made[2, 16:24, :8] = array[2, 16:24, :8]

    def group(path):
        zarr.save_group(path, stack=array, angles=draw("f8", (5,)))

    def nested(path):
        made = zarr.create_group(path).create_group("raw")
        made.create_array("0", data=array, dimension_names=["z", "y", "x"])
        made.create_array("1", data=array[:, ::2, ::2])

    named = lambda path: zarr.open_array(path / "raw/0", mode="r")[:]
    stack = lambda path: zarr.open_array(path / "stack", mode="r")[:]
    rows.make("zarr", "v3 missing chunks in shards u2", "in.zarr", sparse, read)
    rows.make("zarr", "save u2", "in.zarr", lambda path: zarr.save(path, array), read, array)
    rows.make("zarr", "save_group u2", "in.zarr", group, stack, array)
    rows.make("zarr", "nested group u2", "in.zarr", nested, named, array, inner="raw/0")
    rows.refuse("zarr", "two arrays", "in.zarr", nested, "raw/0")
    refused = [
        (2, "Delta", {"filters": numcodecs.Delta("u2")}, array, "delta"),
        (2, "BZ2", {"compressors": numcodecs.BZ2()}, array, "bz2"),
        (2, "LZMA", {"compressors": numcodecs.LZMA()}, array, "lzma"),
        (2, "structured", {}, numpy.zeros(SHAPE, [("a", "u2"), ("b", "f4")]), "structured"),
        (2, "strings", {}, numpy.full(SHAPE, b"text"), "S4"),
        (3, "datetime64", {}, numpy.zeros(SHAPE, "M8[s]"), "datetime64"),
    ]
    for version, name, options, data, word in refused:
        write = lambda path: create(path, data=data, zarr_format=version, **options)
        rows.refuse("zarr", f"v{version} {name}", "in.zarr", write, word)
    store = lambda path: zarr.save_array(zarr.storage.ZipStore(path, mode="w"), array)
    rows.refuse("zarr", "ZipStore", "in.zarr.zip", store, "ZIP")


def mrc(rows):
    def make(options, name, array, change=None, opened=mrcfile.new):
        def write(path):
            with opened(path) as file:
                file.set_data(array)
                if change:
                    change(file)

        rows.make("mrcfile", options, name, write, mrcfile.read, array)

    for code in ["i1", "i2", "f4", "c8", "u2", "f2"]:
        make(f"default {code}", "in.mrc", draw(code))
    for code in [">i2", ">f4", ">c8", ">u2", ">f2"]:
        make(f"big-endian {code}", "in.mrc", draw(code))
    for code in ["i2", "f4", "u2"]:
        make(f"image {code}", "in.mrc", draw(code, (37, 41)))
        make(f"image stack {code}", "in.mrcs", draw(code), lambda file: file.set_image_stack())
        make(f"volumes {code}", "in.map", draw(code, (2, 5, 37, 41)))
    extended = lambda file: file.set_extended_header(numpy.zeros(100, "V1"))
    make("extended header i2", "in.mrc", draw("i2"), extended)

    def wider(path):
        with mrcfile.new(path, draw("u1")):
            pass

    def mapped(path):
        with mrcfile.new_mmap(path, SHAPE, 2) as file:
            file.data[:] = draw("f4")

    bytes_as_u2 = draw("u1").astype("u2")
    rows.make("mrcfile", "u1 becomes u2", "in.mrc", wider, mrcfile.read, bytes_as_u2)
    rows.make("mrcfile", "new_mmap f4", "in.mrc", mapped, mrcfile.read, draw("f4"))
    suffixes = {"in.mrc.gz": "gzip files", "in.mrc.bz2": "compressed files"}
    for compression, name in [("gzip", "in.mrc.gz"), ("bzip2", "in.mrc.bz2")]:
        write = lambda path: mrcfile.new(path, draw("i2"), compression=compression).close()
        rows.refuse("mrcfile", f"compression={compression}", name, write, suffixes[name])
        rows.refuse("mrcfile", f"compression={compression} .mrc", "in.mrc", write, compression)


def nifti(rows):
    read = lambda path: numpy.asanyarray(nibabel.load(path).dataobj).T

    def make(options, name, kind, code, order="<", shape=SHAPE):
        array = draw(code, shape)

        def write(path):
            header = kind.header_class(endianness=order)
            header.set_data_dtype(array.dtype.newbyteorder(order))
            made = kind(array.T, numpy.diag([1.5, 2.5, 3.5, 1.0]), header)
            made.header.set_xyzt_units("mm", "sec")
            nibabel.save(made, path)

        rows.make("nibabel", f"{options} {code}", name, write, read, array)

    one, two = nibabel.Nifti1Image, nibabel.Nifti2Image
    for code in INTEGERS + ["f4", "f8", "c8", "c16"]:
        make(".nii", "in.nii", one, code)
    for code in COMMON:
        make(".nii.gz", "in.nii.gz", one, code)
        make("version 2", "in.nii", two, code)
        make("big-endian", "in.nii", one, code, ">")
        make("big-endian .nii.gz", "in.nii.gz", one, code, ">")
        make("series", "in.nii", one, code, shape=(2, 5, 37, 41))
    save = lambda array, path: nibabel.save(one(array.T, numpy.eye(4)), path)

    def scaled(path):
        made = one(draw("f4", (5, 37, 41)).clip(0, 1).T, numpy.eye(4))
        made.header.set_data_dtype("i2")
        nibabel.save(made, path)

    colours = numpy.zeros(SHAPE, [("R", "u1"), ("G", "u1"), ("B", "u1")])
    rows.refuse("nibabel", "scaled", "in.nii", scaled, "scl_slope")
    rows.refuse("nibabel", "scaled .nii.gz", "in.nii.gz", scaled, "scl_slope")
    rows.refuse("nibabel", "rgb", "in.nii", lambda path: save(colours, path), "colours")
    numbers = lambda path: save(draw("i2"), path)
    rows.refuse("nibabel", "pair", "in.img", numbers, "two files")
    rows.refuse("nibabel", ".nii.bz2", "in.nii.bz2", numbers, "compressed files")


def numpy_files(rows):
    for code in ALL:
        array = draw(code)
        save = lambda path: numpy.save(path, array)
        rows.make("numpy", f"save {code}", "in.npy", save, numpy.load, array)
    for code in COMMON + ["c8"]:
        fortran = numpy.asfortranarray(draw(code))
        save = lambda path: numpy.save(path, fortran)
        rows.make("numpy", f"save order F {code}", "in.npy", save, numpy.load, fortran)
        if numpy.dtype(code).itemsize > 1:
            big = draw(f">{code}")
            save = lambda path: numpy.save(path, big)
            rows.make("numpy", f"save big-endian {code}", "in.npy", save, numpy.load, big)
        array = draw(code)
        names = {"f4": "f32", "f8": "f64", "u1": "u8", "u2": "u16", "i2": "i16", "c8": "c64"}
        form = ("--shape", "x".join(map(str, SHAPE)), "--dtype", names[code])
        load = lambda path: numpy.fromfile(path, array.dtype).reshape(SHAPE)
        rows.make("numpy", f"tofile {code}", "in.raw", array.tofile, load, array, arguments=form)
        swapped = array.astype(array.dtype.newbyteorder(">"))
        load = lambda path: numpy.fromfile(path, swapped.dtype).reshape(SHAPE)
        form += ("--endian", "big")
        row = f"tofile big-endian {code}"
        rows.make("numpy", row, "in.bin", swapped.tofile, load, array, arguments=form)
        save = lambda path: numpy.savez(path, array)
        load = lambda path: numpy.load(path)["arr_0"]
        rows.make("numpy", f"savez {code}", "in.npz", save, load, array)
        save = lambda path: numpy.savez(path, first=draw("u1"), second=array)
        load = lambda path: numpy.load(path)["second"]
        rows.make("numpy", f"savez names {code}", "in.npz", save, load, array, inner="second")
    for shape in [(41,), (37, 41), (2, 3, 37, 41), (2, 2, 3, 37, 41)]:
        array = draw("u2", shape)
        save = lambda path: numpy.save(path, array)
        rows.make("numpy", f"save {shape}", "in.npy", save, numpy.load, array)

    array = draw("u2")

    def version(path):
        with open(path, "wb") as file:
            numpy.lib.format.write_array(file, array, version=(3, 0))

    def mapped(path):
        memory = numpy.lib.format.open_memmap(path, "w+", array.dtype, array.shape)
        memory[:] = array
        memory.flush()

    rows.make("numpy", "write_array version 3 u2", "in.npy", version, numpy.load, array)
    rows.make("numpy", "open_memmap u2", "in.npy", mapped, numpy.load, array)
    save = lambda path: numpy.savez_compressed(path, array)
    rows.refuse("numpy", "savez_compressed", "in.npz", save, "numpy.load('")
    save = lambda path: numpy.savez(path, first=array, second=array)
    rows.refuse("numpy", "savez two arrays", "in.npz", save, "::first")
    refused = [
        ("structured", numpy.zeros(SHAPE, [("a", "u2"), ("b", "f4")]), "structured"),
        ("objects", numpy.full(SHAPE, None), "object"),
        ("strings", numpy.full(SHAPE, "text"), "<U4"),
        ("datetime64", numpy.zeros(SHAPE, "M8[s]"), "<M8[s]"),
        ("longdouble", numpy.zeros(SHAPE, "g"), "<f16"),
    ]
    for name, array, word in refused:
        rows.refuse("numpy", name, "in.npy", lambda path: numpy.save(path, array), word)


def all_rows(folder):
    rows = Rows(folder)
    for make in [numpy_files, tiff, images, hdf5, zarr_arrays, mrc, nifti]:
        make(rows)
    return rows
