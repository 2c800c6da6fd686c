//! Memory of calls that have ended, for the next calls of the same thread.

use std::cell::RefCell;
use std::sync::Arc;

use crate::io::{CallCallbacks, CallSlot};
use crate::session::CallRequest;
use corelane_protocol::eras::Method;

/// Requests and slots that are kept for each thread.
const SPARES_MAX: usize = 64;
/// Bytes of the memory of a request that is kept.
const SPARE_BYTES_MAX: usize = 16 << 10;

/// Requests, each in the box that its next call owns.
type SpareRequests = Vec<Box<CallRequest>>;

thread_local! {
    static REQUESTS: RefCell<SpareRequests> = const { RefCell::new(Vec::new()) };
    static SLOTS: RefCell<Vec<Arc<CallSlot>>> = const { RefCell::new(Vec::new()) };
}

/// Returns a request to be overwritten.
pub fn take_request() -> Box<CallRequest> {
    // The thread-local is gone if the thread is ending.
    let spare = REQUESTS.try_with(|requests| requests.borrow_mut().pop()).ok().flatten();
    spare.unwrap_or_else(|| Box::new(CallRequest::new(Method::Ping)))
}

/// Keeps a request that was answered.
pub fn put_request(request: Box<CallRequest>) {
    let bytes = request.meta.capacity() + request.name.as_ref().map_or(0, String::capacity);
    if bytes <= SPARE_BYTES_MAX {
        put(&REQUESTS, request);
    }
}

/// Keeps the memory of a response, as that of the params of the next request.
pub fn put_text(text: Vec<u8>) {
    if text.capacity() > SPARE_BYTES_MAX {
        return;
    }
    let put = |requests: &RefCell<SpareRequests>| {
        if let Some(request) = requests.borrow_mut().last_mut()
            && request.params.capacity() < text.capacity()
        {
            request.params = text;
        }
    };
    REQUESTS.try_with(put).unwrap_or_default();
}

/// Returns a slot that no other thread holds.
pub(super) fn take_slot(callbacks: CallCallbacks) -> Arc<CallSlot> {
    let take = |slots: &RefCell<Vec<_>>| slots.borrow_mut().pop();
    let is_plain = callbacks.is_empty();
    // A spare slot is as `put_slot` has left it.
    let spare = if is_plain { SLOTS.try_with(take).ok().flatten() } else { None };
    spare.unwrap_or_else(|| Arc::new(CallSlot::new(callbacks)))
}

/// Keeps the slot of a call that has ended, unless the I/O thread still holds it.
pub(super) fn put_slot(mut slot: Arc<CallSlot>) {
    if let Some(spare) = Arc::get_mut(&mut slot) {
        // Drops the callbacks.
        *spare = CallSlot::new(CallCallbacks::default());
        put(&SLOTS, slot);
    }
}

fn put<T>(spares: &'static std::thread::LocalKey<RefCell<Vec<T>>>, value: T) {
    let put = |spares: &RefCell<Vec<T>>| {
        let mut spares = spares.borrow_mut();
        if spares.len() < SPARES_MAX {
            spares.push(value);
        }
    };
    spares.try_with(put).unwrap_or_default();
}
