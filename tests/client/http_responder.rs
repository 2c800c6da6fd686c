//! A server of Streamable HTTP that answers the requests of all connections by a function.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use corelane::Client;
use corelane::client::ClientBuilder;

use super::http_peer::{HttpPeer, HttpRequest};

/// What a server does with a request.
pub(crate) enum Reply {
    /// Sends these bytes; the connection stays open.
    Send(String),
    /// Sends these bytes and closes the connection.
    SendAndClose(String),
}

/// The server; dropping it waits for the clients to close.
pub(crate) struct HttpResponder {
    address: SocketAddr,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpResponder {
    pub(crate) fn start(respond: impl Fn(&HttpRequest) -> Reply + Send + Sync + 'static) -> Self {
        let peer = HttpPeer::bind();
        let address = peer.address();
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&is_stopping);
        let respond = Arc::new(respond);
        let thread = thread::spawn(move || {
            let mut threads = Vec::new();
            loop {
                let mut connection = peer.accept();
                if stops.load(Ordering::Acquire) {
                    break;
                }
                let respond = Arc::clone(&respond);
                threads.push(thread::spawn(move || {
                    while let Some(request) = connection.try_receive() {
                        match respond(&request) {
                            Reply::Send(text) => connection.send(&text),
                            Reply::SendAndClose(text) => return connection.send(&text),
                        }
                    }
                }));
            }
            for thread in threads {
                thread.join().expect("a connection is served");
            }
        });
        Self { address, is_stopping, thread: Some(thread) }
    }

    pub(crate) fn client(&self) -> ClientBuilder {
        Client::builder(self.url().as_str())
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Waits for the connections to end.
    pub(crate) fn stop(mut self) {
        self.is_stopping.store(true, Ordering::Release);
        // Ends the wait for a connection. Fails if one of the client has ended it already.
        drop(TcpStream::connect(self.address));
        let thread = self.thread.take().expect("the server runs");
        thread.join().expect("the connections are served");
    }
}
