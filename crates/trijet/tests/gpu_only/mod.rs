//! Tests that need a GPU: each kernel computes what its twin computes, bit for bit, and kernels of
//! users compile, run and fail as documented.

#[path = "../binding/captured.rs"]
mod captured;
mod communication;
mod conformance;
#[path = "../binding/contexts.rs"]
mod contexts;
mod cublas;
mod follow_device;
mod litmus;
mod matrix;
#[path = "../binding/parameters.rs"]
mod parameters;
mod peers;
mod pytorch;
mod ranks;
mod red_zones;
mod tasks;
mod thread_ends;
mod times;
mod workers;

use crate::cases::words;
use std::any::type_name;
use std::path::Path;
use std::process::Command;
use trijet::kernels::gemm::{self, bf16};
use trijet::kernels::median::{Edges, MedianPixel, Rows, Window, median};
use trijet::kernels::{
    AFFINE_F32, AFFINE_U8, AFFINE_U16, AXPY, Code, Dynamic, FILL_F32, FILL_U8, FILL_U32,
    KernelSpec, Max, Min, Reduction, Shape, Sum,
};
use trijet::sim::HostConfig;
use trijet::testing::{MIX, Prng, WORK, cluster, dependent, warp_specialized};
use trijet::{
    Args, Device, DeviceBuilder, Element, ErrorKind, Kernel, LaunchConfig, Result, Select, Stream,
    View, ViewMut,
};

fn cuda() -> Device {
    Device::open(Select::Cuda(0)).expect("a CUDA device")
}

/// Options for opening all GPUs.
fn all_gpus() -> DeviceBuilder {
    drop(cuda());
    Device::builder().gpus_or(HostConfig::new().devices(0))
}

/// An operation that reads `x` and writes `y`.
type Job<'a, T, U> = dyn Fn(&Stream, View<'_, T>, ViewMut<'_, U>) -> Result<()> + 'a;

/// Runs `job` on a device over `x` and a copy of `y`, and returns the new `y`.
fn on<T: Element, U: Element>(
    device: &Device,
    x: &[T],
    y: &[U],
    job: &Job<'_, T, U>,
) -> Result<Vec<u8>> {
    let s = device.stream()?;
    let mut result = y.to_vec();
    device.scope(|scope| {
        let (mut dx, mut dy) = (s.alloc::<T>(x.len())?, s.alloc::<U>(y.len())?);
        scope.upload(&s, x, &mut dx)?;
        scope.upload(&s, y, &mut dy)?;
        job(&s, dx.view(), dy.view_mut())?;
        scope.download(&s, &dy, &mut result)
    })?;
    Ok(bytemuck::cast_slice(&result).to_vec())
}

fn same<T: Element, U: Element>(what: &str, x: &[T], y: &[U], job: &Job<'_, T, U>) {
    let host = Device::open(Select::Host(0)).expect("the host device");
    let expected = on(&host, x, y, job).expect("the host device computes it");
    let found = on(&cuda(), x, y, job).expect("the GPU computes it");
    let differ = found.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(differ, None, "{what}: the first byte that differs");
}

fn cast<T: Element>(words: &[u64], len: usize) -> Vec<T> {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    bytes.chunks_exact(size_of::<T>()).take(len).map(bytemuck::pod_read_unaligned).collect()
}

#[test]
fn the_elementwise_kernels_equal_their_twins() {
    for (seed, len) in [(1, 0), (2, 1), (3, 255), (4, 256), (5, 100_003)] {
        let (a, b) = (words(seed, len), words(seed + 100, len));
        same("mix", &a, &b, &|s, x, y| s.launch(&MIX, (seed, x, y)));
        let (x, y) = (cast::<u32>(&a, len), cast::<u32>(&b, len));
        same("work", &x, &y, &|s, x, y| s.launch(&WORK, (37, x, y)));
        same("fill u32", &x, &y, &|s, _, y| s.launch(&FILL_U32, (0x0102_0304u32, y)));
        // The floats have any bits, including NaN, infinities and subnormal numbers.
        let (x, y) = (cast::<f32>(&a, len), cast::<f32>(&b, len));
        same("axpy", &x, &y, &|s, x, y| s.launch(&AXPY, (1.7f32, x, y)));
        same("affine f32", &x, &y, &|s, x, y| s.launch(&AFFINE_F32, (0.3f32, -2.5f32, x, y)));
        same("fill f32", &x, &y, &|s, _, y| s.launch(&FILL_F32, (0.1f32, y)));
        let (x, y) = (cast::<u8>(&a, len), cast::<u8>(&b, len));
        same("affine u8", &x, &y, &|s, x, y| s.launch(&AFFINE_U8, (1.5f32, -3.25f32, x, y)));
        same("fill u8", &x, &y, &|s, _, y| s.launch(&FILL_U8, (7u8, y)));
        let (x, y) = (cast::<u16>(&a, len), cast::<u16>(&b, len));
        same("affine u16", &x, &y, &|s, x, y| s.launch(&AFFINE_U16, (-0.5f32, 6e4f32, x, y)));
    }
}

