//! `trijet sample` writes files for the other commands.

use crate::workdir::Workdir;

#[test]
fn a_sample_is_an_input_of_map_and_the_same_in_every_run() {
    let workdir = Workdir::new();
    let small = ["--images", "3", "--side", "40"];
    let said = workdir.trijet(&[&["sample", "a.npy"][..], &small].concat()).done();
    assert!(said.contains("a.npy: u16 [3, 40, 40]") && said.contains("trijet map a.npy"), "{said}");
    workdir.trijet(&[&["sample", "b.npy"][..], &small].concat()).done();
    assert_eq!(workdir.read("a.npy"), workdir.read("b.npy"));
    assert_eq!(workdir.read("a.npy").len(), 128 + 3 * 40 * 40 * 2);
    let map = ["map", "a.npy", "-o", "c.npy", "--op", "median:3", "--device", "host"];
    workdir.trijet(&map).done();
    workdir.trijet(&[&["sample", "d.npy", "--dtype", "u8"][..], &small].concat()).done();
    let upper: Vec<u8> = workdir.read("a.npy")[128..].chunks(2).map(|pixel| pixel[1]).collect();
    assert_eq!(workdir.read("d.npy")[128..], upper);
}

#[test]
fn a_sample_replaces_no_file_and_is_npy() {
    let workdir = Workdir::new();
    workdir.file("a.npy", b"precious");
    workdir.trijet(&["sample", "a.npy"]).refused(1, &["a.npy", "already exists", "--overwrite"]);
    assert_eq!(workdir.read("a.npy"), b"precious");
    for (name, status) in [("a.png", 2), ("folder", 2), ("a.npy/", 1)] {
        workdir.trijet(&["sample", name]).refused(status, &[name]);
    }
    for wrong in [["--images", "0"], ["--side", "0"], ["--dtype", "f32"]] {
        workdir.trijet(&[&["sample", "b.npy"][..], &wrong].concat()).refused(2, &[wrong[0]]);
    }
    assert_eq!(workdir.names(), ["a.npy"]);
}
