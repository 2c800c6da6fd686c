//! Honest clients of one server, one for each transport.

use corelane::Options;
use corelane_test_support::messages::{LEGACY, echo, modern, result_text};
use corelane_test_support::{
    LineClient, Request, TestServer, WebSocketClient, http_options, tcp_options,
};

pub(crate) struct HonestClients<'a> {
    server: &'a TestServer,
    legacy: LineClient,
    modern: LineClient,
    http: corelane_test_support::HttpClient,
    websocket: WebSocketClient,
    sent: i64,
}

/// Checks that a server is healthy and ready to anyone, each over a new connection.
///
/// # Panics
///
/// It is not.
pub(crate) fn expect_healthy(server: &TestServer) {
    for path in ["/healthz", "/readyz"] {
        let mut client = server.connect_http();
        assert_eq!(client.try_exchange(&Request::new("GET", path)), Some(200), "{path}");
    }
}

/// Returns options of a small server that listens for TCP and HTTP.
pub(crate) fn all_transports() -> Options {
    let mut options = tcp_options();
    options.http.address = http_options().http.address;
    options
}

impl<'a> HonestClients<'a> {
    pub(crate) fn connect(server: &'a TestServer) -> Self {
        Self {
            server,
            legacy: server.connect_initialized(LEGACY),
            modern: server.connect_tcp(),
            http: server.connect_http(),
            websocket: WebSocketClient::initialize(server.http(), LEGACY),
            sent: 0,
        }
    }

    /// Calls `echo` once on each connection and once on a new one, and asks whether the server is
    /// healthy and ready.
    ///
    /// # Panics
    ///
    /// A call fails.
    pub(crate) fn call_all(&mut self) {
        self.echo_all("honest");
    }

    /// Like [`Self::call_all`], with this text.
    pub(crate) fn echo_all(&mut self, text: &str) {
        self.sent += 1;
        let call = echo(self.sent, text);
        let modern = modern(call.clone());
        expect_healthy(self.server);
        let mut new = self.server.connect_initialized(LEGACY);
        let responses = [
            self.legacy.exchange(call.clone()),
            self.modern.exchange(modern.clone()),
            self.http.exchange(&Request::modern(&modern)).message(),
            self.websocket.exchange(&call),
            new.exchange(call),
        ];
        for response in &responses {
            assert!(result_text(response) == text, "{:.200}", response.to_string());
        }
    }
}
