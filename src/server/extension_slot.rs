//! What the host attaches to the requests of one connection: shared by the host's end of the
//! connection and the shard, so that no client can set it.

use std::sync::{Arc, PoisonError};

use corelane_base::principal::Principal;
use http::Extensions;

/// Locked to set or read the extensions, for the clone of a pointer.
#[expect(clippy::disallowed_types, reason = "the end of the host is on another thread")]
type Mutex<T> = std::sync::Mutex<T>;

/// The extensions of the current request of one connection; a clone is the same slot.
///
/// The host sets them before it sends the request, and the shard reads them while it dispatches
/// it. The connection carries one request at a time, or all have the same extensions.
#[derive(Clone, Debug, Default)]
pub struct ExtensionSlot(Arc<Mutex<Attached>>);

#[derive(Debug, Default)]
struct Attached {
    extensions: Option<Arc<Extensions>>,
    /// The [`Principal`] among them. Shared, so that a request does not copy it on the shard.
    principal: Option<Arc<Principal>>,
}

impl ExtensionSlot {
    /// Sets the extensions of the next requests.
    pub fn set(&self, extensions: Option<Arc<Extensions>>) {
        let principal = extensions.as_ref().and_then(|it| it.get::<Principal>().cloned());
        let attached = Attached { extensions, principal: principal.map(Arc::new) };
        // Dropped without the lock, because it runs code of the host.
        let previous = std::mem::replace(&mut *self.lock(), attached);
        drop(previous);
    }

    /// Returns the extensions of the current request.
    pub(super) fn get(&self) -> Option<Arc<Extensions>> {
        self.lock().extensions.clone()
    }

    /// Returns the principal that the host has attached to the current request.
    pub(super) fn principal(&self) -> Option<Arc<Principal>> {
        self.lock().principal.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Attached> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
