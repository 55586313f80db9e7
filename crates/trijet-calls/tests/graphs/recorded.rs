//! The verdicts about the programs of `graph_order.cu`, from the calls that were recorded on a GPU.

use std::path::Path;
use trijet_calls::judge;
use trijet_ledger::check::Assume;

/// The name of each program, and the numbers of its errors and of its possible conflicts.
const PROGRAMS: [(&str, usize, usize); 6] = [
    ("captured_missing", 1, 0),
    ("captured_ordered", 0, 0),
    ("captured_kernels_missing", 0, 1),
    ("captured_kernels_ordered", 0, 0),
    ("explicit_missing", 1, 0),
    ("explicit_ordered", 0, 0),
];

#[test]
fn graphs_on_a_gpu_have_the_verdicts_of_their_edges() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/graphs");
    for (name, errors, possible) in PROGRAMS {
        let bytes = std::fs::read(folder.join(format!("{name}.calls"))).unwrap();
        let all = judge(&bytes, Assume::DriverObserved).unwrap();
        assert_eq!(all.len(), 1, "{name}");
        let one = &all[0];
        assert!(one.is_whole(), "{name}: {:?}", one.troubles);
        assert_eq!((one.errors.len(), one.possible.len()), (errors, possible), "{name}");
        assert_eq!((one.graphs, one.merged_graphs), (3, 0), "{name}");
        let parties = one.errors.iter().flat_map(|one| one.first.iter().chain([&one.second]));
        assert!(parties.into_iter().all(|party| one.stack(party).is_some()), "{name}");
    }
}