#[test]
fn sums_minima_and_maxima_equal_their_twins() {
    fn each<T: Element>(a: &[u64], b: &[u64], len: usize)
    where
        Sum: Reduction<T>,
        Min: Reduction<T>,
        Max: Reduction<T>,
    {
        let (x, y) = (cast::<T>(a, len), cast::<T>(b, len));
        let of = type_name::<T>();
        same(&format!("sums of {of}"), &x, &y, &|s, x, y| Sum::combine(s, x, y));
        same(&format!("minima of {of}"), &x, &y, &|s, x, y| Min::combine(s, x, y));
        same(&format!("maxima of {of}"), &x, &y, &|s, x, y| Max::combine(s, x, y));
    }
    for (seed, len) in [(1, 1), (2, 255), (3, 100_003)] {
        let (a, b) = (words(seed, len), words(seed + 100, len));
        each::<f32>(&a, &b, len);
        each::<i32>(&a, &b, len);
        each::<u32>(&a, &b, len);
        each::<i64>(&a, &b, len);
        each::<u64>(&a, &b, len);
        each::<bf16>(&a, &b, len);
    }
}

/// A comparison with the twin would not find a mistake that both make.
#[test]
fn minima_and_maxima_follow_the_rule_on_a_gpu() -> Result<()> {
    use crate::collectives::rule::{OF_BF16, OF_F32};
    fn each<T: Element, R: Reduction<T>>(
        column: impl Fn(usize) -> Vec<T>,
        number: usize,
    ) -> Result<()> {
        for (x, y) in [(0, 1), (1, 0)] {
            let found = on(&cuda(), &column(x), &column(y), &|s, x, y| R::combine(s, x, y))?;
            let right = column(number);
            let what = || format!("{} of {}", type_name::<R>(), type_name::<T>());
            assert!(found == bytemuck::cast_slice::<_, u8>(&right), "{}", what());
        }
        Ok(())
    }
    // The length needs the path that processes eight elements at a time, and the path for the rest.
    let f32s = |number: usize| {
        let all = OF_F32.iter().cycle().take(1001);
        all.map(|rule| f32::from_bits(rule[number])).collect::<Vec<_>>()
    };
    let bf16s = |number: usize| {
        let all = OF_BF16.iter().cycle().take(1001);
        all.map(|rule| bf16::from_bits(rule[number])).collect::<Vec<_>>()
    };
    each::<_, Min>(f32s, 2)?;
    each::<_, Max>(f32s, 3)?;
    each::<_, Min>(bf16s, 2)?;
    each::<_, Max>(bf16s, 3)
}

#[test]
fn the_kernels_for_compute_capability_9_equal_their_twins() {
    const BLOCKS: u32 = 7;
    for (seed, rows) in [(1, 0), (2, 1), (3, 100), (4, 30_001)] {
        let noise = words(seed, rows * 7);
        let any = |len| cast::<f32>(&noise, len);
        let (x, z) = (any(rows * 5), vec![0.0f32; rows * 5]);
        same("warp-specialised sum", &x, &z, &|s, x, z| {
            let (y, config) =
                (s.upload(&any(rows * 5))?, warp_specialized::config(rows * 5, BLOCKS));
            s.launch_with(&warp_specialized::ADD, config, (x, &y, z))
        });
        let w = cast::<f32>(&words(seed + 100, 5 * 7), 5 * 7);
        same("product by clusters", &x, &any(rows * 7), &|s, x, y| {
            let (w, config) = (s.upload(&w)?, cluster::config(rows as u64, 7, 4));
            s.launch_with(&cluster::MATMUL, config, (5, 7, x, &w, y))
        });
        // Small integers with exact sums: 1024 numbers of at most 64.
        let small = |words: &[u64], len: usize| -> Vec<bf16> {
            words
                .iter()
                .take(len)
                .map(|w| bf16::from_f32(f32::from((w >> 60) as u8) - 8.0))
                .collect()
        };
        let (x, w) = (small(&noise, rows * 7 / 8 * 8), small(&words(seed + 200, 64), 64));
        same("product on tensor cores", &x, &x, &|s, x, y| {
            let rows = x.len() / 8;
            if rows == 0 {
                return Ok(());
            }
            let w = s.upload(&w)?;
            let sizes = [u32::try_from(rows).expect("a small test"), 8, 8];
            let args = (
                gemm::left(x, [rows, 8], 8)?,
                gemm::right(w.view(), [8, 8], 8)?,
                gemm::result(y, [rows, 8], 8)?,
                sizes,
            );
            s.launch_with(&gemm::MATMUL, gemm::config(sizes[0], 8, 4), args)
        });
        let y = cast::<u32>(&noise, rows);
        same("dependent pair", &y, &y, &|s, _, y| {
            let (mut x, config) = (s.alloc(rows)?, LaunchConfig::new([BLOCKS, 1, 1], [96, 1, 1]));
            let config = config.dependent();
            s.launch_with(
                &dependent::PRODUCE,
                config,
                (3, 999, dependent::Trigger::Early, &mut x),
            )?;
            s.launch_with(&dependent::CONSUME, config, (5, 50, dependent::Trigger::Late, &x, y))
        });
    }
}

