//! Programs about the addresses of memory: freed memory whose addresses are given out again, memory of
//! modules, of other libraries and of graphs.

use crate::calling::{BYTES, DATA, Driver, NON_BLOCKING, ONE, OTHER, Passed, prepared, upload};
use Passed::{Byte, Int, Out, Word};

/// Runs the program with this name; false if there is none.
pub(crate) fn run(name: &str) -> bool {
    let program: fn() = match name {
        "freed-and-mapped-by-host" => || freed_again(|driver| download_to(driver, DATA + 4096)),
        "freed-and-found-in-module" => || {
            freed_again(|driver| {
                let global = DATA + 4096;
                driver.call(c"cuModuleGetGlobal_v2", &[Out(global), Out(64)]);
                fill(driver, global, ONE);
            });
        },
        // The second question is for the same memory.
        "found-in-module" => || {
            let (driver, global) = (prepared(NON_BLOCKING), DATA + (1 << 30));
            for stream in [ONE, OTHER] {
                driver.call(c"cuModuleGetGlobal_v2", &[Out(global), Out(64)]);
                fill(&driver, global, stream);
            }
        },
        "freed-and-of-other-library" => || {
            freed_again(|driver| {
                // The description has an offset and a size.
                let described = [0, 4096_u64];
                let at = (&raw const described).expose_provenance() as u64;
                let passed = [Out(DATA), Word(7), Word(at)];
                driver.call(c"cuExternalMemoryGetMappedBuffer", &passed);
                fill(driver, DATA + 1024, ONE);
            });
        },
        "freed-and-opened" => || {
            freed_again(|driver| {
                driver.call(c"cuIpcOpenMemHandle_v2", &[Out(DATA)]);
                upload(driver, ONE);
            });
        },
        "graph-memory" => || graph_memory(true),
        "graph-memory-freed-outside" => || graph_memory(false),
        "graph-memory-used-early" => graph_memory_used_early,
        "graph-memory-of-nodes" => graph_memory_of_nodes,
        _ => return false,
    };
    program();
    true
}

/// Memory of the device that is freed, and whose addresses are then other memory.
fn freed_again(then: fn(&Driver)) {
    let driver = prepared(NON_BLOCKING);
    upload(&driver, ONE);
    driver.call(c"cuMemFree_v2", &[Word(DATA)]);
    then(&driver);
}

fn fill(driver: &Driver, address: u64, stream: u64) {
    let passed = [Word(address), Byte(1), Word(64), Word(stream)];
    driver.call(c"cuMemsetD8Async", &passed);
}

/// A download into memory of the host at an address.
fn download_to(driver: &Driver, address: u64) {
    driver.call(c"cuMemAlloc_v2", &[Out(DATA + BYTES), Word(BYTES)]);
    let passed = [Word(address), Word(DATA + BYTES), Word(64), Word(ONE)];
    driver.call(c"cuMemcpyDtoHAsync_v2", &passed);
}

/// Memory that each launch of a graph allocates.
const MEMORY: u64 = DATA + (1 << 30);
const GRAPH: u64 = 0x9_0000;
const PROGRAM: u64 = 0xa_0000;

fn launch(driver: &Driver, stream: u64) {
    driver.call(c"cuGraphLaunch", &[Word(PROGRAM), Word(stream)]);
}

fn free(driver: &Driver) {
    driver.call(c"cuMemFreeAsync", &[Word(MEMORY), Word(ONE)]);
}

/// A graph that allocates memory and fills it.
fn with_memory(is_freed: bool) -> Driver {
    let driver = prepared(NON_BLOCKING);
    driver.call(c"cuStreamBeginCapture_v2", &[Word(ONE), Int(0)]);
    driver.call(c"cuMemAllocAsync", &[Out(MEMORY), Word(BYTES), Word(ONE)]);
    fill(&driver, MEMORY, ONE);
    if is_freed {
        free(&driver);
    }
    driver.call(c"cuStreamEndCapture", &[Word(ONE), Out(GRAPH)]);
    driver.call(c"cuGraphInstantiateWithFlags", &[Out(PROGRAM), Word(GRAPH), Word(0)]);
    driver
}

/// The launches follow each other, whatever their streams are.
fn graph_memory(is_freed_by_graph: bool) {
    let driver = with_memory(is_freed_by_graph);
    if is_freed_by_graph {
        launch(&driver, ONE);
        return launch(&driver, OTHER);
    }
    for _ in 0..2 {
        launch(&driver, ONE);
        fill(&driver, MEMORY + 4096, ONE);
        free(&driver);
    }
}

fn graph_memory_used_early() {
    let driver = with_memory(false);
    launch(&driver, ONE);
    fill(&driver, MEMORY + 4096, OTHER);
}

/// The graph is built by calls. The second fill comes after the free of the graph.
fn graph_memory_of_nodes() {
    let driver = prepared(NON_BLOCKING);
    let mut parameters = [0_u64; 15];
    (parameters[13], parameters[14]) = (BYTES, MEMORY);
    let at = (&raw const parameters).expose_provenance() as u64;
    let passed = [Out(1), Word(GRAPH), Word(0), Word(0), Word(at)];
    driver.call(c"cuGraphAddMemAllocNode", &passed);
    let before = 1_u64;
    let list = (&raw const before).expose_provenance() as u64;
    let passed = [Out(2), Word(GRAPH), Word(list), Word(1), Word(MEMORY)];
    driver.call(c"cuGraphAddMemFreeNode", &passed);
    driver.call(c"cuGraphInstantiateWithFlags", &[Out(PROGRAM), Word(GRAPH), Word(0)]);
    launch(&driver, ONE);
    fill(&driver, MEMORY, ONE);
}
