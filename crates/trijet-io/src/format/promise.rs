//! Recognizes the format of a file by its name or by its first bytes.
//!
//! The table lists the formats that Trijet can read, and formats that Trijet can neither read nor
//! write. Where possible, a format that Trijet cannot read has a Python expression that reads such
//! a file. A file with an extension of another format is neither read nor written as headerless
//! bytes.

use super::contract::Found;
use super::marks::{starts_like_mrc, starts_like_nifti};
use crate::python::line;
use std::path::Path;

/// A format, and the properties by which its files are recognized.
#[derive(Debug)]
struct Known {
    /// The name of the format. In a message, the word "files" follows the name.
    name: &'static str,
    extensions: &'static [&'static str],
    /// The byte sequences with which a file of the format may start. Sequences of fewer than three
    /// bytes are not listed, because the first pixels of an image are too likely to have the same
    /// bytes.
    starts: &'static [&'static [u8]],
    /// The Python expression that reads a file of the format as an array. `None` if the file has no
    /// array.
    python: Option<Python>,
}

/// A Python expression whose value is an array, and the modules that the expression needs in
/// addition to numpy. In the expression, `{}` means the name of the file.
#[derive(Debug, Clone, Copy)]
struct Python {
    modules: &'static str,
    array: &'static str,
}

const IMAGE: Option<Python> = python("imageio.v3", "imageio.v3.imread({})");

const VALUES_OF_NIFTI: Option<Python> =
    python("nibabel", "numpy.ascontiguousarray(nibabel.load({}).get_fdata(dtype='<f4').T)");

const KNOWN: &[Known] = &[
    known("NumPy", &["npy"], &[b"\x93NUMPY"], None),
    known("PNG", &["png", "apng"], &[b"\x89PNG\r\n\x1a\n"], IMAGE),
    known(
        "TIFF",
        &["tif", "tiff", "btf", "tf2", "tf8", "svs", "ndpi", "lsm", "stk", "qptiff", "dng"],
        &[b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"],
        python("tifffile", "tifffile.imread({})"),
    ),
    known(
        "HDF5",
        &["h5", "hdf5", "hdf", "he5", "ims", "nxs"],
        &[b"\x89HDF\r\n\x1a\n"],
        python("h5py", "h5py.File({})['DATASET'][:]"),
    ),
    known(
        "NetCDF",
        &["nc", "nc4", "cdf"],
        &[b"CDF\x01", b"CDF\x02", b"CDF\x05"],
        python("xarray", "xarray.open_dataset({})['VARIABLE'].values"),
    ),
    known("Zarr", &["zarr"], &[], None),
    known("N5", &["n5"], &[], python("zarr.n5", "zarr.open(zarr.n5.N5FSStore({}))['DATASET'][:]")),
    known("NumPy archive", &["npz"], &[], python("", "numpy.load({})['ARRAY']")),
    known("ZIP", &["zip"], &[b"PK\x03\x04", b"PK\x05\x06"], None),
    known("JPEG", &["jpg", "jpeg", "jpe", "jfif"], &[b"\xff\xd8\xff"], IMAGE),
    known("JPEG 2000", &["jp2", "j2k", "jpx"], &[b"\0\0\0\x0cjP  \r\n"], IMAGE),
    known("JPEG XL", &["jxl"], &[b"\0\0\0\x0cJXL \r\n"], IMAGE),
    known("GIF", &["gif"], &[b"GIF87a", b"GIF89a"], IMAGE),
    known("BMP", &["bmp", "dib"], &[], IMAGE),
    known("WebP", &["webp"], &[], IMAGE),
    known("AVIF", &["avif", "heic", "heif"], &[], IMAGE),
    known("PNM", &["pgm", "ppm", "pnm", "pbm", "pfm", "pam"], &[], IMAGE),
    known("OpenEXR", &["exr"], &[b"v/1\x01"], IMAGE),
    known("DICOM", &["dcm", "dicom"], &[], python("pydicom", "pydicom.dcmread({}).pixel_array")),
    known(
        "MATLAB",
        &["mat"],
        &[b"MATLAB 5.0 MAT-file"],
        python("scipy.io", "numpy.ascontiguousarray(scipy.io.loadmat({})['VARIABLE'])"),
    ),
    known(
        "FITS",
        &["fits", "fit", "fts"],
        &[b"SIMPLE  ="],
        python("astropy.io.fits", "astropy.io.fits.getdata({}).astype('<f4')"),
    ),
    known("NIfTI", &["nii"], &[], VALUES_OF_NIFTI),
    known("NIfTI or Analyze (two files)", &["hdr", "img"], &[], VALUES_OF_NIFTI),
    known(
        "NRRD",
        &["nrrd", "nhdr"],
        &[b"NRRD000"],
        python("nrrd", "nrrd.read({}, index_order='C')[0]"),
    ),
    known(
        "MetaImage",
        &["mha", "mhd"],
        &[],
        python("SimpleITK", "SimpleITK.GetArrayFromImage(SimpleITK.ReadImage({}))"),
    ),
    known("MRC", &["mrc", "mrcs", "rec", "map"], &[], python("mrcfile", "mrcfile.read({})")),
    known("EER", &["eer"], &[], python("tifffile, imagecodecs", "tifffile.imread({})")),
    known(
        "microscope",
        &["czi", "lif", "nd2", "oib", "oif", "vsi", "dm3", "dm4"],
        &[],
        python("bioio", "bioio.BioImage({}).data"),
    ),
    known("PyTorch", &["pt", "pth"], &[], python("torch", "torch.load({}).numpy()")),
    known(
        "safetensors",
        &["safetensors"],
        &[],
        python("safetensors.numpy", "safetensors.numpy.load_file({})['TENSOR']"),
    ),
    known("pickle", &["pkl", "pickle"], &[], None),
    known("Arrow", &["parquet", "arrow", "feather"], &[b"PAR1", b"ARROW1"], None),
    known(
        "text",
        &["txt", "csv", "tsv", "json", "xml", "html", "md"],
        &[],
        python("", "numpy.loadtxt({}, delimiter=',', dtype='<f4')"),
    ),
    known("PDF", &["pdf"], &[b"%PDF-"], None),
    known("video", &["avi", "mp4", "mov", "mkv", "webm"], &[], IMAGE),
    known("gzip", &["gz", "tgz"], &[b"\x1f\x8b\x08"], None),
    known(
        "compressed",
        &["bz2", "xz", "zst", "lz4", "7z", "tar"],
        &[b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c"],
        None,
    ),
];

/// The extensions of files with plain bytes.
const PLAIN: [&str; 3] = ["raw", "bin", "dat"];

/// The names of all image formats except PNG. If a folder of images has a file of such a format, a
/// message reports that the file is left out. A TIFF file in a folder of PNG images is an error.
const IMAGES: [&str; 13] = [
    "TIFF",
    "JPEG",
    "JPEG 2000",
    "JPEG XL",
    "GIF",
    "BMP",
    "WebP",
    "AVIF",
    "PNM",
    "OpenEXR",
    "DICOM",
    "FITS",
    "microscope",
];

const fn known(
    name: &'static str,
    extensions: &'static [&'static str],
    starts: &'static [&'static [u8]],
    python: Option<Python>,
) -> Known {
    Known { name, extensions, starts, python }
}

