//! Programs for workers with known answers. The programs are examples of bodies, and the workloads
//! of tests and benchmarks.
//!
//! Each folder has the bodies of a program in CUDA C++, the same bodies for the host device, and a
//! function that computes the answer. On a GPU, the run-time compiler of CUDA (NVRTC) compiles a
//! program when it first runs.

#![expect(
    clippy::cast_possible_truncation,
    reason = "a payload holds numbers of fewer bits, as the kernels take them"
)]

pub mod attention;
pub mod echo;
pub mod experts;
pub mod layered;
pub mod lengths;
pub mod mandelbrot;
mod mix;
pub mod pair;
mod part;
pub mod rows;
pub mod search;
pub mod tree;
pub mod vectors;

pub use mix::mix;

/// The name and the source of each program, for tools that compile all programs.
#[must_use]
pub fn sources() -> Vec<(&'static str, String)> {
    vec![
        (attention::ATTENTION.name(), attention::ATTENTION.source()),
        (echo::ECHO.name(), echo::ECHO.source()),
        (experts::EXPERTS.name(), experts::EXPERTS.source()),
        (layered::LAYERED.name(), layered::LAYERED.source()),
        (lengths::LENGTHS.name(), lengths::LENGTHS.source()),
        (mandelbrot::MANDELBROT.name(), mandelbrot::MANDELBROT.source()),
        (pair::PAIR.name(), pair::PAIR.source()),
        (rows::ROWS.name(), rows::ROWS.source()),
        (search::SEARCH.name(), search::SEARCH.source()),
        (tree::TREE.name(), tree::TREE.source()),
        (vectors::VECTORS.name(), vectors::VECTORS.source()),
    ]
}
