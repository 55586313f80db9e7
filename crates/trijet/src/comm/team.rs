//! The devices of a collective, and the transfer of data between two of them.
//!
//! A collective is a sequence of hops; a hop moves data from one device to another. All processes
//! go through the same sequence, and each process makes the hops of its own devices. A hop within a
//! process is one copy. A hop between processes is a message.
#![forbid(unsafe_code)]

use super::mail::Mail;
use super::member::Member;
use crate::base::error::Result;
use crate::memory::{Element, View, ViewMut};

/// The devices of a communicator, with ranks from 0 up. The ranks of the devices of this process
/// are consecutive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Team<'a> {
    /// The devices of this process.
    pub(super) members: &'a [Member],
    /// The rank of the first device of this process.
    pub(super) first: usize,
    /// The number of devices in all processes.
    pub(super) count: usize,
    /// The connection to other processes; `None` within one process.
    pub(super) mail: Option<&'a Mail>,
}

impl<'a> Team<'a> {
    /// The index of the device with rank `rank` in `members`. `None` if the device belongs to
    /// another process.
    pub(super) fn local(&self, rank: usize) -> Option<usize> {
        rank.checked_sub(self.first).filter(|at| *at < self.members.len())
    }

    pub(super) fn member(&self, rank: usize) -> Option<&'a Member> {
        self.local(rank).map(|at| &self.members[at])
    }

    /// Sends elements from the device `from` to the device `to`. The view of a device of another
    /// process is `None`.
    #[track_caller]
    pub(super) fn hop<T: Element>(
        &self,
        (from, to): (usize, usize),
        source: Option<View<'_, T>>,
        target: Option<ViewMut<'_, T>>,
    ) -> Result<()> {
        match (self.mail, source, target) {
            (None, Some(source), Some(mut target)) => {
                let copies = &self.members[from - self.first].copies;
                if source.is_empty() { Ok(()) } else { copies.copy(&source, &mut target) }
            }
            (Some(mail), source, target) => {
                if let (Some(source), Some(member)) = (source, self.member(from)) {
                    mail.post(member, to, source)?;
                }
                if let (Some(target), Some(member)) = (target, self.member(to)) {
                    mail.take(member, from, target)?;
                }
                Ok(())
            }
            _ => unreachable!("without other processes, both devices are in this process"),
        }
    }
}
