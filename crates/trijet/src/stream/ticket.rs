//! Tickets: points in a stream that any thread can wait for.
#![forbid(unsafe_code)]

use super::ready::{Point, Ready};
use super::shared::OpenDevice;
use super::stream::Stream;
use crate::base::error::Result;
use crate::device::driver::Readiness;
use crate::log::calling;
use crate::order::mark::Mark;
use std::panic::Location;
use std::sync::Arc;

/// The work of a stream up to a point. Any thread can wait for a ticket. After the wait, the thread
/// knows that the work is complete (law [A11](crate::laws#a11)).
#[derive(Debug, Clone)]
pub struct Ticket {
    device: Arc<OpenDevice>,
    mark: Option<Arc<Mark>>,
}

impl Ticket {
    pub(crate) fn new(device: &Arc<OpenDevice>, mark: Option<Arc<Mark>>) -> Self {
        Self { device: Arc::clone(device), mark }
    }

    /// Waits until the work of the ticket is complete.
    ///
    /// # Errors
    /// The error of work that failed, or `Stalled`.
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        calling::refuse("ticket wait")?;
        match &self.mark {
            Some(mark) => self.device.domain.host_wait(mark, Location::caller()),
            None => Ok(()),
        }
    }

    /// Whether the work of the ticket is complete. Never blocks.
    ///
    /// # Errors
    /// The error of work that failed.
    #[track_caller]
    pub fn query(&self) -> Result<Readiness> {
        calling::refuse("ticket query")?;
        let Some(mark) = &self.mark else { return Ok(Readiness::Ready) };
        let noted = self.device.domain.note_mark(mark, Location::caller());
        let answer = self.device.domain.gate.query_event(mark.device, mark.event);
        let readiness = answer.map_err(|error| self.device.failed(error))?;
        if readiness == Readiness::Ready {
            noted.succeeded();
            self.device.domain.learn(&mark.snapshot);
        }
        Ok(readiness)
    }

    /// A future of the work of the ticket. Any thread can await the future.
    ///
    /// # Errors
    /// The future ends with the error of work that failed, or with `Stalled`.
    #[track_caller]
    pub fn ready(&self) -> Ready {
        Ready::new(&self.device, Ok(self.mark.clone().map(Point::Mark)))
    }
}

impl Stream {
    /// A ticket for everything enqueued so far.
    ///
    /// # Errors
    /// `Capturing` for a stream of a recording; an error of the driver.
    pub fn ticket(&self) -> Result<Ticket> {
        calling::refuse("ticket")?;
        self.lane().refuse_recorded("ticket")?;
        let mark = self.lane().mark().map_err(|error| self.device().failed(error))?;
        Ok(Ticket::new(self.device(), mark))
    }
}
