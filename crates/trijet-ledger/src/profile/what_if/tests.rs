//! Random ledgers with changes and the conflicts that the checker finds, for the script of the
//! page.
//!
//! With `TRIJET_ORDER_CASES`, a file name, the test writes them as a page, which `cargo xtask
//! browser` opens: there the script must find the same conflicts.
#![forbid(unsafe_code)]

use super::order::{OrderNames, add_order, facts};
use crate::base::prng::Prng;
use crate::check::coded::CodedLedger;
use crate::check::coded::judge::CodedChanges;
use crate::check::coded::tests::{Drawn, FoundPairs, draw_changes, found};
use crate::trace::html::{Columns, UNPACK};
use serde_json::{Value, json};
use std::fs;

/// Adds the changes and the conflicts to a case.
fn case(ledger: &CodedLedger, changes: &CodedChanges, pairs: &FoundPairs) -> Value {
    let entry = |at: usize| ledger.entries.partition_point(|entry| entry.at < at);
    let block = |id| ledger.blocks.iter().position(|(block, _)| *block == id);
    let pairs = pairs.iter().map(|((first, second, id), bytes)| {
        let (begin, last) = (bytes.first(), bytes.last().map(|last| last + 1));
        json!([entry(*first), entry(*second), block(*id), begin, last])
    });
    json!({
        "skipped": changes.skipped.iter().map(|one| u8::from(*one)).collect::<Vec<_>>(),
        "laneOf": changes.lanes,
        "locked": changes.locked.iter().map(|one| u8::from(*one)).collect::<Vec<_>>(),
        "device": changes.device,
        "pairs": pairs.collect::<Vec<_>>(),
    })
}

/// A ledger with its columns, and some changes with the conflicts that the checker finds.
fn ledger_case(seed: u64) -> Option<(Value, usize)> {
    let ops = Drawn::ledger(seed, 30 + usize::try_from(seed % 60).expect("small"));
    let ledger = CodedLedger::of(&ops).ok()?;
    let mut columns = Columns::default();
    add_order(&mut columns, &ledger);
    let (heads, packed) = columns.finish();
    let rows = vec![0; ledger.lanes.len()];
    let names = OrderNames { labels: &[], rows: &rows, blocks: &[] };
    let heads: Value = serde_json::from_str(&format!("[{heads}]")).expect("JSON");
    let facts: Value =
        serde_json::from_str(&format!("{{{}}}", facts(&ledger, &names))).expect("JSON");
    let before = found(&ops, &[]);
    let mut cases = vec![case(&ledger, &CodedChanges::none(&ledger), &before)];
    let (mut prng, mut caused) = (Prng::new(seed + 1_000_000), 0);
    for _ in 0..5 {
        let (changes, coded) = draw_changes(&ledger, &mut prng);
        let pairs = found(&ops, &changes);
        caused += pairs.keys().filter(|pair| !before.contains_key(pair)).count();
        cases.push(case(&ledger, &coded, &pairs));
    }
    let case = json!({ "columns": heads, "packed": packed, "facts": facts, "cases": cases });
    Some((case, caused))
}

#[test]
fn changes_of_random_ledgers_cause_conflicts_that_the_script_must_find() {
    let all: Vec<(Value, usize)> = (0..400).filter_map(ledger_case).collect();
    let caused: usize = all.iter().map(|(_, caused)| caused).sum();
    assert!(all.len() > 200 && caused > 500, "{} ledgers, {caused} conflicts", all.len());
    let Some(file) = std::env::var_os("TRIJET_ORDER_CASES") else { return };
    let cases = Value::from(all.into_iter().map(|(case, _)| case).collect::<Vec<_>>());
    let script = [UNPACK, include_str!("order.js")].concat();
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><title>orders</title></head><body>\
         <script id=\"data\" type=\"application/json\">{cases}</script><script>\n\
         window.casesReady = (async () => {{\n'use strict';\n{script}\n\
         const cases = JSON.parse(document.getElementById('data').textContent);\n\
         return {{ cases, makeJudge, unpack: async one => unpacked(await inflated(one.packed, document.body), one.columns) }};\n\
         }})();\n</script></body></html>"
    );
    fs::write(&file, page).expect("the page of the cases is written");
}