fn medians<T: MedianPixel>(bits: u32) {
    let mut prng = Prng::new(u64::from(bits));
    let mut draw = |from: u64, to: u64| from + prng.below(to - from);
    for (radius, edges) in (1..=7u32).flat_map(|radius| Edges::ALL.map(|edges| (radius, edges))) {
        for turn in 0..24 {
            // Every third stack has sides that are smaller than most windows.
            let (widest, highest) = if turn % 3 == 0 { (10, 10) } else { (400, 90) };
            let (width, height, images) = (draw(1, widest), draw(1, highest), draw(1, 4));
            let rows = height * images;
            let first = draw(0, rows);
            let last = draw(first, rows) + 1;
            let (mut first_in, mut last_in) = (first, last);
            if edges == Edges::Wrap {
                (first_in, last_in) = (first / height * height, last.div_ceil(height) * height);
            }
            first_in = first_in.saturating_sub(u64::from(radius) + draw(0, 3));
            last_in = (last_in + u64::from(radius) + draw(0, 3)).min(rows);
            let len = |rows: u64| usize::try_from(width * rows).expect("a small test");
            let noise = words(draw(0, 1 << 40), len(last_in - first_in));
            let x = cast::<T>(&noise, len(last_in - first_in));
            let y = cast::<T>(&noise, len(last - first));
            let side = |pixels: u64| u32::try_from(pixels).expect("a small test");
            let (width, height) = (side(width), side(height));
            let at = Rows { width, height, first_out: first, first_in };
            let what = format!("median {bits} bit, radius {radius}, {edges:?}, {at:?}");
            same(&what, &x, &y, &|s, x, y| median(s, x, y, at, Window { radius, edges }));
        }
    }
}

#[test]
fn a_captured_stream_takes_operations_and_refuses_other_calls() -> Result<()> {
    let _alone = crate::alone();
    captured::a_captured_stream_takes_operations_and_refuses_other_calls(
        &cuda(),
        Path::new("libcuda.so.1"),
        2,
    )
}

#[test]
fn queries_and_waits_do_not_disturb_a_capture() -> Result<()> {
    let _alone = crate::alone();
    captured::queries_and_waits_do_not_disturb_a_capture(&cuda(), Path::new("libcuda.so.1"))
}

#[test]
fn each_call_leaves_the_current_context() -> Result<()> {
    let _alone = crate::alone();
    let open = || Device::open(Select::Cuda(0));
    contexts::each_call_leaves_the_current_context(open, Path::new("libcuda.so.1"))
}

#[test]
fn a_launch_passes_the_parameters_of_the_kernel() -> Result<()> {
    let _alone = crate::alone();
    parameters::a_launch_passes_the_parameters_of_the_kernel(&cuda())
}

#[test]
fn the_median_of_u8_equals_its_twin() {
    medians::<u8>(8);
}

#[test]
fn the_median_of_u16_equals_its_twin() {
    medians::<u16>(16);
}

fn user(name: &'static str, code: &'static str) -> Kernel<Dynamic> {
    let spec = KernelSpec::new(name, Code::source(code), Shape::Elements { per_thread: 1 });
    // SAFETY: each test's source has the parameters that the test passes; the one that faults does
    // so in a separate process.
    unsafe { Kernel::declare(spec) }
}

const GAIN: &str = r#"extern "C" __global__ void gain(const float* x, unsigned long long n, float* y,
        unsigned long long m, float k) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n && i < m) y[i] = k * x[i];
}"#;

