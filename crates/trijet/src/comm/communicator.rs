//! Communicators: devices of one process, or of several processes, that exchange data.
#![forbid(unsafe_code)]

use super::mail::Mail;
use super::member::Member;
use super::nccl::Nccl;
use super::team::Team;
use crate::base::error::{Error, ErrorKind, Result};
use crate::graph::Recording;
use crate::log::calling;
use crate::ranks::Ranks;
use crate::ranks::frames::Frame;
use crate::ranks::group::Group;
use crate::ranks::join::ProcessRank;
use crate::ranks::steps::Step;
use crate::stream::Device;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Devices that exchange data: all in this process, or one device of each process of a group.
///
/// Each device has a rank, counted from 0. The communicator keeps a clone of each device of this
/// process. Several threads may use a communicator: all devices run the operations of the calls in
/// the same order.
///
/// All processes must make the same calls in the same order: each call has the same collective, the
/// same number and type of elements, the same combination and the same root. Each process describes
/// its call to rank 0. If two calls differ, the group ends, and the error names both calls and
/// their ranks. Without NCCL, a call moves no data before all ranks agree. NCCL does not wait for
/// this agreement, so a difference may be found after the work has run. The results are certain to
/// be right once a later call that waits has succeeded, such as [`Communicator::close`].
///
/// The group also ends if a rank ends, freezes, or comes too late ([`Ranks`]). The devices of NCCL
/// communicators are then lost ([`ErrorKind::PeerLost`]). Pending work ends early, and each wait
/// for this work returns an error. Host functions that were enqueued after this work do not run. So
/// a program never uses a result that lacks the part of a rank.
#[derive(Debug)]
pub struct Communicator {
    members: Vec<Member>,
    /// The rank of the first device of this process.
    first: usize,
    /// The number of ranks.
    count: usize,
    /// The connection to the other processes; `None` within one process.
    mail: Option<Mail>,
    /// NCCL. `None` if the communicator uses the copies and kernels of this library.
    pub(super) nccl: Option<Arc<Nccl>>,
    /// The number of collectives so far.
    called: AtomicU64,
    /// The number of splits so far.
    splits: AtomicU64,
}

pub(super) fn refused(op: &'static str, cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause)
}

/// Returns a hash of two numbers as the number of a channel. So each pair of numbers has its own
/// channel.
fn mixed(a: u64, b: u64) -> u64 {
    let mixed = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if let Some(mail) = &self.mail {
            mail.group.0.announce(Frame::Leave(mail.channel));
        }
        let Some(nccl) = self.nccl.take() else { return };
        if self.mail.is_some() {
            nccl.end();
        } else if let Some(nccl) = Arc::into_inner(nccl) {
            nccl.close(&self.members);
        }
    }
}

impl Communicator {
    /// Opens a communicator over devices of this process, without NCCL.
    pub(super) fn of_devices(devices: &[Device]) -> Result<Self> {
        const OP: &str = "communicator";
        let Some(first) = devices.first() else {
            return Err(refused(OP, "the list of devices is empty; give at least one".to_owned()));
        };
        let mut members = Vec::new();
        for (number, device) in devices.iter().enumerate() {
            first.shared().domain.own(OP, device.shared().domain.id())?;
            if devices[..number].iter().any(|other| other.id() == device.id()) {
                return Err(refused(
                    OP,
                    format!("{} is given twice; give each device once", device.id()),
                ));
            }
            members.push(Member::new(device)?);
        }
        Ok(Self::of(members, 0, devices.len()))
    }

    fn of(members: Vec<Member>, first: usize, count: usize) -> Self {
        let (called, splits) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { members, first, count, mail: None, nccl: None, called, splits }
    }

    /// The devices of this process.
    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Opens NCCL for a communicator of several processes.
    pub(super) fn nccl_of_rank(&self) -> Result<Arc<Nccl>> {
        let mail = self.mail.as_ref().expect("it has ranks");
        Nccl::of_rank(&self.members[0], mail)
    }

