//! Held calls: calls of clients of 2026-07-28 whose upstream, up to 2025-11-25, requires input. The
//! client gets the input request as the result of its request, and repeats its request with the
//! response; the call of the upstream waits here for that.
//!
//! Invariants: a held call is resumed at most once, by its own principal, for the same upstream;
//! it ends when its time is over, and then the upstream gets an error as the response and a
//! cancellation.
//!
//! The id of a held call is in the keys of its input requests, which the encrypted `requestState`
//! binds to the request and its principal.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use corelane_engine::process::Entropy;

use crate::gateway::input::ClientRequest;

#[expect(clippy::disallowed_types, reason = "locked by calls with client_requests only")]
type Mutex<T> = std::sync::Mutex<T>;

/// The held calls of a gateway, of which `C` is the part at the upstream.
#[derive(Debug)]
pub struct HeldCalls<C> {
    calls: Mutex<HashMap<HeldId, (Instant, HeldCall<C>)>>,
    clock: Clock,
    hold_time: Duration,
    held_max: usize,
}

/// Names a held call. It is random, and the same for all input requests of the call.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct HeldId(u128);

/// A call that waits for input.
#[derive(Debug)]
pub struct HeldCall<C> {
    /// The call of the upstream. Dropping it ends it.
    pub running: C,
    /// The input requests without responses, by their keys.
    pub client_requests: Vec<(String, ClientRequest)>,
    /// Who may resume it.
    pub owner: Owner,
}

/// Whose a held call is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owner {
    /// Identity of the principal; `None` without authentication.
    pub principal: Option<String>,
    /// Name of the upstream.
    pub upstream: Box<str>,
    /// Name of the tool or prompt, or URI of the resource, at the upstream.
    pub target: Box<str>,
}

/// What keys of held calls begin with.
const PREFIX: &str = "held-";
/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 32;

impl HeldId {
    /// Returns a new id.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub fn new() -> std::io::Result<Self> {
        let Entropy { secret, .. } = Entropy::from_system()?;
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&secret[..16]);
        Ok(Self(u128::from_le_bytes(bytes)))
    }

    /// The key of the input request `number` of the call.
    pub fn key(self, number: u32) -> String {
        let mut key = PREFIX.to_owned();
        // Writing to a string does not fail.
        write!(key, "{:032x}-{number}", self.0).unwrap_or_default();
        key
    }

    /// Reads the id in a key.
    pub fn of_key(key: &str) -> Option<Self> {
        let id = key.strip_prefix(PREFIX)?.get(..ID_DIGITS)?;
        u128::from_str_radix(id, 16).ok().map(Self)
    }
}

impl<C> HeldCalls<C> {
    /// Holds up to `held_max` calls for `hold_time` each.
    pub fn new(hold_time: Duration, held_max: usize) -> Self {
        Self { calls: Mutex::default(), clock: Clock::start(), hold_time, held_max }
    }

    /// Holds a call, until [`HeldCalls::expire`] drops it when its time is over.
    ///
    /// # Errors
    ///
    /// As many calls are held as may be; the call is returned.
    pub fn hold(&self, id: HeldId, call: HeldCall<C>) -> Result<(), Box<HeldCall<C>>> {
        let mut calls = self.lock();
        if calls.len() >= self.held_max {
            return Err(Box::new(call));
        }
        calls.insert(id, (self.clock.now().after(self.hold_time), call));
        Ok(())
    }

    /// Takes a held call of `owner`; `None` if there is none with this id.
    pub fn resume(&self, id: HeldId, owner: &Owner) -> Option<HeldCall<C>> {
        let mut calls = self.lock();
        calls.get(&id).filter(|(_, call)| call.owner == *owner)?;
        calls.remove(&id).map(|(_, call)| call)
    }

    /// Ends the calls whose time is over.
    pub fn expire(&self) {
        let now = self.clock.now();
        let mut calls = self.lock();
        let over: Vec<_> = calls.extract_if(|_, (until, _)| *until <= now).collect();
        drop(calls);
        // Ends their calls of upstreams.
        drop(over);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<HeldId, (Instant, HeldCall<C>)>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
