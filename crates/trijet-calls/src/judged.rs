//! The verdict about the calls of a process.
//!
//! Two checkers read the same entries. The first one knows what calls declare, and its findings are
//! errors. The second one also knows the addresses among the arguments of kernels, as accesses that
//! read and write; its further findings are possible. One checker for both would keep a possible
//! access in place of a declared one, and so hide an error.

use crate::call_stack::CallStack;
use crate::file::{CallFile, Entry, FileError};
use crate::inside::{GraphChecker, chain_name};
use crate::reader::{COPIES_OF_GRAPH, CallReader, Counts, LedgerPart, Step};
use crate::seen::SeenAccesses;
use std::collections::{BTreeMap, HashMap};
use trijet_cupti::call_file::CallLaunches;
use trijet_ledger::base::audience::Audience;
use trijet_ledger::base::id::BlockId;
use trijet_ledger::base::ledger::{Declared, HostStep, OpKind, StreamWork};
use trijet_ledger::check::{Assume, CheckOptions, Checker, Finding, FindingClass, Names, Party};
use trijet_ledger::profile::readable_name;

/// Maximum number of findings of a class that are kept.
const FINDINGS_MAX: usize = 1000;

/// The stack of the host thread at a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The frames, the innermost first: symbol, library and offset.
    pub frames: Vec<String>,
    /// Whether this is the stack of the first launch of the kernel, because later launches have
    /// none.
    pub is_of_first_launch: bool,
}

/// Pairs of calls that may conflict, with the same names on streams of the same numbers.
#[derive(Debug, Clone)]
pub struct Possible {
    /// The first pair.
    pub finding: Finding,
    /// The number of pairs.
    pub pairs: u64,
}

/// The verdict about a process.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The number of the process.
    pub process: u32,
    /// The command line of the process.
    pub command: String,
    /// The errors, in the order of the calls that revealed them; after them, those between nodes of
    /// a graph.
    pub errors: Vec<Finding>,
    /// The number of findings of all classes that were not kept.
    pub more: u64,
    /// Whether a class has more errors than are kept of one class.
    pub is_capped: bool,
    /// The conflicts that are possible.
    pub possible: Vec<Possible>,
    /// Names of allocations for reports.
    pub names: Names,
    /// The number of calls.
    pub calls: u64,
    /// The number of launches of kernels.
    pub kernels: u64,
    /// The number of launches of kernels whose accesses were seen.
    pub seen_kernels: u64,
    /// The number of launches whose accesses were seen, but perhaps not their copies by tensor
    /// maps, because no load or no store by a tensor map was seen in the process.
    pub kernels_without_maps: u64,
    /// The number of launches that were not seen and have no address among their arguments.
    pub kernels_without_addresses: u64,
    /// The number of launches of graphs.
    pub graphs: u64,
    /// The number of launches of graphs whose kernels were seen.
    pub seen_graphs: u64,
    /// The number of launches of graphs with nodes that were not examined.
    pub unknown_graphs: u64,
    /// The number of launches of graphs whose nodes count as one operation, because their order is
    /// not known or too wide.
    pub merged_graphs: u64,
    /// The number of waits of streams for values in memory. Each counts as a wait for all streams.
    pub value_waits: u64,
    /// The reasons why something was not recorded.
    pub troubles: Vec<String>,
    /// The number of calls that were lost; `None` if the file has no end.
    pub lost: Option<u64>,
    /// The edges that counted as an order.
    pub assume: Assume,
    /// The stack of each entry that a finding names.
    stacks: HashMap<u64, Stack>,
    /// The origin of each allocation that a finding names.
    origins: HashMap<BlockId, String>,
}

impl Judged {
    /// Whether there is no error.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }

    /// Whether every call of the process was recorded.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.lost == Some(0) && self.troubles.is_empty()
    }

    /// Whether a party of an error is a kernel, whose accesses were therefore seen.
    #[must_use]
    pub fn is_seen(&self, party: &Party) -> bool {
        matches!(party.kind, OpKind::Work(StreamWork::Kernel)) && party.label != COPIES_OF_GRAPH
    }

    /// The stack of calls of a party of a finding, if it was recorded.
    #[must_use]
    pub fn stack(&self, party: &Party) -> Option<&Stack> {
        self.stacks.get(&party.op)
    }

    /// The origin of the allocation of a finding: its size, the function that made it, and the
    /// caller. `None` for memory that the driver did not allocate.
    #[must_use]
    pub fn origin(&self, finding: &Finding) -> Option<&str> {
        self.origins.get(&finding.block?).map(String::as_str)
    }
}

