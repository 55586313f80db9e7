//! Values: handles for the results of stages, and the values of an item in flight.
#![forbid(unsafe_code)]

use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The value that a stage made for an item. The item and the threads that use the value have
/// references to the same value.
pub(super) type HeldValue = Arc<dyn Any + Send + Sync>;

/// A handle for the value that a stage makes for each item. Other stages name their inputs with
/// this handle.
pub struct Value<T> {
    /// The index of the stage that makes the value.
    pub(super) stage: usize,
    of: PhantomData<fn() -> T>,
}

impl<T> Value<T> {
    pub(super) fn of_stage(stage: usize) -> Self {
        Self { stage, of: PhantomData }
    }
}

impl<T> Clone for Value<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Value<T> {}

impl<T> fmt::Debug for Value<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value").field("stage", &self.stage).finish()
    }
}

/// The values of one item. The index of a value is the number of its stage.
#[derive(Debug, Clone)]
#[expect(unnameable_types, reason = "only inputs of this library look into it")]
pub struct Values(Vec<Option<HeldValue>>);

impl Values {
    /// An empty list with room for the values of `stages` stages.
    pub(super) fn new(stages: usize) -> Self {
        Self(vec![None; stages])
    }

    /// A copy of the list that has only the values of these stages.
    pub(super) fn only(&self, stages: &[usize]) -> Self {
        let mut values = Self::new(self.0.len());
        for stage in stages {
            values.0[*stage].clone_from(&self.0[*stage]);
        }
        values
    }

    pub(super) fn put(&mut self, stage: usize, value: HeldValue) {
        self.0[stage] = Some(value);
    }

    pub(super) fn take(&mut self, stage: usize) -> Option<HeldValue> {
        self.0[stage].take()
    }

    pub(super) fn held(&self, stage: usize) -> Option<&HeldValue> {
        self.0[stage].as_ref()
    }

    fn get<T: 'static>(&self, stage: usize) -> Option<&T> {
        self.held(stage)?.downcast_ref()
    }
}

mod sealed {
    use super::Values;
    use std::any::TypeId;

    /// The inputs of a stage.
    #[expect(unnameable_types, reason = "other crates must not implement it")]
    pub trait Take: Copy + Send + Sync + 'static {
        /// References to the input values.
        type Refs<'a>;

        /// For each input: the index of the stage that makes the value, and the type of the value.
        fn stages(&self) -> Vec<(usize, TypeId)>;

        /// References to the input values for an item. `None` if the handles belong to another
        /// pipeline.
        fn refs<'a>(&self, values: &'a Values) -> Option<Self::Refs<'a>>;
    }
}

/// The inputs of a stage: a [`Value`], or a tuple of two to four values. The function of the stage
/// gets a reference to each input: `&A`, or `(&A, &B)`.
pub trait Inputs: sealed::Take {}

impl<T: sealed::Take> Inputs for T {}

impl<T: Send + Sync + 'static> sealed::Take for Value<T> {
    type Refs<'a> = &'a T;

    fn stages(&self) -> Vec<(usize, TypeId)> {
        vec![(self.stage, TypeId::of::<T>())]
    }

    fn refs<'a>(&self, values: &'a Values) -> Option<&'a T> {
        values.get(self.stage)
    }
}

macro_rules! tuples {
    ($(($($name:ident $place:tt),*))*) => {$(
        impl<$($name: Send + Sync + 'static),*> sealed::Take for ($(Value<$name>,)*) {
            type Refs<'a> = ($(&'a $name,)*);

            fn stages(&self) -> Vec<(usize, TypeId)> {
                vec![$((self.$place.stage, TypeId::of::<$name>())),*]
            }

            fn refs<'a>(&self, values: &'a Values) -> Option<Self::Refs<'a>> {
                Some(($(self.$place.refs(values)?,)*))
            }
        }
    )*};
}

tuples! { (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) }
