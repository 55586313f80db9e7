//! A temporary working directory for a test, in which the command is run.

use crate::files::{GRAY8, GRAY16, dictionary, npy, png};
pub(crate) use crate::ran::Ran;
use crate::ran::quiet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use trijet::testing::Prng;

pub(crate) struct Workdir(TempDir);

impl Workdir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    /// The names in the folder, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Writes an `.npy` file of these bytes.
    pub(crate) fn npy(&self, name: &str, descr: &str, shape: &[usize], bytes: &[u8]) {
        let axes: String = shape.iter().map(|axis| format!("{axis},")).collect();
        self.file(name, &npy(&dictionary(descr, "False", &format!("({axes})")), bytes));
    }

    /// Writes a stack of images as PNG files `0.png`, `1.png` and so on.
    pub(crate) fn images(&self, name: &str, [width, height]: [u32; 2], stack: &Images<'_>) {
        fs::create_dir(self.path(name)).unwrap();
        let (form, bytes) = match stack {
            Images::U8(pixels) => (GRAY8, pixels.to_vec()),
            Images::U16(pixels) => {
                (GRAY16, pixels.iter().flat_map(|pixel| pixel.to_be_bytes()).collect())
            }
        };
        let pixels = usize::try_from(width * height).unwrap();
        let image = if form == GRAY8 { pixels } else { 2 * pixels };
        for (n, image) in bytes.chunks(image).enumerate() {
            png(&self.path(name).join(format!("{n}.png")), [width, height], form, image);
        }
    }

    /// The command with these arguments, not yet started. It finds no GPU and no compiler.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        quiet(Path::new(env!("CARGO_BIN_EXE_trijet")), args, self.0.path())
    }

    /// Runs the command.
    pub(crate) fn trijet(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().unwrap())
    }

    /// Runs `trijet map` on the host device.
    pub(crate) fn map(&self, args: &[&str]) -> Ran {
        self.trijet(&[&["map", "--device", "host"], args].concat())
    }
}

/// The pixels of a stack.
pub(crate) enum Images<'a> {
    U8(&'a [u8]),
    U16(&'a [u16]),
}

/// The pixels of a folder of PNG images in the order of their names, 16 bits as numbers.
pub(crate) fn pixels_of(folder: &Path) -> Vec<u16> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| decode(path)).collect()
}

/// The pixels of a gray PNG image.
pub(crate) fn decode(path: &Path) -> Vec<u16> {
    let file = std::io::BufReader::new(fs::File::open(path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!(info.color_type, png::ColorType::Grayscale);
    match info.bit_depth {
        png::BitDepth::Eight => bytes.into_iter().map(u16::from).collect(),
        _ => bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect(),
    }
}

/// This many random bytes.
pub(crate) fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut draw = Prng::new(seed);
    (0..bytes).map(|_| draw.next_u64().to_le_bytes()[3]).collect()
}

/// The bytes of 16-bit numbers, little endian.
pub(crate) fn bytes_of(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The 16-bit numbers of bytes, little endian.
pub(crate) fn numbers_of(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
}

/// The data of an `.npy` file of version 1.0. Its header must have this `shape` and `descr`.
#[track_caller]
pub(crate) fn data_of(file: &[u8], descr: &str, shape: &str) -> Vec<u8> {
    assert!(file.starts_with(b"\x93NUMPY\x01\x00"));
    let start = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    let header = String::from_utf8(file[10..start].to_vec()).unwrap();
    let whole = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    assert_eq!(header.trim_end(), whole);
    assert_eq!(start % 64, 0, "numpy aligns the data");
    file[start..].to_vec()
}