/// The classes of findings that the calls of a program can show. Memory may have been written by
/// kernels, by the host and by other processes, so nothing is told about memory without content.
fn is_told(class: FindingClass) -> bool {
    matches!(
        class,
        FindingClass::Race(_)
            | FindingClass::Host(_)
            | FindingClass::UseBeforeAlloc
            | FindingClass::FreeRacesUse
            | FindingClass::UseAfterFree
            | FindingClass::DoubleFree
            | FindingClass::FreeInFlight
    )
}

/// The classes of possible findings: a kernel may have an address that it never uses, so an address
/// of memory that was freed proves nothing.
fn is_possible(class: FindingClass) -> bool {
    matches!(
        class,
        FindingClass::Race(_) | FindingClass::UseBeforeAlloc | FindingClass::FreeRacesUse
    )
}

/// Checks the calls in a file, which may have several processes.
///
/// # Errors
/// The file is no call file, or contradicts itself.
pub fn judge(bytes: &[u8], assume: Assume) -> Result<Vec<Judged>, FileError> {
    let (mut all, mut rest) = (Vec::new(), bytes);
    loop {
        let judged = CallFile::new(rest).and_then(|file| process(file, assume));
        let before = bytes.len() - rest.len();
        let (judged, after) =
            judged.map_err(|error| FileError { at: error.at + before, ..error })?;
        all.push(judged);
        rest = after;
        if rest.is_empty() {
            return Ok(all);
        }
    }
}

/// Checks the calls of a process. Returns the bytes after them.
fn process(file: CallFile<'_>, assume: Assume) -> Result<(Judged, &[u8]), FileError> {
    let mut seen = SeenAccesses::default();
    file.entries(|entry| seen.read(&entry))?;
    let mut checked = CheckedCalls::new(assume, seen);
    let after = file.entries(|entry| checked.read(&entry))?;
    Ok((checked.finish(file.process, assume, 0), after))
}

/// The state after some blocks of a file.
#[derive(Debug, Clone)]
pub(crate) struct CheckedCalls {
    reader: CallReader,
    /// The checker of what calls declare.
    declared: Checker,
    /// The checker that also knows what calls may access.
    possible: Checker,
    /// The checkers of the insides of graphs.
    graphs: GraphChecker,
    /// The stack of each entry of the ledger.
    stacks: Vec<Option<CallStack>>,
    /// The last entry from which the host may learn how far a stream is.
    teller: Option<u64>,
    /// That entry at each access of the host.
    tellers: HashMap<u64, u64>,
    /// The frames of each stack.
    frames: HashMap<u32, Vec<String>>,
    troubles: Vec<String>,
    command: String,
    lost: Option<u64>,
}

impl CheckedCalls {
    pub(crate) fn new(assume: Assume, seen: SeenAccesses) -> Self {
        let options = CheckOptions::new().assume(assume).findings_max(FINDINGS_MAX);
        Self {
            reader: CallReader::new(assume == Assume::DriverObserved, seen),
            declared: Checker::new(options.clone()),
            possible: Checker::new(options),
            graphs: GraphChecker::default(),
            stacks: Vec::new(),
            teller: None,
            tellers: HashMap::new(),
            frames: HashMap::new(),
            troubles: Vec::new(),
            command: String::new(),
            lost: None,
        }
    }

    /// The number of entries of the ledger.
    pub(crate) fn entries(&self) -> u64 {
        self.stacks.len() as u64
    }

    /// The number of findings so far, of all levels.
    pub(crate) fn found(&self) -> usize {
        self.declared.found() + self.possible.found() + self.graphs.found()
    }

    pub(crate) fn troubles(&self) -> &[String] {
        &self.troubles
    }

    pub(crate) fn calls(&self) -> u64 {
        self.reader.counts.calls
    }

