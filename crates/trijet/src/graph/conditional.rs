//! Operations of a graph that run only if a condition holds.
#![forbid(unsafe_code)]

use super::exec::Graph;
use super::node::Condition;
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::driver::Repeats;
use crate::device::memory::Space;
use crate::log::calling;
use crate::memory::Uses;
use crate::stream::Stream;

/// The size of a condition in bytes.
const CONDITION_BYTES: u64 = 4;

impl Stream {
    /// Records copies of a graph's operations. Each launch of the recorded graph performs these
    /// operations if a condition is not zero when the launch reaches them. The condition is one
    /// `u32` of device memory: the argument of `graph` with the number `condition`. The operations
    /// may use the condition, but need not. In the recorded graph the copies count as one
    /// operation, which reads the condition and may write everything that `graph` writes.
    ///
    /// If a launch of the recorded graph passes other memory to the copied operations than before,
    /// or if the copied operations change, the driver creates the recorded graph again. That takes
    /// as long as the first creation.
    ///
    /// ```
    /// use trijet::Uses;
    /// use trijet::kernels::AXPY;
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let s = device.stream()?;
    /// let (x, mut y) = (s.upload(&[1.0_f32])?, s.upload(&[10.0_f32])?);
    /// let mut flag = s.upload(&[1_u32])?;
    /// let mut sum = device.record(|g| {
    ///     g.argument(&flag)?;
    ///     g.argument(&x)?;
    ///     g.argument(&y)?;
    ///     g.stream()?.launch(&AXPY, (1.0_f32, &x, &mut y))
    /// })?;
    /// let mut graph = device.record(|g| {
    ///     g.argument(&flag)?;
    ///     g.argument(&x)?;
    ///     g.argument(&y)?;
    ///     let arguments = Uses::new().read(&flag).read(&x).update(&mut y);
    ///     g.stream()?.launch_graph_if(0, &mut sum, arguments)
    /// })?;
    /// for value in [1, 0, 7] {
    ///     s.fill_bytes(&mut flag, value)?;
    ///     let arguments = Uses::new().read(&flag).read(&x).update(&mut y);
    ///     s.launch_graph(&mut graph, arguments)?;
    /// }
    /// assert_eq!(s.download(&y)?, [12.0]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` for a stream that does not belong to a [recording](super::Recording), and for
    /// a graph with host functions. `InvalidValue` for a condition that is not 4 bytes of device
    /// memory, and for a graph without operations. Otherwise the errors of
    /// [`Stream::launch_graph`]. A driver before CUDA 12.4 has no conditions; the end of the
    /// recording then returns an error.
    pub fn launch_graph_if(
        &self,
        condition: usize,
        graph: &mut Graph,
        arguments: Uses<'_>,
    ) -> Result<()> {
        self.record_conditional(
            Condition { repeats: Repeats::Once, argument: condition },
            graph,
            &arguments,
        )
    }

    /// Like [`Stream::launch_graph_if`], but each launch repeats the operations while the condition
    /// is not zero. The condition is tested before each repetition, and the operations must set it
    /// to zero to end the loop. If the condition never becomes zero, a GPU hangs; a host device
    /// reports an error after a million repetitions.
    ///
    /// # Errors
    /// The errors of [`Stream::launch_graph_if`].
    pub fn launch_graph_while(
        &self,
        condition: usize,
        graph: &mut Graph,
        arguments: Uses<'_>,
    ) -> Result<()> {
        self.record_conditional(
            Condition { repeats: Repeats::WhileSet, argument: condition },
            graph,
            &arguments,
        )
    }

    fn record_conditional(
        &self,
        condition: Condition,
        graph: &Graph,
        arguments: &Uses<'_>,
    ) -> Result<()> {
        calling::refuse("conditional")?;
        let Some(recorder) = self.lane().recorder() else {
            let cause =
                "the stream belongs to no recording; only a graph can have a conditional node";
            return Err(Error::new(ErrorKind::Unsupported, "conditional", cause));
        };
        graph.demand(self, arguments)?;
        let refused = |cause| Err(Error::new(ErrorKind::InvalidValue, "conditional", cause));
        let Some(argument) = arguments.all.get(condition.argument) else {
            let count = arguments.all.len();
            return refused(format!(
                "the condition is argument {}, but the graph has {count} arguments",
                condition.argument
            ));
        };
        let span = &argument.span;
        let is_of_device = matches!(span.memory().space(), Space::Device(_));
        if !is_of_device || span.bytes() != CONDITION_BYTES {
            return refused(format!(
                "the condition, argument {}, is {span}; {CONDITION_BYTES} bytes of device memory are \
                 needed",
                condition.argument
            ));
        }
        graph.record_in(&**recorder, self, Some(condition), arguments)
    }
}
