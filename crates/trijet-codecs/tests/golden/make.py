"""Writes cases.txt: blocks that the libraries of Python encode, for the tests of the decoders.

    pip install numpy numcodecs h5py hdf5plugin tifffile imagecodecs zstandard google-crc32c
    python make.py

A line of a case has its name, the kind and the number of bytes of its elements, and the stored
bytes. The tests compute the elements by their kind again, and know the codecs by the name.

The times in members of gzip, and the order of blocks of blosc, differ from run to run.
"""

import importlib.metadata
import io
import pathlib

import h5py
import hdf5plugin
import numcodecs
import numpy as np
import tifffile
import zstandard

PACKAGES = "numpy numcodecs h5py hdf5plugin tifffile imagecodecs zstandard"


def elements(kind, length):
    """The elements of a case, as bytes."""
    index = np.arange(length, dtype=np.uint32)
    state, noise = 1, bytearray()
    for _ in range(length):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        noise.append(state >> 24)
    noise = np.frombuffer(bytes(noise), np.uint8)
    data = {
        "zeros": np.zeros(length, np.uint8),
        "noise": noise,
        "steps": (index // 5 * 7).astype("<u2"),
        "counts": (100 + (noise & 7)).astype("<u2"),
        "floats": (index.astype("<f4") * 0.25),
        "far": np.where(index % 9000 < 200, noise[index % 9000], 0).astype(np.uint8),
    }[kind]
    return data.tobytes()[:length]


def hdf5(data, dtype, shape=None, **options):
    """The stored bytes of the only chunk of a dataset."""
    array = np.frombuffer(data, dtype).reshape(shape or -1)
    with h5py.File(io.BytesIO(), "w") as file:
        dataset = file.create_dataset("a", data=array, chunks=array.shape, **options)
        file.flush()
        mask, stored = dataset.id.read_direct_chunk((0,) * array.ndim)
        assert mask == 0
        return stored


def tiff(data, dtype, shape, **options):
    """The stored bytes of the only strip or tile of an image."""
    array = np.frombuffer(data, dtype).reshape(shape)
    file = io.BytesIO()
    tifffile.imwrite(file, array, **{"rowsperstrip": shape[0], "photometric": "minisblack", **options})
    with tifffile.TiffFile(io.BytesIO(file.getvalue())) as read:
        page = read.pages[0]
        assert len(page.dataoffsets) == 1
        start = page.dataoffsets[0]
        return file.getvalue()[start : start + page.databytecounts[0]]


CASES = []


def case(name, kind, length, encode):
    data = elements(kind, length)
    CASES.append((name, kind, length, bytes(encode(data))))


def of_numcodecs():
    kinds = [("counts", 300), ("noise", 64), ("zeros", 4000)]
    codecs = {
        "zlib": numcodecs.Zlib(5),
        "gzip": numcodecs.GZip(5),
        "zstd": numcodecs.Zstd(3),
        "lz4": numcodecs.LZ4(),
        "fletcher32": numcodecs.Fletcher32(),
        "crc32c": numcodecs.CRC32C(location="end"),
    }
    for name, codec in codecs.items():
        for kind, length in kinds[:2] if name in ("fletcher32", "crc32c") else kinds:
            case(f"{name}_{kind}", kind, length, codec.encode)
    case("fletcher32_long", "zeros", 1, lambda _: numcodecs.Fletcher32().encode(b"\0"))
    for element in (2, 3, 4, 8, 16):
        shuffle = numcodecs.Shuffle(element)
        case(f"shuffle_{element}", "noise", 48 * element, shuffle.encode)


def of_blosc():
    shuffles = {"plain": 0, "shuffle": 1, "bitshuffle": 2}
    for compressor in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        for name, shuffle in shuffles.items():
            codec = numcodecs.Blosc(compressor, 5, shuffle, blocksize=512)
            encode = lambda data: codec.encode(np.frombuffer(data, "<u2"))
            case(f"blosc_{compressor}_{name}", "counts", 1210, encode)
    # Matches of every distance and length, and elements of other sizes than a power of two.
    for level in (1, 9):
        codec = numcodecs.Blosc("blosclz", level, 0)
        case(f"blosc_blosclz_far_{level}", "far", 18500, codec.encode)
        case(f"blosc_blosclz_near_{level}", "steps", 2000, codec.encode)
    for length, dtype in ((1200, "<u4"), (1208, "<f8"), (600, "S3"), (1260, "S20")):
        for name, shuffle in shuffles.items():
            codec = numcodecs.Blosc("lz4", 5, shuffle, blocksize=0)
            encode = lambda data: codec.encode(np.frombuffer(data, dtype))
            case(f"blosc_{dtype[1:]}_{name}", "counts", length, encode)
    case("blosc_stored", "noise", 100, numcodecs.Blosc("lz4", 5, 1).encode)
    case("blosc_level_0", "counts", 100, numcodecs.Blosc("zstd", 0, 1).encode)
    case("blosc_empty", "zeros", 0, numcodecs.Blosc("zstd", 5, 1).encode)


def of_zstandard():
    without = zstandard.ZstdCompressor(write_content_size=False)
    checksum = zstandard.ZstdCompressor(write_checksum=True)
    large = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=0)

    def flushed(data):
        stream = zstandard.ZstdCompressor(compression_params=large).compressobj()
        return stream.compress(data) + stream.flush()

    case("zstd_no_size", "counts", 300, without.compress)
    case("zstd_checksum", "counts", 300, checksum.compress)
    case("zstd_large_window", "steps", 6000, flushed)
    skipped = b"\x51\x2a\x4d\x18\x03\x00\x00\x00abc"
    two = lambda data: skipped + without.compress(data[:100]) + skipped + checksum.compress(data[100:])
    case("zstd_frames", "steps", 300, two)
    case("zstd_long", "far", 300000, checksum.compress)


