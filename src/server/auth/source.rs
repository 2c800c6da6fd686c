//! Keys and rules of a server: read from files at start, again when they change, and fetched from
//! issuers.
//!
//! Invariants: an authenticator is used only if all of its files can be read; otherwise the one
//! before it stays. The keys of an issuer are kept for a day if they cannot be fetched again, and
//! then dropped, so that its tokens get status 503.

use std::any::Any;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::fetch;
use super::key_requests::{IssuerState, KeyRequests};
use super::{Authentication, TokenVerification};
use crate::base::time::Instant;
use crate::engine::clock::Clock;
use crate::guard::auth::access::AccessRules;
use crate::guard::auth::api_keys::ApiKeys;
use crate::guard::auth::certificates::CertificateRules;
use crate::guard::auth::challenge::Challenges;
use crate::guard::auth::jwt::{ALGORITHMS, ClaimRules, Issuer, JwtVerifier, KeySet};
use crate::guard::auth::metadata::ResourceMetadata;
use crate::guard::auth::token_table::TokenTable;
use crate::guard::auth::{Authenticator, TokenVerifier, is_scope};
use crate::server::options::AuthOptions;
use crate::telemetry::auth_event::AuthEvent;
use crate::telemetry::event::Event;

#[expect(clippy::disallowed_types, reason = "locked while files are read, by no shard")]
type Mutex<T> = std::sync::Mutex<T>;

/// Where keys and rules come from; off without API keys, issuers and a verifier of the program.
#[derive(Debug, Default)]
pub(in crate::server) struct AuthSource(Option<Configured>);

#[derive(Debug)]
struct Configured {
    /// The options that are fixed at start.
    at_start: AuthOptions,
    current: Mutex<Current>,
    issuers: Arc<[IssuerState]>,
    wake: SyncSender<()>,
    /// Taken by the thread.
    woken: Mutex<Option<Receiver<()>>>,
}

/// What is used now.
struct Current {
    options: AuthOptions,
    verifier: Option<Arc<dyn TokenVerifier>>,
    authenticator: Arc<Authenticator>,
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
    pub(in crate::server) fn load(
        options: &AuthOptions,
        verifier: Option<Arc<dyn TokenVerifier>>,
    ) -> Result<Self, String> {
        if !options.is_enabled() && verifier.is_none() {
            return match options.first_without_effect() {
                None => Ok(Self::default()),
                Some(key) => Err(format!(
                    "{key} is set, and no token can be verified: set auth.api_keys, \
                     auth.issuers and auth.key_sets, or auth.client_certificates"
                )),
            };
        }
        let authenticator = Arc::new(read(options, verifier.clone(), None)?);
        let has_keys = |index: usize| {
            let jwt = authenticator.jwt.as_ref();
            jwt.and_then(|jwt| jwt.issuers.get(index)).is_some_and(|it| it.keys.is_some())
        };
        let states = options.key_sets.iter().enumerate().map(|(index, location)| IssuerState {
            is_remote: is_url(location),
            has_keys: has_keys(index).into(),
            ..IssuerState::default()
        });
        let (wake, woken) = sync_channel(1);
        let current = Current {
            files: read_files(options),
            options: options.clone(),
            verifier,
            authenticator: Arc::clone(&authenticator),
        };
        Ok(Self(Some(Configured {
            at_start: options.clone(),
            current: Mutex::new(current),
            issuers: states.collect(),
            wake,
            woken: Mutex::new(Some(woken)),
        })))
    }

    /// Returns the authentication of one shard.
    pub(in crate::server) fn shard_part(&self) -> Authentication {
        let Some(configured) = &self.0 else { return Authentication::default() };
        let Configured { at_start, issuers, wake, .. } = configured;
        Authentication(Some(Box::new(TokenVerification {
            authenticator: Arc::clone(&configured.current().authenticator),
            version: 0,
            tokens: TokenTable::new(at_start.verified_tokens_max as usize),
            key_requests: KeyRequests { issuers: Arc::clone(issuers), wake: wake.clone() },
            checks_per_turn_max: at_start.checks_per_turn_max,
            checks: 0,
            turn: Instant::ORIGIN,
            accepts_query_token: at_start.query_token,
            check_at: None,
        })))
    }

    /// Reads the files again, with the options that a reload may change. `publish` gets what is
    /// used from now on.
    ///
    /// # Errors
    ///
    /// Which option or file cannot be used, and why; nothing changes.
    pub(in crate::server) fn reload(
        &self,
        options: &AuthOptions,
        publish: impl FnOnce(Arc<Authenticator>),
    ) -> Result<(), String> {
        let Some(configured) = &self.0 else {
            if options.is_enabled() {
                return Err("authentication cannot be switched on without a restart".to_owned());
            }
            return Ok(());
        };
        if !options.is_enabled() && configured.current().verifier.is_none() {
            return Err("authentication cannot be switched off without a restart".to_owned());
        }
        let at_start = &configured.at_start;
        let options = AuthOptions {
            resource: at_start.resource.clone(),
            issuers: at_start.issuers.clone(),
            key_sets: at_start.key_sets.clone(),
            ..options.clone()
        };
        configured.replace(options, publish)
    }

