//! TLS of the listeners: configuration from files, at start and again while the server runs.
//!
//! Invariant: a configuration is used only if all of it can be read and fits together; otherwise
//! the one before it stays.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use std::{any::Any, io};

use crate::connection::tls::{TlsCounters, TlsLimits, TlsSlot};
use crate::server::options::{ClientCertificateMode, ListenerTlsOptions, Options};
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;
use crate::transport::tls::{
    ClientCertificates, Identity, Revocations, Roots, TicketKeys, TlsServer, TlsServerOptions,
    TrustedClients,
};

#[expect(clippy::disallowed_types, reason = "locked while files are read, by no shard")]
type Mutex<T> = std::sync::Mutex<T>;

/// The TLS configurations of the listeners of a server.
#[derive(Debug, Default)]
pub(in crate::server) struct ListenerTls(Option<Configured>);

/// The files of a configuration.
#[derive(Debug)]
struct Files {
    options: ListenerTlsOptions,
    /// When they were read last; `None` for one that cannot be read.
    stamps: Vec<Option<Stamp>>,
}

/// Differs for a file that was changed or replaced: device, number, size, and time of the change.
type Stamp = (u64, u64, u64, i64, i64);

impl Files {
    fn new(options: &ListenerTlsOptions) -> Self {
        let stamp = |path: &std::path::PathBuf| {
            let it = fs::metadata(path).ok()?;
            Some((it.dev(), it.ino(), it.size(), it.mtime(), it.mtime_nsec()))
        };
        Self { stamps: options.files().map(stamp).collect(), options: options.clone() }
    }
}

#[derive(Debug)]
struct Configured {
    tcp: Option<TlsSlot>,
    http: Option<TlsSlot>,
    tickets: TicketKeys,
    limits: TlsLimits,
    counters: Arc<TlsCounters>,
    files: Mutex<Files>,
}

/// The TLS of one listener.
#[derive(Clone, Debug)]
pub(in crate::server) struct TlsListener {
    pub(in crate::server) slot: TlsSlot,
    pub(in crate::server) limits: TlsLimits,
    pub(in crate::server) counters: Arc<TlsCounters>,
}

impl ListenerTls {
    /// Reads the configuration; there is none without a certificate.
    ///
    /// # Errors
    ///
    /// Which file cannot be used, and why.
    pub(super) fn load(options: &Options) -> Result<Self, String> {
        let tls = &options.tls;
        check_required(options)?;
        if !tls.has_certificate() {
            return Ok(Self::default());
        }
        let tickets = TicketKeys::random()?;
        let files = Mutex::new(Files::new(tls));
        let server = read_server(tls, &tickets)?;
        let http = tls.http.then(|| TlsSlot::new(server.for_http()));
        let tcp = tls.tcp.then(|| TlsSlot::new(server));
        let limits = TlsLimits {
            handshake_timeout: tls.handshake_timeout,
            handshakes_max: tls.handshakes_max as usize,
            handshakes_per_address_max: tls.handshakes_per_address_max as usize,
            handshakes_per_turn_max: usize::from(tls.handshakes_per_turn_max),
        };
        let counters = Arc::default();
        Ok(Self(Some(Configured { tcp, http, tickets, limits, counters, files })))
    }

    /// Returns the TLS of the listener of a transport, if it is encrypted.
    pub(super) fn of(&self, transport: Transport) -> Option<TlsListener> {
        let configured = self.0.as_ref()?;
        let slot = match transport {
            Transport::Http | Transport::WebSocket => configured.http.clone()?,
            Transport::Tcp => configured.tcp.clone()?,
            Transport::InProcess | Transport::Stdio => return None,
        };
        let Configured { limits, counters, .. } = configured;
        Some(TlsListener { slot, limits: *limits, counters: Arc::clone(counters) })
    }

    /// Reads the files again, for connections that are accepted from now on. Whether a listener is
    /// encrypted, and the limits, stay as they are.
    ///
    /// # Errors
    ///
    /// Which file cannot be used, and why; nothing changes.
    pub(super) fn reload(&self, options: &ListenerTlsOptions) -> Result<(), String> {
        let Some(configured) = &self.0 else { return Ok(()) };
        if !options.has_certificate() {
            return Err("TLS cannot be switched off without a restart".to_owned());
        }
        configured.read(options, &mut configured.files())
    }

