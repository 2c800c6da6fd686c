//! Rate limits of HTTP requests that carry no message of MCP.

use corelane_transport::http::checks::{ParityRequest, RequestKind};
use corelane_transport::http::status::Status;

use super::IncomingRequest;
use crate::guard::rate::limiter::{Caller, Exceeded};
use crate::guard::rate::rules::OtherRequest;
use crate::server::connection_state::Standing;
use crate::server::rate;
use crate::server::reply_to::RefusalFields;
use crate::server::shard::Shard;
use crate::telemetry::auth_event::AuthEvent;
use crate::telemetry::event::Event;

impl Shard {
    /// Checks a request against the rate limits, unless its message is. Returns whether it was
    /// counted.
    ///
    /// # Errors
    ///
    /// A limit is exceeded.
    #[cold]
    pub(super) fn limit_rate(
        &mut self,
        incoming: &IncomingRequest<'_>,
        kind: &RequestKind<'_>,
    ) -> Result<bool, Box<RefusedRequest>> {
        let Some(request) = limited_request(kind) else { return Ok(false) };
        self.limit_request(incoming, request).map(|()| true)
    }

    /// Checks a request that is refused anyway against the rate limits, unless it was counted.
    ///
    /// # Errors
    ///
    /// A limit is exceeded.
    pub(super) fn limit_refused(
        &mut self,
        incoming: &IncomingRequest<'_>,
    ) -> Result<(), Box<RefusedRequest>> {
        if !self.dispatcher.rate.is_active() || incoming.is_limited {
            return Ok(());
        }
        self.limit_request(incoming, OtherRequest::Refused)
    }

    fn limit_request(
        &mut self,
        incoming: &IncomingRequest<'_>,
        request: OtherRequest,
    ) -> Result<(), Box<RefusedRequest>> {
        let connections = &self.transports.connections.table;
        let Some(connection) = connections.get(incoming.key) else { return Ok(()) };
        let state = &connection.state;
        if state.standing == Standing::Operator {
            return Ok(());
        }
        let caller = Caller {
            principal: state.principal(),
            address: state.client,
            session: incoming.key.to_bits(),
        };
        let counters = &mut self.outbox.counters;
        let admitted = self.dispatcher.rate.admit_other(&caller, request, self.now, counters);
        admitted.map_err(|exceeded| Box::new(RefusedRequest { request, exceeded }))
    }

    /// Responds to a request over a rate limit.
    #[cold]
    pub(super) fn refuse_rate(&mut self, incoming: &IncomingRequest<'_>, refused: RefusedRequest) {
        let RefusedRequest { request, exceeded } = refused;
        let connection = self.transports.connections.table.get(incoming.key);
        let caller = connection.and_then(|it| it.state.principal().cloned());
        let peer = connection.and_then(|it| it.record.peer());
        let request_id = str::from_utf8(self.transports.http.request_id(incoming.echoed()));
        let request_id = request_id.ok().map(Box::from);
        let (method, rule) = (request.as_str(), exceeded.rule.clone());
        let name = Box::default();
        self.outbox.log(Event::Auth(AuthEvent::RateLimited {
            caller,
            method,
            name,
            rule,
            peer,
            request_id,
        }));
        let text = self.error_text(incoming, None, &rate::error_of(&exceeded));
        let fields = RefusalFields::RateLimit(Box::new(exceeded));
        let fields = fields.add_to(incoming.response_fields());
        self.respond_refusal(incoming, Status::TOO_MANY_REQUESTS, fields, &text);
    }
}

/// A request over a limit.
pub(super) struct RefusedRequest {
    request: OtherRequest,
    exceeded: Exceeded,
}

/// Returns what rules call a request; `None` for probes of health, and for messages, which are
/// limited by their method.
const fn limited_request(kind: &RequestKind<'_>) -> Option<OtherRequest> {
    Some(match kind {
        RequestKind::Connections { .. } => OtherRequest::Connections,
        RequestKind::DeleteSession { .. } => OtherRequest::DeleteSession,
        RequestKind::ResourceMetadata | RequestKind::ServerCard | RequestKind::CardCatalog => {
            OtherRequest::Metadata
        }
        RequestKind::Metrics => OtherRequest::Metrics,
        RequestKind::Options { .. } | RequestKind::Preflight { .. } => OtherRequest::Options,
        RequestKind::Page => OtherRequest::Page,
        RequestKind::Status => OtherRequest::Status,
        RequestKind::GetStream { .. } | RequestKind::LegacySse => OtherRequest::Stream,
        RequestKind::Upgrade => OtherRequest::Upgrade,
        RequestKind::Upstreams | RequestKind::ChangeUpstream { .. } => OtherRequest::Upstreams,
        RequestKind::Parity(ParityRequest::End { .. }) => OtherRequest::ParityDelete,
        RequestKind::Parity(ParityRequest::Events { .. }) => OtherRequest::ParityEvents,
        RequestKind::Parity(ParityRequest::Schema { .. }) => OtherRequest::ParitySchemas,
        RequestKind::Health
        | RequestKind::Ready
        | RequestKind::Post { .. }
        | RequestKind::LegacyMessage { .. }
        | RequestKind::Parity(ParityRequest::Message { .. }) => return None,
    })
}
