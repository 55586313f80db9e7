//! The devices of a job.
#![forbid(unsafe_code)]

use crate::cmd::print_stderr;
use crate::values::MapDevice;
use trijet::{Device, Result};
use trijet_tools::command::device::{DeviceName, LiveCheck, gpus, of_process, open_each};

/// Opens the device of a job, or every GPU for `all`. Without a GPU, `all` opens the host device.
/// If a launcher has started the process, `auto` opens the GPU for the number of the process on
/// this host, `local` (see [`of_process`]).
pub(super) fn open(
    wanted: MapDevice,
    local: Option<u64>,
    check: &LiveCheck,
) -> Result<Vec<Device>> {
    let names: Vec<DeviceName> = match wanted {
        MapDevice::All => gpus()?.into_iter().map(DeviceName::Cuda).collect(),
        MapDevice::One(name) => vec![of_process(name, local)?],
    };
    if !names.is_empty() {
        return open_each(&names, check);
    }
    print_stderr(
        "--device all: no GPU was found, so the job runs on the host (see `trijet devices`)",
    );
    open_each(&[DeviceName::Auto], check)
}
