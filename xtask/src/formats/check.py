"""Reads every file of a folder with the library of its format, and compares the array with the
`.npy` file beside it. A warning of a library is an error."""

import logging
import pathlib
import sys
import warnings

import numpy


def tiff(path):
    import tifffile

    with tifffile.TiffFile(path) as file:
        assert len(file.series) == 1, "more than one array"
        is_ome = path.name.startswith("ome")
        assert file.is_ome == is_ome, "OME-XML is lost or appears"
        assert file.is_bigtiff == (path.suffix == ".btf"), "the wrong size of offsets"
        array = file.asarray()
    mapped = tifffile.memmap(path, mode="r")
    assert numpy.array_equal(mapped.reshape(array.shape), array), "the pixels are not one run"
    return array


def zarr(path):
    import zarr

    node = zarr.open(str(path), mode="r")
    is_ome = path.name.startswith("ome") and isinstance(node, zarr.Group)
    if is_ome:
        import ome_zarr_models

        image = ome_zarr_models.open_ome_zarr(node)
        module = type(image).__module__
        assert module == "ome_zarr_models.v05.image", f"{module} is not an image of OME-Zarr 0.5"
        node = node["0"]
    array = node[:]
    if len(array):
        last = len(array) - 1
        assert node[last:].tobytes() == array[last:].tobytes(), "a part differs from the whole"
    return array


READERS = {".tif": tiff, ".btf": tiff, ".zarr": zarr}


class Collect(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def main():
    warnings.simplefilter("error")
    collect = Collect()
    logging.getLogger().addHandler(collect)
    logging.getLogger("tifffile").addHandler(collect)
    wrong, count = [], 0
    for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        reader = READERS.get(path.suffix)
        if reader is None:
            continue
        count += 1
        expected = numpy.load(path.with_suffix(".npy"))
        collect.texts.clear()
        try:
            found = reader(path)
            assert found.dtype == expected.dtype, f"{found.dtype} is not {expected.dtype}"
            assert found.shape == expected.shape, f"{found.shape} is not {expected.shape}"
            assert found.tobytes() == expected.tobytes(), "other elements"
            assert not collect.texts, "; ".join(collect.texts)
        except Exception as error:
            wrong.append(f"{path.name}: {error!r}")
    for line in wrong:
        print(line)
    print(f"{count - len(wrong)} of {count} files of {sys.argv[1]} are as written")
    sys.exit(1 if wrong or count == 0 else 0)


main()
