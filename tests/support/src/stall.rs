//! A stall of a server, such as a garbage collection.

use std::sync::mpsc;
use std::time::Duration;

/// Blocks the thread for `span`.
pub fn stall(span: Duration) {
    let (tx, rx) = mpsc::channel::<()>();
    assert!(rx.recv_timeout(span).is_err());
    drop(tx);
}
