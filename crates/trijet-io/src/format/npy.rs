//! An `.npy` file (numpy, `numpy.lib.format`, versions 1.0 to 3.0): a header, then the elements.
//!
//! The header is a Python literal. The parser accepts only headers as numpy writes them: a
//! dictionary with `descr`, `fortran_order` and `shape`. The `npyz` crate is not used for two
//! reasons. It multiplies the lengths of the axes without checking for overflow. It also trusts a
//! header length of up to 4 GiB before it looks at the size of the file.

use super::contract::{
    Format, Found, Opened, Plan, has_extension, names_folder, open_regular, refuse_description,
};
use super::descr::Elements;
use super::flat::{FlatPlan, FlatReader};
use super::promise::by_name;
use super::transposed::TransposedReader;
use crate::annotations::Annotations;
use crate::array::Array;
use crate::byte_order::ByteOrder;
use crate::file_error;
use crate::plain::Plain;
use crate::python::line;
use crate::shown::shown;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use trijet::Dtype;
use trijet::{Error, Result};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The Python expression of the array in an `.npy` file.
const NUMPY_LOAD: &str = "numpy.load({})";
/// Maximum length of a header that is read, which is the limit of version 1.0. numpy itself reads
/// at most 10,000 bytes.
const TEXT_BYTES_MAX: u64 = 65_535;
/// The data start at a multiple of this number of bytes (specification of the format).
const ALIGN_BYTES: usize = 64;

#[derive(Debug)]
pub(super) struct Npy;

impl Format for Npy {
    fn name(&self) -> &'static str {
        "npy"
    }

    fn claims_input(&self, found: &Found<'_>) -> bool {
        let begins_so = found.start.starts_with(MAGIC) && by_name(found.path).is_none();
        !found.is_folder && (found.has_extension("npy") || begins_so)
    }

    fn claims_output(&self, path: &Path) -> bool {
        !names_folder(path) && has_extension(path, "npy")
    }

    fn open(&self, path: &Path, plain: Option<&Plain>) -> Result<Opened> {
        refuse_description(path, plain)?;
        let (file, metadata) = open_regular(path)?;
        open_part(file, path, 0..metadata.len(), NUMPY_LOAD, &metadata)
    }

    fn plan(
        &self,
        _path: &Path,
        array: &Array,
        _names: &[OsString],
        annotations: &Annotations,
    ) -> Result<Arc<dyn Plan>> {
        Ok(Arc::new(
            FlatPlan::new(header_bytes(array), array).keeping(annotations, &Annotations::default()),
        ))
    }
}

/// Opens the part `part` of a file, which is a header and the elements of an array. `python` is the
/// Python expression that reads this array, in which `{}` means the name of the file.
///
/// # Errors
/// `Io` for a damaged header, and for a part that does not end with the array. `InvalidValue` for
/// elements that are not supported.
pub(super) fn open_part(
    file: File,
    path: &Path,
    part: Range<u64>,
    python: &str,
    metadata: &Metadata,
) -> Result<Opened> {
    let Content { array, order, is_transposed, data_start } =
        read_header(&file, path, &part, python)?;
    let (wanted, found) = (array.bytes(), part.end - data_start);
    if found != wanted {
        let what = if found < wanted { "cut off" } else { "longer than the header states" };
        let cause = format!("the data are {what}: {array} needs {wanted} bytes, found {found}");
        return Err(file_error::damaged("open", path, cause));
    }
    let open = if is_transposed { TransposedReader::opened } else { FlatReader::opened };
    Ok(open(file, path, data_start, array, order, metadata))
}

/// The facts that a header states.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) array: Array,
    pub(crate) order: ByteOrder,
    /// Whether the elements are in Fortran order, and this order differs from C order.
    pub(crate) is_transposed: bool,
    data_start: u64,
}

/// Reads the header at the start of `stream`, up to the first element.
pub(crate) fn read_stream(stream: &mut dyn Read, path: &Path) -> Result<Content> {
    let mut take = |bytes: u64| {
        let mut part = Vec::new();
        match stream.take(bytes).read_to_end(&mut part) {
            Ok(length) if length as u64 == bytes => Ok(part),
            Ok(_) => Err(file_error::damaged("read", path, "the header is cut off")),
            Err(error) => Err(file_error::io("read", path, error)),
        }
    };
    let start = take(8)?;
    if !start.starts_with(MAGIC) {
        let cause = "not an .npy file: the magic bytes are missing; use --shape and --dtype for \
                     plain bytes";
        return Err(file_error::damaged("read", path, cause));
    }
    let (major, minor) = (start[6], start[7]);
    let length = match major {
        1 => take(2)?,
        2 | 3 => take(4)?,
        _ => return Err(unknown_version(path, major, minor)),
    };
    let text_bytes = length.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    check_length(path, text_bytes)?;
    let text = take(text_bytes)?;
    content(&text, path, NUMPY_LOAD, 8 + length.len() as u64 + text_bytes)
}