    /// Notes the accesses of kernels, which must precede the calls of these kernels.
    pub(crate) fn note_accesses(&mut self, entry: &Entry<'_>) {
        self.reader.note_accesses(entry);
    }

    /// Whether accesses of the launches of a call are still to come.
    pub(crate) fn waits_for(&self, launches: CallLaunches) -> bool {
        self.reader.waits_for(launches)
    }

    pub(crate) fn read(&mut self, entry: &Entry<'_>) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        match *entry {
            Entry::Stack { number, lines } => {
                self.frames.insert(number, frames(lines));
            }
            Entry::Command(words) => self.command = readable_name(&text(words)),
            Entry::Trouble(words) => self.troubles.push(readable_name(&text(words))),
            Entry::End { lost } => self.lost = Some(lost),
            Entry::Function { .. } | Entry::Context { .. } | Entry::Kernel { .. } => {}
            Entry::Call(_) | Entry::Launch { .. } | Entry::Access { .. } | Entry::Time { .. } => {}
            Entry::Launches(_) | Entry::Touched { .. } => {}
        }
        let Self { reader, declared, possible, graphs, stacks, teller, tellers, .. } = self;
        reader.read(entry, &mut |step: Step| {
            let number = stacks.len() as u64;
            stacks.push(step.stack);
            if step.part != LedgerPart::Program {
                declared.skip(1);
                possible.skip(1);
                return graphs.push(step, number);
            }
            graphs.end();
            let Step { mut op, possible: may, .. } = step;
            if let (OpKind::Host(HostStep::Access), Some(teller)) = (&op.kind, *teller) {
                tellers.insert(number, teller);
            }
            declared.push(&op);
            if !may.is_empty() {
                op.accesses.extend(may);
                op.declared = Declared::All;
            }
            possible.push(&op);
        });
        if std::mem::take(&mut reader.may_tell) {
            *teller = (stacks.len() as u64).checked_sub(1).or(*teller);
        }
    }

    /// The stack of an entry.
    fn stack(&self, party: &Party) -> Option<Stack> {
        let entry = usize::try_from(party.op).ok()?;
        let CallStack { number, is_of_first_launch } = self.stacks.get(entry).copied()??;
        let frames = self.frames.get(&number)?.clone();
        Some(Stack { frames, is_of_first_launch })
    }

    /// The verdict, with the findings whose second entry is `since` or a later one.
    pub(crate) fn finish(mut self, process: u32, assume: Assume, since: u64) -> Judged {
        let empty = || Checker::new(CheckOptions::new());
        let mut sure = std::mem::replace(&mut self.declared, empty()).finish();
        let mut further = std::mem::replace(&mut self.possible, empty()).finish().findings;
        let inside = std::mem::take(&mut self.graphs).finish();
        sure.findings.extend(inside.declared);
        sure.more += inside.more;
        further.extend(inside.possible);
        let is_new = |one: &Finding| one.second.op >= since;
        let told = sure.findings.into_iter().filter(|one| is_told(one.class) && is_new(one));
        let is_doubtful = |one: &Finding| self.may_be_told(one) || self.may_be_ordered(one);
        let (doubtful, errors): (Vec<_>, Vec<_>) = told.partition(is_doubtful);
        let count = |class| errors.iter().filter(|one| one.class == class).count();
        let is_capped = sure.more > 0 && errors.iter().any(|one| count(one.class) >= FINDINGS_MAX);
        let is_known = |finding: &Finding| {
            let pair = |one: &Finding| (one.first.as_ref().map(|party| party.op), one.second.op);
            errors.iter().any(|one| pair(one) == pair(finding))
        };
        let is_further = |one: &Finding| is_possible(one.class) && !is_known(one);
        let is_other = |one: &Finding| is_further(one) && !is_doubtful(one) && is_new(one);
        let further = further.into_iter().filter(is_other);
        let possible = grouped(doubtful.iter().cloned().chain(further));
        let named: Vec<_> = errors.iter().chain(possible.iter().map(|one| &one.finding)).collect();
        let parties = named.iter().flat_map(|one| one.first.iter().chain([&one.second]));
        let stacks = parties.clone().filter_map(|one| Some((one.op, self.stack(one)?))).collect();
        let blocks: Vec<_> = named.iter().filter_map(|one| one.block).collect();
        let names = names(parties, &blocks, &self.reader);
        let origin = |block: &BlockId| Some((*block, self.origin(*block)?));
        let origins = blocks.iter().filter_map(origin).collect();
        let Counts {
            calls,
            kernels,
            seen_kernels,
            kernels_without_maps,
            kernels_without_addresses,
            graphs,
            seen_graphs,
            unknown_graphs,
            merged_graphs,
            value_waits,
        } = self.reader.counts;
        Judged {
            process,
            command: self.command,
            errors,
            more: sure.more,
            is_capped,
            possible,
            names,
            calls,
            kernels,
            seen_kernels,
            kernels_without_maps,
            kernels_without_addresses,
            graphs,
            seen_graphs,
            unknown_graphs,
            merged_graphs,
            value_waits,
            troubles: self.troubles,
            lost: self.lost,
            assume,
            stacks,
            origins,
        }
    }

    /// Whether the host may have learned from work after the first call that this call is complete,
    /// and then accessed the memory.
    fn may_be_told(&self, finding: &Finding) -> bool {
        let first = finding.first.as_ref().map(|party| party.op);
        let teller = self.tellers.get(&finding.second.op);
        first.zip(teller).is_some_and(|(first, teller)| first <= *teller)
    }

    /// Whether one of the calls is in a stream that has waited before for something that may come
    /// from any stream, at any later time.
    fn may_be_ordered(&self, finding: &Finding) -> bool {
        let waits = &self.reader.waits_for_any;
        finding.first.iter().chain([&finding.second]).any(|party| {
            let before = waits.get(&party.position.lane);
            !party.is_of_thread() && before.is_some_and(|before| party.position.seq > *before)
        })
    }

    /// The size of an allocation, the function that made it, and the caller.
    fn origin(&self, block: BlockId) -> Option<String> {
        let (bytes, function, stack) = self.reader.made.get(&block.0)?;
        let by = stack.and_then(|stack| self.frames.get(&stack)).and_then(|frames| frames.first());
        let by = by.map_or_else(String::new, |frame| format!(", called from {frame}"));
        Some(format!("{bytes} bytes by {}{by}", function.trim_end_matches("_v2")))
    }
}

