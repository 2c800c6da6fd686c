//! Keys and rules of a server: read from files at start, again when they change, and fetched from
//! issuers.
//!
//! Invariants: an authenticator is used only if all of its files can be read; otherwise the one
//! before it stays. The keys of an issuer are kept for a day if they cannot be fetched again, and
//! then dropped, so that its tokens get status 503.

use std::any::Any;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;
use std::{io, thread};

use corelane_base::time::Instant;
use corelane_engine::clock::{Clock, unix_ms};
use corelane_engine::mesh::ExpiringSet;

use super::checks::{ProofChecks, TurnChecks};
use super::introspection::{Failures, PendingTokens, Questions};
use super::key_requests::{IssuerState, KeyRequests};
use super::settings::{Settings, is_url, read, read_files, read_rules};
use super::{Authentication, TokenVerification};
use crate::guard::auth::introspection::IntrospectedToken;
use crate::guard::auth::jwt::KeySet;
use crate::guard::auth::token_table::TokenTable;
use crate::guard::auth::{Authenticator, TokenVerifier};
use crate::guard::state_cipher::KEY_BYTES;
use crate::server::fetch;
use crate::server::options::{AuthOptions, ClientCertificateMode, DpopMode, Options};
use crate::telemetry::auth_event::AuthEvent;
use crate::telemetry::event::Event;

#[expect(clippy::disallowed_types, reason = "locked while files are read, by no shard")]
type Mutex<T> = std::sync::Mutex<T>;

/// Where keys and rules come from.
#[derive(Debug)]
pub enum AuthSource {
    /// No caller is known.
    Off,
    /// The host attaches principals to requests, for which there may be rules.
    Host(Arc<Authenticator>),
    /// Tokens are verified, and the host may attach principals.
    Tokens(Box<Configured>),
}

/// How callers can be known beside the options.
#[derive(Clone, Default)]
pub struct HostCallers {
    /// The verifier of the program.
    pub verifier: Option<Arc<dyn TokenVerifier>>,
    /// The host can attach principals to requests.
    pub attaches_principals: bool,
}

/// How tokens are verified.
#[derive(Debug)]
pub struct Configured {
    /// The options that are fixed at start.
    at_start: AuthOptions,
    /// Whether clients may have TLS certificates, to which tokens are bound.
    binds_certificates: bool,
    /// The proofs that were used; `None` if none is accepted.
    used_proofs: Option<Arc<ExpiringSet>>,
    current: Mutex<Current>,
    issuers: Arc<[IssuerState]>,
    questions: Questions,
    /// Taken by the thread.
    asked: Mutex<Option<Asked>>,
}

/// What the shards ask the thread.
#[derive(Debug)]
struct Asked {
    woken: Receiver<()>,
    tokens: Receiver<Box<str>>,
}

/// What the shards learn from the thread.
#[derive(Debug)]
pub enum AuthUpdate {
    /// Other keys or rules apply.
    Authenticator(Arc<Authenticator>),
    /// The answer about a token.
    Introspected(Arc<IntrospectedToken>),
}

/// What is used now.
struct Current {
    options: AuthOptions,
    verifier: Option<Arc<dyn TokenVerifier>>,
    settings: Settings,
    /// Contents of the files, to notice that one has changed.
    files: Vec<Option<Vec<u8>>>,
}

impl std::fmt::Debug for Current {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Current").field("options", &self.options).finish_non_exhaustive()
    }
}

