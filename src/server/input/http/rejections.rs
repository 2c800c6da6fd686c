//! Requests that are rejected by their head or their session. They have rate limits, too.

use corelane_protocol::jsonrpc::Id;
use corelane_transport::http::checks::{CheckId, Rejection};
use corelane_transport::http::fields::ResponseFields;
use corelane_transport::http::response::BodyKind;

use super::IncomingRequest;
use crate::server::connection_state::Standing;
use crate::server::http::session_error_message;
use crate::server::shard::Shard;

impl Shard {
    /// Responds to a request that is rejected before its message is dispatched.
    pub(super) fn reject_request(&mut self, incoming: &IncomingRequest<'_>, rejection: &Rejection) {
        self.reject_message(incoming, None, rejection);
    }

    /// Responds to a rejected request whose message has this id.
    pub(super) fn reject_message(
        &mut self,
        incoming: &IncomingRequest<'_>,
        id: Option<Id<'_>>,
        rejection: &Rejection,
    ) {
        let Rejection { status, allow, error, check } = rejection;
        // A page of a foreign origin must not learn that a server is here.
        let is_foreign = matches!(check, CheckId::Origin | CheckId::Host);
        if !is_foreign && let Err(exceeded) = self.limit_refused(incoming) {
            return self.refuse_rate(incoming, *exceeded);
        }
        self.outbox.counters.input_errors.http += 1;
        if *check == CheckId::Host {
            self.log_refused_host(incoming);
        }
        let fields = ResponseFields {
            allow: *allow,
            accept_encoding_identity: *check == CheckId::ContentCoding,
            allow_origin: incoming.origin().filter(|_| !is_foreign),
            ..incoming.response_fields()
        };
        let text = self.error_text(incoming, id, error);
        if *check == CheckId::SessionExists {
            self.respond_http(incoming, *status, BodyKind::Json, fields, &text);
        } else {
            self.respond_refusal(incoming, *status, fields, &text);
        }
    }

    /// Logs a request refused by its host. The listener of operators has no option for hosts.
    #[cold]
    fn log_refused_host(&mut self, incoming: &IncomingRequest<'_>) {
        let Some(connection) = self.transports.connections.table.get(incoming.key) else { return };
        if connection.state.standing != Standing::Operator {
            let peer = connection.record.peer();
            self.transports.http.log_refused_host(peer, incoming.request_id, self.now);
        }
    }

    pub(super) fn reject_unknown_session(&mut self, incoming: &IncomingRequest<'_>) {
        self.record_invalid(incoming.key);
        let rejection =
            CheckId::SessionExists.reject(session_error_message(CheckId::SessionExists));
        self.reject_request(incoming, &rejection);
    }
}
