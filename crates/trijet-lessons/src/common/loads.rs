//! Loads for workers: tasks of equal length, tasks whose lengths differ, and tasks that make tasks.
#![forbid(unsafe_code)]

use super::boards::boards;
use super::ground::source;
use trijet::workers::{WorkerReport, WorkerTask};

/// The number of equal tasks, and of sequences.
const TASKS: usize = 31 * 64;
/// The further columns of the board of each expert. The first expert has most of the work.
const EXPERTS: [u8; 8] = [3, 2, 2, 1, 1, 1, 0, 0];

/// Boards on which workers place queens.
pub(crate) struct TaskLoad {
    pub(crate) name: &'static str,
    pub(crate) tasks: Vec<WorkerTask>,
    /// Boards with fewer queens than this become tasks of their own.
    pub(crate) cut: u32,
    /// The number of ways that the tasks must find.
    pub(crate) ways: u64,
    /// The reports of the workers of the last run.
    pub(crate) workers: Vec<WorkerReport>,
}

/// The further columns of the board of a sequence. Of 64 sequences, about 44 have none, 16 have
/// one, 3 have two, and 1 has three.
fn drawn(task: usize) -> u8 {
    [20, 4, 1].into_iter().map(|below| u8::from(source(task) % 64 < below)).sum()
}

/// Three loads whose smallest board has `least` columns. With each further column, a board has
/// about five times the work. Each expert makes tasks of its own, as many as its board needs, as an
/// expert of a model makes tasks of its tokens.
pub(crate) fn loads(least: u8) -> [TaskLoad; 3] {
    let load = |name, columns: Vec<u8>, cut| {
        let (tasks, ways) = boards(columns.into_iter());
        TaskLoad { name, tasks, cut, ways, workers: Vec::new() }
    };
    let sequences = (0..TASKS).map(|task| least + drawn(task)).collect();
    [
        load("equal tasks", vec![least + 1; TASKS], 0),
        load("sequences", sequences, 0),
        load("experts", EXPERTS.map(|more| least + more).to_vec(), 2),
    ]
}

#[cfg(test)]
mod tests {
    use super::{TASKS, drawn};

    #[test]
    fn longer_sequences_are_fewer() {
        let counts = [0, 1, 2, 3].map(|more| (0..TASKS).filter(|at| drawn(*at) == more).count());
        assert!(counts.is_sorted_by(|more, fewer| *more > 2 * fewer), "{counts:?}");
        assert!(counts[3] > 0 && counts.iter().sum::<usize>() == TASKS, "{counts:?}");
    }
}
