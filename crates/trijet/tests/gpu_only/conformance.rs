//! The transcript of this machine's GPU: a test compares it with the golden one, or writes it as
//! the golden one.

use super::all_gpus;
use crate::transcripts::{Transcript, compare, golden};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;
use trijet::memory::PoolAccess;
use trijet::testing::{Subject, transcript};
use trijet::{Device, Result};

/// The date of today as year, month and day. It is computed from a count of days, by the algorithm
/// of Howard Hinnant for the civil calendar.
fn date() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let days = since.expect("the clock is set").as_secs() / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The head of a file of answers: device, driver, date and commit.
pub(super) fn header() -> String {
    let devices = Device::cuda_devices().expect("a CUDA device");
    let version = devices[0].driver_version;
    let module = std::fs::read_to_string("/proc/driver/nvidia/version")
        .unwrap_or_else(|error| format!("no version of the kernel module: {error}"));
    let module = module.lines().next().unwrap_or("an empty version of the kernel module");
    format!(
        "# device: {}\n# driver: CUDA {}.{}; {module}\n# devices: {}\n# date: {}\n# commit: {}\n",
        devices[0].name,
        version / 1000,
        version % 1000 / 10,
        devices.len(),
        date(),
        option_env!("TRIJET_COMMIT").unwrap_or("unknown"),
    )
}

/// Writes to the file while it makes the calls. If the run ends early, the file has the answers so
/// far.
fn record(path: &Path) {
    let mut file = File::create(path).expect("the file of TRIJET_GOLDEN can be written");
    file.write_all(header().as_bytes()).expect("the disk has room");
    transcript(&Subject::Cuda, &mut file).expect("CUDA opens");
}

/// Removes the access to other devices that copies of other tests have set. The sequences start
/// without access, and call the driver directly.
fn take_access() -> Result<()> {
    let devices = all_gpus().open_all()?;
    for one in &devices {
        for other in devices.iter().filter(|other| other.id() != one.id()) {
            one.set_access(other, PoolAccess::None)?;
        }
    }
    Ok(())
}

#[test]
fn the_gpu_answers_as_the_golden_transcript_says() {
    let _alone = crate::alone();
    take_access().expect("access can be taken away");
    if let Some(path) = std::env::var_os("TRIJET_GOLDEN") {
        return record(Path::new(&path));
    }
    let mut text = header().into_bytes();
    transcript(&Subject::Cuda, &mut text).expect("CUDA opens");
    let found = Transcript::parse(&String::from_utf8(text).expect("a transcript is text"));
    let golden = golden();
    let who = format!("{} devices against {} golden ones", found.devices(), golden.devices());
    compare(&golden, &found).demand_none(&who);
}
