//! Stages: their inputs, their work and their streams.
#![forbid(unsafe_code)]

use super::order::{Issue, StageShape};
use super::value::{HeldValue, Values};
use crate::base::error::Result;
use crate::pipeline::describe::cancel::Cancel;
use crate::stream::{Device, Stream};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::ops::Deref;

/// The stream of a stage, and the number of the item for which the stage is called.
#[derive(Debug)]
pub struct ItemCx<'a> {
    pub(super) stream: &'a Stream,
    pub(super) item: u64,
}

impl ItemCx<'_> {
    /// The number of the item, counted from 0.
    #[must_use]
    pub fn item(&self) -> u64 {
        self.item
    }
}

impl Deref for ItemCx<'_> {
    type Target = Stream;
    fn deref(&self) -> &Stream {
        self.stream
    }
}

/// Enqueues the work of a stage for an item. Returns a new value.
type Enqueue<'a> = Box<dyn Fn(&ItemCx<'_>, &Values) -> Result<HeldValue> + 'a>;
/// Makes a value that a stage will reuse for several items.
type Make<'a> = Box<dyn Fn(&Stream) -> Result<HeldValue> + 'a>;
/// Enqueues the work of a stage for an item. The work overwrites a value that an earlier item used.
type Rewrite<'a> = Box<dyn Fn(&ItemCx<'_>, &Values, &mut HeldValue) -> Result<()> + 'a>;
/// Computes a host stage for the item with this number. Returns a new value.
pub(super) type Compute<'a> = Box<dyn Fn(u64, &Values) -> Result<HeldValue> + Send + Sync + 'a>;

/// The work of a stage.
pub(super) enum StageBody<'a> {
    Source,
    Enqueue(Enqueue<'a>),
    Recycle {
        slots: usize,
        make: Make<'a>,
        run: Rewrite<'a>,
    },
    /// A host stage. Its function is in [`Parts::computes`].
    Host,
}

pub(super) struct Stage<'a> {
    pub(super) name: String,
    pub(super) inputs: Vec<usize>,
    pub(super) body: StageBody<'a>,
    /// The number of streams over which the items are distributed in turn.
    pub(super) lanes: usize,
    pub(super) gives: TypeId,
}

/// The description of a pipeline.
pub(super) struct Parts<'a> {
    pub(super) device: Device,
    /// The stages in the order in which they were appended. The first stage is the source.
    pub(super) stages: Vec<Stage<'a>>,
    /// The functions of the host stages. The key is the index of the stage.
    pub(super) computes: BTreeMap<usize, Compute<'a>>,
    pub(super) depth: Option<usize>,
    pub(super) issue: Issue,
    pub(super) cancel: Cancel,
}

impl Stage<'_> {
    pub(super) fn shape(&self) -> StageShape {
        let slots = match self.body {
            StageBody::Recycle { slots, .. } => Some(slots),
            StageBody::Source | StageBody::Enqueue(_) | StageBody::Host => None,
        };
        let is_host = matches!(self.body, StageBody::Host);
        StageShape { inputs: self.inputs.clone(), is_host, slots }
    }
}
