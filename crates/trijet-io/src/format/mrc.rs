//! An MRC file (MRC2014, also CCP4 maps): a header of 1024 bytes, an extended header, and the
//! elements of one array.
//!
//! The shape is the shape that the Python package mrcfile gives: an image, a stack of images, a
//! volume, or a stack of volumes. The header of an output follows the same package, so that its
//! validator accepts the output. The header marks the minimum, maximum, mean and deviation of the
//! elements as not known, because rows are written in any order.

use super::contract::{
    Format, Found, Opened, Plan, has_extension, names_folder, open_regular, refuse_description,
};
use super::fields::Fields;
use super::flat::{FlatPlan, FlatReader, check_length};
use super::marks::{MRC, byte_order_of_mrc, has_mark, starts_like_mrc};
use super::promise::by_name;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::byte_order::ByteOrder;
use crate::file_error;
use crate::plain::Plain;
use crate::python::refused_with_line;
use crate::shown::shown;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use trijet::{Dtype, Result};

const EXTENSIONS: [&str; 4] = ["mrc", "mrcs", "rec", "map"];
const HEADER_BYTES: usize = 1024;
const ANGSTROM: f64 = 1e-10;

/// The first bytes of compressed files, and the names of their formats. mrcfile writes and reads
/// such files under any name.
const COMPRESSED: [(&[u8], &str); 2] = [(b"\x1f\x8b\x08", "gzip"), (b"BZh", "bzip2")];

/// The modes of the format, and the types of their elements.
const MODES: [(i32, Dtype); 6] = [
    (0, Dtype::I8),
    (1, Dtype::I16),
    (2, Dtype::F32),
    (4, Dtype::C64),
    (6, Dtype::U16),
    (12, Dtype::F16),
];

/// The space groups of the header for a stack of images, for a volume, and for a stack of volumes.
const IMAGES: i32 = 0;
const VOLUME: i32 = 1;
const VOLUMES: std::ops::RangeInclusive<i32> = 401..=630;

#[derive(Debug)]
pub(super) struct Mrc;

impl Format for Mrc {
    fn name(&self) -> &'static str {
        "mrc"
    }

    fn claims_input(&self, found: &Found<'_>) -> bool {
        let is_named = EXTENSIONS.iter().any(|extension| found.has_extension(extension));
        !found.is_folder
            && (is_named || (starts_like_mrc(&found.start) && by_name(found.path).is_none()))
    }

    fn claims_output(&self, path: &Path) -> bool {
        !names_folder(path) && EXTENSIONS.iter().any(|extension| has_extension(path, extension))
    }

    fn open(&self, path: &Path, plain: Option<&Plain>) -> Result<Opened> {
        refuse_description(path, plain)?;
        let (file, metadata) = open_regular(path)?;
        refuse_compressed(&file, path)?;
        let header = MrcHeader::read(&file, path)?;
        let array = header.array(path)?;
        let data_start = HEADER_BYTES as u64 + header.extended_bytes(path)?;
        let left_out = check_length(path, &array, data_start, metadata.len())?;
        let opened = FlatReader::opened(file, path, data_start, array, header.order, &metadata);
        let annotations = Annotations { spacing: header.spacing(), ..Annotations::default() };
        let left_out = left_out.into_iter().chain(header.axes_left_out()).collect();
        Ok(Opened { left_out, annotations, ..opened })
    }

    fn plan(
        &self,
        path: &Path,
        array: &Array,
        _names: &[OsString],
        annotations: &Annotations,
    ) -> Result<Arc<dyn Plan>> {
        let header = header_bytes(path, array, annotations)
            .map_err(|cause| file_error::refused("create", path, cause))?;
        let kept = Annotations { spacing: annotations.spacing, ..Annotations::default() };
        Ok(Arc::new(FlatPlan::new(header, array).keeping(annotations, &kept)))
    }
}

fn refuse_compressed(mut file: &File, path: &Path) -> Result<()> {
    let mut start = Vec::new();
    // The other reads state their places, so the position of the file does not matter.
    file.by_ref()
        .take(4)
        .read_to_end(&mut start)
        .map_err(|error| file_error::io("open", path, error))?;
    match COMPRESSED.iter().find(|(own, _)| start.starts_with(own)) {
        None => Ok(()),
        Some((_, name)) => {
            let cause =
                format!("the file is compressed ({name}), so its rows have no known places");
            Err(refused_with_line("open", path, &cause, "mrcfile", "mrcfile.read({})"))
        }
    }
}

