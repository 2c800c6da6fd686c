//! What a dialect says over HTTP: which requests it sends, and what their responses mean.

use super::authorization::{HttpAuthorization, RedirectSender};
use super::connection::{ExchangeLoss, HttpRequest, HttpResponse, LostExchange};
use super::pool::HttpPool;
use super::session::SessionAccess;
use super::waiting::{HttpExchange, WaitingExchanges};
use crate::error::ClientError;
use crate::io::peer_settings::PeerSettings;
use crate::target::HttpEndpoint;
use corelane_base::time::Instant;
use corelane_engine::ring::Ring;
use corelane_transport::http::client::event_reader::ServerEvent;
use corelane_transport::http::client::response_head::ResponseHead;

/// The rules of a dialect for the exchanges of one session. The connections are those of
/// [`HttpLink`](super::HttpLink), which calls these methods.
pub trait HttpRules {
    type Exchange: HttpExchange;
    /// What the server declares in the handshake.
    type Server;
    type Session;
    /// Where the session sends its messages.
    type Queue;

    /// Creates the rules of a session that is not begun. `seed` determines its delays.
    fn new(
        endpoint: &HttpEndpoint,
        settings: &PeerSettings,
        redirects: &RedirectSender,
        seed: u64,
    ) -> Self;

    /// Returns where the session sends its messages.
    fn queue(&mut self) -> &mut Self::Queue;

    /// Returns what waits for a connection.
    fn waiting(&mut self) -> &mut WaitingExchanges<Self::Exchange>;

    /// Returns what authorizes the requests. None is sent while a flow of it runs.
    fn authorization(&mut self) -> Option<&mut HttpAuthorization> {
        None
    }

    /// Lets the authorization of the requests go on.
    fn advance_authorization(&mut self, _access: &mut SessionAccess<'_, Self::Session>) {}

    /// Handles the end of a handshake.
    fn handle_ready(&mut self, server: &Self::Server);

    /// Lets the session send what it can.
    fn prepare(
        &mut self,
        ring: &mut dyn Ring,
        pool: &mut HttpPool<Self::Exchange>,
        access: &mut SessionAccess<'_, Self::Session>,
    );

    /// Writes the request of an exchange.
    fn write(&mut self, exchange: &mut Self::Exchange, now: Instant) -> HttpRequest;

    /// Handles the head of a response, before its body. It may be an event stream.
    fn handle_head(&mut self, _exchange: &mut Self::Exchange, _head: &ResponseHead, _now: Instant) {
    }

    /// Handles an event of a response that is an event stream.
    fn handle_sse_event(
        &mut self,
        exchange: &Self::Exchange,
        event: ServerEvent<'_>,
        access: &mut SessionAccess<'_, Self::Session>,
    );

    /// Handles a complete response.
    fn handle_response(
        &mut self,
        ring: &mut dyn Ring,
        pool: &mut HttpPool<Self::Exchange>,
        exchange: Self::Exchange,
        response: HttpResponse,
        access: &mut SessionAccess<'_, Self::Session>,
    );

    /// Handles the end of an exchange without its response.
    fn handle_loss(
        &mut self,
        lost: LostExchange<Self::Exchange>,
        loss: &ExchangeLoss<'_>,
        access: &mut SessionAccess<'_, Self::Session>,
    );

    /// Handles a connection that cannot be opened. `is_last`: no other serves requests.
    fn handle_unconnected(
        &mut self,
        error: ClientError,
        is_last: bool,
        access: &mut SessionAccess<'_, Self::Session>,
    );

    /// Ends what the session no longer waits for.
    fn expire(
        &mut self,
        _ring: &mut dyn Ring,
        _pool: &mut HttpPool<Self::Exchange>,
        _access: &SessionAccess<'_, Self::Session>,
    ) {
    }

    /// Drops what waits, and queues the request that ends the session on the server. Returns
    /// whether there is one.
    fn end(&mut self, server: Option<&Self::Server>) -> bool;

    /// Returns whether the session is of no use any more.
    fn is_lost(&self) -> bool;

    /// Returns why it is, if that is known.
    fn failure(&self) -> Option<&ClientError> {
        None
    }
}
