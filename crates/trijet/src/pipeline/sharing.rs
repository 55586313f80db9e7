//! How runs on one device share its copy engines.
#![forbid(unsafe_code)]

/// What a run is among the other runs on its device.
///
/// A copy engine that one stream keeps busy may let the copies of another stream wait for a long time:
/// 21 ms for 64 KiB beside a bulk job on an H200. Priorities of streams do not change that. So runs with [`Latency`](Self::Latency) and
/// [`Bulk`](Self::Bulk) on one device share a stream for uploads and one for downloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sharing {
    /// The run has streams of its own for all its work.
    #[default]
    Alone,
    /// A small job that should end soon. Its kernels have the highest priority. It is best beside
    /// others when it works [in place](super::Schedule::InPlace), since its kernels then copy; a
    /// [prepared](super::Pipeline::prepare) job chooses that by itself if it is the fastest way. Otherwise
    /// it copies in the shared streams, behind at most two copies of each bulk run in each direction.
    Latency,
    /// A large job that leaves room for small ones. It copies in the shared streams, with at most two
    /// copies under way in each direction. While a job with [`Latency`](Self::Latency) copies in
    /// these streams, no copy of the large one is larger than 1 MiB, so the link is slower then. The
    /// thread that enqueues waits for its copies.
    Bulk,
}