/// The fields of a header that describe the array.
#[derive(Debug)]
struct MrcHeader {
    order: ByteOrder,
    /// The number of columns, rows and sections.
    size: [i32; 3],
    mode: i32,
    /// The number of intervals along X, Y and Z, and the lengths that they have in the specimen.
    intervals: [i32; 3],
    angstroms: [f32; 3],
    /// The axes of the specimen, from 1 to 3, of columns, rows and sections.
    axes: [i32; 3],
    space_group: i32,
    extended: i32,
}

impl MrcHeader {
    fn read(file: &File, path: &Path) -> Result<Self> {
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0).map_err(|error| file_error::io("open", path, error))?;
        if !has_mark(&bytes, MRC) {
            let cause = "not an MRC file: the word MAP is missing in the header";
            return Err(file_error::damaged("open", path, cause));
        }
        let Some(order) = byte_order_of_mrc(&bytes[MRC.0 + 4..]) else {
            let stamp = [bytes[MRC.0 + 4], bytes[MRC.0 + 5]];
            let cause = format!("the header has the machine stamp {stamp:02x?}, of no byte order");
            let array = "mrcfile.open({}, permissive=True).data";
            return Err(refused_with_line("open", path, &cause, "mrcfile", array));
        };
        let fields = Fields { bytes: &bytes, order };
        let three = |at: usize| [0, 4, 8].map(|more| fields.i32(at + more));
        Ok(Self {
            order,
            size: three(0),
            mode: fields.i32(12),
            intervals: three(28),
            angstroms: [40, 44, 48].map(|at| fields.f32(at)),
            axes: three(64),
            space_group: fields.i32(88),
            extended: fields.i32(92),
        })
    }

    fn extended_bytes(&self, path: &Path) -> Result<u64> {
        u64::try_from(self.extended).map_err(|_| {
            let cause = format!("the extended header has {} bytes", self.extended);
            file_error::damaged("open", path, cause)
        })
    }

    fn array(&self, path: &Path) -> Result<Array> {
        let shape = self.shape().map_err(|cause| file_error::damaged("open", path, cause))?;
        let dtype = self.dtype(path, &shape)?;
        Array::new(dtype, shape).map_err(|error| error.context(format!("open {}", shown(path))))
    }

    fn shape(&self) -> std::result::Result<Vec<u64>, String> {
        let length = |axis: i32| {
            u64::try_from(axis).map_err(|_| format!("the header has an axis of length {axis}"))
        };
        let [columns, rows, sections] = self.size;
        let (columns, rows, sections) = (length(columns)?, length(rows)?, length(sections)?);
        if VOLUMES.contains(&self.space_group) {
            let depth = length(self.intervals[2])?;
            if depth == 0 || !sections.is_multiple_of(depth) {
                return Err(format!("{sections} sections are not volumes of {depth} sections"));
            }
            return Ok(vec![sections / depth, depth, rows, columns]);
        }
        Ok(match (self.space_group, sections) {
            (IMAGES, 1) => vec![rows, columns],
            _ => vec![sections, rows, columns],
        })
    }

    fn dtype(&self, path: &Path, shape: &[u64]) -> Result<Dtype> {
        if let Some((_, dtype)) = MODES.iter().find(|(mode, _)| *mode == self.mode) {
            return Ok(*dtype);
        }
        // IMOD writes these two modes, and mrcfile does not read them.
        let (what, code, last) = match self.mode {
            3 => ("complex numbers of two 16-bit integers", "i2", 2),
            16 => ("colours of three bytes", "u1", 3),
            101 => {
                let cause = "the elements have 4 bits (mode 101), which is not supported; the \
                             program newstack of IMOD converts them: newstack -mode 0 IN OUT";
                return Err(file_error::refused("open", path, cause));
            }
            mode => {
                let cause = format!("mode {mode} of MRC files is not known");
                return Err(file_error::refused("open", path, cause));
            }
        };
        let cause = format!("the elements are {what} (mode {})", self.mode);
        let order = if self.order == ByteOrder::Big { '>' } else { '<' };
        let offset = HEADER_BYTES as u64 + self.extended_bytes(path)?;
        let axes: Vec<String> = shape.iter().chain([&last]).map(u64::to_string).collect();
        let array = format!(
            "numpy.fromfile({{}}, '{order}{code}', offset={offset}).reshape({})",
            axes.join(", ")
        );
        Err(refused_with_line("open", path, &cause, "", &array))
    }

    /// The distance of neighbouring elements in metres, slowest axis first.
    fn spacing(&self) -> [Option<f64>; 3] {
        let is_stack = self.space_group == IMAGES;
        [2, 1, 0].map(|place: usize| {
            // The sections of a stack of images have no distance in the specimen.
            if is_stack && place == 2 {
                return None;
            }
            // Columns, rows and sections may be along other axes than X, Y and Z.
            let axis = usize::try_from(self.axes[place].checked_sub(1)?).ok()?;
            let (length, count) = (*self.angstroms.get(axis)?, *self.intervals.get(axis)?);
            let distance = f64::from(length) / f64::from(count) * ANGSTROM;
            (distance.is_finite() && distance > 0.0).then_some(distance)
        })
    }

    /// States that columns, rows and sections are not along X, Y and Z.
    fn axes_left_out(&self) -> Option<String> {
        let names = self.axes.map(|axis| match axis {
            1 => 'X',
            2 => 'Y',
            3 => 'Z',
            _ => '?',
        });
        let is_usual = self.axes == [1, 2, 3] || self.axes == [0, 0, 0];
        (!is_usual).then(|| {
            let [columns, rows, sections] = names;
            format!(
                "the order of the axes (columns along {columns}, rows along {rows}, sections \
                 along {sections})"
            )
        })
    }
}

