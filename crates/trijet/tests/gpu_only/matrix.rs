//! The matrix of contexts on a GPU.

#[path = "../matrix/mod.rs"]
mod cells;

#[test]
fn every_verb_has_the_answer_of_the_laws_in_every_context() {
    let _alone = crate::alone();
    cells::demand("gpu_only::matrix::cells_of_a_context", cells::Open::Cuda);
}

/// Runs the cells of a context, in a process that the test above starts.
#[test]
#[ignore = "run in processes of their own by every_verb_has_the_answer_of_the_laws_in_every_context"]
fn cells_of_a_context() {
    cells::run_cells();
}
