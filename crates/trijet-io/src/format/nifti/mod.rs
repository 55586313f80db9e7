//! A NIfTI-1 or NIfTI-2 file (`.nii`), or one that is compressed with gzip (`.nii.gz`): a header,
//! and the elements of one array. Such files are read, and not written.
//!
//! In a file, the first axis changes fastest. The array has the axes in reverse, so its elements
//! are in C order: a series of volumes has the shape `[t, z, y, x]`, the transposed shape of
//! nibabel.
//!
//! A header may have a slope and an intercept that make other values of the elements. Elements are
//! read as they are stored, so such a file is refused.

mod gzip;

use super::contract::{Format, Found, Opened, Plan, open_regular, refuse_description};
use super::fields::Fields;
use super::flat::{FlatReader, check_length};
use super::marks::{FormatMark, NIFTI_1, NIFTI_2, has_mark, starts_like_nifti};
use super::promise::by_name;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::byte_order::ByteOrder;
use crate::file_error;
use crate::plain::Plain;
use crate::python::refused_with_line;
use crate::shown::shown;
use gzip::{GzipReader, start_of};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use trijet::{Dtype, Result};

/// The bytes of the two headers, which their first field states.
const HEADER_1: usize = 348;
const HEADER_2: usize = 540;
/// The names in the headers of pairs of files. The second file of a pair has the elements.
const PAIR_1: FormatMark = (344, b"ni1\0");
const PAIR_2: FormatMark = (4, b"ni2\0\r\n\x1a\n");
/// Maximum number of axes.
const AXES_MAX: usize = 7;

/// The codes of the types of elements.
const TYPES: [(i16, Dtype); 12] = [
    (2, Dtype::U8),
    (4, Dtype::I16),
    (8, Dtype::I32),
    (16, Dtype::F32),
    (32, Dtype::C64),
    (64, Dtype::F64),
    (256, Dtype::I8),
    (512, Dtype::U16),
    (768, Dtype::U32),
    (1024, Dtype::I64),
    (1280, Dtype::U64),
    (1792, Dtype::C128),
];

/// The codes of types whose elements are not read.
const OTHER_TYPES: [(i16, &str); 6] = [
    (1, "single bits"),
    (128, "colours of three bytes"),
    (1536, "floating-point numbers of 128 bits"),
    (2048, "complex numbers of 256 bits"),
    (2304, "colours of four bytes"),
    (0, "of no stated type"),
];

/// Expressions of Python for the values that nibabel makes of the elements, and for the elements.
const VALUES: &str = "numpy.ascontiguousarray(nibabel.load({}).get_fdata(dtype='<f4').T)";
const ELEMENTS: &str = "numpy.ascontiguousarray(numpy.asarray(nibabel.load({}).dataobj).T)";

#[derive(Debug)]
pub(super) struct Nifti;

impl Format for Nifti {
    fn name(&self) -> &'static str {
        "nifti"
    }

    fn claims_input(&self, found: &Found<'_>) -> bool {
        let is_named = found.has_extension("nii") || is_compressed(found.path);
        !found.is_folder
            && (is_named || (starts_like_nifti(&found.start) && by_name(found.path).is_none()))
    }

    fn claims_output(&self, _path: &Path) -> bool {
        false
    }

    fn open(&self, path: &Path, plain: Option<&Plain>) -> Result<Opened> {
        refuse_description(path, plain)?;
        let (file, metadata) = open_regular(path)?;
        let is_compressed = is_compressed(path);
        let start = start_of(&file, path, HEADER_2, is_compressed)?;
        let header = NiftiHeader::read(&start, path)?;
        let NiftiHeader { array, order, spacing, data_start } = header;
        let annotations = Annotations { spacing, ..Annotations::default() };
        if is_compressed {
            gzip::check_length(path, &array, metadata.len())?;
            let opened = GzipReader::opened(file, path, data_start, array, order, &metadata);
            return Ok(Opened { annotations, ..opened });
        }
        let left_out = check_length(path, &array, data_start, metadata.len())?;
        let opened = FlatReader::opened(file, path, data_start, array, order, &metadata);
        Ok(Opened { annotations, left_out: left_out.into_iter().collect(), ..opened })
    }

    fn plan(
        &self,
        path: &Path,
        _array: &Array,
        _names: &[OsString],
        _annotations: &Annotations,
    ) -> Result<Arc<dyn Plan>> {
        Err(file_error::refused("create", path, "NIfTI files are read, but not written"))
    }
}

/// Whether the name ends with `.nii.gz`.
fn is_compressed(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.len().checked_sub(7).is_some_and(|at| name[at..].eq_ignore_ascii_case(b".nii.gz"))
}

/// The facts of a header.
#[derive(Debug)]
struct NiftiHeader {
    array: Array,
    order: ByteOrder,
    spacing: [Option<f64>; 3],
    data_start: u64,
}

/// The fields of a header, from either version.
struct NiftiFields {
    /// The number of axes, then the length of each axis, fastest first.
    lengths: [i64; 8],
    /// The distances along the axes, as `lengths`.
    distances: [f64; 8],
    units: u8,
    code: i16,
    data_start: f64,
    slope: f64,
    intercept: f64,
}

