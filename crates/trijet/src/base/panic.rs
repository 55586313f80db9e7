//! Panics of a user's code: caught, and told by their message.
//!
//! The payload of a panic is a value of the user's choice, and dropping it may panic again, on a
//! thread that has nothing left to catch it. So a payload that is no text is forgotten.
#![forbid(unsafe_code)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `run`; the message of its panic if it panics.
///
/// # Errors
/// The message. Whatever `run` shares with others must be fit for use after a panic.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(message)
}

fn message(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<&str>() {
        Ok(text) => return (*text).to_owned(),
        Err(other) => other,
    };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => {
            std::mem::forget(other);
            "a payload that is no text".to_owned()
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
    fn the_message_of_a_panic_is_kept_and_a_payload_that_is_no_text_is_not_dropped() {
        assert_eq!(caught(|| 7), Ok(7));
        let told = caught(|| resume_unwind(Box::new("what went wrong")));
        assert_eq!(told, Err::<(), _>("what went wrong".to_owned()));
        let told = caught(|| resume_unwind(Box::new(String::from("number 7"))));
        assert_eq!(told, Err::<(), _>("number 7".to_owned()));
        let told = caught(|| panic_any(PanicsWhenDropped));
        assert_eq!(told, Err::<(), _>("a payload that is no text".to_owned()));
    }

    #[test]
    fn a_captured_value_whose_drop_panics_is_caught_as_well() {
        let held = PanicsWhenDropped;
        let told = caught(move || {
            let _held = held;
        });
        assert_eq!(told, Err("dropped".to_owned()));
    }
}
