//! What threads share, and how they wait.

mod block_on;

use std::sync::{Arc, PoisonError, Weak};

pub use self::block_on::block_on;

#[expect(clippy::disallowed_types, reason = "held for one comparison, when a client is created")]
type Mutex<T> = std::sync::Mutex<T>;

/// The value that was shared last: the clients of a process mostly have equal options.
pub(super) struct SharedValue<T>(Mutex<Weak<T>>);

impl<T: PartialEq> SharedValue<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// Returns the value that was shared last, if it is in use and equals `value`, else `value`.
    pub fn share(&self, value: T) -> Arc<T> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.upgrade()
            && *last == value
        {
            return last;
        }
        let shared = Arc::new(value);
        *last = Arc::downgrade(&shared);
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_stored_once() {
        let values = SharedValue::new();
        let first = values.share("a".to_owned());
        assert!(Arc::ptr_eq(&first, &values.share("a".to_owned())));
        let other = values.share("b".to_owned());
        assert_eq!((&**first, &**other), ("a", "b"));
        drop(other);
        assert_eq!(*values.share("b".to_owned()), "b");
    }
}
