//! Tells the checker that the content of bytes is no longer needed. If an operation reads the bytes
//! before the next write, the checker reports a finding, as for new memory.
#![forbid(unsafe_code)]

use super::buffer::ViewMut;
use crate::base::ledger::{Access, Mode, OrderedBy};
use crate::order::track::Use;
use crate::stream::shared::OpenDevice;
use std::borrow::Cow;
use std::panic::Location;

impl ViewMut<'_, u8> {
    /// Tells the checker of the device, if there is one, that these bytes have no content from now
    /// on. `what` names the work that will write the bytes. The call that enqueues the work is at
    /// `site`.
    pub(crate) fn discard(
        &self,
        device: &OpenDevice,
        what: impl Fn() -> String,
        site: &'static Location<'static>,
    ) {
        let Use { track, range, mode } = self.write_use(Mode::Write);
        device.domain.log().note_discarded(device.id, |op| {
            let (block, place, range) = (track.id, track.place, range.clone());
            op.accesses.push(Access { block, place, range, mode, ordered: OrderedBy::Library });
            op.label = Cow::Owned(what());
            op.site = Some(site.into());
        });
    }
}
