//! TLS of the listeners: configuration from files, at start and again while the server runs.
//!
//! Invariant: a configuration is used only if all of it can be read and fits together; otherwise
//! the one before it stays.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use std::{any::Any, io};

use corelane_engine::clock::unix_ms;
use corelane_tls::{
    ClientCertificates, Identity, OcspStaple, Revocations, Roots, TicketKeys, TlsServer,
    TlsServerOptions, TrustedClients,
};

use crate::connection::tls::{HandshakeThreads, TlsCounters, TlsLimits, TlsSlot};
use crate::guard::auth::certificates::{Authorities, RevokedCertificates};
use crate::server::options::{ClientCertificateMode, ListenerTlsOptions, Options};
use crate::server::secret_file;
use crate::telemetry::certificate::CertificateExpiry;
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;

#[expect(clippy::disallowed_types, reason = "locked while files are read, by no shard")]
type Mutex<T> = std::sync::Mutex<T>;

/// Time after which a changed file is looked at again, before it is used.
const SECOND_LOOK: Duration = Duration::from_millis(200);

/// Interval of warnings of certificates that expire.
const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The TLS configurations of the listeners of a server.
#[derive(Debug, Default)]
pub struct ListenerTls(Option<Configured>);

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
        let stamp = |path: &PathBuf| {
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
    admin: Option<TlsSlot>,
    /// Used without files of ticket keys.
    random_tickets: TicketKeys,
    limits: TlsLimits,
    counters: Arc<TlsCounters>,
    threads: HandshakeThreads,
    files: Mutex<Files>,
    /// Those of clients.
    authorities: Mutex<Authorities>,
}