fn unknown_version(path: &Path, major: u8, minor: u8) -> Error {
    let cause =
        format!("unknown version {major}.{minor} of the .npy format: 1.0 to 3.0 are supported");
    file_error::refused("open", path, cause)
}

fn check_length(path: &Path, text_bytes: u64) -> Result<()> {
    if text_bytes <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let cause =
        format!("the header has {text_bytes} bytes; at most {TEXT_BYTES_MAX} are supported");
    Err(file_error::refused("open", path, cause))
}

/// Reads the header at the start of `part` of `file`. `python` is the expression of its array.
fn read_header(file: &File, path: &Path, part: &Range<u64>, python: &str) -> Result<Content> {
    let mut start = [0; 12];
    let part_bytes = part.end - part.start;
    let known = usize::try_from(part_bytes.min(12)).expect("the number is at most 12");
    file.read_exact_at(&mut start[..known], part.start)
        .map_err(|error| file_error::io("open", path, error))?;
    if !start[..known].starts_with(MAGIC) {
        return Err(file_error::damaged(
            "open",
            path,
            "not an .npy file: the magic bytes are missing",
        ));
    }
    let cut = || file_error::damaged("open", path, "the header is cut off");
    let [major, minor] = [start[6], start[7]];
    let (prefix, text_bytes) = match major {
        1 => (10, u64::from(u16::from_le_bytes([start[8], start[9]]))),
        2 | 3 => (12, u64::from(u32::from_le_bytes([start[8], start[9], start[10], start[11]]))),
        _ if known < 8 => return Err(cut()),
        _ => return Err(unknown_version(path, major, minor)),
    };
    let offset = prefix + text_bytes;
    if part_bytes < offset {
        return Err(cut());
    }
    check_length(path, text_bytes)?;
    let mut text = vec![0; usize::try_from(text_bytes).expect("the length is at most 65,535")];
    file.read_exact_at(&mut text, part.start + prefix)
        .map_err(|error| file_error::io("open", path, error))?;
    content(&text, path, python, part.start + offset)
}

/// The facts that the text of a header states. The elements begin at the byte `data_start`.
/// `python` is the expression of the array.
fn content(text: &[u8], path: &Path, python: &str, data_start: u64) -> Result<Content> {
    let header = Parser { text, at: 0 }.header().map_err(|cause| {
        file_error::damaged("open", path, format!("the header cannot be parsed: {cause}"))
    })?;
    let (dtype, order) = header.elements().map_err(|cause| {
        let line = |array: &str| {
            format!("{cause}; this line of Python converts the file: {}", line(path, "", array))
        };
        let cause = header.conversion(python).map_or(cause.clone(), |array| line(&array));
        file_error::refused("open", path, cause)
    })?;
    let is_transposed = header.is_transposed();
    let array = Array::new(dtype, header.shape)
        .map_err(|error| error.context(format!("open {}", shown(path))))?;
    Ok(Content { array, order, is_transposed, data_start })
}

impl Array {
    /// The header of an `.npy` file of this array, as numpy writes it. In the file, the elements
    /// follow the header in little-endian byte order, with the last axis fastest.
    ///
    /// ```
    /// use trijet_io::{Array, Dtype};
    /// let header = Array::new(Dtype::U16, vec![3, 5])?.npy_header();
    /// assert!(header.starts_with(b"\x93NUMPY\x01\x00"));
    /// assert_eq!(header.len() % 64, 0);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Panics
    /// This function does not panic: the shape of every array fits into the header.
    #[must_use]
    pub fn npy_header(&self) -> Vec<u8> {
        header_bytes(self)
    }
}

