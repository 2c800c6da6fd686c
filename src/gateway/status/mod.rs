//! What operators see of the upstreams: their states, programs and calls.
//!
//! Invariants: what is kept of an upstream is bounded; it has no secret: of a program its path
//! without arguments, of an address its host and port. Shards record calls with atomics; the state
//! is written by the thread of the gateway, and read for operators.

mod durations;

mod calls;
mod children;

mod exposition;
mod json;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use corelane_base::time::Instant;
use corelane_client::{ClientError, Target};
use corelane_engine::clock::Clock;

use self::calls::UpstreamCalls;
pub use self::calls::{CallCounts, CallOutcome, CallRecord, ToolCounts};
pub use self::children::ChildRecord;
use self::children::Children;
pub use self::exposition::write_metrics;
pub use self::json::write_json;
use crate::declared::Share;
use crate::gateway::lists::Lists;

#[expect(clippy::disallowed_types, reason = "held for a copy of the state")]
type Mutex<T> = std::sync::Mutex<T>;

/// Bytes of a text of an upstream, such as an error or its name.
const TEXT_BYTES_MAX: usize = 512;
/// Names of tools that have changed.
const NAMES_MAX: usize = 64;

/// What is recorded of one upstream.
#[derive(Debug)]
pub struct UpstreamStatus {
    pub name: Box<str>,
    /// How it is reached, without what may be secret.
    pub target: Box<str>,
    /// Who shares it, as declared.
    pub share: Share,
    pub calls: Arc<UpstreamCalls>,
    pub children: Arc<Children>,
    pub clock: Clock,
    list_failures: AtomicU64,
    state: Mutex<StateReport>,
}

/// What is known of an upstream.
#[derive(Clone, Debug)]
pub struct StateReport {
    pub state: UpstreamState,
    /// Why it failed last; `None` once its lists were read.
    pub error: Option<Box<str>>,
    /// When it is tried again.
    pub retry_at: Option<Instant>,
    /// What it offered when its lists were last read.
    pub facts: Option<ServerFacts>,
}

/// The state of an upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UpstreamState {
    /// Its lists are read for the first time, or after a restart.
    Starting,
    /// Its lists were read.
    Ready,
    /// Its lists could not be read; those that are known stay.
    Failed,
    /// An operator has disabled it.
    Disabled,
}

impl UpstreamState {
    /// Returns the name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
        }
    }
}

/// What an upstream declared, and the numbers of what is offered of it.
#[derive(Clone, Debug)]
pub struct ServerFacts {
    pub revision: &'static str,
    /// Name and version of the server; `None` if it sends neither.
    pub server: Option<[Box<str>; 2]>,
    pub tools: usize,
    /// With templates.
    pub resources: usize,
    pub prompts: usize,
    /// Who shares it, decided.
    pub share: Share,
    /// Names of tools that are left out because they have changed, the first ones.
    pub hidden: Vec<Box<str>>,
}

impl UpstreamStatus {
    /// An upstream that has not been started.
    pub fn new(name: &str, target: &Target, share: Share, clock: Clock) -> Self {
        Self {
            name: name.into(),
            target: printable(&target.without_secrets(), TEXT_BYTES_MAX),
            share,
            calls: Arc::new(UpstreamCalls::new(clock)),
            children: Arc::default(),
            clock,
            list_failures: AtomicU64::new(0),
            state: Mutex::new(StateReport {
                state: UpstreamState::Starting,
                error: None,
                retry_at: None,
                facts: None,
            }),
        }
    }

    /// Records that its lists were read, and which tools are `hidden` because they have changed.
    pub fn set_ready(&self, lists: &Lists, share: Share, hidden: &[String]) {
        let hidden = hidden.iter().take(NAMES_MAX).map(|it| printable(it, TEXT_BYTES_MAX));
        let server = lists.server.implementation.as_ref();
        let facts = ServerFacts {
            revision: lists.server.revision.as_str(),
            server: server
                .map(|it| [&it.name, &it.version].map(|it| printable(it, TEXT_BYTES_MAX))),
            tools: lists.tools.len(),
            resources: lists.resources.len() + lists.templates.len(),
            prompts: lists.prompts.len(),
            share,
            hidden: hidden.collect(),
        };
        let mut state = self.lock();
        (state.state, state.error, state.retry_at) = (UpstreamState::Ready, None, None);
        state.facts = Some(facts);
    }

    /// Records that its lists could not be read, and when they are read again.
    pub fn set_failed(&self, error: &ClientError, retry_at: Instant) {
        self.list_failures.fetch_add(1, Ordering::Relaxed);
        let error = printable(&error.to_string(), TEXT_BYTES_MAX);
        let mut state = self.lock();
        (state.state, state.error) = (UpstreamState::Failed, Some(error));
        state.retry_at = Some(retry_at);
    }

    /// Records that it is starting anew, or disabled.
    pub fn set_changed(&self, is_enabled: bool) {
        let changed = if is_enabled { UpstreamState::Starting } else { UpstreamState::Disabled };
        let mut state = self.lock();
        (state.state, state.error, state.retry_at) = (changed, None, None);
        if !is_enabled {
            state.facts = None;
        }
    }

    /// Returns the state.
    pub fn state(&self) -> StateReport {
        self.lock().clone()
    }

    /// Reads of its lists that have failed since the start.
    pub fn list_failures(&self) -> u64 {
        self.list_failures.load(Ordering::Relaxed)
    }

    /// Time until it is tried again, in milliseconds.
    fn retry_in_ms(&self, state: &StateReport) -> Option<u64> {
        let left = state.retry_at?.since(self.clock.now());
        Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    fn lock(&self) -> MutexGuard<'_, StateReport> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the beginning of a text, of at most `bytes_max`, in which control characters and
/// invisible ones are escapes of Rust.
fn printable(text: &str, bytes_max: usize) -> Box<str> {
    let mut out = String::with_capacity(text.len().min(bytes_max));
    for character in text.chars() {
        let escaped: Cow<'static, str> = match character {
            '\t' => Cow::Borrowed(" "),
            // Those that `escape_debug` escapes, but for quotes and backslashes.
            '\'' | '"' | '\\' => Cow::Owned(character.into()),
            other => Cow::Owned(other.escape_debug().to_string()),
        };
        if out.len() + escaped.len() > bytes_max {
            break;
        }
        // Writing to a string does not fail.
        out.write_str(&escaped).unwrap_or_default();
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let text = "a\tb \u{1b}[0m \u{202e} \"é\" \\ \u{7f}";
        assert_eq!(&*printable(text, 512), "a b \\u{1b}[0m \\u{202e} \"é\" \\ \\u{7f}");
        assert_eq!(&*printable("aéé", 4), "aé");
    }
}
