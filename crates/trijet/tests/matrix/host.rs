//! The matrix on host devices.

#[path = "mod.rs"]
mod cells;

#[test]
fn every_verb_has_the_answer_of_the_laws_in_every_context() {
    cells::demand("matrix::cells_of_a_context", cells::Open::Host);
}

/// Runs the cells of a context, in a process that the test above starts.
#[test]
#[ignore = "run in processes of their own by every_verb_has_the_answer_of_the_laws_in_every_context"]
fn cells_of_a_context() {
    cells::run_cells();
}