#[test]
fn a_users_source_is_compiled_and_runs() {
    let kernel = user("gain", GAIN);
    let (x, y) = (vec![1.5f32; 1000], vec![0f32; 1000]);
    let run = |s: &Stream, x: View<'_, f32>, y: ViewMut<'_, f32>| {
        s.launch(&kernel, Args::new().read(x)?.write(y)?.scalar(2.0f32)?)
    };
    let found = on(&cuda(), &x, &y, &run).expect("the run-time compiler is installed");
    assert_eq!(bytemuck::cast_slice::<u8, f32>(&found), [3.0; 1000]);
}

#[test]
fn a_source_that_does_not_compile_shows_the_compilers_words_and_the_line() {
    let broken = "extern \"C\" __global__ void gain() {\n    int y = nowhere;\n}";
    let error = cuda().load(&user("gain", broken)).expect_err("it does not compile");
    assert_eq!(error.kind(), ErrorKind::Compile);
    let words = error.to_string();
    assert!(words.contains("gain.cu:2: error") && words.contains("nowhere"), "{words}");
}

#[test]
fn a_module_without_the_entry_is_refused_by_name() {
    let error = cuda().load(&user("loss", GAIN)).expect_err("there is no such kernel");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let words = error.to_string();
    assert!(words.contains("loss.cu has no kernel `loss`"), "{words}");
    assert!(words.contains("its only kernel is `gain`"), "{words}");
}

#[test]
fn an_error_of_the_drivers_compiler_names_the_line_of_the_users_file() {
    let broken =
        "extern \"C\" __global__ void gain(int* y) {\n    asm(\"no.such.instruction;\");\n}";
    let error = cuda().load(&user("gain", broken)).expect_err("it does not assemble");
    assert_eq!(error.kind(), ErrorKind::Compile);
    assert!(error.to_string().contains("gain.cu:2: "), "{error}");
}

/// The child process of the next test. It is a separate process, because a fault makes the context
/// of the process unusable.
#[test]
#[ignore = "faults on purpose; run by a_fault_is_reported_and_nothing_hangs in a child"]
fn fault_in_a_child() {
    let source = r#"extern "C" __global__ void fault(float* y, unsigned long long n) {
        *(volatile int*)16 = 1;
    }"#;
    let (kernel, device) = (user("fault", source), cuda());
    let s = device.stream().expect("a stream");
    let mut y = s.alloc::<f32>(64).expect("memory");
    let dropped = std::sync::Arc::new(());
    let held = std::sync::Arc::clone(&dropped);
    let args = Args::new().write(y.view_mut()).expect("one argument");
    s.launch(&kernel, args).expect("the launch itself succeeds");
    // Law A29: after the fault the host function is never called, and it is still dropped.
    s.host_fn(move || drop(held)).expect("enqueued");
    let error = s.synchronize().expect_err("the kernel faults");
    assert_eq!(error.kind(), ErrorKind::Launch, "{error}");
    let again = s.fill_bytes(&mut y, 0).expect_err("the context is lost");
    assert_eq!(again.kind(), ErrorKind::Launch, "{again}");
    drop((y, s));
    assert!(device.close().is_err(), "closing reports the loss as well");
    assert_eq!(std::sync::Arc::strong_count(&dropped), 1, "the closure was dropped");
}

#[test]
fn a_fault_is_reported_and_nothing_hangs() {
    let this = std::env::current_exe().expect("the path of this program");
    let arguments = ["--exact", "gpu_only::fault_in_a_child", "--ignored", "--nocapture"];
    let child = Command::new(this).args(arguments).output().expect("the child runs");
    let words = String::from_utf8_lossy(&child.stdout).into_owned()
        + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && words.contains("1 passed"), "{words}");
}

/// Memory that is mapped after a release may have the address of the released memory. The driver
/// must not mistake it for the pages that were locked at this address.
#[test]
fn page_locked_memory_of_any_size_is_copied_released_and_allocated_again() -> Result<()> {
    let device = cuda();
    let s = device.stream()?;
    for (round, len) in
        (0..6u8).flat_map(|round| [(8 << 20) - 1, (64 << 20) + 7].map(|n| (round, n)))
    {
        let (mut up, mut down) = (device.pinned::<u8>(len)?, device.pinned::<u8>(len)?);
        let bytes = |n: usize| (n as u64).wrapping_mul(0x9e37_79b9).to_le_bytes()[2] ^ round;
        up.write()?.iter_mut().enumerate().for_each(|(n, byte)| *byte = bytes(n));
        let mut x = s.alloc::<u8>(len)?;
        s.copy(&up, &mut x)?;
        s.copy(&x, &mut down)?;
        assert!(
            down.read()?.iter().enumerate().all(|(n, byte)| *byte == bytes(n)),
            "round {round}"
        );
        drop((up, down));
        assert!(device.release_memory()?.0 >= 2 * len as u64);
    }
    Ok(())
}
