//! Finds what prevents a start, without starting a server: for `corelane check`.

use std::io;
use std::net::SocketAddr;

use corelane_engine::clock::Clock;
use corelane_engine::placement::Placement;
use corelane_engine::ring::Ring;
use corelane_engine::ring::poll::PollRing;
#[cfg(target_os = "linux")]
use corelane_engine::ring::uring::UringRing;

use super::guards::{operator_guard, operator_token, origin_guard};
use super::listen::probe_address;
use super::threads::ring_sizes;
use crate::server::options::{ExecutorKind, Options, RingBackend};

/// Why a server with some options would not start.
#[derive(Debug)]
pub struct StartFault {
    /// Key of the option.
    pub key: &'static str,
    /// What is wrong, with the value found.
    pub message: String,
    /// What to do.
    pub hint: &'static str,
}

/// Returns what prevents a start over the network, apart from TLS, authentication and the ring.
/// Binds each address for a moment and serves nothing there.
pub fn find_start_faults(options: &Options) -> Vec<StartFault> {
    let mut faults = Vec::new();
    let mut add = |key, message: String, hint| faults.push(StartFault { key, message, hint });
    if options.tcp.address.is_none() && options.http.address.is_none() {
        let message = "nothing to serve: tcp and http are off".to_owned();
        add("http.address", message, "give an address with --tcp or --http");
    }
    let engine = &options.engine;
    if let Err(error) = Placement::choose(engine.cpus.as_deref(), engine.shards) {
        add("cpus", error.to_string(), "list cpus that this process may use, or set auto");
    }
    for (key, guard) in
        [("http.hosts", origin_guard(options)), ("admin.address", operator_guard(options))]
    {
        if let Err(error) = guard {
            add(key, error.to_string(), "correct the entry, or remove it");
        }
    }
    if let Err(error) = operator_token(options) {
        add("admin.token", error, "correct the file or its path");
    }
    faults.extend(find_unprotected(options));
    let mut add = |key, message: String, hint| faults.push(StartFault { key, message, hint });
    for (key, address) in addresses(options) {
        if let Some(error) = address.and_then(|it| probe_address(&options.tcp, it).err()) {
            add(key, error.to_string(), "set another address or port, or off");
        }
    }
    faults
}

/// Returns the listeners that `corelane serve` refuses: other machines reach them, and nothing
/// authenticates clients there.
pub fn find_unprotected(options: &Options) -> Vec<StartFault> {
    let fault = |(key, address)| {
        let (whom, hint) = if key == "admin.address" {
            (
                "operators",
                "set admin.token, or listen on 127.0.0.1; --insecure-public listens anyway",
            )
        } else {
            (
                "clients",
                "set auth.api_keys, auth.issuers or tls.client_certificates, or listen on \
                 127.0.0.1; --insecure-public listens anyway",
            )
        };
        let message = format!(
            "{address} is reachable from other machines, and the server does not authenticate \
             {whom}"
        );
        StartFault { key, message, hint }
    };
    options.unprotected().into_iter().map(fault).collect()
}

/// Returns the addresses that the server listens on, with their keys.
const fn addresses(options: &Options) -> [(&'static str, Option<SocketAddr>); 3] {
    [
        ("tcp.address", options.tcp.address),
        ("http.address", options.http.address),
        ("admin.address", options.admin.address),
    ]
}

/// The ring that a shard would get.
#[derive(Debug)]
pub struct RingProbe {
    /// The backend and its features, as the log shows them.
    pub description: String,
    /// Why `io_uring` is not used, if the options allow it.
    pub uring_error: Option<io::Error>,
}

/// Creates the ring that a shard would get with `options`, and closes it again.
///
/// # Errors
///
/// The error with which the server would not start.
pub fn probe_ring(options: &Options) -> io::Result<RingProbe> {
    let mut uring_error = None;
    if options.engine.ring != RingBackend::Poll {
        match describe_uring(options) {
            Ok(description) => return Ok(RingProbe { description, uring_error }),
            Err(error) if options.engine.ring == RingBackend::Uring => return Err(error),
            Err(error) if options.engine.executor == ExecutorKind::Glommio => return Err(error),
            Err(error) => uring_error = Some(error),
        }
    }
    let ring = PollRing::new(&ring_sizes(options), Clock::start())?;
    Ok(RingProbe { description: ring.describe(), uring_error })
}

#[cfg(target_os = "linux")]
fn describe_uring(options: &Options) -> io::Result<String> {
    Ok(UringRing::new(&ring_sizes(options), Clock::start())?.describe())
}

#[cfg(not(target_os = "linux"))]
fn describe_uring(_: &Options) -> io::Result<String> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no io_uring"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::server::options::ClientCertificateMode;

    #[test]
    fn used_address_is_a_fault_of_its_option() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut options = Options::tiny();
        options.tcp.address = None;
        options.http.address = Some(taken.local_addr().unwrap());
        let faults = find_start_faults(&options);
        let [fault] = &faults[..] else { panic!("{faults:?}") };
        assert_eq!(fault.key, "http.address");
        drop(taken);
        assert!(find_start_faults(&options).is_empty());
        options.http.address = None;
        assert!(find_start_faults(&options)[0].message.starts_with("nothing to serve"));
    }

    #[test]
    fn public_address_without_authentication_is_refused() {
        let keys = |change: &dyn Fn(&mut Options)| -> Vec<&str> {
            let mut options = Options::tiny();
            for address in
                [&mut options.tcp.address, &mut options.http.address, &mut options.admin.address]
            {
                *address = Some(([0, 0, 0, 0], 8080).into());
            }
            change(&mut options);
            find_unprotected(&options).into_iter().map(|fault| fault.key).collect()
        };
        assert_eq!(keys(&|_| {}), ["tcp.address", "http.address", "admin.address"]);
        assert!(keys(&|options| options.auth.insecure_public = true).is_empty());
        let with_keys = |options: &mut Options| options.auth.api_keys = vec!["keys.txt".into()];
        assert_eq!(keys(&with_keys), ["admin.address"]);
        let with_certificates = |options: &mut Options| {
            options.tls.certificates = vec!["a.pem".into()];
            options.tls.client_certificates = ClientCertificateMode::Required;
            options.tls.tcp = false;
        };
        assert_eq!(keys(&with_certificates), ["tcp.address", "admin.address"]);
        let on_loopback = |options: &mut Options| {
            let loopback = |address: [u16; 8]| Some((address, 8080).into());
            options.tcp.address = Some(([127, 0, 0, 2], 8080).into());
            options.http.address = loopback([0, 0, 0, 0, 0, 0, 0, 1]);
            options.admin.token = Some("token".into());
        };
        assert!(keys(&on_loopback).is_empty());
    }

    #[test]
    fn probe_describes_requested_ring() {
        let mut options = Options::tiny();
        options.engine.ring = RingBackend::Poll;
        let probe = probe_ring(&options).unwrap();
        assert!(probe.description.starts_with("poll"), "{}", probe.description);
        assert!(probe.uring_error.is_none());
        options.engine.ring = RingBackend::Auto;
        let probe = probe_ring(&options).unwrap();
        let expected = if probe.uring_error.is_none() { "io_uring" } else { "poll" };
        assert!(probe.description.starts_with(expected), "{}", probe.description);
    }
}
