"""Writes small arrays in every usual form of Zarr, each beside an .npy file of the same array.

Run once for each version of zarr-python, in its own environment:
    python make.py 3    # zarr 3.1.6, numcodecs 0.16.6, ome-zarr 0.18.0, numpy 2.4.6
    python make.py 2    # zarr 2.18.7, numcodecs 0.15.2, numpy 2.4.6

Each run makes one file, golden-v3.json or golden-v2.json. It has for each case the files of the
array (the bytes in base64), the path of the array inside, and the name of the expected array. The
expected arrays are .npy files, also in base64.
"""

import base64
import hashlib
import io
import json
import pathlib
import sys
import tempfile

import numcodecs
import numpy as np
import zarr

HERE = pathlib.Path(__file__).parent


def ramp(dtype, shape=(3, 5, 6)):
    """Values that compress a little and differ everywhere."""
    count = int(np.prod(shape))
    if np.dtype(dtype).kind == "c":
        return (np.arange(count) * (1 + 2j)).astype(dtype).reshape(shape)
    if np.dtype(dtype).kind == "b":
        return (np.arange(count) % 3 == 0).reshape(shape)
    if np.dtype(dtype).kind == "f":
        return (np.arange(count) * 0.5 - 7).astype(dtype).reshape(shape)
    return ((np.arange(count) * 7) % 120).astype(dtype).reshape(shape)


def noise(shape=(3, 16, 20)):
    return np.random.default_rng(7).integers(90, 110, shape).astype("u2")


def compact(path):
    """The bytes of a file. Metadata lose their white space."""
    if path.suffix == ".json" or path.name.startswith(".z"):
        return json.dumps(json.loads(path.read_bytes()), separators=(",", ":")).encode()
    return path.read_bytes()


