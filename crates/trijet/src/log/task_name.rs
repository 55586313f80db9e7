//! The name of the task whose function the calling thread runs. It becomes a part of the labels of
//! the task's operations.
#![forbid(unsafe_code)]

use crate::device::named_range;
use std::borrow::Cow;
use std::cell::RefCell;

thread_local! {
    static NAME: RefCell<Option<Cow<'static, str>>> = const { RefCell::new(None) };
}

/// Runs the function of a task. `name` is the name of the task, if entries are written.
pub(crate) fn within<R>(name: Option<Cow<'static, str>>, run: impl FnOnce() -> R) -> R {
    /// Restores the name of an outer task, even after a panic.
    struct OuterName(Option<Cow<'static, str>>);
    impl Drop for OuterName {
        fn drop(&mut self) {
            replace(self.0.take());
        }
    }
    let _range = named_range(|| {
        name.as_ref()
            .map_or_else(|| "trijet: task".to_owned(), |name| format!("trijet: task {name}"))
    });
    let _outer = OuterName(replace(name));
    run()
}

/// Sets the name of the current task, and returns the previous name. A thread that is ending may
/// have lost the variable for the name. Then the entries of the thread have the labels of their
/// operations alone.
fn replace(name: Option<Cow<'static, str>>) -> Option<Cow<'static, str>> {
    NAME.try_with(|now| now.replace(name)).ok().flatten()
}

/// The label of an operation, after the name of the task that enqueues it.
pub(crate) fn labelled(label: Cow<'static, str>) -> Cow<'static, str> {
    let named = NAME
        .try_with(|name| name.borrow().as_ref().map(|name| Cow::Owned(format!("{name}: {label}"))));
    named.ok().flatten().unwrap_or(label)
}