    /// Opens a communicator over one device of each process, without NCCL. `what` describes the
    /// communicator, and must be the same on all ranks.
    pub(super) fn of_rank(device: &Device, ranks: &Arc<Ranks>, what: &str) -> Result<Self> {
        ranks.0.refuse("communicator")?;
        let members = vec![Member::new(device)?];
        // All ranks have made the same calls, so the number of calls is the same on all ranks.
        let channel = ranks.0.calls() + 1;
        ranks.agree(what, channel)?;
        let (rank, count) = (ranks.rank(), ranks.count());
        let mail = Mail { group: Arc::clone(ranks), channel, processes: (0..count).collect() };
        Ok(Self::with_mail(members, rank, mail))
    }

    fn with_mail(members: Vec<Member>, rank: usize, mail: Mail) -> Self {
        let processes =
            mail.processes.iter().map(|process| u32::try_from(*process).unwrap_or(u32::MAX));
        mail.group.0.announce(Frame::Open(mail.channel, processes.collect()));
        let count = mail.processes.len();
        let mut communicator = Self::of(members, rank, count);
        communicator.mail = Some(mail);
        communicator
    }

    /// Splits the devices into parts. Each part becomes a communicator, with NCCL if this
    /// communicator uses NCCL. `parts` has the number of the part for each device of this process.
    /// Returns the communicators of these parts, in ascending order of the numbers of the parts.
    /// The devices of a part keep their order. All ranks make this call.
    ///
    /// ```
    /// use trijet::comm::Communicator;
    /// use trijet::sim::HostConfig;
    /// use trijet::Device;
    /// let devices = Device::host(HostConfig::new().devices(4))?;
    /// let pairs = Communicator::builder().devices(&devices).open()?.split(&[0, 1, 0, 1])?;
    /// assert_eq!(pairs.iter().map(Communicator::len).collect::<Vec<_>>(), [2, 2]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` if `parts` does not have one number for each device of this process; errors
    /// of the driver and of NCCL; `PeerLost`.
    pub fn split(&self, parts: &[u32]) -> Result<Vec<Self>> {
        let (given, own) = (parts.len(), self.members.len());
        if given != own {
            return Err(refused(
                "split",
                format!("{given} numbers for {own} devices; give one number for each"),
            ));
        }
        let mut numbers = parts.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        let mut made = Vec::with_capacity(numbers.len());
        let number = self.splits.fetch_add(1, Ordering::Relaxed);
        // For each rank, the number of its part. Empty within one process.
        let all = match &self.mail {
            Some(mail) => {
                self.announce(|| Step::new("split"))?;
                mail.gather(&parts[0].to_le_bytes())?
            }
            None => Vec::new(),
        };
        for part in &numbers {
            let chosen = self.members.iter().zip(parts).filter(|(_, one)| *one == part);
            let devices = chosen.map(|(member, _)| Member::new(&member.device));
            let members = devices.collect::<Result<Vec<_>>>()?;
            let Some(mail) = &self.mail else {
                let count = members.len();
                made.push(Self::of(members, 0, count));
                continue;
            };
            let of_part = |rank: &usize| all[*rank] == part.to_le_bytes();
            let processes =
                (0..self.count).filter(of_part).map(|rank| mail.processes[rank]).collect();
            let rank = (0..self.first).filter(of_part).count();
            let channel = mixed(mixed(mail.channel, number), u64::from(*part));
            made.push(Self::with_mail(
                members,
                rank,
                Mail { group: Arc::clone(&mail.group), channel, processes },
            ));
        }
        if let Some(nccl) = &self.nccl {
            let ranks: Vec<usize> = (self.first..self.first + own).collect();
            let mails: Vec<_> = made.iter().map(|part| part.mail.as_ref()).collect();
            let split = nccl.split(&self.members, parts, &ranks, &mails)?;
            for (part, nccl) in made.iter_mut().zip(split) {
                part.nccl = Some(nccl);
            }
        }
        Ok(made)
    }