impl NiftiHeader {
    /// Reads the header of a file whose first bytes are `start`.
    fn read(start: &[u8], path: &Path) -> Result<Self> {
        let damaged = |cause: &str| file_error::damaged("open", path, cause);
        let mut sizes = [HEADER_1, HEADER_2].into_iter();
        let found = sizes.find_map(|size| Some((size, order_of(start, size)?)));
        let Some((size, order)) = found else {
            return Err(damaged("not a NIfTI file: the first number is not the size of a header"));
        };
        if start.len() < size {
            return Err(damaged("the header is cut off"));
        }
        let is_first = size == HEADER_1;
        let (name, pair) = if is_first { (NIFTI_1, PAIR_1) } else { (NIFTI_2, PAIR_2) };
        if has_mark(start, pair) {
            let cause = "the elements are in a second file (.img), which is not supported";
            return Err(refused_with_line("open", path, cause, "nibabel", VALUES));
        }
        if !has_mark(start, name) {
            let cause = "the header has no name of the NIfTI format; it may be an Analyze file";
            return Err(refused_with_line("open", path, cause, "nibabel", VALUES));
        }
        let fields = Fields { bytes: start, order };
        let raw = if is_first { first_version(fields) } else { second_version(fields) };
        raw.check_scale(path)?;
        // After each header, four bytes state whether extensions follow.
        let data_start = raw.data_start(size as u64 + 4).map_err(|cause| damaged(&cause))?;
        let shape = raw.shape().map_err(|cause| damaged(&cause))?;
        let dtype = raw.dtype(path)?;
        let array = Array::new(dtype, shape)
            .map_err(|error| error.context(format!("open {}", shown(path))))?;
        Ok(Self { array, order, spacing: raw.spacing(), data_start })
    }
}

/// The byte order in which the first number of a header is its size.
fn order_of(start: &[u8], size: usize) -> Option<ByteOrder> {
    let bytes = start.get(..4)?;
    let is = |order| Fields { bytes, order }.u32(0) as usize == size;
    [ByteOrder::Little, ByteOrder::Big].into_iter().find(|order| is(*order))
}

fn first_version(fields: Fields<'_>) -> NiftiFields {
    NiftiFields {
        lengths: std::array::from_fn(|axis| i64::from(fields.i16(40 + 2 * axis))),
        distances: std::array::from_fn(|axis| f64::from(fields.f32(76 + 4 * axis))),
        units: fields.bytes[123],
        code: fields.i16(70),
        data_start: f64::from(fields.f32(108)),
        slope: f64::from(fields.f32(112)),
        intercept: f64::from(fields.f32(116)),
    }
}

fn second_version(fields: Fields<'_>) -> NiftiFields {
    NiftiFields {
        lengths: std::array::from_fn(|axis| fields.i64(16 + 8 * axis)),
        distances: std::array::from_fn(|axis| fields.f64(104 + 8 * axis)),
        units: fields.i32(500).to_le_bytes()[0],
        code: fields.i16(12),
        data_start: fields.i64(168) as f64,
        slope: fields.f64(176),
        intercept: fields.f64(184),
    }
}

impl NiftiFields {
    /// Refuses elements that stand for other values. A slope of 0, and one that is not a number,
    /// mean that the elements are the values.
    fn check_scale(&self, path: &Path) -> Result<()> {
        let is_scaled = self.slope != 0.0 && self.slope.is_finite();
        if is_scaled && (self.slope != 1.0 || self.intercept != 0.0) {
            let cause = format!(
                "the values are the elements times {} plus {} (scl_slope and scl_inter), and \
                 elements are not scaled",
                self.slope, self.intercept
            );
            return Err(refused_with_line("open", path, &cause, "nibabel", VALUES));
        }
        Ok(())
    }

    /// The byte at which the elements start, which is at least `least`. The number 0 means `least`.
    fn data_start(&self, least: u64) -> std::result::Result<u64, String> {
        let at = self.data_start;
        if at == 0.0 {
            return Ok(least);
        }
        // A file offset fits into 63 bits.
        if !(at >= least as f64 && at < (1_u64 << 62) as f64 && at.fract() == 0.0) {
            return Err(format!("the elements cannot start at byte {at} (vox_offset)"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the number is whole, and in the range"
        )]
        let at = at as u64;
        Ok(at)
    }

    /// The lengths of the axes, slowest first.
    fn shape(&self) -> std::result::Result<Vec<u64>, String> {
        let [axes, lengths @ ..] = self.lengths;
        let axes = usize::try_from(axes).ok().filter(|axes| (1..=AXES_MAX).contains(axes));
        let Some(axes) = axes else {
            return Err(format!("the header has {} axes instead of 1 to 7", self.lengths[0]));
        };
        let length = |length: &i64| {
            u64::try_from(*length).map_err(|_| format!("the header has an axis of length {length}"))
        };
        lengths[..axes].iter().rev().map(length).collect()
    }

    fn dtype(&self, path: &Path) -> Result<Dtype> {
        if let Some((_, dtype)) = TYPES.iter().find(|(code, _)| *code == self.code) {
            return Ok(*dtype);
        }
        match OTHER_TYPES.iter().find(|(code, _)| *code == self.code) {
            Some((_, what)) => {
                let cause = format!("the elements are {what}, which is not supported");
                Err(refused_with_line("open", path, &cause, "nibabel", ELEMENTS))
            }
            None => {
                let cause = format!("the type of the elements has the unknown code {}", self.code);
                Err(file_error::damaged("open", path, cause))
            }
        }
    }

    /// The distances along the last three axes of the array in metres: `z`, `y` and `x`. Axes
    /// before these are times and other series.
    fn spacing(&self) -> [Option<f64>; 3] {
        let metres = match self.units & 7 {
            1 => 1.0,
            2 => 1e-3,
            3 => 1e-6,
            _ => return [None; 3],
        };
        [3, 2, 1].map(|axis: usize| {
            let is_there = i64::try_from(axis).is_ok_and(|axis| axis <= self.lengths[0]);
            let distance = self.distances[axis].abs() * metres;
            (is_there && distance.is_finite() && distance > 0.0).then_some(distance)
        })
    }
}
