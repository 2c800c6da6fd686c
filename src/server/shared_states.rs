//! What all shards of a process share of `requestState`: its keys, its name as an issuer, and which
//! states were used.
//!
//! Invariant: a state is used once in this process, also if another process has issued it. While
//! more of those are remembered than there is room for, or more of one caller or of one network
//! than its share, further ones are refused, not forgotten.

use std::sync::{Arc, OnceLock};

use corelane_base::holders::PlaceOwner;
use corelane_engine::mesh::{ReplayFilter, UseResult};
use sha2::{Digest, Sha256};

use super::options::Options;
use super::secret_file;
use super::used_digests::{UsedDigest, UsedDigests};
use crate::guard::secure_rng::{Purpose, SecureRng};
use crate::guard::state_cipher::KEY_BYTES;
use crate::guard::state_keys::{OpenedText, StateKeys, TextNonce};

/// States of this process whose use is remembered: those issued within `request_state_ttl` at 7,000
/// per second. Cost: 1 MiB for the process.
const OWN_STATES_REMEMBERED_MAX: usize = 1 << 22;

/// States of other processes whose use is remembered. Cost: 4 MiB for the process, once there is
/// one, and some 100 bytes for each caller that has one.
const FOREIGN_STATES_REMEMBERED_MAX: usize = 1 << 17;

/// Seconds of a unit of time in which the use of these is remembered. A set remembers up to 65,536
/// units: 48 days, which is more than `request_state_ttl` may be.
const UNIT_SECONDS: u64 = 64;

/// Seconds for which the use of a state of another process can be remembered.
const REMEMBERED_SECONDS_MAX: u64 = UNIT_SECONDS * ((1 << 16) - 2);

/// The states of a process. A clone is the same states.
#[derive(Clone, Debug)]
pub(super) struct SharedStates {
    keys: StateKeys,
    issuer: u128,
    used: Arc<ReplayFilter>,
    /// States of other processes.
    used_foreign: Arc<OnceLock<UsedDigests>>,
}

/// Why a state that was decrypted is not accepted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NotUsable {
    Used,
    TooOld,
    /// Its use cannot be remembered.
    NoRoom,
    /// The same, because its caller or the network of that has its share.
    NoRoomOfCaller,
    /// It expires later than any use is remembered.
    TooLong,
}

impl SharedStates {
    /// Returns a random key and name, drawn from the secret of the process.
    pub fn new(secret: &[u8; KEY_BYTES]) -> Self {
        let mut rng = SecureRng::new(secret, Purpose::RequestStates);
        let mut draw = || rng.next_u128().unwrap_or_default();
        let (mut key, issuer) = ([0; KEY_BYTES], draw());
        let (first, second) = key.split_at_mut(size_of::<u128>());
        first.copy_from_slice(&draw().to_le_bytes());
        second.copy_from_slice(&draw().to_le_bytes());
        let used = Arc::new(ReplayFilter::new(OWN_STATES_REMEMBERED_MAX));
        Self { keys: StateKeys::of_one(&key), issuer, used, used_foreign: Arc::default() }
    }

    /// Returns the same with keys that other processes have, too.
    pub fn with_keys(self, keys: StateKeys) -> Self {
        Self { keys, ..self }
    }

    /// Encrypts a state for `context`, under a number that no other one has.
    pub fn encrypt(&self, context: &[u8], plaintext: &[u8]) -> Option<String> {
        let nonce = TextNonce { issuer: self.issuer, number: self.used.issue() };
        self.keys.encrypt(nonce, context, plaintext)
    }

    /// Decrypts a state that a process with the same keys has encrypted for `context`.
    pub fn decrypt(&self, context: &[u8], text: &str) -> Option<OpenedText> {
        self.keys.decrypt(context, text)
    }

    /// Records the use by a caller of a state that expires at `until`, in seconds since 1970 as
    /// `now`.
    pub fn mark_used(
        &self,
        nonce: TextNonce,
        owner: PlaceOwner<'_>,
        now: u64,
        until: u64,
    ) -> Result<(), NotUsable> {
        if nonce.issuer == self.issuer {
            return match self.used.mark_used(nonce.number) {
                UseResult::First => Ok(()),
                UseResult::Replayed => Err(NotUsable::Used),
                UseResult::Expired => Err(NotUsable::TooOld),
            };
        }
        if until.saturating_sub(now) > REMEMBERED_SECONDS_MAX {
            return Err(NotUsable::TooLong);
        }
        let used =
            self.used_foreign.get_or_init(|| UsedDigests::new(FOREIGN_STATES_REMEMBERED_MAX));
        let (now, until) = (now / UNIT_SECONDS, until.div_ceil(UNIT_SECONDS));
        match used.insert(digest_of(nonce), owner, now, until) {
            UsedDigest::First => Ok(()),
            UsedDigest::Present => Err(NotUsable::Used),
            UsedDigest::NoRoom => Err(NotUsable::NoRoom),
            UsedDigest::NoRoomOfCaller => Err(NotUsable::NoRoomOfCaller),
        }
    }
}

