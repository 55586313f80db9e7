//! The description of a staged pipeline by its user.
#![forbid(unsafe_code)]

use super::order::Issue;
use super::run;
use super::stage::{ItemCx, Parts, Stage, StageBody};
use super::value::{HeldValue, Inputs, Value, Values};
use crate::base::error::{Error, ErrorKind, Result};
use crate::pipeline::describe::cancel::Cancel;
use crate::stream::{Device, Stream};
use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A pipeline over items of type `I`. The [module](crate::staged) explains these pipelines.
pub struct Staged<'a, I> {
    parts: Parts<'a>,
    /// The description of the first wrong call on this builder. A run returns an error with this
    /// description.
    mistake: Option<String>,
    items: PhantomData<fn(I)>,
}

impl<I> fmt::Debug for Staged<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.parts.stages.iter().map(|stage| &stage.name).collect();
        f.debug_struct("Staged").field("stages", &names).finish_non_exhaustive()
    }
}

impl<'a, I: Send + Sync + 'static> Staged<'a, I> {
    /// A pipeline on a device, with a source and without stages.
    #[must_use]
    pub fn on(device: &Device) -> Self {
        let source = Stage {
            name: "source".to_owned(),
            inputs: Vec::new(),
            body: StageBody::Source,
            lanes: 0,
            gives: TypeId::of::<I>(),
        };
        let parts = Parts {
            device: device.clone(),
            stages: vec![source],
            computes: BTreeMap::new(),
            depth: None,
            issue: Issue::default(),
            cancel: Cancel::default(),
        };
        Self { parts, mistake: None, items: PhantomData }
    }

    /// The items of the source, as an input for stages.
    #[must_use]
    pub fn item(&self) -> Value<I> {
        Value::of_stage(0)
    }

    /// Appends a stage that enqueues work on its stream and makes a value for each item. For
    /// example, the value is a buffer of exactly the size that the item needs. `run` is called once
    /// for each item, in the order of the items. `run` must not wait for the device, because then
    /// the other stages could not be enqueued meanwhile.
    pub fn stage<In: Inputs, U: Send + Sync + 'static>(
        &mut self,
        name: &str,
        inputs: In,
        run: impl Fn(&ItemCx<'_>, In::Refs<'_>) -> Result<U> + 'a,
    ) -> Value<U> {
        let run = move |cx: &ItemCx<'_>, values: &Values| -> Result<HeldValue> {
            Ok(Arc::new(run(cx, inputs.refs(values).ok_or_else(foreign)?)?))
        };
        self.append(name, inputs, StageBody::Enqueue(Box::new(run)))
    }

    /// Appends a stage that reuses its values. `make` makes at most `slots` values. `run` writes
    /// one of these values for each item. Work of an earlier item may still read the value. In this
    /// case, the stream of this stage waits for that work on the device.
    ///
    /// ```
    /// use trijet::kernels::AFFINE_F32;
    /// use trijet::staged::Staged;
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let mut staged = Staged::on(&device);
    /// let item = staged.item();
    /// let x = staged.recycled(
    ///     "fill",
    ///     item,
    ///     2,
    ///     |s| s.alloc::<f32>(100),
    ///     |s, _: &u64, x| s.fill_bytes(x, 0),
    /// );
    /// let y = staged.stage("add", x, |s, x| {
    ///     let (n, mut y) = (s.item() as f32, s.alloc::<f32>(100)?);
    ///     s.launch(&AFFINE_F32, (1.0, n, x, &mut y))?;
    ///     Ok(y)
    /// });
    /// let output = staged.stage("download", y, |s, y| {
    ///     let mut output = device.pinned::<f32>(100)?;
    ///     s.copy(y, &mut output)?;
    ///     Ok(output)
    /// });
    /// let mut last = Vec::new();
    /// staged.run((0..7).map(Ok), output, |output| Ok(last.push(output.read()?[99])))?;
    /// assert_eq!(last, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    pub fn recycled<In: Inputs, U: Send + Sync + 'static>(
        &mut self,
        name: &str,
        inputs: In,
        slots: usize,
        make: impl Fn(&Stream) -> Result<U> + 'a,
        run: impl Fn(&ItemCx<'_>, In::Refs<'_>, &mut U) -> Result<()> + 'a,
    ) -> Value<U> {
        if slots == 0 {
            self.mistaken(format!("`{name}` has 0 slots; it needs at least 1"));
        }
        let make = move |stream: &Stream| -> Result<HeldValue> { Ok(Arc::new(make(stream)?)) };
        let run = move |cx: &ItemCx<'_>, values: &Values, held: &mut HeldValue| {
            let inputs = inputs.refs(values).ok_or_else(foreign)?;
            let value = Arc::get_mut(held).and_then(|value| value.downcast_mut::<U>());
            run(cx, inputs, value.ok_or_else(foreign)?)
        };
        let (make, run) = (Box::new(make), Box::new(run));
        self.append(name, inputs, StageBody::Recycle { slots, make, run })
    }

    /// Appends a stage that computes a value on a pool of threads. `run` is called once for each
    /// item, with the number of the item. Several threads call `run` for different items at the
    /// same time. Other threads may read the resulting value at the same time. `run` may wait for
    /// the device, for example with [`Buffer::read`](crate::Buffer::read).
    pub fn host_stage<In: Inputs, U: Send + Sync + 'static>(
        &mut self,
        name: &str,
        inputs: In,
        run: impl Fn(u64, In::Refs<'_>) -> Result<U> + Send + Sync + 'a,
    ) -> Value<U> {
        let run = move |item: u64, values: &Values| -> Result<HeldValue> {
            Ok(Arc::new(run(item, inputs.refs(values).ok_or_else(foreign)?)?))
        };
        let value = self.append(name, inputs, StageBody::Host);
        self.parts.computes.insert(value.stage, Box::new(run));
        value
    }

    fn append<U: 'static>(
        &mut self,
        name: &str,
        inputs: impl Inputs,
        body: StageBody<'a>,
    ) -> Value<U> {
        let mut places = Vec::new();
        for (place, wanted) in inputs.stages() {
            if self.parts.stages.get(place).is_none_or(|stage| stage.gives != wanted) {
                self.mistaken(format!("`{name}` takes a value of another pipeline"));
            }
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let (name, gives) = (name.to_owned(), TypeId::of::<U>());
        self.parts.stages.push(Stage { name, inputs: places, body, lanes: 1, gives });
        Value::of_stage(self.parts.stages.len() - 1)
    }

    fn mistaken(&mut self, mistake: String) {
        self.mistake.get_or_insert(mistake);
    }

    /// Distributes the items of a stage over `count` streams in turn. Then the stage can run for
    /// several items at the same time.
    pub fn lanes<U>(&mut self, value: Value<U>, count: usize) {
        match self.parts.stages.get_mut(value.stage) {
            Some(stage) if count > 0 => stage.lanes = count,
            _ => self.mistaken(
                "`lanes` needs a stage of this pipeline and at least 1 stream".to_owned(),
            ),
        }
    }

    /// Sets the maximum number of items in flight. The default is the number of stages plus two.
    /// The source is read ahead by at most this number of items.
    #[must_use]
    pub fn depth(mut self, items: usize) -> Self {
        self.parts.depth = Some(items);
        self
    }

    /// Sets which stage is enqueued first if several stages could be enqueued. The default is
    /// [`Issue::DepthFirst`].
    #[must_use]
    pub fn issue(mut self, issue: Issue) -> Self {
        self.parts.issue = issue;
        self
    }

    /// Lets `cancel` stop the run between two items.
    #[must_use]
    pub fn cancel_with(mut self, cancel: &Cancel) -> Self {
        self.parts.cancel = cancel.clone();
        self
    }

    /// Runs every item of the source through all stages. Calls `sink` with the value of the stage
    /// `result` for each item, in the order of the items. Returns the number of items.
    ///
    /// # Errors
    /// The first error of the source, a stage or the sink, with its item. Nothing more is enqueued
    /// after this error. `Panicked` for a panic of the source, a host stage or the sink.
    /// `Cancelled`. `InvalidValue` for a wrong description. `Io` if the system cannot start a
    /// thread.
    pub fn run<U: Send + Sync + 'static>(
        self,
        items: impl IntoIterator<Item = Result<I>, IntoIter: Send>,
        result: Value<U>,
        mut sink: impl FnMut(&U) -> Result<()> + Send,
    ) -> Result<u64> {
        self.run_until(items, result, move |value| sink(value).map(ControlFlow::Continue))
    }

    /// Like [`run`](Self::run), but the run ends when `sink` returns `Break`. Then no more items
    /// begin, and the results of items in flight are dropped. Returns the number of results that
    /// the sink got.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn run_until<U: Send + Sync + 'static>(
        mut self,
        items: impl IntoIterator<Item = Result<I>, IntoIter: Send>,
        result: Value<U>,
        mut sink: impl FnMut(&U) -> Result<ControlFlow<()>> + Send,
    ) -> Result<u64> {
        if self.parts.stages.get(result.stage).is_none_or(|stage| stage.gives != TypeId::of::<U>())
        {
            self.mistaken("the result is a value of another pipeline".to_owned());
        }
        if self.parts.depth == Some(0) {
            self.mistaken("the depth is 0; a pipeline needs at least 1 item in flight".to_owned());
        }
        if let Some(mistake) = self.mistake {
            return Err(Error::new(ErrorKind::InvalidValue, "staged pipeline", mistake));
        }
        let mut sink = move |held: &HeldValue| match held.downcast_ref() {
            Some(value) => sink(value),
            None => Err(foreign()),
        };
        run::run(self.parts, items.into_iter(), result.stage, &mut sink)
    }
}

/// The error for a value of another pipeline. A run does not return this error, because the types
/// are compared when a stage is appended.
fn foreign() -> Error {
    Error::new(
        ErrorKind::InvalidValue,
        "staged pipeline",
        "the stage takes a value of another pipeline",
    )
}
