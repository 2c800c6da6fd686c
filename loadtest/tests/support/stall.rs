//! What a server does that takes its time: it collects garbage, or waits for a disk.

use std::sync::mpsc;
use std::time::Duration;

/// Takes so long: nobody says anything meanwhile.
pub(crate) fn stall(span: Duration) {
    let (keeps, waits) = mpsc::channel::<()>();
    assert!(waits.recv_timeout(span).is_err());
    drop(keeps);
}
