//! Files that promise a format by their name or by their first bytes.
//!
//! The table has formats that Trijet cannot read or write, so that such a file is neither read as
//! headerless bytes nor written as them. Formats that it can are in it too: a raw file promises
//! nothing.

use super::contract::Found;
use std::path::Path;

/// A format, and how its files are recognized.
#[derive(Debug)]
struct Known {
    name: &'static str,
    extensions: &'static [&'static str],
    /// The first bytes. Fewer than three are too likely to be the first pixels of an image.
    starts: &'static [&'static [u8]],
}

const KNOWN: &[Known] = &[
    known("NumPy", &["npy"], &[b"\x93NUMPY"]),
    known("PNG", &["png", "apng"], &[b"\x89PNG\r\n\x1a\n"]),
    known(
        "TIFF",
        &["tif", "tiff", "btf", "tf2", "tf8", "svs", "ndpi", "lsm", "stk", "qptiff", "dng"],
        &[b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"],
    ),
    known("HDF5", &["h5", "hdf5", "hdf", "he5", "ims"], &[b"\x89HDF\r\n\x1a\n"]),
    known("NetCDF", &["nc", "nc4", "cdf"], &[b"CDF\x01", b"CDF\x02", b"CDF\x05"]),
    known("Zarr", &["zarr", "n5"], &[]),
    known("NumPy archive", &["npz"], &[]),
    known("ZIP", &["zip"], &[b"PK\x03\x04", b"PK\x05\x06"]),
    known("JPEG", &["jpg", "jpeg", "jpe", "jfif"], &[b"\xff\xd8\xff"]),
    known("JPEG 2000", &["jp2", "j2k", "jpx"], &[b"\0\0\0\x0cjP  \r\n"]),
    known("JPEG XL", &["jxl"], &[b"\0\0\0\x0cJXL \r\n"]),
    known("GIF", &["gif"], &[b"GIF87a", b"GIF89a"]),
    known("BMP", &["bmp", "dib"], &[]),
    known("WebP", &["webp"], &[]),
    known("AVIF", &["avif", "heic", "heif"], &[]),
    known("PNM", &["pgm", "ppm", "pnm", "pbm", "pfm", "pam"], &[]),
    known("OpenEXR", &["exr"], &[b"v/1\x01"]),
    known("DICOM", &["dcm", "dicom"], &[]),
    known("MATLAB", &["mat"], &[b"MATLAB 5.0 MAT-file"]),
    known("FITS", &["fits", "fit", "fts"], &[b"SIMPLE  ="]),
    known("NIfTI", &["nii"], &[]),
    known("NRRD", &["nrrd", "nhdr"], &[b"NRRD000"]),
    known("MRC", &["mrc", "mrcs"], &[]),
    known("microscope", &["czi", "lif", "nd2", "oib", "oif", "vsi", "dm3", "dm4"], &[]),
    known("PyTorch", &["pt", "pth"], &[]),
    known("safetensors", &["safetensors"], &[]),
    known("pickle", &["pkl", "pickle"], &[]),
    known("Arrow", &["parquet", "arrow", "feather"], &[b"PAR1", b"ARROW1"]),
    known("text", &["txt", "csv", "tsv", "json", "xml", "html", "md"], &[]),
    known("PDF", &["pdf"], &[b"%PDF-"]),
    known("video", &["avi", "mp4", "mov", "mkv", "webm"], &[]),
    known("gzip", &["gz", "tgz"], &[b"\x1f\x8b\x08"]),
    known(
        "compressed",
        &["bz2", "xz", "zst", "lz4", "7z", "tar"],
        &[b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c"],
    ),
];

const fn known(
    name: &'static str,
    extensions: &'static [&'static str],
    starts: &'static [&'static [u8]],
) -> Known {
    Known { name, extensions, starts }
}

/// The format that a name promises.
pub(crate) fn by_name(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?;
    let promises =
        |known: &&Known| known.extensions.iter().any(|own| extension.eq_ignore_ascii_case(own));
    KNOWN.iter().find(promises).map(|known| known.name)
}

/// The format whose files begin with these bytes.
pub(crate) fn by_start(start: &[u8]) -> Option<&'static str> {
    let promises = |known: &&Known| known.starts.iter().any(|own| start.starts_with(own));
    KNOWN.iter().find(promises).map(|known| known.name)
}

/// Whether a file promises nothing, so that it may be headerless bytes.
pub(super) fn is_free(found: &Found<'_>) -> bool {
    by_name(found.path).is_none() && by_start(&found.start).is_none()
}
