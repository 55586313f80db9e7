//! The comparison of a ledger with an earlier one: findings, operations, waits and bytes.
//!
//! A finding is the same in both if its class and both of its calls are: their names and lines. It
//! needs no GPU: a run on a host device has the ledger of the same calls.
#![forbid(unsafe_code)]

use crate::against::{Answers, Condition, Figure, LedgerMetric, MetricUnit};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use trijet::check::{Finding, Party, Verdict};
use trijet::trace::{HostStep, MemoryCall, Op, OpKind, StreamMark, StreamWork};
use trijet_io::shown;

/// Counts of the entries of a ledger.
#[derive(Debug, Default)]
pub(super) struct EntryCounts {
    /// The operations by kind: their number and their bytes.
    kinds: BTreeMap<&'static str, [u64; 2]>,
    waits: u64,
}

impl EntryCounts {
    pub(super) fn add(&mut self, op: &Op) {
        let kind = match op.kind {
            OpKind::Work(work) => match work {
                StreamWork::Alloc => "allocation",
                StreamWork::Free => "free",
                StreamWork::Copy | StreamWork::CopyNow => "copy",
                StreamWork::Batch(_) => "batch of copies",
                StreamWork::Fill | StreamWork::FillNow => "fill",
                StreamWork::Kernel => "kernel",
                StreamWork::HostFn => "host function",
                _ => "other operation",
            },
            OpKind::Memory(MemoryCall::AllocNow) => "allocation",
            OpKind::Memory(MemoryCall::FreeNow) => "free",
            OpKind::Mark(StreamMark::Wait { .. }) | OpKind::Host(HostStep::Sync { .. }) => {
                self.waits += 1;
                return;
            }
            _ => return,
        };
        let [count, bytes] = self.kinds.entry(kind).or_default();
        *count += 1;
        *bytes = bytes.saturating_add(op.bytes);
    }

    fn sum(&self, place: usize) -> u64 {
        self.kinds.values().map(|numbers| numbers[place]).sum()
    }
}

/// The words that name a finding in every run.
fn key(finding: &Finding) -> String {
    let call = |party: &Party| {
        let site = party.site.as_ref();
        let at = site.map_or(String::new(), |site| format!(" at {site}"));
        format!("{}{at}", party.label)
    };
    let first = finding.first.as_ref().map_or_else(|| "?".to_owned(), call);
    format!("{}: {first} | {}", finding.class.code(), call(&finding.second))
}

/// A checked ledger, as far as it is compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct ComparedLedger<'a> {
    pub(super) verdict: &'a Verdict,
    pub(super) counts: &'a EntryCounts,
    /// Whether the ledger has all entries. The counts of a part of a run answer nothing.
    pub(super) is_whole: bool,
}

/// The findings of a ledger, each once.
fn keys(ledger: ComparedLedger<'_>) -> BTreeSet<String> {
    ledger.verdict.findings.iter().map(key).collect()
}

/// A comparison with the answers of its conditions.
#[derive(Debug)]
pub(super) struct LedgerComparison {
    base: String,
    new: Vec<String>,
    gone: Vec<String>,
    /// The counts of kinds that differ, of both runs.
    kinds: BTreeMap<&'static str, [[u64; 2]; 2]>,
    waits: Figure,
    operations: Figure,
    bytes: Figure,
    answers: Answers,
}

impl LedgerComparison {
    /// Compares a checked ledger with the base at `path`.
    pub(super) fn of(
        path: &Path,
        conditions: &[Condition<LedgerMetric>],
        both: [ComparedLedger<'_>; 2],
    ) -> Self {
        let [old, new] = both.map(keys);
        let figure = |of: &dyn Fn(ComparedLedger<'_>) -> u64| {
            let [base, now] = both.map(|one| one.is_whole.then(|| of(one) as f64));
            Figure { base, now }
        };
        let waits = figure(&|one| one.counts.waits);
        let operations = figure(&|one| one.counts.sum(0));
        let bytes = figure(&|one| one.counts.sum(1));
        let findings = figure(&|one| one.verdict.findings.len() as u64 + one.verdict.more);
        let mut answers = Answers::default();
        for condition in conditions {
            let figure = match condition.metric() {
                LedgerMetric::Operations => operations,
                LedgerMetric::Waits => waits,
                LedgerMetric::Bytes => bytes,
                LedgerMetric::Findings => findings,
            };
            answers.add(condition, &[(String::new(), figure)]);
        }
        let names: BTreeSet<_> =
            both.iter().flat_map(|one| one.counts.kinds.keys().copied()).collect();
        let of = |name| both.map(|one| one.counts.kinds.get(name).copied().unwrap_or_default());
        let kinds = names.into_iter().map(|name| (name, of(name)));
        Self {
            base: shown(path).to_string(),
            new: new.difference(&old).cloned().collect(),
            gone: old.difference(&new).cloned().collect(),
            kinds: kinds.filter(|(_, [base, now])| base != now).collect(),
            waits,
            operations,
            bytes,
            answers,
        }
    }

    /// A failure if a condition failed.
    pub(super) fn exit_code(&self) -> ExitCode {
        if self.answers.is_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("against {}", self.base)];
        for (name, figure, unit) in [
            ("operations", self.operations, MetricUnit::Count),
            ("waits", self.waits, MetricUnit::Count),
            ("bytes", self.bytes, MetricUnit::Bytes),
        ] {
            lines.push(format!("  {name}: {}", figure.words(unit)));
        }
        for (name, [base, now]) in &self.kinds {
            let bytes = match base[1] == now[1] {
                true => String::new(),
                false => format!(", {} -> {} bytes", base[1], now[1]),
            };
            lines.push(format!("    {name}: {} -> {}{bytes}", base[0], now[0]));
        }
        lines.extend(self.new.iter().map(|key| format!("  new finding: {key}")));
        lines.extend(self.gone.iter().map(|key| format!("  finding that is gone: {key}")));
        lines.extend(self.answers.lines());
        lines
    }

    pub(super) fn json(&self) -> Value {
        let figure = |one: Figure| json!({ "base": one.base, "now": one.now });
        let kind = |(name, [base, now]): (&&str, &[[u64; 2]; 2])| {
            json!({
                "kind": name,
                "base_count": base[0],
                "now_count": now[0],
                "base_bytes": base[1],
                "now_bytes": now[1],
            })
        };
        json!({
            "base": self.base,
            "new_findings": self.new,
            "gone_findings": self.gone,
            "operations": figure(self.operations),
            "waits": figure(self.waits),
            "moved": figure(self.bytes),
            "changed": self.kinds.iter().map(kind).collect::<Vec<_>>(),
            "conditions": self.answers.json(),
            "failed": self.answers.is_failed(),
        })
    }
}
