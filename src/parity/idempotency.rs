//! Idempotency keys of requests: a key is accepted once.
//!
//! Invariants: at most `keys_max` keys are known, each as a hash of 16 bytes; the oldest finished
//! one makes room for a new one, a running one never does.

use std::collections::{HashMap, VecDeque};

use corelane_base::heap_bytes;
use corelane_base::heap_bytes::{HeapBytes, map_bytes};
use siphasher::sip128::SipHasher13;

use super::error::{ErrorCode, ParityError};

/// Longest key in characters.
pub const KEY_CHARS_MAX: usize = 128;

/// What a server keeps of the keys of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyRules {
    /// Maximum keys.
    pub keys_max: usize,
    /// The secret of their hashes, so that no client finds two keys with the same hash.
    pub secret: [u8; 16],
}

/// The keys of one session: a pointer until the first key.
#[derive(Debug, Default)]
pub struct IdempotencyKeys(Option<Box<KeyTable>>);

#[derive(Debug)]
struct KeyTable {
    secret: [u8; 16],
    keys: HashMap<KeyHash, KeyState>,
    /// The finished keys, oldest first.
    finished: VecDeque<KeyHash>,
}

heap_bytes!(
    KeyTable { secret }
    counted { keys: KeyTable::keys_bytes, finished: KeyTable::finished_bytes }
);

impl HeapBytes for IdempotencyKeys {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

type KeyHash = [u8; 16];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum KeyState {
    Running,
    Finished([u8; 32]),
    /// Without a result to hash.
    Failed,
}

impl IdempotencyKeys {
    /// Returns the number of known keys.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |table| table.keys.len())
    }

    /// Returns whether no key is known.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Accepts the key of a new request.
    ///
    /// # Errors
    ///
    /// `error.already_processed` for a known key, with the hash of the result once there is one;
    /// `error.rate_limited` if all of `keys_max` keys are of running requests.
    pub fn begin(&mut self, key: &str, rules: &KeyRules) -> Result<(), ParityError> {
        let table = self.0.get_or_insert_with(|| Box::new(KeyTable::new(rules.secret)));
        let hash = table.hash(key);
        if let Some(state) = table.keys.get(&hash) {
            return Err(already_processed(*state));
        }
        while table.keys.len() >= rules.keys_max {
            let Some(oldest) = table.finished.pop_front() else {
                let message = "too many requests with an idempotency key are in flight";
                return Err(ParityError::rate_limited(message, 1_000));
            };
            table.keys.remove(&oldest);
        }
        table.keys.insert(hash, KeyState::Running);
        Ok(())
    }

    /// Records the end of the request with this key, with the SHA-256 of its result if it has one.
    pub fn finish(&mut self, key: &str, result_hash: Option<[u8; 32]>) {
        let Some(table) = &mut self.0 else { return };
        let hash = table.hash(key);
        if let Some(state) = table.keys.get_mut(&hash)
            && *state == KeyState::Running
        {
            *state = result_hash.map_or(KeyState::Failed, KeyState::Finished);
            table.finished.push_back(hash);
        }
    }

    /// Forgets the key of a request that did not start.
    pub fn forget(&mut self, key: &str) {
        let Some(table) = &mut self.0 else { return };
        let hash = table.hash(key);
        if table.keys.get(&hash) == Some(&KeyState::Running) {
            table.keys.remove(&hash);
        }
    }
}

impl KeyTable {
    fn new(secret: [u8; 16]) -> Self {
        Self { secret, keys: HashMap::new(), finished: VecDeque::new() }
    }

    fn keys_bytes(&self) -> usize {
        map_bytes(&self.keys)
    }

    fn finished_bytes(&self) -> usize {
        self.finished.capacity() * size_of::<KeyHash>()
    }

    fn hash(&self, key: &str) -> KeyHash {
        SipHasher13::new_with_key(&self.secret).hash(key.as_bytes()).as_bytes()
    }
}

/// Returns the bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |value: u8| DIGITS[usize::from(value & 15)];
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

#[cold]
fn already_processed(state: KeyState) -> ParityError {
    let error = |message| ParityError::new(ErrorCode::AlreadyProcessed, message);
    match state {
        KeyState::Running => error("a request with this idempotencyKey is running"),
        KeyState::Failed => error("a request with this idempotencyKey has failed"),
        KeyState::Finished(hash) => {
            let hash = hex(&hash);
            error("a request with this idempotencyKey has been answered")
                .with_details(format!("{{\"resultHash\":\"{hash}\"}}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn rules(keys_max: usize) -> KeyRules {
        KeyRules { keys_max, secret: [7; 16] }
    }

    #[test]
    fn long_keys_take_no_more_than_short_ones() {
        let [mut long, mut short] = [(); 2].map(|()| IdempotencyKeys::default());
        assert_eq!(long.heap_bytes(), 0);
        for number in 0..100 {
            let (key, padded) = (format!("{number}"), format!("{number:0128}"));
            assert!(short.begin(&key, &rules(100)).is_ok());
            assert!(long.begin(&padded, &rules(100)).is_ok());
            short.finish(&key, None);
            long.finish(&padded, None);
        }
        assert_eq!(long.heap_bytes(), short.heap_bytes());
        assert!((6_000..20_000).contains(&long.heap_bytes()), "{}", long.heap_bytes());
    }

    #[test]
    fn key_is_accepted_once() {
        let mut keys = IdempotencyKeys::default();
        assert!(keys.begin("a", &rules(4)).is_ok());
        let running = keys.begin("a", &rules(4)).unwrap_err();
        assert_eq!(running.code, ErrorCode::AlreadyProcessed);
        assert_eq!(running.details, None);
        keys.finish("a", Some([0xab; 32]));
        let finished = keys.begin("a", &rules(4)).unwrap_err();
        let details = format!("{{\"resultHash\":\"{}\"}}", "ab".repeat(32));
        assert_eq!(finished.details.as_deref(), Some(&*details));
        assert!(!finished.retryable);
    }

    #[test]
    fn oldest_finished_key_makes_room() {
        let mut keys = IdempotencyKeys::default();
        for key in ["a", "b", "c"] {
            assert!(keys.begin(key, &rules(3)).is_ok());
        }
        assert_eq!(keys.begin("d", &rules(3)).unwrap_err().code, ErrorCode::RateLimited);
        keys.finish("b", None);
        keys.finish("a", None);
        assert!(keys.begin("d", &rules(3)).is_ok());
        assert!(keys.begin("b", &rules(3)).is_ok(), "forgotten");
        assert_eq!(keys.len(), 3);
    }

    #[test]
    fn key_of_unstarted_request_is_forgotten() {
        let mut keys = IdempotencyKeys::default();
        assert!(keys.begin("a", &rules(3)).is_ok());
        keys.forget("a");
        assert!(keys.is_empty() && keys.begin("a", &rules(3)).is_ok());
    }
}
