"""Runs `trijet map` on files of other libraries, and reads its outputs with other libraries.

    python matrix.py TRIJET FOLDER

TRIJET is a program with the feature `formats`. FOLDER is emptied, and gets the files. For each row,
the array is compared bit for bit with NumPy: as an output in each format, and after scale 2 and
offset 1 in f32. The table has `ok`, `no` for a run that is refused by the name of what it cannot
read or hold, `-` for a run that the row does not have, and `WRONG`. The exit status is 1 if a row
is wrong.
"""

import concurrent.futures
import dataclasses
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import warnings

import h5py
import imageio.v3
import mrcfile
import numpy
import tifffile
import zarr

import matrix_rows

SECONDS_MAX = 120


def from_tiff(path):
    with tifffile.TiffFile(path) as file:
        assert len(file.series) == 1, "more than one array"
        return file.asarray()


def from_hdf5(path):
    with h5py.File(path) as file:
        found = []
        file.visititems(lambda _, node: found.append(node))
        data_sets = [node for node in found if isinstance(node, h5py.Dataset)]
        assert len(data_sets) == 1, f"{len(data_sets)} data sets"
        return data_sets[0][:]


def from_mrc(path):
    with open(os.devnull, "w") as nowhere:
        assert mrcfile.validate(path, print_file=nowhere), "mrcfile.validate finds errors"
    return mrcfile.read(path)


def from_zarr(path):
    node = zarr.open(path, mode="r")
    # An image of OME-Zarr has its array in a group.
    return (node["0"] if isinstance(node, zarr.Group) else node)[:]


def from_images(path):
    images = [imageio.v3.imread(name) for name in sorted(path.iterdir())]
    return images[0] if len(images) == 1 else numpy.stack(images)


def with_nan_of_devices(array):
    """A device computes one NaN, whose bits are not NumPy's."""
    if array.dtype.kind != "f":
        return array
    bits = numpy.dtype(f"u{array.itemsize}")
    nan = bits.type(numpy.iinfo(bits).max >> 1).view(array.dtype)
    return numpy.where(numpy.isnan(array), nan, array)


@dataclasses.dataclass
class Target:
    """A run for each row, with the reader of its output and the reasons to refuse an array."""

    name: str
    output: str
    read: object
    codes: str = ""
    axes: range = range(1, 9)
    word: str = "cannot hold"

    def refusal(self, array):
        """A text of the message if the format cannot hold the array."""
        is_held = not self.codes or array.dtype.str[1:] in self.codes.split()
        return "" if is_held and array.ndim in self.axes else self.word

    def operations(self, array):
        if self.name == "2x+1":
            return ["--to", "f32", "--op", "affine:2,1"]
        # The arithmetic of f32 and f64 keeps elements of these types.
        is_kept = self.name == "npy" and array.dtype.str[1:] in matrix_rows.COMMON
        return ["--op", "affine:1,0" if is_kept else "crop::"]

    def expected(self, array):
        if self.name == "2x+1":
            with numpy.errstate(all="ignore"):
                array = array.astype("f4") * numpy.float32(2) + numpy.float32(1)
        return with_nan_of_devices(array) if "crop::" not in self.operations(array) else array


REAL = " ".join(matrix_rows.REAL)
TARGETS = [
    Target("npy", "out.npy", numpy.load),
    Target("tif", "out.tif", from_tiff, REAL, word="TIFF has no elements"),
    Target("h5", "out.h5", from_hdf5),
    Target("mrc", "out.mrc", from_mrc, "i1 i2 u2 f2 f4 c8", range(2, 5), "an MRC file"),
    Target("zarr", "out.zarr", from_zarr),
    Target("png", "images/", from_images, "u1 u2", range(2, 4), "image"),
    Target("2x+1", "twice.npy", numpy.load, REAL, word="no elements of the type c"),
]