/// The TLS of one listener.
#[derive(Clone, Debug)]
pub struct TlsListener {
    pub slot: TlsSlot,
    pub limits: TlsLimits,
    pub counters: Arc<TlsCounters>,
    pub threads: HandshakeThreads,
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
        let random_tickets = TicketKeys::random()?;
        let files = Mutex::new(Files::new(tls));
        let (server, certificates) = read_server(tls, &random_tickets)?;
        let http = tls.http.then(|| TlsSlot::new(server.for_http()));
        let admin = tls.admin.then(|| TlsSlot::new(server.for_http()));
        let tcp = tls.tcp.then(|| TlsSlot::new(server));
        let limits = TlsLimits {
            handshake_timeout: tls.handshake_timeout,
            handshakes_max: tls.handshakes_max as usize,
            handshakes_per_address_max: tls.handshakes_per_address_max as usize,
            shard_percent: tls.handshake_percent,
            trusted_proxies: options.proxies.trusted()?,
        };
        let counters: Arc<TlsCounters> = Arc::default();
        counters.set_certificates(certificates);
        let threads = HandshakeThreads::new(options.background_threads());
        let mut authorities = Authorities::default();
        authorities.replace(read_authorities(tls).iter().map(Vec::as_slice));
        let authorities = Mutex::new(authorities);
        Ok(Self(Some(Configured {
            tcp,
            http,
            admin,
            random_tickets,
            limits,
            counters,
            threads,
            files,
            authorities,
        })))
    }

    /// Returns the TLS of the listener of a transport, if it is encrypted.
    pub(super) fn of(&self, transport: Transport) -> Option<TlsListener> {
        let configured = self.0.as_ref()?;
        let slot = match transport {
            Transport::Http | Transport::WebSocket => configured.http.clone()?,
            Transport::Tcp => configured.tcp.clone()?,
            Transport::InProcess | Transport::Stdio => return None,
        };
        Some(configured.listener(slot))
    }

    /// Returns the TLS of the listener of operators, if it is encrypted.
    pub(super) fn of_operators(&self) -> Option<TlsListener> {
        let configured = self.0.as_ref()?;
        Some(configured.listener(configured.admin.clone()?))
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
        configured.read(options, &mut configured.files())?;
        self.warn_of_expiry();
        Ok(())
    }

    /// [`ListenerTls::reload`] with the options of the last time, if a file has changed since it
    /// was read, and has not since the look before, of which `seen` has the change: a file may be
    /// written just now.
    fn reload_changed(&self, seen: &mut Option<Vec<Option<Stamp>>>) -> Option<Result<(), String>> {
        let configured = self.0.as_ref()?;
        let mut files = configured.files();
        let options = files.options.clone();
        let stamps = Files::new(&options).stamps;
        if stamps == files.stamps {
            *seen = None;
            return None;
        }
        if seen.as_ref() != Some(&stamps) {
            *seen = Some(stamps);
            return None;
        }
        *seen = None;
        Some(configured.read(&options, &mut files))
    }

    /// Reads which certificates of clients are revoked, and which authorities are withdrawn.
    pub(super) fn revoked(&self) -> RevokedCertificates {
        let mut revoked = RevokedCertificates::default();
        if let Some(configured) = &self.0 {
            let files = read_authorities(&configured.files().options);
            let authorities = configured.authorities.lock();
            let mut authorities = authorities.unwrap_or_else(PoisonError::into_inner);
            authorities.replace(files.iter().map(Vec::as_slice));
            revoked.add_withdrawn(&authorities);
        }
        let options = self.0.as_ref().map(|configured| configured.files().options.clone());
        for path in options.iter().flat_map(|options| &options.revocation_lists) {
            revoked.extend(RevokedCertificates::from_pem(&fs::read(path).unwrap_or_default()));
        }
        revoked
    }

    /// Starts a thread that looks at the files after each interval, until the returned value is
    /// dropped. `publish` gets the certificates that are revoked then.
    pub(super) fn watch(
        self: &Arc<Self>,
        interval: Duration,
        publish: impl Fn(RevokedCertificates) + Send + 'static,
    ) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        if self.0.is_none() || interval.is_zero() {
            return Ok(None);
        }
        let tls = Arc::clone(self);
        // Never sent on: dropping it ends the thread.
        let (stop, stopped): (Sender<()>, _) = channel();
        let run = move || {
            let mut warn_at = unix_seconds() + DAY_SECONDS;
            let (mut seen, mut wait) = (None, interval);
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let reloaded = tls.reload_changed(&mut seen);
                wait = if seen.is_some() { interval.min(SECOND_LOOK) } else { interval };
                match reloaded {
                    None if unix_seconds() < warn_at => continue,
                    None => {}
                    Some(Ok(())) => {
                        publish(tls.revoked());
                        Event::TlsReloaded { error: None }.emit();
                    }
                    Some(Err(error)) => Event::TlsReloaded { error: Some(&error) }.emit(),
                }
                warn_at = unix_seconds() + DAY_SECONDS;
                tls.warn_of_expiry();
            }
        };
        thread::Builder::new().name("corelane-tls".into()).spawn(run)?;
        Ok(Some(Box::new(stop)))
    }

    /// Returns a sentence for each certificate that has expired at `now` or will in two weeks.
    fn expiry_warnings(&self, now: i64) -> Vec<String> {
        let certificates = self.0.iter().flat_map(|configured| configured.counters.certificates());
        certificates.filter_map(|certificate| certificate.warning(now)).collect()
    }

    /// Logs which certificates expire soon.
    pub(super) fn warn_of_expiry(&self) {
        for warning in self.expiry_warnings(unix_seconds()) {
            Event::TlsCertificateExpires { warning: &warning }.emit();
        }
    }

    /// Returns the counters of handshakes, if a listener is encrypted.
    pub(super) fn counters(&self) -> Option<&Arc<TlsCounters>> {
        self.0.as_ref().map(|configured| &configured.counters)
    }
}

