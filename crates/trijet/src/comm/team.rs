//! The devices of an operation, and the way of data between them.
//!
//! Collectives are sequences of hops from one device to another one. All processes go through the
//! same sequence, and each process does the hops of its own devices: within a process a hop is one
//! copy, and between processes it is a message.
#![forbid(unsafe_code)]

use super::mail::Mail;
use super::member::Member;
use crate::base::error::Result;
use crate::memory::{Element, View, ViewMut};

/// The devices of a communicator, which have ranks from 0 up. The ranks of this process follow each
/// other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Team<'a> {
    /// The devices of this process.
    pub(super) members: &'a [Member],
    /// The rank of the first device of this process.
    pub(super) first: usize,
    /// The number of devices in all processes.
    pub(super) count: usize,
    /// The connection to other processes.
    pub(super) mail: Option<&'a Mail>,
}

impl<'a> Team<'a> {
    /// The number of a device among the devices of this process.
    pub(super) fn local(&self, rank: usize) -> Option<usize> {
        rank.checked_sub(self.first).filter(|at| *at < self.members.len())
    }

    pub(super) fn member(&self, rank: usize) -> Option<&'a Member> {
        self.local(rank).map(|at| &self.members[at])
    }

    /// Sends elements from one device to another one. A device of another process has no view here.
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
            _ => unreachable!("without other processes both devices are here"),
        }
    }
}
