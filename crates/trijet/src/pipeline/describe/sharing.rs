//! How the runs on one device share its copy engines.
#![forbid(unsafe_code)]

/// How a run shares its device with other runs.
///
/// If one stream keeps a copy engine busy, the copies of another stream may wait for a long time.
/// On an H200, a copy of 64 KiB waited 21 ms beside a bulk job. Priorities of streams do not
/// shorten this time. So all runs with [`Latency`](Self::Latency) and [`Bulk`](Self::Bulk) on one
/// device use the same stream for uploads and the same stream for downloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sharing {
    /// The run uses its own streams for all its work.
    #[default]
    Alone,
    /// A small job that should end soon. Its kernels have the highest priority. The job shares a
    /// device best if it works [in place](crate::pipeline::Schedule::InPlace): its kernels then
    /// move the data themselves, so no copy waits in a shared stream. A
    /// [prepared](crate::Pipeline::prepare) job chooses this schedule if it is the fastest
    /// schedule. Otherwise the job copies in the shared streams, after at most two copies of each
    /// bulk run in each direction.
    Latency,
    /// A large job that leaves time for small jobs. It copies in the shared streams, with at most
    /// two enqueued copies in each direction. While a job with [`Latency`](Self::Latency) copies in
    /// these streams, copies of the large job have at most 1 MiB, so the link is slower. The
    /// enqueuing thread waits for the copies.
    Bulk,
}
