//! Kernels of the user: the template, the compilation before a device is opened, and the errors.
//! The compiler of these tests is the empty one, whose result is its source, and the driver is the
//! empty one or none.

use crate::built::empty_driver;
use crate::workdir::{Ran, Workdir, noise};
use std::path::PathBuf;
use trijet_io::Dtype;

/// A kernel. Its comment is the CUDA C++ that it stands for: the empty compiler returns its text.
pub(crate) const GAIN: &str = "\
.entry gain(.param .u64 x, .param .u64 n, .param .u64 y, .param .u64 m, .param .f32 factor) { ret; }
// extern \"C\" __global__ void gain(const unsigned char* x, unsigned long long n, unsigned char* y,
//                                 unsigned long long m, float factor) {}
";

/// A folder with one small image and a kernel.
fn workdir(kernel: &str) -> Workdir {
    let workdir = Workdir::new();
    workdir.npy("in.npy", "|u1", &[8, 8], &noise(64, 1));
    workdir.file("gain.cu", kernel.as_bytes());
    workdir
}

/// Runs `map in.npy -o out.npy --kernel gain.cu` with these arguments and the empty compiler, which
/// must not leave a file behind.
fn map(workdir: &Workdir, driver: Option<PathBuf>, args: &[&str]) -> Ran {
    let before = workdir.names();
    let call = ["map", "in.npy", "-o", "out.npy", "--kernel", "gain.cu"];
    let mut command = workdir.command(&[&call[..], args].concat());
    command.env("TRIJET_LIBNVRTC", empty_driver());
    if let Some(driver) = driver {
        command.env("TRIJET_LIBCUDA", driver);
    }
    let ran = Ran::from(command.output().unwrap());
    assert_eq!(workdir.names(), before, "{args:?} left a file");
    ran
}

#[test]
fn a_kernel_is_compiled_also_without_a_gpu() {
    let broken = workdir("extern \"C\" __global__\n\n#error `nowhere` is undefined\n");
    for device in ["auto", "host"] {
        let ran = map(&broken, None, &["--entry", "gain", "--device", device]);
        ran.refused(1, &["gain.cu:3: error: `nowhere` is undefined"]);
    }
}

/// Code for u16 once ran over u8 without an error.
#[test]
fn a_kernel_sees_the_type_of_the_elements() {
    let workdir = workdir("\n#error for TRIJET_T\n");
    let ran = map(&workdir, None, &["--entry", "gain"]);
    ran.refused(1, &["gain.cu:2: error: for unsigned char"]);
    let kernel = ["--kernel", "gain.cu", "--entry", "gain"];
    for (name, descr, bytes, words) in
        [("u16.npy", "<u2", 2, "for unsigned short"), ("f32.npy", "<f4", 4, "for float")]
    {
        workdir.npy(name, descr, &[8, 8], &noise(64 * bytes, 1));
        let mut command = workdir.command(&[&["map", name, "-o", "o.npy"], &kernel[..]].concat());
        command.env("TRIJET_LIBNVRTC", empty_driver());
        Ran::from(command.output().unwrap()).refused(1, &["gain.cu:2: error:", words]);
    }
    workdir.file("in.raw", &[0; 1024]);
    for (dtype, elements, words) in [
        ("i8", 1024, "for signed char"),
        ("i16", 512, "for short"),
        ("u32", 256, "for unsigned int"),
        ("i32", 256, "for int"),
        ("u64", 128, "for unsigned long long"),
        ("i64", 128, "for long long"),
        ("f16", 512, "for trijet_f16"),
        ("bfloat16", 512, "for trijet_bf16"),
        ("f64", 128, "for double"),
        ("complex64", 128, "for float2"),
        ("c128", 64, "for double2"),
    ] {
        let shape = format!("--shape={elements}");
        let call = ["map", "in.raw", "-o", "o.raw", &shape, "--dtype", dtype];
        let mut command = workdir.command(&[&call[..], &kernel[..]].concat());
        command.env("TRIJET_LIBNVRTC", empty_driver());
        Ran::from(command.output().unwrap()).refused(1, &["gain.cu:2: error:", words]);
    }
}

#[test]
fn a_header_is_refused_with_the_hint_that_there_are_none() {
    let workdir = workdir("#include <stdint.h>\n");
    let words = ["gain.cu:1: catastrophic error", "there are no headers", "`unsigned short`"];
    map(&workdir, None, &["--entry", "gain"]).refused(1, &words);
}

#[test]
fn a_kernel_that_compiles_waits_for_a_gpu_without_an_error() {
    let workdir = workdir(GAIN);
    for device in ["auto", "host"] {
        let ran = map(&workdir, None, &["--entry", "gain", "--device", device]);
        let words = "gain.cu compiles for compute capability 9.0; a GPU is needed to run the \
                     kernel";
        assert!(!ran.err.contains("error"), "{}", ran.err);
        ran.refused(3, &[words, "`trijet devices`", "Nothing was written"]);
        // docs/json.md states that.
        let ran = map(&workdir, None, &["--entry", "gain", "--device", device, "--json"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""), "{ran:?}");
    }
    workdir.file("gain.ptx", GAIN.as_bytes());
    let ran = workdir.map(&["in.npy", "-o", "o.npy", "--kernel", "gain.ptx", "--entry", "gain"]);
    ran.refused(3, &["gain.ptx has the kernel `gain`; a GPU is needed to run the kernel"]);
    let call = ["map", "in.npy", "-o", "out.npy", "--kernel", "gain.cu", "--entry", "gain"];
    let command = &mut workdir.command(&call);
    let words = ["no run-time compiler was found", "a GPU is needed", "`trijet devices`"];
    Ran::from(command.output().unwrap()).refused(1, &words);
}

