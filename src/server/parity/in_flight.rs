//! The requests of a session that wait for their end.
//!
//! Invariants: a request has one number, and ends once. A request that is answered while it is
//! dispatched has no entry, unless it has an idempotency key or is recorded in the log.

use corelane_base::time::Instant;
use corelane_protocol::jsonrpc::{Id, IdBuf};

use crate::server::reply_to::ReplyTo;
use crate::telemetry::event::parity::RequestRecord;

/// The first number of calls that are no streams.
const FIRST_CALL_NUMBER: u32 = 1 << 31;

/// Returns whether a number is that of a stream.
pub(super) const fn is_stream(number: u32) -> bool {
    number != ReplyTo::STANDALONE && number < FIRST_CALL_NUMBER
}

/// The requests of a session that wait for their end.
#[derive(Debug, Default)]
pub(super) struct SessionRequests {
    entries: Vec<OpenRequest>,
    last_number: u32,
}

/// One request.
#[derive(Debug)]
pub(super) struct OpenRequest {
    number: u32,
    /// When it was received.
    pub(super) begun: Instant,
    /// Its idempotency key.
    pub(super) keyed: Option<Box<KeyedRequest>>,
    /// What its log line and spans have of it.
    pub(super) record: Option<Box<RequestRecord>>,
}

/// A request with an idempotency key.
#[derive(Debug)]
pub(super) struct KeyedRequest {
    pub(super) id: IdBuf,
    pub(super) key: Box<str>,
}

impl SessionRequests {
    /// Returns the number of a new call.
    pub(super) const fn next_number(&mut self) -> u32 {
        // Half of the numbers: a wrap finds the first ones long gone.
        self.last_number = (self.last_number + 1) % (FIRST_CALL_NUMBER - 1);
        FIRST_CALL_NUMBER + self.last_number
    }

    /// Adds a request received at `begun`, with its id and idempotency key.
    pub(super) fn add(
        &mut self,
        number: u32,
        begun: Instant,
        keyed: Option<(Id<'_>, &str)>,
        record: Option<Box<RequestRecord>>,
    ) {
        let keyed = keyed.map(|(id, key)| KeyedRequest { id: id.into(), key: key.into() });
        let keyed = keyed.map(Box::new);
        self.entries.push(OpenRequest { number, begun, keyed, record });
    }

    /// Returns whether a request has an entry.
    pub(super) fn has(&self, number: u32) -> bool {
        self.entries.iter().any(|entry| entry.number == number)
    }

    /// Returns what the log has of a request.
    pub(super) fn record_mut(&mut self, number: u32) -> Option<&mut RequestRecord> {
        let entry = self.entries.iter_mut().rfind(|entry| entry.number == number)?;
        entry.record.as_deref_mut()
    }

    /// Takes a request that ends.
    pub(super) fn take(&mut self, number: u32) -> Option<OpenRequest> {
        let index = self.entries.iter().rposition(|entry| entry.number == number)?;
        Some(self.entries.swap_remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_calls_and_streams_differ() {
        let mut requests = SessionRequests::default();
        let number = requests.next_number();
        requests.add(number, Instant::ORIGIN, Some((Id::Signed(1), "k")), None);
        requests.add(3, Instant::ORIGIN, Some((Id::Text("q"), "l")), None);
        assert!(!is_stream(number) && is_stream(3) && !is_stream(ReplyTo::STANDALONE));
        assert_ne!(number, ReplyTo::NO_STREAM);
        let keyed = requests.take(3).unwrap().keyed.unwrap();
        assert_eq!(keyed.id.as_id(), Id::Text("q"));
        assert_eq!(&*requests.take(number).unwrap().keyed.unwrap().key, "k");
        assert!(requests.take(number).is_none());
    }
}
