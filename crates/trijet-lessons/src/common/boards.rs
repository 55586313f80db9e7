//! Tasks for workers with a known answer: boards on which queens are placed.
#![forbid(unsafe_code)]

use trijet::workers::WorkerTask;
use trijet::workers::queens::root;

/// The number of ways to place n queens on n columns (sequence A000170 of the OEIS).
const WAYS: [u64; 12] = [1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680];

/// The tasks for boards with these numbers of columns, and the number of ways that all tasks find
/// together.
pub(crate) fn boards(columns: impl Iterator<Item = u8>) -> (Vec<WorkerTask>, u64) {
    let (mut tasks, mut ways) = (Vec::new(), 0);
    for columns in columns {
        tasks.push(root(columns));
        ways += WAYS[usize::from(columns)];
    }
    (tasks, ways)
}
