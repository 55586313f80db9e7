//! `trijet bench` on the host device.

use crate::workdir::Workdir;

/// This once moved a gigabyte 840 times, which took more than ten minutes without a line.
#[test]
fn the_benchmark_of_overlap_fits_a_host_device_and_shows_its_steps() {
    let ran = Workdir::new().trijet(&["bench", "overlap", "--device", "host"]);
    let steps = ran.progress();
    assert!(steps.len() == 8 && steps[0] == "[1/8] measuring the link", "{steps:?}");
    let printed = ran.done();
    for name in ["tuned rounds=0", "role-streams chunk=4MiB slots=3 rounds=0"] {
        assert!(printed.contains(name), "{printed}");
    }
}
