//! Programs that make graphs, for the order of their nodes.

use crate::calling::Passed::{Byte, Int, Out, Word};
use crate::calling::{
    BYTES, DATA, Driver, HOST, NON_BLOCKING, ONE, OTHER, follow, prepared, upload,
};

const GRAPH: u64 = 0x9_0000;
const PROGRAM: u64 = 0xa_0000;
/// Handles of nodes.
const FIRST: u64 = 0x11;
const SECOND: u64 = 0x12;
const BETWEEN: u64 = 0x13;

/// Runs the program with this name; false if there is none.
pub(crate) fn run(name: &str) -> bool {
    let program: fn() = match name {
        "nodes-with-edge" => || nodes(&[FIRST], |_| ()),
        "nodes-without-edge" => || nodes(&[], |_| ()),
        "nodes-with-later-edge" => || {
            nodes(&[], |driver| {
                let passed = [Word(GRAPH), list(&[FIRST]), list(&[SECOND]), Word(1)];
                driver.call(c"cuGraphAddDependencies", &passed);
            });
        },
        // The edge has a type of its own.
        "nodes-with-edge-data" => || {
            nodes(&[], |driver| {
                let data = list(&[1 << 16]);
                let passed = [Word(GRAPH), list(&[FIRST]), list(&[SECOND]), data, Word(1)];
                driver.call(c"cuGraphAddDependencies_v2", &passed);
            });
        },
        "nodes-over-empty-node" => || {
            nodes(&[], |driver| {
                let passed = [Out(BETWEEN), Word(GRAPH), list(&[FIRST]), Word(1)];
                driver.call(c"cuGraphAddEmptyNode", &passed);
                let (last, empty) = (0x14, [5_u64; 32]);
                let first = [Out(last), Word(GRAPH), list(&[BETWEEN]), Word(0), Word(1)];
                driver.call(c"cuGraphAddNode_v2", &[&first[..], &[list(&empty)]].concat());
                let passed = [Word(GRAPH), list(&[last]), list(&[SECOND]), Word(1)];
                driver.call(c"cuGraphAddDependencies", &passed);
            });
        },
        // More nodes than a call of the file has words.
        "nodes-with-long-lists" => || {
            nodes(&[], |driver| {
                let (from, to) = ([FIRST; 300], [SECOND; 300]);
                let passed = [Word(GRAPH), list(&from), list(&to), Word(300)];
                driver.call(c"cuGraphAddDependencies", &passed);
            });
        },
        "captured-race" => || captured(|_| ()),
        "captured-fork" => || captured(|driver| follow(driver, ONE, OTHER)),
        "captured-and-updated" => || {
            captured(|driver| {
                let passed = [Word(OTHER), list(&[FIRST]), Word(1), Int(0)];
                driver.call(c"cuStreamUpdateCaptureDependencies", &passed);
            });
        },
        _ => return false,
    };
    program();
    true
}

/// The address of words.
fn list(words: &[u64]) -> crate::calling::Passed {
    Word(words.as_ptr().expose_provenance() as u64)
}

fn launch(driver: &Driver) {
    driver.call(c"cuGraphInstantiateWithFlags", &[Out(PROGRAM), Word(GRAPH), Word(0)]);
    driver.call(c"cuGraphLaunch", &[Word(PROGRAM), Word(ONE)]);
}

/// Two fills of the same bytes. The second one follows the nodes in `after`.
fn nodes(after: &[u64], between: fn(&Driver)) {
    let driver = prepared(NON_BLOCKING);
    let parameters = [DATA, 0, 1 << 32, 64, 1];
    for (node, after) in [(FIRST, &[][..]), (SECOND, after)] {
        let first = [Out(node), Word(GRAPH), list(after), Word(after.len() as u64)];
        let passed = [&first[..], &[list(&parameters), Word(0)]].concat();
        driver.call(c"cuGraphAddMemsetNode", &passed);
    }
    between(&driver);
    launch(&driver);
}

/// An upload and a download in two streams of a capture.
fn captured(between: fn(&Driver)) {
    let driver = prepared(NON_BLOCKING);
    driver.call(c"cuStreamBeginCapture_v2", &[Word(ONE), Int(0)]);
    follow(&driver, ONE, OTHER);
    upload(&driver, ONE);
    between(&driver);
    let passed = [Word(HOST + BYTES), Word(DATA), Word(BYTES), Word(OTHER)];
    driver.call(c"cuMemcpyDtoHAsync_v2", &passed);
    driver.call(c"cuMemsetD8Async", &[Word(DATA + BYTES), Byte(1), Word(64), Word(OTHER)]);
    follow(&driver, OTHER, ONE);
    driver.call(c"cuStreamEndCapture", &[Word(ONE), Out(GRAPH)]);
    launch(&driver);
}