/// The header of an output, or the reason why the format cannot hold the array.
fn header_bytes(
    path: &Path,
    array: &Array,
    annotations: &Annotations,
) -> std::result::Result<Vec<u8>, String> {
    let dtype = array.dtype();
    let Some((mode, _)) = MODES.iter().find(|(_, own)| *own == dtype) else {
        let types = MODES.map(|(_, own)| own.name()).join(", ");
        return Err(format!("an MRC file cannot hold {dtype}; it can hold {types}"));
    };
    let length = |axis: &u64| {
        i32::try_from(*axis).map_err(|_| format!("an axis of length {axis} is too long for MRC"))
    };
    let axes = array.shape().iter().map(length).collect::<std::result::Result<Vec<_>, _>>()?;
    let is_stack = has_extension(path, "mrcs");
    let (size, depth, space_group) = match axes[..] {
        [rows, columns] => ([columns, rows, 1], 1, IMAGES),
        [sections, rows, columns] if is_stack => ([columns, rows, sections], 1, IMAGES),
        [sections, rows, columns] => ([columns, rows, sections], sections, VOLUME),
        [volumes, depth, rows, columns] => {
            let sections = volumes.checked_mul(depth).ok_or("too many sections for MRC")?;
            ([columns, rows, sections], depth, *VOLUMES.start())
        }
        _ => return Err(format!("an MRC file has 2 to 4 axes, but the array has {}", axes.len())),
    };
    let mut bytes = vec![0; HEADER_BYTES];
    let mut put = |at: usize, field: [u8; 4]| bytes[at..at + 4].copy_from_slice(&field);
    let intervals = [size[0], size[1], depth];
    for (axis, at) in (0..3).zip((0..).step_by(4)) {
        put(at, size[axis].to_le_bytes());
        put(28 + at, intervals[axis].to_le_bytes());
        let distance = annotations.spacing[2 - axis].unwrap_or(0.0) / ANGSTROM;
        #[expect(clippy::cast_possible_truncation, reason = "the header has 32 bits")]
        let length = (distance * f64::from(intervals[axis])) as f32;
        put(40 + at, length.to_le_bytes());
        put(52 + at, 90_f32.to_le_bytes());
        put(64 + at, [1, 2, 3_i32][axis].to_le_bytes());
    }
    put(12, mode.to_le_bytes());
    // Minimum, maximum and mean: the maximum is below the minimum, and the mean is below both, so
    // none of them is known. The same holds for a negative deviation.
    for (at, mark) in [(76, 0_f32), (80, -1.0), (84, -2.0), (216, -1.0)] {
        put(at, mark.to_le_bytes());
    }
    put(88, space_group.to_le_bytes());
    put(108, 20_141_i32.to_le_bytes());
    put(MRC.0, *b"MAP ");
    put(MRC.0 + 4, [0x44, 0x44, 0, 0]);
    put(220, 1_i32.to_le_bytes());
    let label = format!("{:80}", "Written by trijet");
    bytes[224..304].copy_from_slice(label.as_bytes());
    Ok(bytes)
}
