//! The body of the fuzz target `claims`: a file of any bytes, or of any name, in the folder of
//! claims of a job.

use crate::workdir;
use std::fs;
use trijet_io::JobStatus;

/// A job of 16 rows in ranges of 4, a claim and the state of a process, as processes write them.
const JOB: &str = "[\"trijet claims\",1,{\"operation\":\"copy\"},[\"0123\",\"4567\"],[16,4]]\n";
const CLAIM: &str = "{\"owner\":\"00000000000000a1\"}\n";
const PROCESS: &str = "{\"activity\":\"working\",\"beat\":2,\"error\":null,\"host\":\"one\",\
                       \"process\":7,\"rows\":[[0,4]],\"rows_done\":4,\"seconds\":1}\n";

/// Reads the state of a job. The first byte selects the file that has the other bytes, or that has
/// them as its name.
///
/// # Panics
/// If more rows are counted than the job has, or if an error does not name the file.
pub(crate) fn check(bytes: &[u8]) {
    let out = workdir::path("out.raw");
    let folder = workdir::path("out.raw.claims");
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the folder is ours");
    }
    fs::create_dir(&folder).expect("space for a folder");
    let (first, rest) = bytes.split_first().unwrap_or((&0, bytes));
    let names = ["job", "claim-0-0", "process-00000000000000a1"];
    let sound = [JOB, CLAIM, PROCESS];
    for (name, text) in names.iter().zip(sound).chain([(&"done-1", "")]) {
        fs::write(folder.join(name), text).expect("space for a small file");
    }
    let name = match usize::from(*first) % 4 {
        3 => match std::str::from_utf8(rest) {
            Ok(name) if is_name(name) => name,
            _ => return,
        },
        one => names[one],
    };
    let content = if names.contains(&name) { rest } else { CLAIM.as_bytes() };
    fs::write(folder.join(name), content).expect("space for a small file");
    match JobStatus::read(&out, None) {
        Ok(Some(status)) => {
            assert!(status.rows_done <= status.rows, "{status:?}");
            assert!(status.rows_taken <= status.rows - status.rows_done, "{status:?}");
        }
        Ok(None) => assert_eq!(name, "job", "only a job that is not written yet has no state"),
        // Control characters are shown escaped.
        Err(error) if name.chars().any(char::is_control) => workdir::refused(&error, &folder),
        Err(error) => workdir::refused(&error, &folder.join(name)),
    }
}

/// Whether a file can have this name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() < 200 && !name.contains(['/', '\0']) && !name.starts_with('.')
}