/// Returns a number that is as random as a hash.
fn digest_of(nonce: TextNonce) -> u128 {
    let hash = Sha256::new()
        .chain_update(nonce.issuer.to_le_bytes())
        .chain_update(nonce.number.to_le_bytes())
        .finalize();
    hash.first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes))
}

/// Where the keys come from: files at start and again on a reload, or the secret of the process.
#[derive(Debug)]
pub(super) struct StateSource {
    /// With the key of the process.
    own: SharedStates,
    /// With the keys at start.
    pub at_start: SharedStates,
}

impl StateSource {
    /// Reads the keys, and draws what is random from the secret of the process.
    ///
    /// # Errors
    ///
    /// Those of [`StateSource::read`].
    pub fn load(options: &Options, secret: &[u8; KEY_BYTES]) -> Result<Arc<Self>, String> {
        let own = SharedStates::new(secret);
        let mut source = Self { at_start: own.clone(), own };
        source.at_start = source.read(options)?;
        Ok(Arc::new(source))
    }

    /// Reads the keys.
    ///
    /// # Errors
    ///
    /// Which file cannot be used, and why.
    pub fn read(&self, options: &Options) -> Result<SharedStates, String> {
        let paths = &options.limits.request_state_keys;
        if paths.is_empty() {
            return Ok(self.own.clone());
        }
        let texts = paths.iter().map(|path| {
            let name = format!("request_state_keys: {}", path.display());
            match secret_file::read_text(path) {
                Ok(text) => Ok((text, name)),
                Err(error) => Err(format!("{name}: {error}")),
            }
        });
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let keys = StateKeys::from_texts(texts.iter().map(|(text, name)| (&**text, &**name)))?;
        Ok(self.own.clone().with_keys(keys))
    }
}

#[cfg(test)]
mod tests {
    use corelane_base::client_address::ClientAddress;
    use corelane_base::principal::Principal;

    use super::*;

    #[test]
    fn foreign_state_is_used_once() {
        let keys = StateKeys::of_one(&[1; KEY_BYTES]);
        let [issuer, reader] = [[7; KEY_BYTES], [8; KEY_BYTES]]
            .map(|it| SharedStates::new(&it).with_keys(keys.clone()));
        let text = issuer.encrypt(b"context", b"state").unwrap();
        let opened = reader.decrypt(b"context", &text).unwrap();
        assert_eq!(opened.plaintext, b"state");
        let owner = PlaceOwner::default();
        for states in [&reader, &issuer] {
            assert_eq!(states.mark_used(opened.nonce, owner, 100, 200), Ok(()));
            assert_eq!(states.mark_used(opened.nonce, owner, 199, 200), Err(NotUsable::Used));
        }
        let own = SharedStates::new(&[9; KEY_BYTES]);
        assert_eq!(own.decrypt(b"context", &text), None);
    }

    /// Returns the name of a state of another process.
    const fn foreign(number: u64) -> TextNonce {
        TextNonce { issuer: 1, number }
    }

    #[test]
    fn foreign_state_is_used_once_in_its_lifetime() {
        const DAY: u64 = 24 * 60 * 60;
        let (states, owner) = (SharedStates::new(&[7; KEY_BYTES]), PlaceOwner::default());
        // The longest `request_state_ttl`.
        let (begin, end) = (20_000 * DAY, 20_030 * DAY);
        assert_eq!(states.mark_used(foreign(1), owner, begin, end), Ok(()));
        for now in [begin + 1, begin + DAY, begin + 7 * DAY, begin + 29 * DAY, end - 1] {
            assert_eq!(states.mark_used(foreign(1), owner, now, end), Err(NotUsable::Used));
        }
        let endless = states.mark_used(foreign(2), owner, begin, begin + 60 * DAY);
        assert_eq!(endless, Err(NotUsable::TooLong));
    }

    #[test]
    fn caller_leaves_foreign_states_to_others() {
        let states = SharedStates::new(&[7; KEY_BYTES]);
        let address = |text: &str| ClientAddress::new(text.parse().unwrap());
        let mut numbers = 0..;
        let mut mark = |name: &str, from: &str| {
            let principal = Principal::new(name);
            let owner = PlaceOwner { principal: Some(&principal), address: address(from) };
            states.mark_used(foreign(numbers.next().unwrap()), owner, 100, 1_000)
        };
        let mut used = 0;
        while mark("mallory", "192.0.2.1").is_ok() {
            used += 1;
        }
        assert_eq!(used, FOREIGN_STATES_REMEMBERED_MAX / 4 * 3);
        assert_eq!(mark("mallory", "198.51.100.7"), Err(NotUsable::NoRoomOfCaller));
        assert_eq!(mark("ada", "192.0.2.1"), Err(NotUsable::NoRoomOfCaller));
        assert_eq!(mark("ada", "192.0.2.2"), Ok(()));
        // What was used is not forgotten for others.
        let owner = PlaceOwner { principal: None, address: address("203.0.113.5") };
        assert_eq!(states.mark_used(foreign(0), owner, 100, 1_000), Err(NotUsable::Used));
    }
}
