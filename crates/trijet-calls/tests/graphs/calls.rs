//! Call files of programs that make graphs, written call by call.

use std::collections::BTreeSet;
use trijet_calls::{Judged, judge};
use trijet_cupti::call_file::{self, Head, NO_STACK};
use trijet_ledger::check::{Assume, Finding, Party};

pub(crate) const ONE: u64 = 0x1_0000;
pub(crate) const TWO: u64 = 0x2_0000;
pub(crate) const THREE: u64 = 0x3_0000;
pub(crate) const EVENT: u64 = 0x4_0000;
pub(crate) const OTHER_EVENT: u64 = 0x5_0000;
pub(crate) const GRAPH: u64 = 0x9_0000;
pub(crate) const PROGRAM: u64 = 0xa_0000;
pub(crate) const DATA: u64 = 0x7f00_0000_0000;
/// Memory beside `DATA`, which graphs allocate.
pub(crate) const MEMORY: u64 = DATA + (1 << 30);
pub(crate) const BYTES: u64 = 1 << 20;

/// A call file that grows. The stack of each call has the mark of the call as its only frame.
pub(crate) struct Calls {
    pub(crate) out: Vec<u8>,
    functions: Vec<String>,
    stacks: u32,
    count: u64,
    mark: String,
}

impl Calls {
    /// A program with three streams and memory, whose recorder knows the order of graphs.
    pub(crate) fn new() -> Self {
        let mut calls = Self::of_earlier_recorder();
        calls.function("cuGraphAddDependencies");
        calls
    }

    pub(crate) fn of_earlier_recorder() -> Self {
        let (functions, mark) = (Vec::new(), String::new());
        let mut calls = Self { out: Vec::new(), functions, stacks: 0, count: 0, mark };
        call_file::header(&mut calls.out, 1);
        call_file::context(&mut calls.out, 1, 0);
        for stream in [ONE, TWO, THREE] {
            calls.call("cuStreamCreate", &[stream, 1]);
        }
        calls.call("cuMemAlloc_v2", &[DATA, BYTES]);
        calls
    }

    fn function(&mut self, name: &str) -> u16 {
        let found = self.functions.iter().position(|one| one == name);
        let number = u16::try_from(found.unwrap_or(self.functions.len())).unwrap();
        if found.is_none() {
            self.functions.push(name.to_owned());
            call_file::function(&mut self.out, number, name.as_bytes());
        }
        number
    }

    /// The frame of the calls that follow.
    pub(crate) fn mark(&mut self, mark: &str) -> &mut Self {
        mark.clone_into(&mut self.mark);
        self
    }

    fn head(&mut self, function: u16, code: u32) -> Head {
        let stack = match self.mark.is_empty() {
            true => NO_STACK,
            false => {
                let line = format!("{}\tprogram+0x1", self.mark);
                call_file::stack(&mut self.out, self.stacks, line.as_bytes());
                self.stacks += 1;
                self.stacks - 1
            }
        };
        self.count += 1;
        Head { function, flags: 0, code, thread: 1, context: 1, stack }
    }

    pub(crate) fn call(&mut self, name: &str, words: &[u64]) {
        self.call_with(name, words, 0);
    }

    pub(crate) fn call_with(&mut self, name: &str, words: &[u64], code: u32) {
        let function = self.function(name);
        let head = self.head(function, code);
        call_file::call(&mut self.out, &head, words);
    }

    /// A launch of a kernel with an address among its arguments.
    pub(crate) fn kernel(&mut self, stream: u64, address: u64) {
        let function = self.function("cuLaunchKernel");
        let head = self.head(function, 0);
        call_file::launch(&mut self.out, &head, 0, stream, &[address]);
    }

    pub(crate) fn fill(&mut self, stream: u64, address: u64) {
        self.call("cuMemsetD8Async", &[address, 1, 64, stream]);
    }

    /// A copy of 64 bytes to other memory of the device.
    pub(crate) fn copy(&mut self, stream: u64, from: u64, to: u64) {
        self.call("cuMemcpyDtoDAsync_v2", &[to, from, 64, stream]);
    }