    /// Starts the thread that fetches keys and looks at files, until the returned value is dropped.
    /// `publish` gets what is used from now on.
    pub(in crate::server) fn watch(
        self: &Arc<Self>,
        publish: impl Fn(Arc<Authenticator>) + Send + 'static,
    ) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let Some(configured) = &self.0 else { return Ok(None) };
        let has_remote = configured.issuers.iter().any(|issuer| issuer.is_remote);
        if !has_remote && configured.at_start.check_interval.is_zero() {
            return Ok(None);
        }
        let woken = configured.woken.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(woken) = woken else { return Ok(None) };
        let source = Arc::clone(self);
        // Dropping it ends the thread at its next look.
        let alive = Arc::new(());
        let watched = Arc::downgrade(&alive);
        let run = move || {
            let Some(configured) = &source.0 else { return };
            let mut schedule = Schedule::new(configured.issuers.len());
            while watched.strong_count() > 0 {
                configured.refresh_keys(&mut schedule, &publish);
                match woken.recv_timeout(configured.interval()) {
                    Ok(()) => schedule.fetch_requested(&configured.issuers),
                    Err(RecvTimeoutError::Timeout) => configured.read_changed(&publish),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        thread::Builder::new().name("corelane-auth".into()).spawn(run)?;
        Ok(Some(Box::new(AuthWatch { _alive: alive, wake: configured.wake.clone() })))
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
            if issuer.is_pending.load(Ordering::Acquire) {
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
        let read = read(&options, current.verifier.clone(), Some(&current.authenticator))?;
        current.options = options;
        current.authenticator = Arc::new(read);
        publish(Arc::clone(&current.authenticator));
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
            let fetched = fetch::parse_url(location).and_then(|url| fetch::fetch(&url));
            let keys = fetched.and_then(|it| Ok((KeySet::parse(&it.body)?, it.max_age)));
            match keys {
                Ok((keys, max_age)) => {
                    let age = max_age.unwrap_or(AGE_DEFAULT).clamp(AGE_MIN, AGE_MAX);
                    schedule.due[index] = now.after(age);
                    schedule.stale[index] = now.after(AGE_MAX);
                    self.set_keys(index, Some(Arc::new(keys)), &publish);
                    state.has_keys.store(true, Ordering::Release);
                }
                Err(error) => {
                    let issuer = &self.at_start.issuers[index];
                    Event::Auth(AuthEvent::KeySetFailed { issuer, location, error: &error }).emit();
                    let has_keys = state.has_keys.load(Ordering::Acquire);
                    let retry = if has_keys { FETCH_RETRY } else { FIRST_RETRY };
                    schedule.due[index] = now.after(retry);
                    if now >= schedule.stale[index] && has_keys {
                        self.set_keys(index, None, &publish);
                        state.has_keys.store(false, Ordering::Release);
                    }
                }
            }
            state.is_pending.store(false, Ordering::Release);
        }
    }

    /// Replaces the keys of an issuer.
    fn set_keys(
        &self,
        index: usize,
        keys: Option<Arc<KeySet>>,
        publish: impl Fn(Arc<Authenticator>),
    ) {
        let mut current = self.current();
        let mut next = Authenticator::clone(&current.authenticator);
        let issuers = next.jwt.as_mut().map(|jwt| &mut jwt.issuers);
        if let Some(issuer) = issuers.and_then(|issuers| issuers.get_mut(index)) {
            issuer.keys = keys;
        }
        current.authenticator = Arc::new(next);
        publish(Arc::clone(&current.authenticator));
    }
}

/// Reads what the options say of authentication, and uses none of it.
///
/// # Errors
///
/// Which option or file cannot be used, and why.
#[cfg(feature = "cli")]
pub fn check_auth(options: &AuthOptions) -> Result<(), String> {
    AuthSource::load(options, None).map(drop)
}

/// Makes an authenticator from options and files, with the fetched keys of the one before.
fn read(
    options: &AuthOptions,
    verifier: Option<Arc<dyn TokenVerifier>>,
    before: Option<&Authenticator>,
) -> Result<Authenticator, String> {
    let access = AccessRules::parse(&options.rules, &options.tiers, &options.scope_implies)
        .map_err(|error| format!("auth.rules or auth.scope_implies: {error}"))?;
    let certificates = CertificateRules::parse(&options.client_certificates, &access)
        .map_err(|error| format!("auth.client_certificates: {error}"))?;
    let mut api_keys = ApiKeys::default();
    for path in &options.api_keys {
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| format!("auth.api_keys: {}: {error}", path.display()))?;
        let keys = ApiKeys::parse(&text).and_then(|keys| {
            let unknown = keys.tiers().find(|tier| !access.has_tier(tier)).map(str::to_owned);
            match unknown {
                Some(tier) => Err(format!("the tier {tier} is not in auth.tiers")),
                None => api_keys.extend(keys),
            }
        });
        keys.map_err(|error| format!("auth.api_keys: {}: {error}", path.display()))?;
    }
    for scope in options.scopes_supported.iter().chain(&options.challenge_scopes) {
        if !is_scope(scope) {
            return Err(format!(
                "auth.scopes_supported or auth.challenge_scopes: {scope:?} is not a scope"
            ));
        }
    }
    let jwt = if options.issuers.is_empty() { None } else { Some(read_jwt(options, before)?) };
    let metadata = match (&options.resource, options.issuers.is_empty()) {
        (Some(resource), false) => {
            let issuers = options.issuers.iter().map(String::as_str);
            let metadata = ResourceMetadata::new(resource, issuers, &options.scopes_supported);
            Some(metadata.map_err(|error| format!("auth.resource: {resource}: {error}"))?)
        }
        _ => None,
    };
    Ok(Authenticator {
        verifier,
        api_keys,
        jwt,
        certificates,
        access,
        challenges: Challenges {
            resource_metadata: metadata.as_ref().map(|metadata| metadata.url.clone()),
            scopes: options.challenge_scopes.join(" ").into(),
        },
        metadata,
        admits_anonymous: options.anonymous,
    })
}

fn read_jwt(options: &AuthOptions, before: Option<&Authenticator>) -> Result<JwtVerifier, String> {
    let AuthOptions { issuers: names, key_sets, .. } = options;
    if names.len() != key_sets.len() {
        let (names, sets) = (names.len(), key_sets.len());
        return Err(format!(
            "auth.issuers lists {names} issuers and auth.key_sets {sets} key sets"
        ));
    }
    let resource = options.resource.as_ref();
    let resource = resource.ok_or("auth.issuers needs auth.resource: the audience of tokens")?;
    let mut issuers: Vec<Issuer> = Vec::new();
    for (name, location) in names.iter().zip(key_sets) {
        if issuers.iter().any(|issuer| *issuer.name == **name) {
            return Err(format!("auth.issuers lists {name} twice"));
        }
        let keys = if is_url(location) {
            fetch::parse_url(location).map_err(|error| format!("auth.key_sets: {error}"))?;
            // Fails early in a build that verifies no JWT.
            if let Err(error) = KeySet::parse(b"")
                && !cfg!(feature = "oauth-jwt")
            {
                return Err(format!("auth.key_sets: {error}"));
            }
            let jwt = before.and_then(|before| before.jwt.as_ref());
            let known = jwt.and_then(|jwt| jwt.issuers.iter().find(|it| *it.name == **name));
            known.and_then(|issuer| issuer.keys.clone())
        } else {
            let text = fs::read(Path::new(location)).map_err(|error| error.to_string());
            let keys = text.and_then(|text| KeySet::parse(&text));
            Some(Arc::new(keys.map_err(|error| format!("auth.key_sets: {location}: {error}"))?))
        };
        issuers.push(Issuer { name: name.as_str().into(), keys });
    }
    let unknown = options.algorithms.iter().find(|name| !ALGORITHMS.contains(&name.as_str()));
    if let Some(unknown) = unknown {
        let all = ALGORITHMS.join(", ");
        return Err(format!("auth.algorithms: {unknown} is not one of {all}"));
    }
    let algorithms = match &options.algorithms[..] {
        [] => ALGORITHMS.map(Box::from).to_vec(),
        chosen => chosen.iter().map(|name| name.as_str().into()).collect(),
    };
    let audiences = std::iter::once(resource).chain(&options.audiences);
    Ok(JwtVerifier {
        issuers,
        algorithms,
        requires_access_token_type: options.require_at_jwt,
        claims: ClaimRules {
            audiences: audiences.map(|audience| audience.as_str().into()).collect(),
            leeway_seconds: options.leeway.as_secs(),
            tier_claim: options.tier_claim.as_deref().map(Box::from),
        },
    })
}

/// Returns the contents of all files of `options`; `None` for one that cannot be read.
fn read_files(options: &AuthOptions) -> Vec<Option<Vec<u8>>> {
    let key_sets = options.key_sets.iter().filter(|location| !is_url(location)).map(Path::new);
    let all = options.api_keys.iter().map(|path| &**path).chain(key_sets);
    all.map(|path| fs::read(path).ok()).collect()
}

fn is_url(location: &str) -> bool {
    location.contains("://")
}

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