    /// [`ListenerTls::reload`] with the options of the last time, if a file has changed since it
    /// was read.
    fn reload_changed(&self) -> Option<Result<(), String>> {
        let configured = self.0.as_ref()?;
        let mut files = configured.files();
        let options = files.options.clone();
        let is_changed = Files::new(&options).stamps != files.stamps;
        is_changed.then(|| configured.read(&options, &mut files))
    }

    /// Starts a thread that looks at the files after each interval, until the returned value is
    /// dropped.
    pub(super) fn watch(
        self: &Arc<Self>,
        interval: Duration,
    ) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        if self.0.is_none() || interval.is_zero() {
            return Ok(None);
        }
        let tls = Arc::clone(self);
        // Never sent on: dropping it ends the thread.
        let (stop, stopped): (Sender<()>, _) = channel();
        let run = move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                match tls.reload_changed() {
                    None => {}
                    Some(Ok(())) => Event::TlsReloaded { error: None }.emit(),
                    Some(Err(error)) => Event::TlsReloaded { error: Some(&error) }.emit(),
                }
            }
        };
        thread::Builder::new().name("corelane-tls".into()).spawn(run)?;
        Ok(Some(Box::new(stop)))
    }

    /// Returns the counters of handshakes, if a listener is encrypted.
    pub(super) fn counters(&self) -> Option<&Arc<TlsCounters>> {
        self.0.as_ref().map(|configured| &configured.counters)
    }
}

impl Configured {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the files of `options` and uses them from now on.
    fn read(&self, options: &ListenerTlsOptions, files: &mut Files) -> Result<(), String> {
        let Self { tcp, http, tickets, .. } = self;
        let read = Files::new(options);
        // Files that cannot be used are not read again before they change.
        files.stamps.clone_from(&read.stamps);
        let server = read_server(options, tickets)?;
        if let Some(slot) = http {
            slot.replace(server.for_http());
        }
        if let Some(slot) = tcp {
            slot.replace(server);
        }
        *files = read;
        Ok(())
    }
}

/// Reads what the options say of TLS, and uses none of it.
///
/// # Errors
///
/// Which file cannot be used, and why.
#[cfg(feature = "cli")]
pub fn check_tls(options: &Options) -> Result<(), String> {
    ListenerTls::load(options).map(drop)
}

/// Fails if a listener that other machines reach is not encrypted but must be.
fn check_required(options: &Options) -> Result<(), String> {
    match options.public_without_tls() {
        Some(address) if options.tls.require => Err(format!(
            "{address} is reachable from other machines without TLS, which tls.require forbids: \
             set tls.certificates and tls.keys, or listen on 127.0.0.1"
        )),
        _ => Ok(()),
    }
}

fn read_server(options: &ListenerTlsOptions, tickets: &TicketKeys) -> Result<TlsServer, String> {
    if options.certificates.len() != options.keys.len() {
        return Err(format!(
            "tls.certificates lists {} files and tls.keys {}: each certificate needs its key",
            options.certificates.len(),
            options.keys.len()
        ));
    }
    let mut identities = Vec::new();
    for (certificate, key) in options.certificates.iter().zip(&options.keys) {
        let [chain, private] = [read(certificate)?, read(key)?];
        let names = [certificate, key].map(|path| path.display().to_string());
        let identity = Identity::from_pem((&chain, &names[0]), (&private, &names[1]))?;
        identities.push(identity);
    }
    let clients = match options.client_certificates {
        ClientCertificateMode::Off => ClientCertificates::Off,
        ClientCertificateMode::Asked => ClientCertificates::Asked(trusted_clients(options)?),
        ClientCertificateMode::Required => ClientCertificates::Required(trusted_clients(options)?),
    };
    TlsServer::new(TlsServerOptions { identities, clients, tickets })
}

fn trusted_clients(options: &ListenerTlsOptions) -> Result<TrustedClients, String> {
    let mut roots: Option<Roots> = None;
    for path in &options.client_authorities {
        let more = Roots::from_pem(&read(path)?, &path.display().to_string())?;
        roots = Some(match roots {
            Some(roots) => roots.with(&more),
            None => more,
        });
    }
    let roots = roots.ok_or(
        "tls.client_certificates needs tls.client_authorities: which authorities issue them?",
    )?;
    let lists = options.revocation_lists.iter();
    let revoked =
        lists.map(|path| Revocations::from_pem(&read(path)?, &path.display().to_string()));
    let revoked = revoked.collect::<Result<_, String>>()?;
    Ok(TrustedClients { roots, revoked })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
