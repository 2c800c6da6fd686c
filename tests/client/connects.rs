//! How the connections of a client are opened.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use corelane::Client;
use corelane::client::ClientErrorKind;
use corelane::testing::block_on;
use corelane_engine::clock::Clock;
use corelane_engine::ring::RingOptions;
use corelane_engine::ring::uring::UringRing;
use socket2::{Domain, Socket, Type};

use super::reconnects::on_demand;

/// A row of `/proc/net/tcp`, whose columns proc(5) names.
struct TcpRow {
    /// The kind of timer that runs: `02` is that of keepalive.
    timer: String,
    inode: String,
}

/// Finds the socket of this machine that is connected to `peer` from `local`.
fn find_socket(local: SocketAddr, peer: SocketAddr) -> Option<TcpRow> {
    let hex = |address: SocketAddr| match address {
        SocketAddr::V4(address) => {
            let bits = u32::from_ne_bytes(address.ip().octets());
            format!("{bits:08X}:{:04X}", address.port())
        }
        SocketAddr::V6(address) => panic!("{address} is not an IPv4 address"),
    };
    let (local, peer) = (hex(local), hex(peer));
    fs::read_to_string("/proc/net/tcp").unwrap_or_default().lines().find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_it = columns.get(1) == Some(&&*local) && columns.get(2) == Some(&&*peer);
        let timer = columns.get(5)?.split(':').next()?.to_owned();
        is_it.then(|| TcpRow { timer, inode: columns.get(9).unwrap_or(&"").to_string() })
    })
}

/// Returns whether a descriptor of this process is the socket with `inode`.
fn is_open_file(inode: &str) -> bool {
    let name = format!("socket:[{inode}]");
    let files = fs::read_dir("/proc/self/fd").expect("the list of open files");
    let mut links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    links.any(|link| link.as_os_str() == &*name)
}

/// Connects to a listener and checks the socket of the client.
fn with_socket(check: impl FnOnce(&TcpRow)) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let client = Client::builder(format!("tcp://{address}").as_str()).connect_lazy();
    let client = client.expect("a client");
    thread::scope(|scope| {
        let handshake = scope.spawn(|| block_on(client.server()).map(drop));
        let (socket, peer) = listener.accept().expect("a connection");
        check(&find_socket(peer, address).expect("the socket of the client"));
        block_on(client.clone().close());
        drop(socket);
        handshake.join().expect("no panic").expect_err("no answer was sent");
    });
}

#[test]
fn connection_to_address_is_no_open_file() {
    let has_ring = UringRing::new(&RingOptions::default(), Clock::start()).is_ok();
    with_socket(|row| assert_eq!(is_open_file(&row.inode), !has_ring));
}

#[test]
fn connection_is_kept_alive_by_probes() {
    with_socket(|row| assert_eq!(row.timer, "02", "the timer is not that of keepalive"));
}

#[test]
fn connect_without_answer_ends_after_timeout() {
    // The queue of the listener is full, so the kernel answers no more.
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let queued = TcpStream::connect(address).unwrap();
    let builder = Client::builder(format!("tcp://{address}").as_str());
    let client = builder.connect_timeout(Duration::from_millis(50)).reconnect(on_demand());
    let error = client.connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Connect, "{error}");
    assert!(error.to_string().ends_with("connection timed out"), "{error}");
    drop(queued);
}
