//! `trijet map --skip-bad`: damaged images are left out and named, and a later run adds them.

use crate::workdir::{Images, Ran, Workdir, data_of, decode, noise};
use serde_json::json;
use std::fs;

/// The exit status of a run that has skipped images.
const SKIPPED: i32 = 4;
const IMAGE: usize = 64 * 64;
const OP: [&str; 2] = ["--op", "affine:2,1"];

/// Five images, and what the operation makes of them.
fn workdir() -> (Workdir, Vec<u8>) {
    let workdir = Workdir::new();
    let stack: Vec<u8> = noise(5 * IMAGE, 5).into_iter().map(|pixel| pixel % 100).collect();
    workdir.images("in", [64, 64], &Images::U8(&stack));
    (workdir, stack.into_iter().map(|pixel| 2 * pixel + 1).collect())
}

/// Damages the data of an image, and returns its good bytes.
fn damage(workdir: &Workdir, name: &str) -> Vec<u8> {
    let good = workdir.read(name);
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 0x55;
    workdir.file(name, &bad);
    good
}

fn repair(workdir: &Workdir, name: &str, good: &[u8]) {
    fs::remove_file(workdir.path(name)).unwrap();
    workdir.file(name, good);
}

fn run(workdir: &Workdir, out: &str, more: &[&str]) -> Ran {
    workdir.map(&[&["in", "-o", out, "--chunk", "8KiB", "--depth", "1"], &OP[..], more].concat())
}

/// Asserts the status of a run that has skipped images, and that its report has all of `words`.
#[track_caller]
fn skipped(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, Some(SKIPPED), "{}{}", ran.out, ran.err);
    for word in words {
        assert!(ran.out.contains(word), "`{}` does not contain `{word}`", ran.out);
    }
}

/// The images of an output by their numbers. A skipped one is `None` in a folder, and zeros in a
/// file.
fn images(workdir: &Workdir, out: &str) -> Vec<Option<Vec<u8>>> {
    if !workdir.path(out).is_dir() {
        let file = workdir.read(out);
        let data = if out.ends_with("npy") { data_of(&file, "|u1", "(5, 64, 64)") } else { file };
        return data.chunks(IMAGE).map(|image| Some(image.to_vec())).collect();
    }
    let image = |n: usize| {
        let path = workdir.path(&format!("{out}/{n}.png"));
        let narrow =
            |pixels: Vec<u16>| pixels.iter().map(|one| u8::try_from(*one).unwrap()).collect();
        path.exists().then(|| narrow(decode(&path)))
    };
    (0..5).map(image).collect()
}

/// Asserts that an output has the right images, but for those of these numbers.
#[track_caller]
fn right_but(workdir: &Workdir, out: &str, all: &[u8], skipped: &[usize]) {
    for (n, (image, wanted)) in images(workdir, out).into_iter().zip(all.chunks(IMAGE)).enumerate()
    {
        let zeros = (!workdir.path(out).is_dir()).then(|| vec![0; IMAGE]);
        let wanted = if skipped.contains(&n) { zeros } else { Some(wanted.to_vec()) };
        assert!(image == wanted, "image {n} of {out}");
    }
}

const OUTPUTS: [&str; 3] = ["out", "out.npy", "out.raw"];

#[test]
fn damaged_images_are_skipped_and_named() {
    for out in OUTPUTS {
        let (workdir, all) = workdir();
        damage(&workdir, "in/2.png");
        let whole = workdir.read("in/4.png");
        workdir.file("in/4.png", &whole[..whole.len() / 2]);
        // The header of the first one is damaged, too.
        workdir.file("in/0.png", b"no image");
        let ran = run(&workdir, out, &["--skip-bad"]);
        let place = if out == "out" { "not in out" } else { "zeros" };
        let names = ["0.png: damaged PNG", "2.png: damaged PNG", "4.png: the file ends early"];
        skipped(&ran, &[&["3 damaged images", place, "--resume"][..], &names].concat());
        right_but(&workdir, out, &all, &[0, 2, 4]);
        assert_eq!(workdir.names(), ["in", out, &format!("{out}.journal")]);
    }
}

