//! Errors as a number and a sentence.

use sixwarp::Error;
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What kind of failure a non-zero result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Kind {
    /// The problem or its memory breaks a rule.
    Invalid = 1,
    /// The device cannot do this.
    Unsupported = 2,
    /// More memory is needed than there is.
    TooLarge = 3,
    /// There is no such device.
    NoDevice = 4,
    /// The device failed, or this library did.
    Failed = 5,
    /// A tensor's numbers are of a wrong type.
    Mistyped = 6,
}

impl From<&Error> for Kind {
    fn from(error: &Error) -> Self {
        match error {
            Error::Invalid(_) | Error::File(_) => Kind::Invalid,
            Error::Mismatch(error) if error.is_of_type => Kind::Mistyped,
            Error::Mismatch(_) => Kind::Invalid,
            Error::Unsupported(_) => Kind::Unsupported,
            Error::TooLarge { .. } => Kind::TooLarge,
            Error::NoDevice(_) => Kind::NoDevice,
            // A device that failed, and whatever errors there will be.
            _ => Kind::Failed,
        }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
    static ANSWER: RefCell<CString> = RefCell::default();
}

/// The sentence of this thread's last failure.
pub(crate) fn with_last<R>(read: impl FnOnce(&CStr) -> R) -> R {
    LAST.with_borrow(|text| read(text))
}

/// Keeps the answer to a foreign caller until the next one on this thread.
pub(crate) fn answered<R>(answer: String, read: impl FnOnce(&CStr) -> R) -> R {
    ANSWER.with_borrow_mut(|kept| {
        *kept = CString::new(answer.replace('\0', " ")).unwrap_or_default();
        read(kept)
    })
}

/// Runs `work` for a foreign caller: a failure leaves its sentence and becomes its kind.
pub(crate) fn caught<R>(work: impl FnOnce() -> Result<R, Error>) -> Result<R, Kind> {
    let (kind, text) = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => (Kind::from(&error), without_rule_numbers(&error.to_string())),
        Err(panic) => (Kind::Failed, format!("a mistake in sixwarp: {}", message(&*panic))),
    };
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST.with_borrow_mut(|last| *last = text);
    Err(kind)
}

/// Leaves out "(rule 3)" and "(memory rule 3)": the lists they number are in the Rust documentation.
fn without_rule_numbers(text: &str) -> String {
    let mut parts = text.split(" (");
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let number = part.trim_start_matches("memory ").strip_prefix("rule ");
        let rest = number.map(|number| number.trim_start_matches(|c: char| c.is_ascii_digit()));
        match rest.and_then(|rest| rest.strip_prefix(')')) {
            Some(rest) => plain.push_str(rest),
            None => plain.extend([" (", part]),
        }
    }
    plain
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_told_without_their_numbers() {
        let told = |text: &str| without_rule_numbers(text);
        assert_eq!(
            told("k: must have q's dim (rule 3), but it is 8"),
            "k: must have q's dim, but it is 8"
        );
        assert_eq!(told("a (memory rule 12), b (rule 1)"), "a, b");
        for text in ["", "f (x)", "a (rule of thumb)", "a (rule", "a (rule 3", "(rule 3)"] {
            assert_eq!(told(text), text);
        }
    }

    #[test]
    fn failures_leave_a_sentence() {
        let error = || Error::NoDevice("no GPU".into());
        assert_eq!(caught::<()>(|| Err(error())), Err(Kind::NoDevice));
        assert_eq!(with_last(|text| text.to_owned()), c"no GPU".to_owned());
        assert_eq!(caught::<()>(|| panic!("oh")), Err(Kind::Failed));
        assert_eq!(with_last(|text| text.to_owned()), c"a mistake in sixwarp: oh".to_owned());
        assert_eq!(caught(|| Ok(3)), Ok(3));
    }
}