def of_hdf5():
    bitshuffle = hdf5plugin.Bitshuffle
    for kind, length in (("counts", 400), ("noise", 66)):
        case(f"hdf5_gzip_{kind}", kind, length, lambda d: hdf5(d, "<u2", compression="gzip"))
        case(f"hdf5_lz4_{kind}", kind, length, lambda d: hdf5(d, "<u2", **hdf5plugin.LZ4(nbytes=128)))
    case("hdf5_lz4_one_block", "counts", 400, lambda d: hdf5(d, "<u2", **hdf5plugin.LZ4()))
    case("hdf5_zstd", "counts", 400, lambda d: hdf5(d, "<u2", **hdf5plugin.Zstd()))
    case("hdf5_shuffle", "counts", 400, lambda d: hdf5(d, "<u4", compression="gzip", shuffle=True))
    everything = {"compression": "gzip", "shuffle": True, "fletcher32": True}
    case("hdf5_checksum", "counts", 400, lambda d: hdf5(d, "<u2", **everything))
    case("hdf5_checksum_odd", "noise", 37, lambda d: hdf5(d, "u1", fletcher32=True))
    case("hdf5_checksum_long", "noise", 2000, lambda d: hdf5(d, "u1", fletcher32=True))
    for cname in ("none", "lz4", "zstd"):
        # A block of the default length, a shorter one, and elements that are no multiple of eight.
        for dtype, kind, length in (
            ("u1", "noise", 83),
            ("<u2", "counts", 310),
            ("<u4", "noise", 172),
            ("<f8", "noise", 328),
            ("<c16", "noise", 432),
        ):
            case(
                f"hdf5_bitshuffle_{cname}_{dtype[-2:]}",
                kind,
                length,
                lambda d: hdf5(d, dtype, **bitshuffle(cname=cname)),
            )
        small = lambda d: hdf5(d, "<u2", **bitshuffle(nelems=16, cname=cname))
        case(f"hdf5_bitshuffle_{cname}_small", "counts", 102, small)
        if cname != "none":
            default = lambda d: hdf5(d, "<u2", **bitshuffle(cname=cname))
            case(f"hdf5_bitshuffle_{cname}_default", "steps", 20006, default)
    blosc = lambda d: hdf5(d, "<u2", **hdf5plugin.Blosc(cname="lz4", shuffle=2))
    case("hdf5_blosc", "counts", 400, blosc)


