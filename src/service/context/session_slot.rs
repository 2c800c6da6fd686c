//! A value that the program keeps for each legacy session.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A place for one value of the program, which a legacy session or connection has for its life. A
/// clone is the same place; the value is dropped with the last one, when the session has ended and
/// no request of it runs.
#[derive(Clone, Default)]
pub struct SessionSlot(Arc<OnceLock<Box<dyn Any + Send + Sync>>>);

impl SessionSlot {
    /// Returns the value, made by the first call. `None` if it is of another type.
    pub fn value<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.0.get_or_init(|| Box::new(make())).downcast_ref()
    }
}

impl fmt::Debug for SessionSlot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SessionSlot")
    }
}