impl AuthSource {
    /// Reads keys and rules.
    ///
    /// # Errors
    ///
    /// Which option or file cannot be used, and why; also if options have no effect because no
    /// token can be verified.
    pub fn load(
        all: &Options,
        HostCallers { verifier, attaches_principals }: HostCallers,
    ) -> Result<Self, String> {
        let options = &all.auth;
        let binds_certificates = all.tls.client_certificates != ClientCertificateMode::Off;
        if !options.is_enabled() && verifier.is_none() {
            return match options.first_without_effect(attaches_principals) {
                None if attaches_principals => read_rules(options).map(Self::Host),
                None => Ok(Self::Off),
                Some(key) => Err(format!(
                    "{key} is set, and no token can be verified: {HOW_TO_KNOW_CALLERS}"
                )),
            };
        }
        let settings = read(options, binds_certificates, verifier.clone(), None)?;
        let has_keys = |index: usize| {
            let jwt = settings.authenticator.jwt.as_ref();
            jwt.and_then(|jwt| jwt.issuers.get(index)).is_some_and(|it| it.keys.is_some())
        };
        let states = options.key_sets.iter().enumerate().map(|(index, location)| IssuerState {
            is_remote: is_url(location),
            has_keys: has_keys(index).into(),
            ..IssuerState::default()
        });
        let states = states.collect();
        let (wake, woken) = sync_channel(1);
        let (tokens, asked) = sync_channel(options.introspections_max.into());
        let has_proofs = options.dpop != DpopMode::Off;
        let used_proofs = has_proofs.then(|| ExpiringSet::new(options.dpop_proofs_max as usize));
        let current =
            Current { files: read_files(options), options: options.clone(), verifier, settings };
        Ok(Self::Tokens(Box::new(Configured {
            at_start: options.clone(),
            binds_certificates,
            used_proofs: used_proofs.map(Arc::new),
            current: Mutex::new(current),
            issuers: states,
            questions: Questions { tokens, wake },
            asked: Mutex::new(Some(Asked { woken, tokens: asked })),
        })))
    }

    /// Returns the authentication of one shard, under a secret of the process. Where the host
    /// attaches principals, `is_active` tells whether callers are distinguished at once.
    pub fn shard_part(&self, secret: &[u8; KEY_BYTES], is_active: bool) -> Authentication {
        let configured = match self {
            Self::Off => return Authentication::default(),
            Self::Host(attached) => {
                return Authentication::by_host(Arc::clone(attached), is_active);
            }
            Self::Tokens(configured) => &**configured,
        };
        let Configured { at_start, issuers, questions, .. } = configured;
        let wake = questions.wake.clone();
        Authentication::by_tokens(TokenVerification {
            proofs: configured.used_proofs.clone().map(|used| ProofChecks::new(used, secret)),
            authenticator: Arc::clone(&configured.current().settings.authenticator),
            version: 0,
            tokens: TokenTable::new(at_start.verified_tokens_max as usize),
            key_requests: KeyRequests { issuers: Arc::clone(issuers), wake },
            pending: PendingTokens::new(questions.clone()),
            checks: TurnChecks::new(at_start.checks_per_turn_max),
            accepts_query_token: at_start.query_token,
            check_at: None,
        })
    }

    /// Returns whether some caller can be known, so that tools may require scopes.
    pub const fn knows_callers(&self) -> bool {
        !matches!(self, Self::Off)
    }

    /// Reads the files again, with the options that a reload may change. `publish` gets what is
    /// used from now on.
    ///
    /// # Errors
    ///
    /// Which option or file cannot be used, and why; nothing changes.
    pub fn reload(
        &self,
        options: &AuthOptions,
        publish: impl FnOnce(Arc<Authenticator>),
    ) -> Result<(), String> {
        let configured = match self {
            Self::Off | Self::Host(_) if options.is_enabled() => {
                return Err("authentication cannot be switched on without a restart".to_owned());
            }
            Self::Off => return Ok(()),
            Self::Host(_) => {
                publish(read_rules(options)?);
                return Ok(());
            }
            Self::Tokens(configured) => configured,
        };
        if !options.is_enabled() && configured.current().verifier.is_none() {
            return Err("authentication cannot be switched off without a restart".to_owned());
        }
        let at_start = &configured.at_start;
        let options = AuthOptions {
            resource: at_start.resource.clone(),
            issuers: at_start.issuers.clone(),
            key_sets: at_start.key_sets.clone(),
            introspection: at_start.introspection.clone(),
            dpop: at_start.dpop,
            dpop_nonce: at_start.dpop_nonce,
            dpop_window: at_start.dpop_window,
            ..options.clone()
        };
        configured.replace(options, publish)
    }