const fn python(modules: &'static str, array: &'static str) -> Option<Python> {
    Some(Python { modules, array })
}

fn known_by_name(path: &Path) -> Option<&'static Known> {
    let extension = path.extension()?;
    let promises =
        |known: &&Known| known.extensions.iter().any(|own| extension.eq_ignore_ascii_case(own));
    KNOWN.iter().find(promises)
}

fn known_by_start(start: &[u8]) -> Option<&'static Known> {
    // The names of these formats are not the first bytes of their files.
    let inner = [("MRC", starts_like_mrc(start)), ("NIfTI", starts_like_nifti(start))];
    let inner = inner.into_iter().find(|(_, is_found)| *is_found).map(|(name, _)| name);
    let promises = |known: &&Known| known.starts.iter().any(|own| start.starts_with(own));
    let is_inner = |known: &&Known| Some(known.name) == inner;
    KNOWN.iter().find(promises).or_else(|| KNOWN.iter().find(is_inner))
}

/// The name of the format to which the extension of a file belongs.
pub(crate) fn by_name(path: &Path) -> Option<&'static str> {
    known_by_name(path).map(|known| known.name)
}

/// The name of the format whose files start with these bytes.
pub(crate) fn by_start(start: &[u8]) -> Option<&'static str> {
    known_by_start(start).map(|known| known.name)
}

/// Whether the extension of a file belongs to an image format other than PNG.
pub(super) fn is_other_image(name: &Path) -> bool {
    by_name(name).is_some_and(|format| IMAGES.contains(&format))
}

/// A line of Python that converts an input, which Trijet cannot read, to an `.npy` file. `None` if
/// the format has no array, or is not known.
pub(crate) fn python_line(found: &Found<'_>) -> Option<String> {
    let known = known_by_name(found.path).or_else(|| known_by_start(&found.start));
    let Python { modules, array } = known?.python?;
    Some(line(found.path, modules, array))
}

/// The message for a name with an extension that belongs to no format.
pub(crate) const UNKNOWN: &str = "unknown extension: files of NumPy, TIFF, HDF5, Zarr, MRC and NIfTI, folders of PNG or TIFF \
                       images, and plain bytes (.raw, .bin, .dat) are supported";
/// The advice for a file that no format claims: options that read any file as plain bytes.
pub(crate) const PLAIN_BYTES: &str = "use --raw, --shape, --dtype and --header to read the file as plain \
                           bytes";

/// A message with the reason why a file that no format claims cannot be read, and with a remedy. If
/// the file has no known format, the reason is `unknown`. The remedy is a line of Python that
/// converts the file. If there is no such line, the remedy is `way`.
pub(crate) fn refusal_of(found: &Found<'_>, unknown: &str, way: &str) -> String {
    let what = match (by_name(found.path), by_start(&found.start)) {
        (Some("PNG"), _) | (None, Some("PNG")) => {
            return "is a single image, which is not supported; use the folder of the image"
                .to_owned();
        }
        (Some(name), _) => {
            format!("the name has the extension of {name} files, which are not supported")
        }
        (None, Some(name)) => format!("the file starts like {name} files, which are not supported"),
        (None, None) => unknown.to_owned(),
    };
    match python_line(found) {
        Some(line) => format!("{what}; this line of Python converts it to an .npy file: {line}"),
        None => format!("{what}; {way}"),
    }
}

/// Whether a file has an extension for plain bytes.
#[must_use]
pub fn is_plain(path: &Path) -> bool {
    path.extension().is_some_and(|own| PLAIN.iter().any(|plain| own.eq_ignore_ascii_case(plain)))
}

/// Whether a file may be headerless bytes. The file must have an extension for plain bytes or no
/// extension. Its first bytes must not be the first bytes of a known format.
pub(super) fn is_free(found: &Found<'_>) -> bool {
    let is_named = found.path.extension().is_none() || is_plain(found.path);
    is_named && by_start(&found.start).is_none()
}
