//! A scripted server of the parity dialect: threads and blocking sockets. It keeps every rule but
//! one, which its mutation names.

mod engine;
mod http;
mod lines;
mod messages;
pub(crate) mod mutation;
mod session;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use self::engine::{Engine, Input, InputKind};
use self::mutation::Mutation;

/// What a scripted server does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerOptions {
    pub(crate) mutation: Mutation,
    /// Sessions whose clients send nothing for so long end.
    pub(crate) hint_seconds: u64,
    /// Time that a client has for the handshake, and for the capabilities that it announces in it.
    pub(crate) handshake_timeout: Duration,
    /// The token that clients must present.
    pub(crate) token: Option<&'static str>,
    /// A token that has expired.
    pub(crate) expired_token: Option<&'static str>,
}

/// A running server, which ends with this.
pub(crate) struct ScriptedServer {
    addresses: [SocketAddr; 3],
    engine: Sender<Input>,
    is_ended: Arc<AtomicBool>,
}

impl ScriptedServer {
    pub(crate) fn start(options: ServerOptions) -> Self {
        let (engine, inputs) = channel();
        thread::spawn(move || Engine::new(options).run(&inputs));
        let is_ended = Arc::new(AtomicBool::new(false));
        let ids = Arc::new(AtomicU64::new(1));
        let listen = |serve: fn(u64, TcpStream, &Sender<Input>, &ServerOptions)| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let (engine, is_ended, ids) = (engine.clone(), Arc::clone(&is_ended), Arc::clone(&ids));
            thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    if is_ended.load(Ordering::Relaxed) {
                        break;
                    }
                    let (engine, id) = (engine.clone(), ids.fetch_add(1, Ordering::Relaxed));
                    thread::spawn(move || serve(id, stream, &engine, &options));
                }
            });
            address
        };
        let addresses = [
            listen(|id, stream, engine, _| lines::serve_lines(id, &stream, engine)),
            listen(|id, stream, engine, options| {
                lines::serve_websocket(id, stream, engine, options.mutation);
            }),
            listen(|id, stream, engine, options| {
                http::serve_http(id, stream, engine, options.mutation);
            }),
        ];
        Self { addresses, engine, is_ended }
    }

    /// Returns the addresses of lines, WebSocket and HTTP.
    pub(crate) const fn addresses(&self) -> [SocketAddr; 3] {
        self.addresses
    }

    /// Returns the targets of lines, WebSocket and HTTP.
    pub(crate) fn targets(&self) -> [String; 3] {
        let [lines, websocket, http] = self.addresses;
        [
            format!("tcp://{lines}"),
            format!("ws://{websocket}/parity"),
            format!("http://{http}/parity"),
        ]
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.engine.send(Input { connection: 0, kind: InputKind::Stop }).ok();
        // Wakes the threads that accept.
        for address in self.addresses {
            drop(TcpStream::connect(address));
        }
    }
}
