//! Tilings (`CUtensorMap`). An encoded tiling is the list of the arguments of its encoding. The
//! tilings of the last launch that passed tilings are stored for tests.

use super::objects::{INVALID_VALUE, lock};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The words of a `CUtensorMap`.
const WORDS: usize = 16;
type Map = [u64; WORDS];

/// Whether any loaded kernel has a tiling among its parameters. If no kernel has one, launches do
/// not read their arguments.
static ARE_PASSED: AtomicBool = AtomicBool::new(false);
/// For each function, the indices of the parameters that are tilings. The keys are the handles of
/// the functions.
static PLACES: Mutex<BTreeMap<usize, Vec<usize>>> = Mutex::new(BTreeMap::new());
/// The tilings of the last launch or graph node that passed tilings.
static LAST: Mutex<[Map; 4]> = Mutex::new([[0; WORDS]; 4]);

/// Records which parameters of a loaded function are tilings. `sizes` are the sizes of its
/// parameters in bytes.
pub(super) fn loaded(function: usize, sizes: &[usize]) {
    let is_map = |place: &usize| sizes[*place] == size_of::<Map>();
    let places: Vec<usize> = (0..sizes.len()).filter(is_map).collect();
    if !places.is_empty() {
        lock(&PLACES).insert(function, places);
        ARE_PASSED.store(true, Ordering::Relaxed);
    }
}

/// Copies the tilings among the arguments of a kernel to [`LAST`].
///
/// # Safety
/// `params` points to as many pointers as the kernel has parameters. Each of these pointers points
/// to a value of the size of its parameter.
unsafe fn remember(function: usize, params: *const *const Map) {
    if !ARE_PASSED.load(Ordering::Relaxed) {
        return;
    }
    let functions = lock(&PLACES);
    let Some(places) = functions.get(&function) else { return };
    let mut last = lock(&LAST);
    *last = [[0; WORDS]; 4];
    for (map, place) in last.iter_mut().zip(places) {
        // SAFETY: the kernel has a parameter of this number, by the contract of this function.
        let param = unsafe { params.add(*place) };
        // SAFETY: the pointer to the argument is readable by the contract of this function.
        let value = unsafe { param.read() };
        // SAFETY: the value is a tiling, by its size.
        *map = unsafe { value.read_unaligned() };
    }
}

/// Writes the four tilings of the last launch or graph node that passed tilings. If it passed fewer
/// than four tilings, the missing tilings are zeros.
///
/// # Safety
/// `maps` points to space for four tilings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn emptyLastTilings(maps: *mut [Map; 4]) -> c_int {
    // SAFETY: `maps` is writable by the contract of this function.
    unsafe { maps.write(*lock(&LAST)) };
    0
}

/// Encodes the tiling of a matrix. The words of the tiling are the address, the columns, the rows,
/// the bytes of a row, the columns and the rows of a box, the steps in both directions, the type,
/// and the other four choices. Refuses a map that is not aligned to 64 bytes, and a tensor that
/// does not have two dimensions.
///
/// # Safety
/// `map` points to space for a tiling. Each list has an element for each dimension, and `pitches`
/// has one element less.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuTensorMapEncodeTiled(
    map: *mut Map,
    element: c_int,
    rank: c_uint,
    address: usize,
    sides: *const [u64; 2],
    pitches: *const [u64; 1],
    boxes: *const [c_uint; 2],
    steps: *const [c_uint; 2],
    interleave: c_int,
    swizzle: c_int,
    promotion: c_int,
    outside: c_int,
) -> c_int {
    if rank != 2 || !map.addr().is_multiple_of(64) {
        return INVALID_VALUE;
    }
    // SAFETY: the tensor has two dimensions, so `sides` has two elements by the contract of this
    // function.
    let sides = unsafe { sides.read() };
    // SAFETY: `pitches` has one element by the contract of this function.
    let [pitch] = unsafe { pitches.read() };
    // SAFETY: `boxes` has two elements by the contract of this function.
    let boxes = unsafe { boxes.read() }.map(u64::from);
    // SAFETY: `steps` has two elements by the contract of this function.
    let steps = unsafe { steps.read() }.map(u64::from);
    let mut words = [0; WORDS];
    words[..8].copy_from_slice(&[
        address as u64,
        sides[0],
        sides[1],
        pitch,
        boxes[0],
        boxes[1],
        steps[0],
        steps[1],
    ]);
    for (word, number) in
        words[8..].iter_mut().zip([element, interleave, swizzle, promotion, outside])
    {
        *word = u64::from(number.cast_unsigned());
    }
    // SAFETY: `map` is writable by the contract of this function.
    unsafe { map.write(words) };
    0
}

/// Launches nothing, and stores the tilings among the arguments.
///
/// # Safety
/// `params` points to as many pointers as the kernel has parameters. Each of these pointers points
/// to a value of the size of its parameter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernelEx(
    _config: usize,
    function: usize,
    params: *const *const Map,
) -> c_int {
    // SAFETY: the contract of this function is the contract of `remember`.
    unsafe { remember(function, params) };
    0
}

/// The first fields of `CUDA_KERNEL_NODE_PARAMS`.
#[repr(C)]
#[derive(Debug)]
pub struct KernelNode {
    function: usize,
    sizes: [c_uint; 7],
    params: *const *const Map,
}

/// Changes nothing in the graph, and stores the tilings among the arguments.
///
/// # Safety
/// `node` points to parameters as for a launch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecKernelNodeSetParams_v2(
    _exec: usize,
    _place: usize,
    node: *const KernelNode,
) -> c_int {
    // SAFETY: `node` is readable by the contract of this function.
    let KernelNode { function, params, .. } = unsafe { node.read() };
    // SAFETY: `params` is as for a launch, by the contract of this function.
    unsafe { remember(function, params) };
    0
}
