//! The binding to CUDA, on the driver of empty functions, which knows the current context of a
//! thread and which streams are captured.

#[path = "../common/built.rs"]
mod built;
mod captured;
mod contexts;
mod parameters;
#[path = "../raw_driver/mod.rs"]
mod raw_driver;
mod tilings;

use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use trijet::kernels::median::{RADIUS_MAX, Rows, median};
use trijet::kernels::{
    AFFINE_F32, AFFINE_U8, AFFINE_U16, AXPY, Code, FILL_F32, FILL_U8, FILL_U16, FILL_U32, FILL_U64,
    KernelSpec, Shape,
};
use trijet::testing::{MIX, WORK};
use trijet::{Device, ErrorKind, Kernel, Result, Select};

/// The driver library, named by the environment from here on.
static DRIVER: LazyLock<std::path::PathBuf> = LazyLock::new(|| {
    let file = built::empty_driver();
    // SAFETY: every test of the program begins here, so that no thread reads the environment yet,
    // except through the standard library, which locks it.
    unsafe { std::env::set_var("TRIJET_LIBCUDA", &file) };
    // A copy, so that it is loaded as the compiler only.
    let compiler = file.with_file_name("libempty_nvrtc.so");
    std::fs::copy(&file, &compiler).expect("a folder of cargo");
    // SAFETY: as above.
    unsafe { std::env::set_var("TRIJET_LIBNVRTC", &compiler) };
    file
});

/// The driver library. No other test uses it until the guard is dropped.
fn alone() -> (MutexGuard<'static, ()>, &'static Path) {
    static ALONE: Mutex<()> = Mutex::new(());
    (ALONE.lock().unwrap_or_else(PoisonError::into_inner), &DRIVER)
}

fn open() -> Result<Device> {
    Device::open(Select::Cuda(0))
}

#[test]
fn a_captured_stream_takes_operations_and_refuses_other_calls() -> Result<()> {
    let (_alone, file) = alone();
    captured::a_captured_stream_takes_operations_and_refuses_other_calls(&open()?, file, 0)
}

#[test]
fn queries_and_waits_do_not_disturb_a_capture() -> Result<()> {
    let (_alone, file) = alone();
    captured::queries_and_waits_do_not_disturb_a_capture(&open()?, file)
}

/// Another library's next call once landed on our device.
#[test]
fn each_call_leaves_the_current_context() -> Result<()> {
    let (_alone, file) = alone();
    contexts::each_call_leaves_the_current_context(open, file)
}

#[test]
fn a_launch_passes_the_parameters_of_the_kernel() -> Result<()> {
    let (_alone, _) = alone();
    parameters::a_launch_passes_the_parameters_of_the_kernel(&open()?)
}

#[test]
fn a_launch_passes_the_encoded_form_of_its_tilings() -> Result<()> {
    let (_alone, file) = alone();
    tilings::a_launch_passes_the_encoded_form_of_its_tilings(&open()?, file)
}

#[test]
fn a_graph_encodes_the_tilings_of_the_memory_of_each_launch() -> Result<()> {
    let (_alone, file) = alone();
    tilings::a_graph_encodes_the_tilings_of_the_memory_of_each_launch(&open()?, file)
}

#[test]
fn the_kernels_of_the_library_have_the_parameters_of_their_declarations() -> Result<()> {
    let (_alone, _) = alone();
    let device = open()?;
    let s = device.stream()?;
    let (a, mut b) = (s.alloc::<u8>(64)?, s.alloc::<u8>(64)?);
    let (c, mut d) = (s.alloc::<u16>(64)?, s.alloc::<u16>(64)?);
    let (e, mut f) = (s.alloc::<f32>(64)?, s.alloc::<f32>(64)?);
    let (g, mut h) = (s.alloc::<u32>(64)?, s.alloc::<u32>(64)?);
    let (i, mut j) = (s.alloc::<u64>(64)?, s.alloc::<u64>(64)?);
    s.launch(&AFFINE_U8, (1.0, 0.0, &a, &mut b))?;
    s.launch(&AFFINE_U16, (1.0, 0.0, &c, &mut d))?;
    s.launch(&AFFINE_F32, (1.0, 0.0, &e, &mut f))?;
    s.launch(&AXPY, (1.0, &e, &mut f))?;
    s.launch(&FILL_U8, (1, &mut b))?;
    s.launch(&FILL_U16, (1, &mut d))?;
    s.launch(&FILL_U32, (1, &mut h))?;
    s.launch(&FILL_U64, (1, &mut j))?;
    s.launch(&FILL_F32, (1.0, &mut f))?;
    s.launch(&MIX, (1, &i, &mut j))?;
    s.launch(&WORK, (1, &g, &mut h))?;
    let rows = Rows { width: 8, height: 8, first_out: 0, first_in: 0 };
    for radius in 1..=RADIUS_MAX {
        median(&s, a.view(), b.view_mut(), rows, radius)?;
        median(&s, c.view(), d.view_mut(), rows, radius)?;
    }
    s.synchronize()
}

