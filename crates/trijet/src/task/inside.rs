//! The `Tasks` whose functions the calling thread runs, one within another.
#![forbid(unsafe_code)]

use std::cell::Cell;

/// Maximum number of ids that are stored. A thread with more ids counts as a thread that runs
/// functions of all `Tasks`, so it may not wait for any task.
const DEPTH_MAX: usize = 8;

/// The ids of the `Tasks` whose functions the calling thread runs, outermost first, each id once.
/// The type has no destructor, so that the value still exists in destructors of other thread-local
/// values.
#[derive(Clone, Copy)]
struct Inside {
    all: [u64; DEPTH_MAX],
    depth: usize,
}

thread_local! {
    static INSIDE: Cell<Inside> = const { Cell::new(Inside { all: [0; DEPTH_MAX], depth: 0 }) };
}

/// Whether the calling thread runs a function of the `Tasks` with the id `tasks`, directly or
/// within functions of other `Tasks`.
pub(super) fn is_inside(tasks: u64) -> bool {
    let Inside { all, depth } = INSIDE.get();
    all.get(..depth).is_none_or(|all| all.contains(&tasks))
}

/// Runs a function of the `Tasks` with the id `tasks`.
pub(super) fn within<R>(tasks: u64, run: impl FnOnce() -> R) -> R {
    /// Restores the outer value even after a panic.
    struct Outer(Inside);
    impl Drop for Outer {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let outer = Outer(INSIDE.get());
    if !is_inside(tasks) {
        let Inside { mut all, depth } = outer.0;
        if let Some(next) = all.get_mut(depth) {
            *next = tasks;
        }
        INSIDE.set(Inside { all, depth: depth + 1 });
    }
    run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_inside_all_tasks_whose_functions_it_runs_at_any_depth() {
        fn nest(tasks: u64) {
            assert!((1..tasks).all(is_inside), "depth {tasks}");
            if tasks < 2 * DEPTH_MAX as u64 {
                within(tasks, || nest(tasks + 1));
            }
            assert!((1..tasks).all(is_inside), "depth {tasks} again");
        }
        nest(1);
        within(7, || within(8, || within(7, || assert!(is_inside(8) && !is_inside(9)))));
        assert!(!(1..20).any(is_inside));
    }
}