#[test]
fn a_missing_entry_is_refused_with_the_entries_of_the_file() {
    let workdir = workdir(GAIN);
    let ran = map(&workdir, None, &["--entry", "loss"]);
    ran.refused(1, &["gain.cu has no kernel `loss`", "its only kernel is `gain`"]);
    workdir.file("gain.ptx", GAIN.as_bytes());
    let ran = workdir.map(&["in.npy", "-o", "o.npy", "--kernel", "gain.ptx", "--entry", "loss"]);
    ran.refused(1, &["gain.ptx has no kernel `loss`", "its only kernel is `gain`"]);
}

#[test]
fn a_binary_that_is_cut_is_refused_without_a_gpu() {
    let workdir = workdir(GAIN);
    let mut cubin = b"\x7fELF\x02\x01\x01".to_vec();
    cubin.resize(64, 0);
    cubin[40..48].copy_from_slice(&4096_u64.to_le_bytes());
    cubin[58..62].copy_from_slice(&[64, 0, 5, 0]);
    workdir.file("gain.cubin", &cubin);
    let call = ["in.npy", "-o", "o.npy", "--kernel", "gain.cubin", "--entry", "gain"];
    workdir.map(&call).refused(1, &["gain.cubin: the binary is cut", "ends at byte 4416"]);
    workdir.file("gain.cubin", GAIN.as_bytes());
    workdir.map(&call).refused(1, &["gain.cubin: the binary is neither a cubin nor a fatbin"]);
}

#[test]
fn a_signature_that_differs_is_refused_before_anything_is_written() {
    let workdir = workdir(GAIN);
    let call = ["--entry", "gain", "--device", "cuda:0"];
    map(&workdir, Some(empty_driver()), &call).refused(
        1,
        &[
            "gain.cu",
            "expected `gain(const unsigned char* x, unsigned long long x_len, unsigned char* y, \
             unsigned long long y_len)`, which has 4 parameters",
            "`gain` has 5 (8, 8, 8, 8, 4 bytes)",
        ],
    );
    let halo = [&call[..], &["--halo", "1", "--arg", "factor=2.5"]].concat();
    let words = ["unsigned long long row_len, unsigned long long rows_before, float factor)"];
    map(&workdir, Some(empty_driver()), &halo).refused(1, &words);
    let double = [&call[..], &["--arg", "factor=2.5f64"]].concat();
    map(&workdir, Some(empty_driver()), &double)
        .refused(1, &["double factor)", "8, 8, 8, 8, 4 bytes"]);
}

#[test]
fn a_kernel_with_the_signature_runs() {
    let workdir = workdir(GAIN);
    let call = ["map", "in.npy", "-o", "out.npy", "--kernel", "gain.cu", "--entry", "gain"];
    let device = ["--arg", "factor=2.5", "--device", "cuda:0"];
    let mut command = workdir.command(&[&call[..], &device].concat());
    command.env("TRIJET_LIBNVRTC", empty_driver()).env("TRIJET_LIBCUDA", empty_driver());
    let out = Ran::from(command.output().unwrap()).done();
    assert!(out.contains("kernel gain"), "{out}");
    for dtype in Dtype::ALL {
        let (raw, out) = (format!("{dtype}.raw"), format!("{dtype}-out.raw"));
        workdir.file(&raw, &vec![0; 12 * usize::try_from(dtype.bytes()).unwrap()]);
        let call = ["map", &raw, "-o", &out, "--shape=4x3", "--dtype", dtype.name()];
        let kernel = ["--kernel", "gain.cu", "--entry", "gain"];
        let mut command = workdir.command(&[&call[..], &kernel[..], &device].concat());
        command.env("TRIJET_LIBNVRTC", empty_driver()).env("TRIJET_LIBCUDA", empty_driver());
        Ran::from(command.output().unwrap()).done();
        assert_eq!(workdir.read(&out).len(), workdir.read(&raw).len(), "{dtype}");
    }
}

/// The template comes with the signature that the help shows.
#[test]
fn a_template_is_printed_without_an_input() {
    let workdir = Workdir::new();
    let help = workdir.trijet(&["map", "--help"]).done();
    assert!(help.contains("extern \"C\" __global__ void NAME("), "{help}");
    let element = workdir.trijet(&["map", "--kernel-template"]).done();
    assert!(element.contains("extern \"C\" __global__ void gain("), "{element}");
    assert_eq!(workdir.trijet(&["map", "--kernel-template", "element"]).done(), element);
    let halo = workdir.trijet(&["map", "--kernel-template", "halo"]).done();
    assert!(halo.contains("extern \"C\" __global__ void blur("), "{halo}");
    for name in ["x", "x_len", "y", "y_len"] {
        for text in [&help, &element, &halo] {
            assert!(text.contains(&format!(" {name},")), "`{name}` is missing in {text}");
        }
    }
    for name in ["row_len", "rows_before"] {
        assert!(help.contains(name) && halo.contains(name), "{name}");
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/your-kernel.md");
    let page = std::fs::read_to_string(page).unwrap();
    let function =
        element.find("extern \"C\" __global__").map(|at| element[at..].trim_end()).unwrap();
    assert!(page.contains(function), "the page shows another kernel than the template");
    workdir.trijet(&["map", "--kernel-template", "cube"]).refused(2, &["cube", "halo"]);
    let both = ["map", "in.npy", "--kernel-template"];
    workdir.trijet(&both).refused(2, &["--kernel-template", "cannot be used"]);
    assert_eq!(workdir.names(), [""; 0]);
}