    pub(crate) fn begin(&mut self, stream: u64) {
        self.call("cuStreamBeginCapture_v2", &[stream, 0]);
    }

    /// Makes a stream wait for the present work of another one.
    pub(crate) fn follow(&mut self, earlier: u64, later: u64, event: u64) {
        self.call("cuEventRecord", &[event, earlier]);
        self.call("cuStreamWaitEvent", &[later, event, 0]);
    }

    /// Ends the capture that began in the stream, and launches its graph.
    pub(crate) fn end_and_launch(&mut self, stream: u64) {
        self.call("cuStreamEndCapture", &[stream, GRAPH]);
        self.launch();
    }

    /// Launches the graph.
    pub(crate) fn launch(&mut self) {
        self.call("cuGraphInstantiateWithFlags", &[PROGRAM, GRAPH, 0]);
        self.call("cuGraphLaunch", &[PROGRAM, ONE]);
    }

    /// A call that adds a node: the words between the number of nodes before it and their list.
    pub(crate) fn node(&mut self, name: &str, node: u64, after: &[u64], words: &[u64]) {
        let first = [node, GRAPH, 0x77, after.len() as u64];
        self.call(name, &[&first[..], words, after].concat());
    }

    pub(crate) fn fill_node(&mut self, node: u64, after: &[u64], address: u64) {
        let words = [address, 0, 1 << 32, 64, 1, 0];
        self.node("cuGraphAddMemsetNode", node, after, &words);
    }

    pub(crate) fn copy_node(&mut self, node: u64, after: &[u64], from: u64, to: u64) {
        let side = |base: u64| [0, 0, 0, 0, 2, 0, base, 0, 0, 64, 1];
        let words = [&side(from)[..], &side(to), &[64, 1, 1, 0]].concat();
        self.node("cuGraphAddMemcpyNode", node, after, &words);
    }

    pub(crate) fn judged(&self) -> Judged {
        let mut bytes = self.out.clone();
        call_file::end(&mut bytes, self.count, 0);
        let mut all = judge(&bytes, Assume::DriverObserved).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    /// The classes of the errors and of the possible conflicts.
    pub(crate) fn classes(&self) -> [Vec<&'static str>; 2] {
        let found = self.judged();
        let errors = found.errors.iter().map(|one| one.class.code()).collect();
        [errors, found.possible.iter().map(|one| one.finding.class.code()).collect()]
    }

    /// Asserts that the order of all graphs was examined, and nothing was found.
    pub(crate) fn assert_silent(&self, name: &str) {
        let found = self.judged();
        assert!(found.errors.is_empty(), "{name}: {:?}", found.errors);
        assert!(found.possible.is_empty(), "{name}: {:?}", found.possible);
        assert_eq!(found.merged_graphs, 0, "{name}");
    }

    /// Asserts that nothing was found, because the order of one graph was not examined.
    pub(crate) fn assert_merged(&self, name: &str) {
        let found = self.judged();
        assert!(found.errors.is_empty(), "{name}: {:?}", found.errors);
        assert!(found.possible.is_empty(), "{name}: {:?}", found.possible);
        assert!(found.merged_graphs > 0, "{name}");
    }
}

/// The marks of both calls of a finding.
pub(crate) fn marks(judged: &Judged, finding: &Finding) -> [String; 2] {
    let mark = |party: &Party| {
        let frames = judged.stack(party).map(|stack| stack.frames[0].clone());
        frames.unwrap_or_default().split(' ').next().unwrap_or("").to_owned()
    };
    [finding.first.as_ref().map(mark).unwrap_or_default(), mark(&finding.second)]
}

/// The marks of all findings.
pub(crate) fn pairs<'a>(
    judged: &Judged,
    findings: impl Iterator<Item = &'a Finding>,
) -> BTreeSet<[String; 2]> {
    findings.map(|one| marks(judged, one)).collect()
}
