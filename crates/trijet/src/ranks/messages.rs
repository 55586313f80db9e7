//! Messages between ranks. A message passes through rank 0, in parts.
#![forbid(unsafe_code)]

use super::frames::{Frame, PART_BYTES, Part};
use super::group::{GRACE, Group, State};
use super::join::ProcessRank;
use crate::base::error::Result;
use std::sync::PoisonError;

impl Group {
    /// Stores a part of a message for this rank. Sends a part for another rank on to that rank.
    pub(super) fn pass(&self, part: Part) {
        let index = |rank: u32| usize::try_from(rank).ok().filter(|one| *one < self.own.count);
        let (Some(to), Some(from)) = (index(part.to), index(part.from)) else { return };
        if to != self.own.rank {
            return self.send(to, &Frame::Part(part));
        }
        let mut state = self.lock();
        let inbox = state.inboxes.entry((part.channel, from)).or_default();
        inbox.begun.extend(part.bytes);
        if part.is_last {
            let whole = std::mem::take(&mut inbox.begun);
            inbox.whole.push_back(whole);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Sends a message to a rank. The call does not wait for the receiver.
    pub(crate) fn post(&self, to: usize, channel: u64, bytes: &[u8]) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        // Rank 0 must know the call of this rank before another rank gets data of the call.
        self.flush();
        let number = |rank: usize| u32::try_from(rank).unwrap_or(u32::MAX);
        let (from, to, count) =
            (number(self.own.rank), number(to), bytes.len().div_ceil(PART_BYTES).max(1));
        for at in 0..count {
            let bytes = &bytes[at * PART_BYTES..bytes.len().min((at + 1) * PART_BYTES)];
            let part = Part { from, to, channel, is_last: at + 1 == count, bytes: bytes.to_vec() };
            match self.own.rank {
                0 => self.pass(part),
                _ if from == to => self.pass(part),
                _ => self.send(0, &Frame::Part(part)),
            }
        }
        Ok(())
    }

    /// Waits for the next message from a rank in this channel.
    pub(crate) fn take(&self, from: usize, channel: u64) -> Result<Vec<u8>> {
        self.refuse("ranks")?;
        let ProcessRank { count, timeout, .. } = self.own;
        let waits = |state: &mut State| {
            let inbox = state.inboxes.get(&(channel, from));
            inbox.is_none_or(|inbox| inbox.whole.is_empty())
                && state.lost.is_none()
                && !state.is_cut
        };
        self.flush();
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, timeout + GRACE, waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let whole = state.inboxes.get_mut(&(channel, from)).and_then(|one| one.whole.pop_front());
        if let Some(whole) = whole {
            return Ok(whole);
        }
        let cause = match state.is_cut {
            true => format!("rank 0 of {count}, which passes messages on, has left"),
            false => format!("rank {from} of {count} sent nothing within {timeout:?}"),
        };
        drop(state);
        Err(self.ended(cause))
    }
}
