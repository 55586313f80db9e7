//! The model of a run with chunks: upload, compute and download, with a ring of slots.
//!
//! The tuning of a pipeline chooses a chunk size with it, and the page that answers what if
//! computes the time of another chunk size and depth.
#![forbid(unsafe_code)]

/// The cost of one engine in nanoseconds: per chunk, and per row or byte.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostLine {
    /// The time of a chunk that does not depend on its size.
    pub fixed: f64,
    /// The time of a row or of a byte.
    pub row: f64,
}

impl CostLine {
    /// The line through two measurements of (rows, nanoseconds).
    #[must_use]
    pub fn through(a: (u64, u64), b: (u64, u64)) -> Self {
        let rows = (b.0 as f64 - a.0 as f64).max(1.0);
        let row = ((b.1 as f64 - a.1 as f64) / rows).max(0.0);
        Self { fixed: (a.1 as f64 - row * a.0 as f64).max(0.0), row }
    }
}

/// The model of a run: upload, compute, download.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RingModel {
    /// The costs of the three engines.
    pub lines: [CostLine; 3],
    /// The time in nanoseconds between two dependent operations of different streams.
    pub gap: f64,
}

impl RingModel {
    /// The time in nanoseconds of a run with `depth` slots. `sizes` has the rows of each chunk.
    /// Each stage of a chunk waits for the previous chunk in the stream of the stage, for the
    /// previous stage of the same chunk, and for the slot of the chunk.
    #[must_use]
    pub fn time(&self, sizes: &[u64], depth: usize) -> f64 {
        let mut ends = vec![[0.0f64; 3]; sizes.len()];
        for (k, rows) in sizes.iter().enumerate() {
            let last = if k > 0 { ends[k - 1] } else { [0.0; 3] };
            let slot = if k >= depth { ends[k - depth] } else { [0.0; 3] };
            let time = |line: CostLine| line.fixed + self.gap + line.row * *rows as f64;
            let [up, compute, down] = self.lines.map(time);
            let up = last[0].max(slot[1]) + up;
            let compute = last[1].max(up).max(slot[2]) + compute;
            let down = last[2].max(compute) + down;
            ends[k] = [up, compute, down];
        }
        ends.last().map_or(0.0, |end| end[2])
    }
}
