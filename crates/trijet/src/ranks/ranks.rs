//! Processes that work together. The loss of one process is an error on each other process.
#![forbid(unsafe_code)]

use super::group::{BEAT, Group};
use super::join::{ProcessRank, join};
use super::token::Token;
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::fork;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of bytes per [`Ranks::broadcast`].
const BROADCAST_BYTES_MAX: usize = 32 << 10;

/// A group of processes, which are called ranks. TCP connections connect them to rank 0.
///
/// All ranks make the same calls in the same order. If a rank ends, freezes or comes too late, each
/// other rank gets an error of kind [`PeerLost`](ErrorKind::PeerLost) that names the lost rank. No
/// call waits much longer than the timeout. The end of a process closes its connections, so the
/// other ranks notice the end at once. A process that freezes or cannot be reached sends no
/// heartbeats, so the other ranks notice this after the timeout. After the first loss of a rank,
/// each later call returns the error of this loss. A rank that drops the group leaves the group
/// without a loss. After its drop, rank 0 passes messages on until the other ranks have left or the
/// process of rank 0 ends.
///
/// A process that joins proves that it has the token of the job ([`Ranks::join_with_token`],
/// [`LauncherRank`](super::LauncherRank)). The token itself is not sent. Later bytes are neither
/// encrypted nor authenticated, so use ranks only in a network that you trust. Rank 0 listens at
/// its address until all ranks have joined, and at no other address. In a child of `fork`, each
/// call sends nothing, and returns an error of kind [`Forked`](ErrorKind::Forked).
///
/// ```
/// use std::time::Duration;
/// use trijet::ranks::Ranks;
/// let address = "127.0.0.1:29871";
/// // Threads stand for processes here.
/// let run = |rank| {
///     let ranks = Ranks::join(rank, 3, address, Duration::from_secs(60))?;
///     let name = if rank == 0 { "a name".as_bytes() } else { &[] };
///     assert_eq!(ranks.broadcast(name)?, b"a name");
///     ranks.agree("the number of steps", 100)?;
///     ranks.barrier()
/// };
/// std::thread::scope(|scope| {
///     let threads = [0, 1, 2].map(|rank| scope.spawn(move || run(rank)));
///     threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
/// })?;
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug)]
pub struct Ranks(pub(crate) Arc<Group>);

fn refused(op: &'static str, cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause)
}

impl Ranks {
    /// Joins `count` processes without a token; this process has the rank `rank`. Any process that
    /// can connect to the address can join. `address` is a host and a port: rank 0 listens there,
    /// and the other ranks connect to it.
    ///
    /// The ranks may start in any order. Each rank waits for rank 0, and rank 0 waits for all other
    /// ranks, at most for the timeout. The same timeout holds for all later calls and for
    /// heartbeats.
    ///
    /// Rank 0 resolves the host name of `address`, and listens at the first address of this name
    /// that is its own. With `127.0.0.1`, only processes of the same host can reach rank 0. Rank 0
    /// drops connections that are not from a rank, such as probes. If a rank has not joined within
    /// the timeout, the error describes some of the dropped connections.
    ///
    /// # Errors
    /// `InvalidValue` for a rank that is not less than the number of ranks, and for a timeout of
    /// less than a second. `InvalidValue` on rank 0 if a rank joins twice or with another number of
    /// ranks. `PeerLost` on rank 0 if ranks are missing, with their numbers; and on the other
    /// ranks, with the error of rank 0. `Io` if rank 0 cannot listen at the address. `Forked` in a
    /// child of `fork`.
    pub fn join(rank: usize, count: usize, address: &str, timeout: Duration) -> Result<Self> {
        Self::with(ProcessRank { rank, count, timeout }, address, &Token::new(&[]))
    }

    /// Joins as [`Ranks::join`] does, but only with processes that have the same token. The token
    /// is any text that other processes do not know.
    ///
    /// # Errors
    /// As for [`Ranks::join`]; `PeerLost` if a process has another token, which rank 0 reports
    /// after the timeout.
    pub fn join_with_token(
        rank: usize,
        count: usize,
        address: &str,
        token: &[u8],
        timeout: Duration,
    ) -> Result<Self> {
        Self::with(ProcessRank { rank, count, timeout }, address, &Token::new(token))
    }

    pub(super) fn with(own: ProcessRank, address: &str, token: &Token) -> Result<Self> {
        const OP: &str = "join ranks";
        let ProcessRank { rank, count, timeout } = own;
        if rank >= count || u32::try_from(count).is_err() {
            let cause = format!("there is no rank {rank} of {count}: ranks are counted from 0");
            return Err(refused(OP, cause));
        }
        if timeout < 5 * BEAT {
            let least = 5 * BEAT;
            return Err(refused(
                OP,
                format!("the timeout of {timeout:?} is too short; the shortest is {least:?}"),
            ));
        }
        fork::refuse(OP)?;
        Group::start(own, join(own, address, token)?).map(Self)
    }

    /// The rank of this process, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.own.rank
    }

    /// The number of processes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.own.count
    }

    /// Maximum time without a heartbeat of a rank, and maximum time that a rank may be late for a
    /// call.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.0.own.timeout
    }

    /// The error of the first loss of a rank. `None` until this process knows of a loss.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.0.failure()
    }

    /// Returns the bytes of rank 0 on all ranks. The bytes of the other ranks are not used.
    ///
    /// # Errors
    /// `InvalidValue` for more than 32 KiB, and if another rank makes another call; `PeerLost`.
    pub fn broadcast(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let len = bytes.len();
        if len > BROADCAST_BYTES_MAX {
            let cause = format!("{len} bytes are too many; the limit is {BROADCAST_BYTES_MAX}");
            return Err(refused("broadcast", cause));
        }
        self.0.call("broadcast", 0, if self.rank() == 0 { bytes } else { &[] })
    }

    /// Gathers the bytes of all ranks, in the order of the ranks.
    ///
    /// # Errors
    /// `InvalidValue` if another rank makes another call; `PeerLost`.
    pub fn gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        const CHANNEL: u64 = 0;
        self.0.call("gather", 0, &[])?;
        for rank in 0..self.count() {
            self.0.post(rank, CHANNEL, bytes)?;
        }
        (0..self.count()).map(|rank| self.0.take(rank, CHANNEL)).collect()
    }

    /// Demands that all ranks pass the same value. `what` names the value in the error.
    ///
    /// # Errors
    /// `InvalidValue` on all ranks if two values differ: the error has both values and a rank.
    /// `InvalidValue` if another rank makes another call, or if `what` has more than 1024 bytes.
    /// The group stays usable after these errors. `PeerLost`.
    pub fn agree(&self, what: &str, value: u64) -> Result<()> {
        const NAME_BYTES_MAX: usize = 1024;
        if what.len() > NAME_BYTES_MAX {
            let cause = format!("the name has {} bytes; the limit is {NAME_BYTES_MAX}", what.len());
            return Err(refused("agree", cause));
        }
        self.0.call(what, value, &[]).map(drop)
    }

    /// Waits until all ranks have made the call.
    ///
    /// # Errors
    /// `InvalidValue` if another rank makes another call; `PeerLost`.
    pub fn barrier(&self) -> Result<()> {
        self.0.call("barrier", 0, &[]).map(drop)
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.0.close();
    }
}