/// The frames of a stack: `symbol in library+offset`, or the library alone.
fn frames(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let frame = |line: &str| match line.split_once('\t') {
        Some(("?", place)) => readable_name(place),
        Some((symbol, place)) => {
            format!("{} in {}", readable_name(symbol), readable_name(place))
        }
        None => readable_name(line),
    };
    text.lines().map(frame).collect()
}

/// The names of the allocations, and of the chains of graphs, in findings.
fn names<'a>(
    parties: impl Iterator<Item = &'a Party>,
    blocks: &[BlockId],
    reader: &CallReader,
) -> Names {
    let lanes = parties.map(|one| one.position.lane);
    let lanes = lanes.filter_map(|lane| Some((lane, chain_name(lane)?)));
    let name = |block: &BlockId| (*block, block_name(*block, reader));
    Names {
        lanes: lanes.collect(),
        blocks: blocks.iter().map(name).collect(),
        audience: Audience::User,
        ..Names::default()
    }
}

/// The name of an allocation in reports.
fn block_name(block: BlockId, reader: &CallReader) -> String {
    match reader.made.contains_key(&block.0) {
        true => format!("allocation {}", block.0),
        false => "memory that the driver did not allocate".to_owned(),
    }
}

/// One finding for all pairs with the same class, names and streams.
fn grouped(findings: impl Iterator<Item = Finding>) -> Vec<Possible> {
    let mut at: BTreeMap<_, usize> = BTreeMap::new();
    let mut all: Vec<Possible> = Vec::new();
    for finding in findings {
        let party = |one: &Party| (one.label.to_string(), one.position.lane.0);
        let first = finding.first.as_ref().map(party);
        let key = (finding.class.code(), first, party(&finding.second));
        match at.get(&key) {
            Some(place) => all[*place].pairs += 1,
            None => {
                at.insert(key, all.len());
                all.push(Possible { finding, pairs: 1 });
            }
        }
    }
    all
}