/// Modules were once found by the address of their text alone, and a text may begin with another
/// one.
#[test]
fn two_texts_at_one_address_are_two_modules() -> Result<()> {
    static TEXT: &str = ".visible .entry first() { ret; }\n.visible .entry second() { ret; }\n";
    let (_alone, _) = alone();
    let device = open()?;
    let kernel = |entry, text| {
        let shape = Shape::Given(|_, _| Ok(()));
        // SAFETY: the kernels have no parameters and do nothing.
        unsafe { Kernel::<()>::declare(KernelSpec::new(entry, Code::ptx(text), shape)) }
    };
    let begin = &TEXT[..TEXT.find('\n').expect("two lines")];
    assert_eq!(begin.as_ptr(), TEXT.as_ptr());
    device.load(&kernel("first", begin))?;
    device.load(&kernel("second", TEXT))?;
    let absent = device.load(&kernel("second", begin)).expect_err("it is in the longer text");
    assert_eq!(absent.kind(), ErrorKind::NotFound);
    Ok(())
}

/// The driver of empty functions takes every text, so these are refused before it is called. It is
/// one for CUDA 13.0, and its device has compute capability 9.9.
#[test]
fn a_text_that_the_device_cannot_run_never_reaches_the_driver() -> Result<()> {
    let (_alone, _) = alone();
    let device = open()?;
    assert_eq!((device.info().compute, device.info().driver_version), ((9, 9), 13_000));
    let load = |code: Code| {
        let shape = Shape::Given(|_, _| Ok(()));
        // SAFETY: the kernels have no parameters and do nothing.
        device.load(&unsafe { Kernel::<()>::declare(KernelSpec::new("step", code, shape)) })
    };
    for (head, words) in [
        (
            ".version 8.8\n.target sm_100",
            "PTX/TARGET: `.target sm_100` needs compute capability 10.0",
        ),
        (".version 8.0\n.target sm_90a", "9.0 and no other, and the device has 9.9"),
        (".version 9.1\n.target sm_90", "PTX/VERSION: `.version 9.1` needs a driver for CUDA 13.1"),
    ] {
        let text = format!("{head}\n.entry step() {{ ret; }}");
        let ptx = load(Code::Ptx(text.clone().into())).expect_err("the device cannot run it");
        // The empty compiler returns its source.
        let compiled = load(Code::Source(text.into())).expect_err("as above");
        for (error, file) in [(ptx, "step.ptx"), (compiled, "step.cu")] {
            assert_eq!((error.kind(), error.code()), (ErrorKind::Compile, None), "{error}");
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.to_string().contains(file), "{error}");
        }
    }
    for head in [".version 9.0\n.target sm_90", ".version 8.0\n.target sm_80, debug", ""] {
        let text = format!("{head}\n.entry step() {{ ret; }}");
        load(Code::Ptx(text.clone().into()))?;
        load(Code::Source(text.into()))?;
    }
    Ok(())
}

/// A program of the compiler once stayed when its log could not be read. The library was unloaded
/// after each compile, while threads of it may still have run.
#[test]
fn a_compile_leaves_no_program_behind_and_keeps_the_compiler_loaded() -> Result<()> {
    let (_alone, file) = alone();
    let device = open()?;
    let kernel = |text| {
        let shape = Shape::Given(|_, _| Ok(()));
        // SAFETY: the kernels have no parameters and do nothing.
        unsafe { Kernel::<()>::declare(KernelSpec::new("nothing", Code::source(text), shape)) }
    };
    device.load(&kernel(".entry nothing() { ret; }"))?;
    for (text, words) in
        [("// no log", "no text (NVRTC error 11)"), ("\n#error nowhere", "nowhere")]
    {
        let error = device.load(&kernel(text)).expect_err("it does not compile");
        assert_eq!(error.kind(), ErrorKind::Compile);
        assert!(error.to_string().contains(words), "{error}");
    }
    let compiler = file.with_file_name("libempty_nvrtc.so");
    /// A flag of `dlfcn.h`: find the library, and do not load it.
    const NO_LOAD: i32 = 4;
    // SAFETY: nothing is loaded, so no initialiser runs.
    let loaded = unsafe { libloading::os::unix::Library::open(Some(compiler), 1 | NO_LOAD) };
    let loaded = loaded.expect("the compiler is still loaded");
    // SAFETY: the function has this signature.
    let programs = unsafe { loaded.get::<extern "C" fn() -> usize>(b"emptyPrograms") };
    assert_eq!(programs.expect("it counts its programs")(), 0);
    Ok(())
}

#[test]
fn code_is_compiled_and_searched_for_its_entry_without_a_device() -> Result<()> {
    let (_alone, _) = alone();
    let spec = |entry: &str, text: &str| {
        let shape = Shape::Elements { per_thread: 1 };
        KernelSpec::with_name(entry.to_owned(), Code::Source(text.to_owned().into()), shape)
            .file("own/gain.cu".to_owned())
    };
    let two = "// .entry old() { ret; }\n.entry gain() { ret; }\n.entry loss() { ret; }";
    spec("gain", two).check_code((9, 0))?;
    let absent = spec("again", two).check_code((9, 0)).expect_err("there are two others");
    assert_eq!(absent.kind(), ErrorKind::NotFound);
    let words = "own/gain.cu has no kernel `again`: its kernels are `gain`, `loss`";
    assert!(absent.to_string().contains(words), "{absent}");
    let broken = spec("gain", "\n\n#error nowhere").check_code((9, 0)).expect_err("line 3");
    assert_eq!(broken.kind(), ErrorKind::Compile);
    assert!(broken.to_string().contains("own/gain.cu:3: error: nowhere"), "{broken}");
    Ok(())
}