    /// Starts the thread that fetches keys, asks about tokens and looks at files, until the
    /// returned value is dropped. `publish` gets what it learns.
    pub fn watch(
        self: &Arc<Self>,
        publish: impl Fn(AuthUpdate) + Send + 'static,
    ) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let Self::Tokens(configured) = &**self else { return Ok(None) };
        let has_remote = configured.issuers.iter().any(|issuer| issuer.is_remote);
        let asks = configured.at_start.introspection.is_some();
        if !has_remote && !asks && configured.at_start.check_interval.is_zero() {
            return Ok(None);
        }
        let asked = configured.asked.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(asked) = asked else { return Ok(None) };
        let source = Arc::clone(self);
        // Dropping it ends the thread at its next look.
        let alive = Arc::new(());
        let watched = Arc::downgrade(&alive);
        let run = move || {
            let Self::Tokens(configured) = &*source else { return };
            let mut schedule = Schedule::new(configured.issuers.len());
            let install = |authenticator| publish(AuthUpdate::Authenticator(authenticator));
            let mut failures = Failures::default();
            while watched.strong_count() > 0 {
                configured.refresh_keys(&mut schedule, install);
                while watched.strong_count() > 0
                    && let Ok(token) = asked.tokens.try_recv()
                {
                    let now = schedule.clock.now();
                    if let Some(answer) = configured.introspect(&token, &mut failures, now) {
                        publish(AuthUpdate::Introspected(answer));
                    }
                }
                match asked.woken.recv_timeout(configured.interval()) {
                    Ok(()) => schedule.fetch_requested(&configured.issuers),
                    Err(RecvTimeoutError::Timeout) => configured.read_changed(install),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        thread::Builder::new().name("corelane-auth".into()).spawn(run)?;
        Ok(Some(Box::new(AuthWatch { _alive: alive, wake: configured.questions.wake.clone() })))
    }
}

/// Ends the thread when it is dropped.
struct AuthWatch {
    _alive: Arc<()>,
    wake: SyncSender<()>,
}

impl Drop for AuthWatch {
    fn drop(&mut self) {
        // The thread looks whether this value is alive after the next wake-up.
        self.wake.try_send(()).ok();
    }
}

/// When the keys of each issuer are fetched.
struct Schedule {
    clock: Clock,
    due: Vec<Instant>,
    /// When keys that cannot be fetched again are dropped.
    stale: Vec<Instant>,
}

impl Schedule {
    fn new(issuers: usize) -> Self {
        Self {
            clock: Clock::start(),
            due: vec![Instant::ORIGIN; issuers],
            stale: vec![Instant::ORIGIN; issuers],
        }
    }

    fn fetch_requested(&mut self, issuers: &[IssuerState]) {
        let now = self.clock.now();
        for (due, issuer) in self.due.iter_mut().zip(issuers) {
            if issuer.is_requested() {
                *due = now;
            }
        }
    }
}

impl Configured {
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn interval(&self) -> Duration {
        let lacks_keys = |it: &IssuerState| it.is_remote && !it.has_keys.load(Ordering::Acquire);
        let retry = if self.issuers.iter().any(lacks_keys) { FIRST_RETRY } else { FETCH_RETRY };
        let interval = self.at_start.check_interval;
        if interval.is_zero() { retry } else { interval.min(retry) }
    }

    /// Uses other options and the present files from now on.
    fn replace(
        &self,
        options: AuthOptions,
        publish: impl FnOnce(Arc<Authenticator>),
    ) -> Result<(), String> {
        let mut current = self.current();
        current.files = read_files(&options);
        let before = Some(&*current.settings.authenticator);
        let verifier = current.verifier.clone();
        let settings = read(&options, self.binds_certificates, verifier, before)?;
        current.options = options;
        current.settings = settings;
        publish(Arc::clone(&current.settings.authenticator));
        Ok(())
    }

    /// Reads the files again if one has changed.
    fn read_changed(&self, publish: impl Fn(Arc<Authenticator>)) {
        if self.at_start.check_interval.is_zero() {
            return;
        }
        let options = {
            let current = self.current();
            if read_files(&current.options) == current.files {
                return;
            }
            current.options.clone()
        };
        let error = self.replace(options, publish).err();
        Event::Auth(AuthEvent::Reloaded { error: error.as_deref() }).emit();
    }

    /// Fetches the keys that are due.
    fn refresh_keys(&self, schedule: &mut Schedule, publish: impl Fn(Arc<Authenticator>)) {
        for (index, state) in self.issuers.iter().enumerate().filter(|(_, it)| it.is_remote) {
            let now = schedule.clock.now();
            if schedule.due[index] > now {
                continue;
            }
            let location = &self.at_start.key_sets[index];
            let requests = state.requests.load(Ordering::Acquire);
            let fetcher = Arc::clone(&self.current().settings.fetcher);
            let fetched = fetch::parse_url(location).and_then(|url| fetcher.fetch(&url, None));
            let keys = fetched.and_then(|it| Ok((KeySet::parse(&it.body)?, it.max_age)));
            match keys {
                Ok((keys, max_age)) => {
                    let age = max_age.unwrap_or(AGE_DEFAULT).clamp(AGE_MIN, AGE_MAX);
                    schedule.due[index] = now.after(age);
                    schedule.stale[index] = now.after(AGE_MAX);
                    state.fetched_at.store(unix_ms() / 1_000, Ordering::Release);
                    self.set_keys(index, Some(Arc::new(keys)), requests, &publish);
                    state.answered.store(requests, Ordering::Release);
                    state.has_keys.store(true, Ordering::Release);
                }
                Err(error) => {
                    state.failed.store(requests, Ordering::Release);
                    let issuer = &self.at_start.issuers[index];
                    Event::Auth(AuthEvent::KeySetFailed { issuer, location, error: &error }).emit();
                    let has_keys = state.has_keys.load(Ordering::Acquire);
                    let retry = if has_keys { FETCH_RETRY } else { FIRST_RETRY };
                    schedule.due[index] = now.after(retry);
                    if now >= schedule.stale[index] && has_keys {
                        self.set_keys(index, None, requests, &publish);
                        state.has_keys.store(false, Ordering::Release);
                    }
                }
            }
        }
    }

    /// Asks about a token.
    fn introspect(
        &self,
        token: &str,
        failures: &mut Failures,
        now: Instant,
    ) -> Option<Arc<IntrospectedToken>> {
        let (fetcher, introspector) = {
            let current = self.current();
            let Settings { fetcher, introspector, .. } = &current.settings;
            (Arc::clone(fetcher), introspector.clone())
        };
        introspector.map(|it| Arc::new(it.introspect(&fetcher, token, failures, now)))
    }

    /// Replaces the keys of an issuer.
    fn set_keys(
        &self,
        index: usize,
        keys: Option<Arc<KeySet>>,
        answered: u64,
        publish: impl Fn(Arc<Authenticator>),
    ) {
        let mut current = self.current();
        let mut next = Authenticator::clone(&current.settings.authenticator);
        let issuers = next.jwt.as_mut().map(|jwt| &mut jwt.issuers);
        if let Some(issuer) = issuers.and_then(|issuers| issuers.get_mut(index)) {
            (issuer.keys, issuer.answered) = (keys, answered);
        }
        current.settings.authenticator = Arc::new(next);
        publish(Arc::clone(&current.settings.authenticator));
    }
}

/// Reads what the options say of authentication, and uses none of it.
///
/// # Errors
///
/// Which option or file cannot be used, and why.
#[cfg(feature = "cli")]
pub fn check_auth(options: &Options) -> Result<(), String> {
    AuthSource::load(options, HostCallers::default()).map(drop)
}

/// What to set so that callers are known.
pub const HOW_TO_KNOW_CALLERS: &str = concat!(
    "set auth.api_keys, auth.issuers and auth.key_sets, auth.introspection ",
    "or auth.client_certificates"
);

/// Time until a fetch that has failed is repeated, while there are no keys.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// Time until a fetch that has failed is repeated, while there are keys.
const FETCH_RETRY: Duration = Duration::from_secs(30);
/// Age of keys whose response has none.
const AGE_DEFAULT: Duration = Duration::from_hours(1);
/// The least age of keys.
const AGE_MIN: Duration = Duration::from_mins(5);
/// The greatest age of keys, also of those that cannot be fetched again.
const AGE_MAX: Duration = Duration::from_hours(24);
