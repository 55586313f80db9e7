//! The progress of a benchmark: the name and the number of each step, reported when the step
//! begins.
#![forbid(unsafe_code)]

use std::fmt;

/// A step of a benchmark that begins now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step<'a> {
    /// The text that names the step.
    pub what: &'a str,
    /// The number of the step, counted from 1.
    pub number: u64,
    /// The number of all steps.
    pub of: u64,
}

/// The steps of a benchmark. When a step begins, the step is passed to a function.
///
/// ```
/// use trijet_tools::progress::Steps;
/// let mut shown = Vec::new();
/// let mut show = |step: trijet_tools::progress::Step<'_>| shown.push(step.number);
/// let mut steps = Steps::new(&mut show);
/// steps.expect(2);
/// steps.begin("warm-up");
/// steps.begin("samples");
/// assert_eq!(shown, [1, 2]);
/// ```
pub struct Steps<'a> {
    show: &'a mut dyn FnMut(Step<'_>),
    begun: u64,
    of: u64,
}

impl fmt::Debug for Steps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { begun, of, .. } = self;
        f.debug_struct("Steps").field("begun", begun).field("of", of).finish_non_exhaustive()
    }
}

impl<'a> Steps<'a> {
    /// Makes steps. Each step is passed to `show` when it begins.
    #[must_use]
    pub fn new(show: &'a mut dyn FnMut(Step<'_>)) -> Self {
        Self { show, begun: 0, of: 0 }
    }

    /// Sets the number of steps that will begin after this call.
    pub fn expect(&mut self, steps: u64) {
        self.of = self.begun + steps;
    }

    /// Begins a step.
    pub fn begin(&mut self, what: &str) {
        self.begun += 1;
        let of = self.of.max(self.begun);
        (self.show)(Step { what, number: self.begun, of });
    }
}