/// The header of an `.npy` file of `array`, as numpy writes it.
fn header_bytes(array: &Array) -> Vec<u8> {
    let order = if array.dtype().bytes() == 1 { '|' } else { '<' };
    let code = array.dtype().numpy_code();
    let axes: Vec<String> = array.shape().iter().map(u64::to_string).collect();
    let comma = if axes.len() == 1 { "," } else { "" };
    let mut text = format!(
        "{{'descr': '{order}{code}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        axes.join(", ")
    );
    let whole = (10 + text.len() + 1).next_multiple_of(ALIGN_BYTES);
    text.extend(std::iter::repeat_n(' ', whole - 10 - text.len() - 1));
    text.push('\n');
    let length = u16::try_from(text.len()).expect("the header of 64 axes has about 1,400 bytes");
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(length.to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// The value of `descr` in a header.
enum Descr {
    /// One type.
    Named(String),
    /// A list of fields: a structured type.
    Fields,
}

struct Header {
    descr: Descr,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl Header {
    /// The element type and its byte order, or the reason why the array cannot be read.
    fn elements(&self) -> std::result::Result<(Dtype, ByteOrder), String> {
        let Descr::Named(descr) = &self.descr else {
            return Err("each element has several fields (a structured dtype)".to_owned());
        };
        match Elements::of(descr) {
            Elements::Read(dtype, order) => Ok((dtype, order)),
            _ if descr.contains('O') => Err(format!("the elements are Python objects ('{descr}')")),
            _ => Err(format!("the elements have the type '{descr}'; {TYPES_READ}")),
        }
    }

    /// The Python expression that converts the array, which is the expression `python`. `None` if
    /// the element type is not known.
    fn conversion(&self, python: &str) -> Option<String> {
        let Descr::Named(descr) = &self.descr else {
            return Some(format!("{python}['FIELD']"));
        };
        match Elements::of(descr) {
            Elements::Converted(conversion) => Some(format!("{python}{conversion}")),
            Elements::Read(..) | Elements::Unknown => None,
        }
    }

    /// Whether the file has the elements in another order than C order. With one long axis, C order
    /// and Fortran order are the same.
    fn is_transposed(&self) -> bool {
        let is_empty = self.shape.contains(&0);
        let long_axes = self.shape.iter().filter(|axis| **axis > 1).count();
        self.fortran_order && !is_empty && long_axes > 1
    }
}

/// The element types that can be read, for messages.
const TYPES_READ: &str = "supported are bool, integers of 8 to 64 bits, float16, bfloat16, float32, float64, complex64 \
                          and complex128";

/// A parser of the header. It reads from left to right, without backtracking and without recursion.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

type Parsed<T> = std::result::Result<T, String>;

impl Parser<'_> {
    fn header(mut self) -> Parsed<Header> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while self.peek() != Some(b'}') {
            let key = self.string()?;
            self.expect(b':')?;
            match key.as_str() {
                "descr" if self.peek() == Some(b'[') => {
                    // The remaining header is not parsed, because the file is refused in any case.
                    return Ok(Header {
                        descr: Descr::Fields,
                        fortran_order: false,
                        shape: Vec::new(),
                    });
                }
                "descr" => descr = Some(Descr::Named(self.string()?)),
                "fortran_order" => fortran_order = Some(self.boolean()?),
                "shape" => shape = Some(self.tuple()?),
                _ => return Err(format!("unknown key '{key}'")),
            }
            if self.peek() != Some(b'}') {
                self.expect(b',')?;
            }
        }
        self.expect(b'}')?;
        if self.peek().is_some() {
            return Err(format!("text after the dictionary at byte {}", self.at));
        }
        let missing = |key: &str| format!("'{key}' is missing");
        Ok(Header {
            descr: descr.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    /// Skips white space, and returns the next byte without consuming it.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Parsed<()> {
        if self.peek() != Some(byte) {
            return Err(format!("expected `{}` at byte {}", char::from(byte), self.at));
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Parsed<String> {
        let quote = self.peek().filter(|byte| matches!(byte, b'\'' | b'"'));
        let quote = quote.ok_or_else(|| format!("expected a string at byte {}", self.at))?;
        let rest = &self.text[self.at + 1..];
        let length = rest
            .iter()
            .position(|&byte| byte == quote)
            .ok_or_else(|| format!("the string at byte {} has no end", self.at))?;
        self.at += length + 2;
        Ok(String::from_utf8_lossy(&rest[..length]).into_owned())
    }

    fn boolean(&mut self) -> Parsed<bool> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(format!("expected True or False at byte {}", self.at))
    }

    fn tuple(&mut self) -> Parsed<Vec<u64>> {
        let mut axes = Vec::new();
        self.expect(b'(')?;
        while self.peek() != Some(b')') {
            axes.push(self.number()?);
            if self.peek() != Some(b')') {
                self.expect(b',')?;
            }
        }
        self.expect(b')')?;
        Ok(axes)
    }

    fn number(&mut self) -> Parsed<u64> {
        self.peek();
        let start = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        let digits = String::from_utf8_lossy(&self.text[start..self.at]);
        let number = digits
            .parse()
            .map_err(|_| format!("expected the length of an axis below 2^64 at byte {start}"))?;
        // Python 2 wrote a long integer with the suffix `L`.
        if self.text.get(self.at) == Some(&b'L') {
            self.at += 1;
        }
        Ok(number)
    }
}
