//! Keys and rules of a server: read from files at start, again when they change, and fetched from
//! issuers.
//!
//! Invariants: an authenticator is used only if all of its files can be read; otherwise the one
//! before it stays. The keys of an issuer are kept for a day if they cannot be fetched again, and
//! then dropped, so that its tokens get status 503.
//!
//! Files are looked at on a thread of their own, each key set that is fetched has one, and others
//! ask about tokens: none of them waits for another one.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::Duration;
use std::{io, thread};

use corelane_base::time::Instant;
use corelane_engine::clock::{Clock, unix_ms};
use corelane_engine::placement::yield_to_others;

use super::checks::{ProofChecks, TurnChecks};
use super::introspection::{FailureLog, PendingTokens, WAIT_MAX};
use super::key_requests::{IssuerState, KeyRequests};
use super::proof_threads::ProofThreads;
use super::question_queue::{NextQuestion, Question, QuestionQueue};
use super::settings::{Settings, has_files, is_url, read, read_files, read_rules};
use super::{Authentication, TokenVerification};
use crate::guard::auth::introspection::{IntrospectedToken, NotIntrospected};
use crate::guard::auth::jwt::KeySet;
use crate::guard::auth::token_table::{TokenDigest, TokenTable};
use crate::guard::auth::{Authenticator, TokenVerifier};
use crate::guard::state_cipher::KEY_BYTES;
use crate::server::fetch;
use crate::server::options::{AuthOptions, ClientCertificateMode, DpopMode, Options};
use crate::server::used_digests::UsedDigests;
use crate::telemetry::auth_event::AuthEvent;
use crate::telemetry::event::Event;

#[expect(clippy::disallowed_types, reason = "locked while files are read, by no shard")]
type Mutex<T> = std::sync::Mutex<T>;

/// Where keys and rules come from.
#[derive(Debug, Default)]
pub enum AuthSource {
    /// No caller is known.
    #[default]
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
    used_proofs: Option<Arc<UsedDigests>>,
    /// The threads that verify proofs.
    proof_threads: ProofThreads,
    current: Mutex<Current>,
    issuers: Arc<[IssuerState]>,
    questions: Arc<QuestionQueue>,
    failures: FailureLog,
    /// What wakes the threads that fetch the keys of each issuer; taken by them.
    woken: Mutex<Option<Vec<Receiver<()>>>>,
    /// Seconds since 1970 at which the files were last found valid.
    files_read_at: AtomicU64,
}