impl Configured {
    fn listener(&self, slot: TlsSlot) -> TlsListener {
        let Self { limits, counters, threads, .. } = self;
        let (counters, threads) = (Arc::clone(counters), threads.clone());
        TlsListener { slot, limits: limits.clone(), counters, threads }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the files of `options` and uses them from now on.
    fn read(&self, options: &ListenerTlsOptions, files: &mut Files) -> Result<(), String> {
        let Self { tcp, http, admin, random_tickets, counters, .. } = self;
        let read = Files::new(options);
        // Files that cannot be used are not read again before they change.
        files.stamps.clone_from(&read.stamps);
        let (server, certificates) = read_server(options, random_tickets)?;
        for slot in [http, admin].into_iter().flatten() {
            slot.replace(server.for_http());
        }
        if let Some(slot) = tcp {
            slot.replace(server);
        }
        counters.set_certificates(certificates);
        *files = read;
        Ok(())
    }
}

/// Reads what the options say of TLS, and uses none of it. Returns the certificates that expire
/// soon, a sentence for each.
///
/// # Errors
///
/// Which file cannot be used, and why.
#[cfg(feature = "cli")]
pub fn check_tls(options: &Options) -> Result<Vec<String>, String> {
    let tls = ListenerTls::load(options)?;
    Ok(tls.expiry_warnings(unix_seconds()))
}

fn unix_seconds() -> i64 {
    i64::try_from(unix_ms() / 1000).unwrap_or(i64::MAX)
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

/// Returns the configuration of the files, and when their certificates expire.
fn read_server(
    options: &ListenerTlsOptions,
    random_tickets: &TicketKeys,
) -> Result<(TlsServer, Vec<CertificateExpiry>), String> {
    if options.certificates.len() != options.keys.len() {
        return Err(format!(
            "tls.certificates lists {} files and tls.keys {}: each certificate needs its key",
            options.certificates.len(),
            options.keys.len()
        ));
    }
    let staples = options.ocsp_staples.len();
    if staples > 0 && staples != options.certificates.len() {
        return Err(format!(
            "tls.certificates lists {} files and tls.ocsp_staples {}: each certificate needs its \
             staple, or none has one",
            options.certificates.len(),
            staples
        ));
    }
    let mut identities = Vec::new();
    let mut expiries = Vec::new();
    let pairs = options.certificates.iter().zip(&options.keys);
    for (index, (certificate, key)) in pairs.enumerate() {
        let [chain, private] = [read(certificate)?, read_secret(key)?];
        let names = [certificate, key].map(|path| path.display().to_string());
        let identity = Identity::from_pem((&chain, &names[0]), (&private, &names[1]))?;
        let staple = options
            .ocsp_staples
            .get(index)
            .map(|path| OcspStaple::from_der(read(path)?, &path.display().to_string()));
        let file = certificate.display().to_string();
        expiries.extend(identity.expires_at().map(|at| CertificateExpiry { file, at }));
        identities.push((identity, staple.transpose()?));
    }
    let clients = match options.client_certificates {
        ClientCertificateMode::Off => ClientCertificates::Off,
        ClientCertificateMode::Asked => ClientCertificates::Asked(trusted_clients(options)?),
        ClientCertificateMode::Required => ClientCertificates::Required(trusted_clients(options)?),
    };
    let tickets = ticket_keys(&options.ticket_keys, random_tickets)?;
    let server = TlsServer::new(TlsServerOptions { identities, clients, tickets })?;
    Ok((server, expiries))
}

/// Returns the keys of the files, or random ones without any.
fn ticket_keys(paths: &[PathBuf], random: &TicketKeys) -> Result<TicketKeys, String> {
    if paths.is_empty() {
        return Ok(random.clone());
    }
    let named = |path: &PathBuf| Ok((read_secret(path)?, path.display().to_string()));
    let texts = paths.iter().map(named).collect::<Result<Vec<_>, String>>()?;
    TicketKeys::from_texts(texts.iter().map(|(text, name)| (&text[..], &name[..])))
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

/// Returns the files of the authorities of clients; those that cannot be read are left out.
fn read_authorities(options: &ListenerTlsOptions) -> Vec<Vec<u8>> {
    options.client_authorities.iter().filter_map(|path| fs::read(path).ok()).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn read_secret(path: &Path) -> Result<Vec<u8>, String> {
    secret_file::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