def of_tiff():
    compressions = {"deflate": "adobe_deflate", "lzw": "lzw", "packbits": "packbits", "zstd": "zstd"}
    for name, compression in compressions.items():
        for kind, shape in (("counts", (10, 20)), ("noise", (5, 7)), ("zeros", (40, 50))):
            encode = lambda d: tiff(d, "<u2", shape, compression=compression)
            case(f"tiff_{name}_{kind}", kind, 2 * shape[0] * shape[1], encode)
    # More codes than a table of LZW has.
    encode = lambda d: tiff(d, "u1", (45, 100), compression="lzw")
    case("tiff_lzw_long", "noise", 4500, encode)
    for dtype in ("u1", "<u2", "<u4", "<u8"):
        size = np.dtype(dtype).itemsize
        for samples in (1, 2, 3, 4):
            shape = (4, 7, samples) if samples > 1 else (4, 7)
            options = {"compression": "zstd", "predictor": 2, "planarconfig": "contig"}
            encode = lambda d: tiff(d, dtype, shape, **options)
            length = 28 * samples * size
            case(f"tiff_horizontal_{size}_{samples}", "noise", length, encode)
    encode = lambda d: tiff(np.frombuffer(d, "<u2").astype(">u2").tobytes(), ">u2", (4, 7),
                            compression="zstd", predictor=2, byteorder=">")
    case("tiff_horizontal_big_endian", "noise", 56, encode)
    for dtype in ("<f2", "<f4", "<f8"):
        size = np.dtype(dtype).itemsize
        for samples in (1, 3):
            shape = (4, 7, samples) if samples > 1 else (4, 7)
            options = {"compression": "zstd", "predictor": 3, "planarconfig": "contig"}
            encode = lambda d: tiff(d, dtype, shape, **options)
            length = 28 * samples * size
            case(f"tiff_float_{size}_{samples}", "floats", length, encode)
    encode = lambda d: tiff(d, "<f4", (16, 16), compression="zstd", predictor=3, tile=(16, 16))
    case("tiff_float_tile", "floats", 1024, encode)


def of_numpy():
    def transposed(shape, order, dtype):
        return lambda d: np.frombuffer(d, dtype).reshape(shape).transpose(order).tobytes()

    case("transpose_f", "counts", 120, lambda d: np.frombuffer(d, "<u2").reshape(3, 4, 5).tobytes("F"))
    case("transpose_120", "noise", 120, transposed((3, 4, 5), (1, 2, 0), "<u2"))
    case("transpose_3102", "noise", 3 * 960, transposed((2, 3, 40, 4), (3, 1, 0, 2), "S3"))
    case("transpose_plane", "noise", 35 * 41, transposed((35, 41), (1, 0), "u1"))
    case("swap_4", "noise", 40, lambda d: np.frombuffer(d, "<u4").byteswap().tobytes())
    case("swap_16", "noise", 64, lambda d: b"".join(d[i : i + 16][::-1] for i in range(0, 64, 16)))


of_numcodecs()
of_blosc()
of_zstandard()
of_hdf5()
of_tiff()
of_numpy()
versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES.split())
lines = [f"# {versions}"]
lines += [f"{name} {kind} {length} {stored.hex()}" for name, kind, length, stored in CASES]
path = pathlib.Path(__file__).parent / "cases.txt"
path.write_text("\n".join(lines) + "\n")
print(len(CASES), "cases,", path.stat().st_size, "bytes")