class Cases:
    def __init__(self):
        self.cases = {}
        self.arrays = {}

    def add(self, name, write, inner=""):
        """`write` makes an array at the path that it gets, and returns the expected array."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder) / "a.zarr"
            expected = np.ascontiguousarray(write(str(root)))
            npy = io.BytesIO()
            np.save(npy, expected)
            text = lambda b: base64.b64encode(b).decode()
            files = {
                str(path.relative_to(root)): text(compact(path))
                for path in sorted(root.rglob("*"))
                if path.is_file()
            }
            array = hashlib.sha256(npy.getvalue()).hexdigest()[:16]
            self.arrays[array] = text(npy.getvalue())
            self.cases[name] = {"inner": inner, "array": array, "files": files}

    def save(self, path, versions):
        head = {"versions": versions, "arrays": self.arrays, "cases": self.cases}
        path.write_text(json.dumps(head, indent=0, sort_keys=True) + "\n")
        print(path, path.stat().st_size, "bytes,", len(self.cases), "cases")


TYPES = ["bool", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]


def version_3():
    from zarr.codecs import (
        BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec,
    )

    cases = Cases()

    def case(name, data, chunks, **options):
        def write(path):
            array = zarr.create_array(
                path, shape=data.shape, dtype=data.dtype, chunks=chunks, **options
            )
            array[:] = data
            assert (zarr.open_array(path, mode="r")[:] == data).all()
            return data

        cases.add(name, write)

    for code in TYPES:
        case(f"type-{np.dtype(code).name}", ramp(code), (2, 3, 6), compressors=None)
    for codec, name in [
        (ZstdCodec(level=0), "zstd"),
        (ZstdCodec(level=5, checksum=True), "zstd-checksum"),
        (GzipCodec(), "gzip"),
        (Crc32cCodec(), "crc32c"),
        (BloscCodec(cname="lz4", shuffle="shuffle", typesize=2), "blosc-lz4"),
        (BloscCodec(cname="lz4hc", shuffle="bitshuffle", typesize=2), "blosc-lz4hc-bitshuffle"),
        (BloscCodec(cname="zstd", shuffle="bitshuffle", typesize=2), "blosc-zstd-bitshuffle"),
        (BloscCodec(cname="zlib", shuffle="noshuffle", typesize=2), "blosc-zlib"),
        (BloscCodec(cname="blosclz", shuffle="shuffle", typesize=2), "blosc-blosclz"),
    ]:
        case(f"codec-{name}", noise(), (2, 10, 20), compressors=codec)
    case("codec-zstd-crc32c", noise(), (2, 10, 20), compressors=[ZstdCodec(), Crc32cCodec()])
    case("default", noise(), (2, 17, 9))
    big = BytesCodec(endian="big")
    case("big-endian", ramp("u2"), (2, 3, 6), serializer=big, compressors=None)
    case("big-endian-complex", ramp("c8"), (2, 3, 6), serializer=big)
    for order in [(2, 1, 0), (1, 2, 0), (0, 2, 1)]:
        name = "".join(map(str, order))
        transpose = TransposeCodec(order=order)
        case(f"transpose-{name}", ramp("u2"), (2, 3, 6), filters=transpose)
        case(f"transpose-plain-{name}", ramp("f4"), (2, 5, 4), filters=transpose, compressors=None)
    for keys in [{"name": "v2", "separator": "."}, {"name": "v2", "separator": "/"},
                 {"name": "default", "separator": "."}]:
        name = f"{keys['name']}-{'slash' if keys['separator'] == '/' else 'dot'}"
        case(f"keys-{name}", ramp("u1"), (2, 3, 6), chunk_key_encoding=keys)
    case("one-axis", ramp("f4", (37,)), (10,))
    case("two-axes", ramp("u2", (13, 11)), (5, 4))
    case("four-axes", ramp("u1", (2, 3, 4, 5)), (1, 2, 3, 5))
    case("chunk-larger-than-array", ramp("u2"), (4, 8, 7))

    def shards(name, data, chunk, shard, index_location="end", inner=None, index=None):
        codec = ShardingCodec(
            chunk_shape=chunk,
            codecs=inner or [BytesCodec(), ZstdCodec()],
            index_codecs=index or [BytesCodec(), Crc32cCodec()],
            index_location=index_location,
        )
        case(name, data, shard, serializer=codec, compressors=None)

    for location in ["end", "start"]:
        shards(f"shards-{location}", ramp("u2", (5, 8, 6)), (1, 4, 6), (2, 8, 6), location)
        shards(f"shards-plain-{location}", ramp("u2", (5, 8, 6)), (1, 4, 3), (2, 8, 6), location,
               [BytesCodec()])
    shards("shards-crc32c", noise((3, 16, 16)), (1, 16, 16), (2, 16, 16), "end",
           [BytesCodec(), ZstdCodec(), Crc32cCodec()])
    shards("shards-transpose-big", ramp("u2", (4, 6, 6)), (2, 3, 6), (4, 6, 6), "end",
           [TransposeCodec(order=(2, 0, 1)), big, GzipCodec()])
    shards("shards-index-plain", ramp("u2", (4, 6, 6)), (2, 3, 6), (4, 6, 6), "end", None,
           [BytesCodec()])
    shards("shards-index-big", ramp("u2", (4, 6, 6)), (2, 3, 6), (4, 6, 6), "end", None,
           [big, Crc32cCodec()])

    def sparse(name, dtype, fill, **options):
        def write(path):
            array = zarr.create_array(path, shape=(4, 6, 6), dtype=dtype, fill_value=fill,
                                      **options)
            array[1, 2:5, 1:4] = 1
            return array[:]

        cases.add(name, write)

    sparse("fill-number", "u2", 513, chunks=(1, 3, 6))
    sparse("fill-nan", "f4", float("nan"), chunks=(1, 3, 6))
    sparse("fill-infinity", "f8", float("inf"), chunks=(1, 3, 6))
    sparse("fill-minus-infinity", "f2", float("-inf"), chunks=(1, 3, 6))
    sparse("fill-half", "f2", 0.1, chunks=(1, 3, 6))
    sparse("fill-complex", "c16", complex(1.5, float("nan")), chunks=(1, 3, 6))
    sparse("fill-bool", "bool", True, chunks=(1, 3, 6))
    sparse("fill-shards", "i2", -7, chunks=(1, 3, 3), shards=(1, 6, 6))

    def group(path):
        root = zarr.create_group(path, attributes={"scan": 7})
        root.create_array("raw/angles", data=ramp("f4", (3,)))
        array = root.create_array("raw/projections", data=ramp("u2"),
                                  attributes={"exposure": 0.25, "nan": float("nan")})
        return array[:]

    cases.add("group", group)
    cases.add("group-by-path", group, "raw/projections")

    def flats(path):
        root = zarr.create_group(path)
        root.create_array("flats", data=ramp("u2"))
        return root.create_array("darks", data=ramp("u1"))[:]

    cases.add("group-of-two", flats, "darks")

    import ome_zarr.writer
    from ome_zarr.format import FormatV04, FormatV05

    for version, format in [("04", FormatV04()), ("05", FormatV05())]:
        def ome(path, format=format):
            root = zarr.open_group(path, mode="w", zarr_format=format.zarr_format)
            data = ramp("u2", (3, 8, 8))
            levels = [data, data[:, ::2, ::2]]
            scale = lambda factor: [{"type": "scale", "scale": [2.0, factor, factor]}]
            axes = [{"name": name, "type": "space", "unit": "micrometer"} for name in "zyx"]
            ome_zarr.writer.write_multiscale(
                levels, root, fmt=format, axes=axes,
                coordinate_transformations=[scale(0.65), scale(1.3)],
            )
            return data

        cases.add(f"ome-{version}", ome)
    versions = {"zarr": zarr.__version__, "numcodecs": numcodecs.__version__}
    cases.save(HERE / "golden-v3.json", versions)


def version_2():
    from numcodecs import LZ4, Blosc, GZip, Shuffle, Zlib, Zstd

    cases = Cases()

    def case(name, data, chunks, **options):
        def write(path):
            store = zarr.DirectoryStore(path)
            array = zarr.create(data.shape, chunks=chunks, dtype=options.pop("dtype", data.dtype),
                                store=store, overwrite=True, **options)
            array[:] = data
            return data

        cases.add(name, write)

    for code in TYPES:
        case(f"type-{np.dtype(code).name}", ramp(code), (2, 3, 6), compressor=None)
        if code in ["u2", "i4", "f4", "f8", "c8"]:
            case(f"type-big-{np.dtype(code).name}", ramp(code), (2, 3, 6), compressor=None,
                 dtype=np.dtype(code).newbyteorder(">"))
    for codec, name in [
        (Zstd(), "zstd"), (GZip(), "gzip"), (Zlib(), "zlib"), (LZ4(), "lz4"),
        (Blosc("lz4", shuffle=Blosc.SHUFFLE), "blosc-lz4"),
        (Blosc("zstd", shuffle=Blosc.BITSHUFFLE), "blosc-zstd-bitshuffle"),
        (Blosc("blosclz", shuffle=Blosc.NOSHUFFLE), "blosc-blosclz"),
        (Blosc("zlib", shuffle=Blosc.AUTOSHUFFLE), "blosc-zlib"),
    ]:
        case(f"codec-{name}", noise(), (2, 10, 20), compressor=codec)
    case("filter-shuffle", noise(), (2, 10, 20), filters=[Shuffle(2)], compressor=Zstd())
    case("filter-shuffle-plain", noise(), (2, 10, 20), filters=[Shuffle(2)], compressor=None)
    case("default", noise(), (2, 17, 9))
    case("order-f", ramp("u2"), (2, 3, 6), order="F", compressor=None)
    case("order-f-zstd", ramp("f4"), (2, 3, 6), order="F", compressor=Zstd())
    case("order-f-big", ramp("f4"), (2, 3, 6), order="F", dtype=">f4")
    case("keys-slash", ramp("u1"), (2, 3, 6), dimension_separator="/")
    case("one-axis", ramp("f4", (37,)), (10,))

    def sparse(name, dtype, fill, **options):
        def write(path):
            array = zarr.create((4, 6, 6), chunks=(1, 3, 6), dtype=dtype, fill_value=fill,
                                store=zarr.DirectoryStore(path), **options)
            array[1, 0:3, :] = 1
            whole = array[:]
            if fill is None:
                # The elements of chunks that are not stored are not defined; ours are 0.
                whole = np.zeros_like(whole)
                whole[1, 0:3, :] = 1
            return whole

        cases.add(name, write)

    sparse("fill-null", "u2", None)
    sparse("fill-number", ">u2", 513)
    sparse("fill-nan", "f4", float("nan"))
    sparse("fill-infinity", "f8", float("inf"))
    sparse("fill-minus-infinity", "f2", float("-inf"))
    sparse("fill-complex", "c8", complex(1.5, -2))
    sparse("fill-bool", "bool", True)

    def group(path):
        root = zarr.open_group(zarr.DirectoryStore(path), mode="w")
        root.create_dataset("angles", data=ramp("f4", (3,)))
        array = root.create_dataset("deep/projections", data=ramp("u2"))
        array.attrs["exposure"] = 0.25
        zarr.consolidate_metadata(zarr.DirectoryStore(path))
        return array[:]

    cases.add("group", group)
    versions = {"zarr": zarr.__version__, "numcodecs": numcodecs.__version__}
    cases.save(HERE / "golden-v2.json", versions)


if __name__ == "__main__":
    {"2": version_2, "3": version_3}[sys.argv[1]]()
