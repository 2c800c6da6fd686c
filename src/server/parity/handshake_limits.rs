//! How many handshakes an address may send, and how many of them may fail.

use corelane_base::client_address::ClientAddress;
use corelane_parity::error::ParityError;

use super::carrier::Carrier;
use super::output::ParityPath;
use crate::connection::PeerAddress;
use crate::guard::auth::challenge::whole_seconds;
use crate::guard::rate::limiter::Caller;
use crate::guard::rate::rules::OtherRequest;
use crate::server::reply_to::{ParityKey, RefusalFields};
use crate::server::{auth, rate};

/// Why a handshake, or a message with another token, is refused.
pub(super) struct RefusedCaller {
    pub(super) error: ParityError,
    pub(super) fields: Option<RefusalFields>,
}

impl From<ParityError> for RefusedCaller {
    fn from(error: ParityError) -> Self {
        Self { error, fields: None }
    }
}

impl ParityPath<'_> {
    /// Returns the address of the client of a message. That of a session of another shard is known
    /// there.
    pub(super) fn peer_address(&self, carrier: Carrier<'_>) -> Option<PeerAddress> {
        match carrier {
            Carrier::Connection(connection) => {
                self.connections.table.get(connection)?.record.peer_address().copied()
            }
            Carrier::Exchange { caller, .. } => caller.peer_addr,
            Carrier::Remote => None,
        }
    }

    fn client_of(&self, carrier: Carrier<'_>) -> Option<ClientAddress> {
        let address = self.peer_address(carrier)?;
        self.dispatcher.rate.client_at(address.ip())
    }

    /// Checks a handshake against the rate limits, and the failures of its address unless its token
    /// is verified: that is asked about them, too.
    ///
    /// # Errors
    ///
    /// A limit is exceeded.
    pub(super) fn limit_handshake(
        &mut self,
        carrier: Carrier<'_>,
        key: ParityKey,
    ) -> Result<(), RefusedCaller> {
        let client = self.client_of(carrier);
        let Self { dispatcher, outbox, now, .. } = self;
        if !dispatcher.auth.verifies_tokens()
            && let Err(error) = dispatcher.auth.check_failures(client, *now)
        {
            auth::count_refusal(&mut outbox.counters.auth, &error);
            let retry_after = error.retry_after().map(whole_seconds);
            let error = ParityError::from(&auth::parity_refusal_error(&error));
            let fields = retry_after.map(RefusalFields::RetryAfter);
            return Err(RefusedCaller { error, fields });
        }
        if !dispatcher.rate.is_active() {
            return Ok(());
        }
        let principal = match carrier {
            Carrier::Exchange { caller, .. } => caller.principal.as_ref(),
            Carrier::Connection(_) | Carrier::Remote => None,
        };
        let session = key.0.to_bits() ^ 1 << 63;
        let caller = Caller { principal, address: client, session };
        let (handshake, counters) = (OtherRequest::ParityHandshake, &mut outbox.counters);
        dispatcher.rate.admit_other(&caller, handshake, *now, counters).map_err(|exceeded| {
            RefusedCaller {
                error: ParityError::from(&rate::error_of(&exceeded)),
                fields: Some(RefusalFields::RateLimit(Box::new(exceeded))),
            }
        })
    }

    /// Counts a handshake that is malformed or has no common version.
    #[cold]
    pub(super) fn record_failed_handshake(&self, carrier: Carrier<'_>) {
        self.dispatcher.auth.record_failed_handshake(self.client_of(carrier), self.now);
    }
}
