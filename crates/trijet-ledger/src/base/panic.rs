//! Panics of the program's code, caught and turned into their messages.
//!
//! The payload of a panic may be any value of the program. The drop of a payload may panic again,
//! on a thread that does not catch the panic. So a payload that is not text is leaked.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `run`. State that `run` shares must be usable after a panic.
///
/// # Errors
/// The message of the panic, if `run` panics.
pub fn caught<T>(run: impl FnOnce() -> T) -> std::result::Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(words_of)
}

/// Calls a function of the program as a part of an operation. A panic is an error of the operation.
///
/// # Errors
/// The error of `run`. If `run` panics, an error of kind `Panicked` with the message of the panic.
pub fn called<T>(operation: &'static str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(run).unwrap_or_else(|words| {
        let cause = format!("it panicked: {words}");
        Err(Error::new(ErrorKind::Panicked, operation, cause))
    })
}

/// The message of a panic.
pub fn words_of(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<&str>() {
        Ok(text) => return (*text).to_owned(),
        Err(other) => other,
    };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => {
            std::mem::forget(other);
            "a payload that is not text".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{panic_any, resume_unwind};

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            resume_unwind(Box::new("dropped"));
        }
    }

    #[test]
    fn the_message_of_a_panic_is_kept_and_a_payload_that_is_not_text_is_not_dropped() {
        assert_eq!(caught(|| 7), Ok(7));
        let result = caught(|| resume_unwind(Box::new("what went wrong")));
        assert_eq!(result, Err::<(), _>("what went wrong".to_owned()));
        let result = caught(|| resume_unwind(Box::new(String::from("number 7"))));
        assert_eq!(result, Err::<(), _>("number 7".to_owned()));
        let result = caught(|| panic_any(PanicsWhenDropped));
        assert_eq!(result, Err::<(), _>("a payload that is not text".to_owned()));
    }

    #[test]
    fn a_captured_value_whose_drop_panics_is_caught_as_well() {
        let held = PanicsWhenDropped;
        let result = caught(move || {
            let _held = held;
        });
        assert_eq!(result, Err("dropped".to_owned()));
    }
}
