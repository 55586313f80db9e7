//! The driver gets a tiling as an argument: the encoded form of the memory that a launch has.

use crate::raw_driver::Driver;
use std::ffi::c_int;
use std::path::Path;
use trijet::Uses;
use trijet::kernels::{Code, KernelSpec, Shape, Swizzle, Tiled, Tiling, Update};
use trijet::testing::multicast::{MATMUL, config, left, right};
use trijet::{Buffer, Device, Kernel, LaunchConfig, Result};

/// The words of an encoded tiling, as the driver of empty functions writes them.
type Map = [u64; 16];
type Last = unsafe extern "C" fn(*mut [Map; 4]) -> c_int;

/// The tilings of the last launch.
fn last(file: &Path) -> [Map; 4] {
    let mut maps = [[0; 16]; 4];
    // SAFETY: space for four tilings.
    Driver::open(file).call::<Last>("emptyLastTilings", |last| unsafe { last(&raw mut maps) });
    maps
}

const NONE: Map = [0; 16];
/// `CU_TENSOR_MAP_DATA_TYPE_FLOAT32` and `_UINT16`, `CU_TENSOR_MAP_SWIZZLE_128B`, and the promotion
/// to 128 bytes.
const F32: u64 = 7;
const U16: u64 = 1;
const SWIZZLED: u64 = 3;
const PROMOTION: u64 = 2;

/// Columns come before rows.
fn map(address: u64, sides: [u64; 2], pitch_bytes: u64, boxes: [u64; 2], of: u64) -> Map {
    let ([columns, rows], [box_columns, box_rows]) = (sides, boxes);
    let steps = [1, 1];
    let mut map = [0; 16];
    map[..6].copy_from_slice(&[address, columns, rows, pitch_bytes, box_columns, box_rows]);
    map[6..8].copy_from_slice(&steps);
    (map[8], map[11]) = (of, PROMOTION);
    map
}

pub(crate) fn a_launch_passes_the_encoded_form_of_its_tilings(
    device: &Device,
    file: &Path,
) -> Result<()> {
    assert_eq!(device.parameters(&MATMUL)?, Some(vec![128, 128, 8, 8, 12]));
    let s = device.stream()?;
    let (x, w) = (s.alloc::<f32>(1000)?, s.alloc::<f32>(1000)?);
    let mut y = s.alloc::<f32>(30 * 20)?;
    let part = x.slice(8..);
    s.launch_with(
        &MATMUL,
        config(30, 20, 1),
        (left(part, [30, 9], 12)?, right(w.view(), [9, 20], 24)?, &mut y, [30, 9, 20]),
    )?;
    let x_map = map(x.address() + 32, [9, 30], 48, [32, 8], F32);
    assert_eq!(last(file), [x_map, map(w.address(), [20, 9], 96, [32, 32], F32), NONE, NONE]);

    const PTX: &str = ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry turn(.param .u32 n, .param .align 64 .b8 z[128]) { ret; }";
    let spec = KernelSpec::new("turn", Code::ptx(PTX), Shape::Given(|_, _| Ok(())));
    // SAFETY: it does nothing.
    let turn = unsafe { Kernel::<(u32, Tiled<Update<u16>>)>::declare(spec) };
    let mut z = s.alloc::<u16>(64 * 70)?;
    let tiling = Tiling::new([70, 60], [256, 64]).pitch(64).swizzle(Swizzle::Bytes128);
    let address = z.address();
    let one = LaunchConfig::new([1; 3], [32, 1, 1]);
    s.launch_with(&turn, one, (5, z.view_mut().tiled(tiling)?))?;
    let mut z_map = map(address, [60, 70], 128, [64, 256], U16);
    z_map[10] = SWIZZLED;
    assert_eq!(last(file), [z_map, NONE, NONE, NONE]);
    s.synchronize()
}

pub(crate) fn a_graph_encodes_the_tilings_of_the_memory_of_each_launch(
    device: &Device,
    file: &Path,
) -> Result<()> {
    let s = device.stream()?;
    let buffers =
        || -> Result<[Buffer<f32>; 3]> { Ok([s.alloc(1000)?, s.alloc(1000)?, s.alloc(30 * 20)?]) };
    let wanted = |x: &Buffer<f32>, w: &Buffer<f32>| {
        let x = map(x.address() + 16, [8, 30], 32, [32, 8], F32);
        [x, map(w.address(), [20, 8], 80, [32, 32], F32), NONE, NONE]
    };
    let [x, w, mut y] = buffers()?;
    let mut graph = device.record(|g| {
        g.argument(&x)?;
        g.argument(&w)?;
        g.argument(&y)?;
        let (x, w) = (left(x.slice(4..), [30, 8], 8)?, right(w.view(), [8, 20], 20)?);
        g.stream()?.launch_with(&MATMUL, config(30, 20, 1), (x, w, &mut y, [30, 8, 20]))
    })?;
    assert_eq!(last(file), wanted(&x, &w), "while it is made");
    for _ in 0..2 {
        let [x, w, mut y] = buffers()?;
        let arguments = Uses::new().read(x.view()).read(w.view()).write(y.view_mut());
        s.launch_graph(&mut graph, arguments)?;
        assert_eq!(last(file), wanted(&x, &w), "with other memory");
    }
    s.synchronize()
}
