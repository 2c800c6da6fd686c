//! What is missing or cannot be parsed, as the mistake of a client.

use std::fmt::Display;

use super::HandlerError;

/// Converts what a client has sent wrong, such as a number that does not parse, to the error that
/// it gets. A plain `?` would make it an internal error (-32603).
///
/// ```
/// use corelane::{OrInvalid, ResourceTemplate};
///
/// let user = ResourceTemplate::new("users://{id}", "user").inline(|read, contents, _| {
///     let id = read.variable("id").unwrap_or_default();
///     let id: u32 = id.parse().or_invalid("id must be a number")?; // -32602
///     let name = ["Ada", "Grace"].get(id as usize).or_not_found()?; // as an unknown resource
///     contents.text(read.uri(), None, name);
///     Ok(())
/// });
/// # drop(user);
/// ```
pub trait OrInvalid<T>: Sized {
    /// Returns the value.
    ///
    /// # Errors
    ///
    /// [`HandlerError::InvalidParams`] with `reason`, and the error behind it: the client reads
    /// both.
    fn or_invalid(self, reason: impl Display) -> Result<T, HandlerError>;

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// [`HandlerError::NotFound`].
    fn or_not_found(self) -> Result<T, HandlerError>;
}

impl<T, E: Display> OrInvalid<T> for Result<T, E> {
    fn or_invalid(self, reason: impl Display) -> Result<T, HandlerError> {
        self.map_err(|error| HandlerError::invalid_params(format_args!("{reason}: {error}")))
    }

    fn or_not_found(self) -> Result<T, HandlerError> {
        self.map_err(|_| HandlerError::NotFound)
    }
}

impl<T> OrInvalid<T> for Option<T> {
    fn or_invalid(self, reason: impl Display) -> Result<T, HandlerError> {
        self.ok_or_else(|| HandlerError::invalid_params(reason))
    }

    fn or_not_found(self) -> Result<T, HandlerError> {
        self.ok_or(HandlerError::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_precedes_the_error() {
        let parsed = "x".parse::<u8>().or_invalid("count must be a number");
        let HandlerError::InvalidParams(text) = parsed.unwrap_err() else {
            panic!("another error")
        };
        assert_eq!(text, "count must be a number: invalid digit found in string");
        let missing = None::<u8>.or_invalid("count is missing").unwrap_err();
        assert!(matches!(missing, HandlerError::InvalidParams(text) if text == "count is missing"));
        assert!(matches!(None::<u8>.or_not_found(), Err(HandlerError::NotFound)));
        assert_eq!("7".parse::<u8>().or_not_found().unwrap(), 7);
    }
}