    /// Waits until the work of all ranks is complete, ends the communicator, and frees the memory
    /// of NCCL. All ranks make this call.
    ///
    /// # Errors
    /// The error of work that failed; `PeerLost`.
    pub fn close(self) -> Result<()> {
        for member in &self.members {
            member.kernels.synchronize()?;
            member.copies.synchronize()?;
        }
        if self.mail.is_some() {
            self.announce(|| Step::new("close"))?;
            if let Some(nccl) = &self.nccl {
                nccl.close(&self.members);
            }
        }
        Ok(())
    }

    /// Returns a communicator of the same devices for a recording. Its operations become parts of
    /// the graph that is recorded. The data must be [arguments](Recording::argument) of the graph,
    /// or memory of the graph.
    ///
    /// The driver captures the work of NCCL. The captured work always uses the memory of the
    /// recording, so a launch with other memory is refused. A graph with work of NCCL cannot become
    /// a part of another graph. The memory of NCCL is then kept until the end of the process.
    ///
    /// # Errors
    /// `Unsupported` for a communicator of several processes; `InvalidValue` for devices of another
    /// driver; errors of the driver.
    pub fn recorded(&self, recording: &Recording) -> Result<Self> {
        if self.mail.is_some() {
            let cause = "a communicator of several processes cannot be recorded; use a \
                         communicator of devices of this process";
            return Err(Error::new(ErrorKind::Unsupported, "record", cause));
        }
        let member = |member: &Member| member.recorded(recording);
        let members = self.members.iter().map(member).collect::<Result<_>>()?;
        let mut recorded = Self::of(members, 0, self.count);
        recorded.nccl.clone_from(&self.nccl);
        Ok(recorded)
    }

    /// The number of devices, over all processes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Always false: a communicator has at least one device.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The ranks of the devices of this process.
    #[must_use]
    pub fn ranks(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.members.len()
    }

    pub(super) fn team(&self) -> Team<'_> {
        let Self { members, first, count, mail, .. } = self;
        Team { members, first: *first, count: *count, mail: mail.as_ref() }
    }

    /// The error that ended the group of processes. `None` until this process knows of an error,
    /// and always `None` within one process.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.mail.as_ref().and_then(|mail| mail.group.failure())
    }

    /// Announces the next call of this rank to rank 0, and returns the number of earlier calls. If
    /// the collective waits for other ranks, returns only after all ranks have announced the same
    /// call.
    pub(super) fn announce(&self, step: impl FnOnce() -> Step) -> Result<u64> {
        // A host function may not call a collective. The call is refused before the announcement,
        // because the other ranks would wait for an announced call.
        calling::refuse("collective")?;
        let number = self.called.fetch_add(1, Ordering::Relaxed);
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let Some(mail) = &self.mail else { return Ok(number) };
        let (group, step) = (&mail.group.0, step());
        let is_awaited = step.is_awaited;
        group.announce(Frame::Step(mail.channel, number, step));
        if is_awaited {
            group.await_agreement((mail.channel, number))?;
        }
        Ok(number)
    }

    /// Begins a collective by copies and kernels of this library. [`Left::end`] ends the
    /// collective. If this process leaves the collective before its end, the group ends. If the
    /// group stayed, the other ranks would wait for the missing messages, or take messages of the
    /// next collective instead.
    pub(super) fn by_copies(&self, op: &'static str) -> Left<'_> {
        let group = self.mail.as_ref().map(|mail| &*mail.group.0);
        Left { group, op, cause: String::new() }
    }
}

/// A collective by copies and kernels that has begun. The drop ends the group, unless [`Left::end`]
/// was called with success.
pub(super) struct Left<'a> {
    /// The group of ranks; `None` within one process, and after the end of the collective.
    group: Option<&'a Group>,
    op: &'static str,
    /// A colon and the error of the collective; empty without an error.
    cause: String,
}

impl Left<'_> {
    pub(super) fn end(mut self, outcome: Result<()>) -> Result<()> {
        match &outcome {
            Ok(()) => self.group = None,
            Err(error) => self.cause = format!(": {error}"),
        }
        outcome
    }
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let (ProcessRank { rank, count, .. }, op, cause) = (group.own, self.op, &self.cause);
            group.lose(format!("rank {rank} of {count} did not complete `{op}`{cause}"));
        }
    }
}