/// What the shards learn from the threads.
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
    /// Whether these contents are valid, and used.
    are_files_used: bool,
    /// Number of options before these.
    generation: u64,
    /// Other contents, found by the last look.
    changed: Option<Vec<Option<Vec<u8>>>>,
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
        let (wakes, woken): (Vec<_>, Vec<_>) =
            options.key_sets.iter().map(|_| sync_channel(1)).unzip();
        let states = options.key_sets.iter().zip(wakes).enumerate();
        let states = states.map(|(index, (location, wake))| IssuerState {
            is_remote: is_url(location),
            has_keys: has_keys(index).into(),
            wake: Some(wake),
            ..IssuerState::default()
        });
        let issuers = states.collect();
        let questions = QuestionQueue::new(
            options.introspections_max.into(),
            options.introspections_at_once_max.into(),
            WAIT_MAX,
        );
        let has_proofs = options.dpop != DpopMode::Off;
        let used_proofs = has_proofs.then(|| UsedDigests::new(options.dpop_proofs_max as usize));
        let current = Current {
            files: read_files(options),
            are_files_used: true,
            generation: 0,
            changed: None,
            options: options.clone(),
            verifier,
            settings,
        };
        Ok(Self::Tokens(Box::new(Configured {
            at_start: options.clone(),
            binds_certificates,
            used_proofs: used_proofs.map(Arc::new),
            proof_threads: ProofThreads::new(all.background_threads()),
            current: Mutex::new(current),
            issuers,
            questions: Arc::new(questions),
            failures: FailureLog::new(),
            woken: Mutex::new(Some(woken)),
            files_read_at: AtomicU64::new(unix_ms() / 1_000),
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
        Authentication::by_tokens(TokenVerification {
            proofs: configured
                .used_proofs
                .clone()
                .map(|used| ProofChecks::new(used, configured.proof_threads.clone(), secret)),
            authenticator: Arc::clone(&configured.current().settings.authenticator),
            version: 0,
            tokens: TokenTable::new(at_start.verified_tokens_max as usize),
            key_requests: KeyRequests { issuers: Arc::clone(issuers) },
            pending: PendingTokens::new(Arc::clone(questions)),
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

    /// Starts the threads that look at files, fetch keys and ask about tokens, until the returned
    /// value is dropped. `publish` gets what they learn.
    pub fn watch(
        self: &Arc<Self>,
        publish: impl Fn(AuthUpdate) + Clone + Send + 'static,
    ) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let Self::Tokens(configured) = &**self else { return Ok(None) };
        let woken = configured.woken.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(woken) = woken else { return Ok(None) };
        let (alive, ended) = sync_channel(0);
        let watch = AuthWatch { source: Arc::clone(self), _alive: alive };
        let watched = Arc::new(watch);
        if !configured.at_start.check_interval.is_zero() {
            self.start("corelane-auth", &publish, move |configured, publish| {
                configured.watch_files(&ended, publish);
            })?;
        }
        let issuers = woken.into_iter().enumerate();
        for (index, woken) in issuers.filter(|(index, _)| configured.issuers[*index].is_remote) {
            let watched = Arc::downgrade(&watched);
            self.start("corelane-keys", &publish, move |configured, publish| {
                let is_watched = || watched.strong_count() > 0;
                configured.watch_key_set(index, &woken, is_watched, publish);
            })?;
        }
        if configured.at_start.introspection.is_some() {
            self.start("corelane-ask", &publish, Configured::refuse_dropped)?;
            self.start("corelane-ask", &publish, Configured::ask)?;
        }
        Ok(Some(Box::new(watched)))
    }

    /// Starts one of the threads.
    fn start<P: Fn(AuthUpdate) + Clone + Send + 'static>(
        self: &Arc<Self>,
        name: &str,
        publish: &P,
        run: impl FnOnce(&Configured, P) + Send + 'static,
    ) -> io::Result<()> {
        let (source, publish) = (Arc::clone(self), publish.clone());
        let run = move || {
            if let Self::Tokens(configured) = &*source {
                run(configured, publish);
            }
        };
        thread::Builder::new().name(name.into()).spawn(run).map(drop)
    }

    /// Returns when what tokens are verified with was last read: the source, and the seconds since
    /// 1970.
    pub fn read_times(&self) -> Vec<(Box<str>, u64)> {
        let Self::Tokens(configured) = self else { return Vec::new() };
        let Configured { at_start, issuers, files_read_at, .. } = &**configured;
        let sets = at_start.key_sets.iter().zip(&**issuers).filter(|(_, state)| state.is_remote);
        let sets = sets.map(|(location, state)| (location.as_str().into(), &state.fetched_at));
        let files = has_files(at_start).then(|| ("files".into(), files_read_at));
        files
            .into_iter()
            .chain(sets)
            .map(|(source, at)| (source, at.load(Ordering::Acquire)))
            .collect()
    }
}

/// Ends the threads when it is dropped.
struct AuthWatch {
    source: Arc<AuthSource>,
    /// Its receiver notices that it is dropped.
    _alive: SyncSender<()>,
}

impl Drop for AuthWatch {
    fn drop(&mut self) {
        let AuthSource::Tokens(configured) = &*self.source else { return };
        configured.questions.close();
        // The threads look whether this value is alive after the next wake-up.
        configured.issuers.iter().for_each(IssuerState::wake);
    }
}

/// When the keys of an issuer are fetched.
struct Schedule {
    clock: Clock,
    due: Instant,
    /// When keys that cannot be fetched again are dropped.
    stale: Instant,
}

impl Configured {
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time until the next look at the files.
    fn look_interval(&self) -> Duration {
        let interval = self.at_start.check_interval;
        if self.current().changed.is_some() { interval.min(SECOND_LOOK) } else { interval }
    }

    /// Looks at the files in each interval until `ended` is.
    fn watch_files(&self, ended: &Receiver<()>, publish: impl Fn(AuthUpdate)) {
        while ended.recv_timeout(self.look_interval()) == Err(RecvTimeoutError::Timeout) {
            self.read_changed(|authenticator| publish(AuthUpdate::Authenticator(authenticator)));
        }
    }

    /// Fetches the keys of an issuer when they are due or requested.
    fn watch_key_set(
        &self,
        index: usize,
        woken: &Receiver<()>,
        is_watched: impl Fn() -> bool,
        publish: impl Fn(AuthUpdate),
    ) {
        let clock = Clock::start();
        let mut schedule = Schedule { clock, due: Instant::ORIGIN, stale: Instant::ORIGIN };
        while is_watched() {
            self.refresh_keys(index, &mut schedule, |authenticator| {
                publish(AuthUpdate::Authenticator(authenticator));
            });
            let left = schedule.due.since(schedule.clock.now());
            match woken.recv_timeout(left) {
                Ok(()) if self.issuers[index].is_requested() => schedule.due = Instant::ORIGIN,
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Asks about tokens on as many threads as that needs, until the queue is closed.
    fn ask<P: Fn(AuthUpdate) + Clone + Send>(&self, publish: P) {
        if self.questions.begin_thread() {
            thread::scope(|scope| self.ask_on(scope, publish));
        }
    }

    /// Asks about tokens, one after the other, while other threads do the same. Shards go first:
    /// with many unknown tokens there are more of these threads than processors.
    fn ask_on<'s, 'e, P>(&'e self, scope: &'s Scope<'s, 'e>, publish: P)
    where
        P: Fn(AuthUpdate) + Clone + Send + 'e,
    {
        yield_to_others();
        while let Some(next) = self.questions.next() {
            if self.questions.begin_thread() {
                let other = publish.clone();
                let thread = thread::Builder::new().name("corelane-ask".into());
                // Without a further thread the tokens wait for this one.
                if thread.spawn_scoped(scope, || self.ask_on(scope, other)).is_err() {
                    self.questions.end_thread();
                }
            }
            let token = match next {
                NextQuestion::Expired(digest) => {
                    Some(not_introspected(digest, NotIntrospected::NoAnswer))
                }
                NextQuestion::Ask(question) => {
                    let answer = self.introspect(&question);
                    self.questions.end(&question);
                    answer
                }
            };
            if let Some(token) = token {
                publish(AuthUpdate::Introspected(Arc::new(token)));
            }
        }
        self.questions.end_thread();
    }

    /// Refuses the tokens that have lost their place in the queue.
    fn refuse_dropped(&self, publish: impl Fn(AuthUpdate)) {
        while let Some(dropped) = self.questions.next_dropped() {
            for digest in dropped {
                let token = not_introspected(digest, NotIntrospected::TooMany);
                publish(AuthUpdate::Introspected(Arc::new(token)));
            }
        }
    }

    /// Uses other options and the present files from now on.
    fn replace(
        &self,
        options: AuthOptions,
        publish: impl FnOnce(Arc<Authenticator>),
    ) -> Result<(), String> {
        let mut current = self.current();
        current.files = read_files(&options);
        current.are_files_used = false;
        current.generation += 1;
        current.changed = None;
        let before = Some(&*current.settings.authenticator);
        let verifier = current.verifier.clone();
        let settings = read(&options, self.binds_certificates, verifier, before)?;
        current.options = options;
        current.settings = settings;
        current.are_files_used = true;
        self.record_read();
        publish(Arc::clone(&current.settings.authenticator));
        Ok(())
    }

    /// Records that the files are those that are used.
    fn record_read(&self) {
        self.files_read_at.store(unix_ms() / 1_000, Ordering::Release);
    }

    /// Reads the files again if one has changed.
    fn read_changed(&self, publish: impl Fn(Arc<Authenticator>)) {
        let (options, generation) = {
            let current = self.current();
            (current.options.clone(), current.generation)
        };
        let files = read_files(&options);
        {
            let mut current = self.current();
            if current.generation != generation {
                return;
            }
            if files == current.files {
                current.changed = None;
                if current.are_files_used {
                    self.record_read();
                }
                return;
            }
            // A file may be written just now: the next look has to find the same.
            if current.changed.as_ref() != Some(&files) {
                current.changed = Some(files);
                return;
            }
            current.changed = None;
        }
        let error = self.replace(options, publish).err();
        Event::Auth(AuthEvent::Reloaded { error: error.as_deref() }).emit();
    }

    /// Fetches the keys of an issuer if they are due.
    fn refresh_keys(
        &self,
        index: usize,
        schedule: &mut Schedule,
        publish: impl Fn(Arc<Authenticator>),
    ) {
        let (now, state) = (schedule.clock.now(), &self.issuers[index]);
        if schedule.due > now {
            return;
        }
        let location = &self.at_start.key_sets[index];
        let requests = state.requests.load(Ordering::Acquire);
        let fetcher = Arc::clone(&self.current().settings.fetcher);
        let fetched = fetch::parse_url(location).and_then(|url| fetcher.fetch(&url, None));
        let keys = fetched.and_then(|it| Ok((KeySet::parse(&it.body)?, it.max_age)));
        match keys {
            Ok((keys, max_age)) => {
                let age = max_age.unwrap_or(AGE_DEFAULT).clamp(AGE_MIN, AGE_MAX);
                (schedule.due, schedule.stale) = (now.after(age), now.after(AGE_MAX));
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
                schedule.due = now.after(retry);
                if now >= schedule.stale && has_keys {
                    self.set_keys(index, None, requests, &publish);
                    state.has_keys.store(false, Ordering::Release);
                }
            }
        }
    }

    /// Asks about a token. `None` if the options name no endpoint any more.
    fn introspect(&self, question: &Question) -> Option<IntrospectedToken> {
        let (fetcher, introspector) = {
            let current = self.current();
            let Settings { fetcher, introspector, .. } = &current.settings;
            (Arc::clone(fetcher), introspector.clone())
        };
        introspector.map(|it| it.introspect(&fetcher, question, &self.failures))
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

/// A token about which the authorization server has said nothing.
const fn not_introspected(digest: TokenDigest, why: NotIntrospected) -> IntrospectedToken {
    IntrospectedToken { digest, answer: Err(why) }
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

/// Time after which changed files are looked at again, before they are used.
const SECOND_LOOK: Duration = Duration::from_millis(200);
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn changed_file_is_used_after_two_equal_looks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api.keys");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        let key = |id: &str| format!("{id}:{}\n", "0".repeat(64));
        write(&key("ada"));
        let mut options = Options::tiny();
        options.auth.api_keys = vec![path.clone()];
        options.auth.check_interval = Duration::from_secs(10);
        let source = AuthSource::load(&options, HostCallers::default()).unwrap();
        let AuthSource::Tokens(configured) = &source else { panic!("it verifies tokens") };
        let published = Cell::new(0);
        let look = || {
            configured.read_changed(|_| published.set(published.get() + 1));
            published.get()
        };
        assert_eq!(look(), 0);
        write("bob:");
        assert_eq!(look(), 0);
        assert_eq!(configured.look_interval(), SECOND_LOOK);
        // Written to its end meanwhile.
        write(&key("bob"));
        assert_eq!(look(), 0);
        assert_eq!(look(), 1);
        assert_eq!(look(), 1);
        assert!(configured.look_interval() > SECOND_LOOK);
    }
}
