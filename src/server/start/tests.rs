//! Tests of servers on addresses that are in use, and of signals.

use corelane_protocol::model::Implementation;

use super::*;
use crate::server::options::RingBackend;

/// Returns a server without tools that listens on a free port for TCP.
fn server(change: impl FnOnce(&mut Options)) -> Server {
    let catalog = Catalog::builder(Implementation::new("test", "1.0.0")).build().unwrap();
    let mut options = Options::tiny();
    options.http.address = None;
    change(&mut options);
    Server::builder(catalog).options(options)
}

#[test]
fn second_server_on_address_is_rejected() {
    for ring in [RingBackend::Auto, RingBackend::Poll] {
        let on = |options: &mut Options| {
            options.engine.ring = ring;
            (options.engine.cpus, options.engine.shards) = (None, None);
        };
        let first = server(on).start().unwrap();
        let (_, address) = first.addresses()[0];
        let at = |transport, reuse_port| {
            server(|options| {
                on(options);
                options.tcp.reuse_port = reuse_port;
                options.tcp.address = (transport == Transport::Tcp).then_some(address);
                options.http.address = (transport == Transport::Http).then_some(address);
            })
        };
        for transport in [Transport::Tcp, Transport::Http] {
            let error = at(transport, false).start().unwrap_err().to_string();
            assert!(error.contains(&address.to_string()), "{error}");
        }
        first.handle().drain();
        first.join().unwrap();
        let shared = [at(Transport::Tcp, true), at(Transport::Http, true)];
        for running in shared.map(|server| server.start().unwrap()) {
            assert_eq!(running.addresses()[0].1, address);
            running.handle().drain();
            running.join().unwrap();
        }
    }
}

#[cfg(feature = "signals")]
#[test]
fn sigterm_ends_server_while_reload_callback_runs() {
    use rustix::process::{Signal, getpid, kill_process};

    let raise = |signal| kill_process(getpid(), signal).unwrap();
    let (release, released) = std::sync::mpsc::channel();
    server(|options| options.engine.ring = RingBackend::Poll)
        .on_start(move |_| raise(Signal::HUP))
        .on_reload(move |_| {
            raise(Signal::TERM);
            released.recv_timeout(std::time::Duration::from_mins(1)).unwrap();
            Ok(())
        })
        .serve()
        .unwrap();
    release.send(()).expect("the callback still runs");
}
