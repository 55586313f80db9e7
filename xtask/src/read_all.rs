//! `read-all FILE`: reads an array with all processors, and prints the rate of its elements. No run
//! can read the file faster.
#![forbid(unsafe_code)]

use crate::tools::Result;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::path::Path;
use std::time::Instant;
use trijet::Source;
use trijet_io::Input;

/// The bytes that a thread reads at once.
const PART_BYTES: u64 = 8 << 20;

pub(crate) fn run(path: &str) -> Result<()> {
    let input = Input::open(Path::new(path), None)?;
    let layout = input.layout();
    let part = (PART_BYTES / layout.row_bytes).next_multiple_of(input.whole_rows()).max(1);
    let parts = layout.rows.div_ceil(part);
    let begin = Instant::now();
    (0..parts).into_par_iter().try_for_each_init(Vec::new, |bytes: &mut Vec<u8>, number| {
        let rows = number * part..((number + 1) * part).min(layout.rows);
        let wanted = (rows.end - rows.start) * layout.row_bytes;
        bytes.resize(usize::try_from(wanted).expect("a part fits into memory"), 0);
        input.read(rows, bytes)
    })?;
    let (seconds, bytes) = (begin.elapsed().as_secs_f64(), input.array().bytes());
    let rate = bytes as f64 / seconds / 1e6;
    println!("{}: {bytes} bytes in {seconds:.3} s, {rate:.0} MB/s", input.array());
    Ok(())
}