@dataclasses.dataclass
class Run:
    row: matrix_rows.Row
    target: Target
    result: str = ""
    status: int = 0
    message: str = ""

    @property
    def path(self):
        return self.row.path.parent / self.target.output

    def start(self, trijet):
        array = self.row.array if self.row.array is not None else numpy.zeros(0, "u1")
        out = os.fspath(self.path) + "/" * self.target.output.endswith("/")
        command = [trijet, "map", self.row.input, "-o", out, "--device", "host", "--report", "none"]
        command += [*self.row.arguments, *self.target.operations(array)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.status, self.message = -1, f"more than {SECONDS_MAX} s"
            return
        self.status, self.message = done.returncode, done.stderr + done.stdout

    def judge(self):
        """The cell of the table. An error is a wrong cell."""
        refusal = self.row.refused or self.target.refusal(self.row.array)
        if refusal:
            assert self.status == 1, f"exit status {self.status} and not 1: {self.message}"
            # The names of the files do not count.
            names = os.fspath(self.path.parent)
            message = self.message.replace(names + "/" + self.row.path.name, "")
            assert refusal in message, f"a refusal without `{refusal}`: {self.message}"
            left = sorted(path.name for path in self.path.parent.glob(f"*{self.path.name}*"))
            assert not left, f"a refused run leaves {left}"
            return "no"
        assert self.status == 0, f"exit status {self.status}: {self.message}"
        is_warning = lambda line: not line or line.startswith("not in the output: ")
        assert all(map(is_warning, self.message.splitlines())), self.message
        warned = self.row.warned
        assert warned in self.message, f"no warning with `{warned}`: {self.message}"
        expected, found = self.target.expected(self.row.array), self.target.read(self.path)
        assert found.dtype == expected.dtype, f"{found.dtype} is not {expected.dtype}"
        assert found.shape == expected.shape, f"{found.shape} is not {expected.shape}"
        if found.tobytes() != expected.tobytes():
            count = difference(found, expected)
            raise AssertionError(f"{count} of {expected.size} elements differ")
        return "ok"


def difference(found, expected):
    parts = [numpy.frombuffer(array.tobytes(), f"V{array.itemsize}") for array in (found, expected)]
    return int((parts[0] != parts[1]).sum())


class Collect(logging.Handler):
    """The warnings of libraries that log them."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def main():
    trijet, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    with warnings.catch_warnings():
        # Some rows are warnings of their writers, such as NaN in an MRC file.
        warnings.simplefilter("ignore")
        rows = matrix_rows.all_rows(folder)
    targets = lambda row: TARGETS[:1] if row.refused else TARGETS
    runs = [[Run(row, target) for target in targets(row)] for row in rows]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        flat = [run for cells in runs for run in cells]
        list(pool.map(lambda run: run.start(trijet), flat))
    collect = Collect()
    for logger in (None, "tifffile"):
        logging.getLogger(logger).addHandler(collect)
    # A warning of a library about an output is an error.
    warnings.simplefilter("error")
    # Not a fact about the header of an output, but about NaN among the elements of a row.
    warnings.filterwarnings("ignore", "Data array contains NaN values")
    wrong = []
    print_row("writer", "options", "array", [target.name for target in TARGETS])
    for row, cells in zip(rows, runs):
        texts = []
        for run in cells:
            collect.texts.clear()
            try:
                run.result = run.judge()
                assert not collect.texts, "; ".join(collect.texts)
            except Exception as error:
                run.result = "WRONG"
                texts.append(f"    {run.target.name}: {error or repr(error)}")
        results = [run.result for run in cells] + ["-"] * (len(TARGETS) - len(cells))
        array = "refused" if row.refused else f"{row.array.dtype.name} {row.array.shape}"
        print_row(row.writer, row.options, array, results)
        print(*texts, sep="\n", end="\n" if texts else "")
        wrong += [row] if texts else []
    count = sum(len(cells) for cells in runs)
    print(f"{len(rows) - len(wrong)} of {len(rows)} rows are as expected ({count} runs)")
    sys.exit(1 if wrong else 0)


def print_row(writer, options, array, results):
    cells = " ".join(f"{result:5}" for result in results)
    print(f"{writer:9} {options:64} {array:26} {cells}".rstrip())


if __name__ == "__main__":
    main()
