"""Writes the .npz files of this folder, and the arrays of their members in .npy files.

    python make.py

Made with numpy 2.4.6 under Python 3.11.
"""

import io
import zipfile
import numpy

rng = numpy.random.default_rng(7)
whole = rng.integers(0, 60000, (2, 3, 4)).astype("u2")
turned = numpy.asfortranarray(rng.normal(size=(2, 3, 4)).astype(">f4"))
numpy.save("whole.npy", whole)
numpy.save("turned.npy", numpy.ascontiguousarray(turned))
numpy.savez("only.npz", whole=whole)
numpy.savez("several.npz", whole=whole, turned=turned)
numpy.savez_compressed("compressed.npz", whole=whole)


def bytes_of(array):
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


# A comment, other members, and the numbers of 64 bits that large archives have.
with zipfile.ZipFile("other.npz", "w") as archive:
    archive.comment = b"PK\x05\x06 is not the end"
    archive.writestr("readme.txt", "text")
    with archive.open("folder/whole.npy", "w", force_zip64=True) as file:
        file.write(bytes_of(whole))
    archive.writestr("bzip2.npy", bytes_of(whole), zipfile.ZIP_BZIP2)


def zip64(data):
    """Moves the numbers of an archive with one member to the fields of 64 bits."""
    at = data.rindex(b"PK\x05\x06")
    size, start = (int.from_bytes(data[at + i : at + i + 4], "little") for i in (12, 16))
    entry = bytearray(data[start : start + size])
    stored, decoded = entry[20:24], entry[24:28]
    long = b"".join(bytes(n) + b"\0" * 4 for n in (decoded, stored, entry[42:46]))
    entry[20:28] = b"\xff" * 8
    entry[42:46] = b"\xff" * 4
    entry[30:32] = (28).to_bytes(2, "little")
    entry += b"\x01\x00\x18\x00" + long
    end = start + len(entry)
    record = b"PK\x06\x06" + (44).to_bytes(8, "little") + bytes(12) + bytes([1] + [0] * 7) * 2
    record += len(entry).to_bytes(8, "little") + start.to_bytes(8, "little")
    locator = b"PK\x06\x07" + bytes(4) + end.to_bytes(8, "little") + bytes([1, 0, 0, 0])
    last = b"PK\x05\x06" + bytes(4) + b"\xff" * 12 + bytes(2)
    return data[:start] + bytes(entry) + record + locator + last


with open("only.npz", "rb") as file:
    data = zip64(file.read())
with open("long.npz", "wb") as file:
    file.write(data)
assert (numpy.load("long.npz")["whole"] == whole).all()