#[test]
fn json_names_the_skipped_images() {
    let (workdir, _) = workdir();
    damage(&workdir, "in/2.png");
    let ran = run(&workdir, "out", &["--skip-bad", "--json"]);
    skipped(&ran, &[]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&report["complete"], &report["damaged"][1]), (&json!(false), &json!(null)));
    assert_eq!(report["damaged"][0]["name"], "2.png");
    assert!(report["damaged"][0]["why"].as_str().unwrap().starts_with("damaged PNG: "));
}

/// Nothing is skipped where nothing is damaged.
#[test]
fn a_folder_without_a_damaged_image_is_done_as_always() {
    let (workdir, all) = workdir();
    let report = run(&workdir, "out", &["--skip-bad", "--json"]).json();
    assert_eq!((&report["complete"], &report["damaged"]), (&json!(true), &json!([])));
    right_but(&workdir, "out", &all, &[]);
    assert_eq!(workdir.names(), ["in", "out"]);
}

#[test]
fn a_resumed_run_adds_the_images_that_were_repaired() {
    for out in OUTPUTS {
        let (workdir, all) = workdir();
        let (one, three) = (damage(&workdir, "in/1.png"), damage(&workdir, "in/3.png"));
        skipped(&run(&workdir, out, &["--skip-bad"]), &["1.png", "3.png"]);
        // Nothing is repaired.
        let again = run(&workdir, out, &["--skip-bad", "--resume"]);
        skipped(&again, &["1.png", "3.png", "192 of 320 rows"]);
        right_but(&workdir, out, &all, &[1, 3]);
        repair(&workdir, "in/3.png", &three);
        let ran = run(&workdir, out, &["--skip-bad", "--resume", "--json"]);
        skipped(&ran, &["\"kept_rows\": 192", "1.png"]);
        assert!(!ran.out.contains("3.png"), "{}", ran.out);
        right_but(&workdir, out, &all, &[1]);
        // Without the option, the image that is left is an error, and the output stays.
        run(&workdir, out, &["--resume"]).refused(1, &["in/1.png: damaged PNG", "--skip-bad"]);
        right_but(&workdir, out, &all, &[1]);
        repair(&workdir, "in/1.png", &one);
        let report = run(&workdir, out, &["--resume", "--json"]).json();
        assert_eq!((&report["kept_rows"], &report["complete"]), (&json!(256), &json!(true)));
        right_but(&workdir, out, &all, &[]);
        assert_eq!(workdir.names(), ["in", out]);
        let said = run(&workdir, out, &["--resume"]).done();
        assert!(said.contains("an earlier run of this job has finished it"), "{said}");
    }
}

/// The rows of an interrupted run are continued with the option as without it.
#[test]
fn a_run_that_ended_at_a_damaged_image_is_resumed_without_it() {
    for out in OUTPUTS {
        let (workdir, all) = workdir();
        damage(&workdir, "in/2.png");
        let ran = run(&workdir, out, &[]);
        ran.refused(1, &["in/2.png: damaged PNG", "128 of 320 rows", "--skip-bad"]);
        let ran = run(&workdir, out, &["--resume", "--skip-bad"]);
        skipped(&ran, &["2.png", "128 of 320 rows"]);
        right_but(&workdir, out, &all, &[2]);
    }
}

/// Another program may change an output with skipped images. That is found, as in a partial output.
#[test]
fn rows_that_were_changed_since_are_computed_again() {
    let (workdir, all) = workdir();
    let good = damage(&workdir, "in/1.png");
    skipped(&run(&workdir, "out.raw", &["--skip-bad"]), &["1.png"]);
    let mut bytes = workdir.read("out.raw");
    bytes[3 * IMAGE] ^= 1;
    fs::write(workdir.path("out.raw"), bytes).unwrap();
    repair(&workdir, "in/1.png", &good);
    let ran = run(&workdir, "out.raw", &["--resume"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("the file has other bytes now"), "{}", ran.err);
    right_but(&workdir, "out.raw", &all, &[]);
}

#[test]
fn an_output_with_skipped_images_is_kept_or_written_over_as_any_other() {
    for out in OUTPUTS {
        let (workdir, all) = workdir();
        let good = damage(&workdir, "in/1.png");
        skipped(&run(&workdir, out, &["--skip-bad"]), &["1.png"]);
        run(&workdir, out, &["--skip-bad"]).refused(1, &[out, "already exists"]);
        run(&workdir, out, &["--restart"]).refused(1, &[out, "already exists"]);
        right_but(&workdir, out, &all, &[1]);
        repair(&workdir, "in/1.png", &good);
        run(&workdir, out, &["--overwrite"]).done();
        right_but(&workdir, out, &all, &[]);
        assert_eq!(workdir.names(), ["in", out]);
        // The image of the old output does not stay in the place of a skipped one.
        damage(&workdir, "in/3.png");
        skipped(&run(&workdir, out, &["--skip-bad", "--overwrite"]), &["3.png"]);
        right_but(&workdir, out, &all, &[3]);
    }
}

#[test]
fn a_changed_input_is_not_added_to_an_output_with_skipped_images() {
    let (workdir, _) = workdir();
    damage(&workdir, "in/1.png");
    skipped(&run(&workdir, "out", &["--skip-bad"]), &["1.png"]);
    let other = workdir.read("in/3.png");
    repair(&workdir, "in/4.png", &other);
    let ran = run(&workdir, "out", &["--skip-bad", "--resume"]);
    ran.refused(1, &["cannot be resumed", "4.png", "--overwrite"]);
    assert!(workdir.exists("out/0.png") && !workdir.exists("out.partial"));
}

#[test]
fn a_folder_of_damaged_images_has_no_output() {
    let (workdir, _) = workdir();
    for name in 0..5 {
        damage(&workdir, &format!("in/{name}.png"));
    }
    let ran = run(&workdir, "out", &["--skip-bad"]);
    ran.refused(1, &["every image is damaged", "0.png", "nothing is kept"]);
    for name in 0..5 {
        workdir.file(&format!("in/{name}.png"), b"");
    }
    run(&workdir, "out", &["--skip-bad"]).refused(1, &["in/0.png", "ends early"]);
    assert_eq!(workdir.names(), ["in"]);
}

#[test]
fn only_images_of_a_slice_are_named() {
    let (workdir, all) = workdir();
    workdir.file("in/0.png", b"no image");
    damage(&workdir, "in/3.png");
    let ran = run(&workdir, "out", &["--skip-bad", "--slice", "2:5"]);
    skipped(&ran, &["1 damaged image", "3.png"]);
    let wanted: Vec<_> = all.chunks(IMAGE).map(|image| Some(image.to_vec())).collect();
    assert!(
        images(&workdir, "out") == [&None, &None, &wanted[2], &None, &wanted[4]].map(Clone::clone)
    );
}

/// An image of another size is no damage: to leave it out would hide a mistake.
#[test]
fn only_damage_is_skipped() {
    let (workdir, _) = workdir();
    let form = crate::files::GRAY8;
    crate::files::png(&workdir.path("in/2.png"), [32, 64], form, &[0; 32 * 64]);
    run(&workdir, "out", &["--skip-bad"]).refused(1, &["in/2.png", "32x64"]);
    fs::remove_file(workdir.path("in/2.png")).unwrap();
    std::os::unix::fs::symlink("nowhere", workdir.path("in/2.png")).unwrap();
    run(&workdir, "out", &["--skip-bad"]).refused(1, &["in/2.png", "no such file"]);
    assert_eq!(workdir.names(), ["in"]);
}

#[test]
fn the_option_is_refused_where_it_cannot_hold() {
    let (workdir, _) = workdir();
    workdir.npy("in.npy", "|u1", &[4, 4], &[7; 16]);
    let npy = ["in.npy", "-o", "out.npy", "--op", "affine", "--skip-bad"];
    workdir.map(&npy).refused(1, &["in.npy", "--skip-bad", "folder of PNG images"]);
    run(&workdir, "out", &["--skip-bad", "--shard", "0/2"]).refused(2, &["--skip-bad", "--shard"]);
    let args = ["map", "in", "-o", "out", "--op", "affine", "--skip-bad", "--device=host"];
    let mut command = workdir.command(&args);
    for (name, value) in [("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1")] {
        command.env(name, value);
    }
    let ran = Ran::from(command.output().unwrap());
    ran.refused(1, &["--skip-bad needs a job of one process, but this is rank 1 of 2 (torchrun)"]);
    workdir.file("blur.cu", b"extern \"C\" __global__ void blur() {}");
    let halo =
        ["in", "-o", "out", "--kernel", "blur.cu", "--entry", "blur", "--halo=1", "--skip-bad"];
    workdir.map(&halo).refused(1, &["--skip-bad", "--halo", "images next to a damaged image"]);
    assert_eq!(workdir.names(), ["blur.cu", "in", "in.npy"]);
}
