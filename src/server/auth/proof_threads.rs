//! Signatures of proofs that threads in the background verify for a shard, so that calls do not
//! wait for them.
//!
//! Invariants: callers are served in turns; a signature is on a thread only while a connection
//! waits for it, once for all of them, and these are read again when it is verified; a shard has at
//! most [`PENDING_MAX`] there, of which a caller and its network leave some to others; a result is
//! for the same bytes only, and is used once.

use std::collections::HashMap;
use std::fmt;
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use corelane_base::holders::{Holder, PlaceOwner};
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::blocking::{BlockingPool, Job, Reservation};

use crate::guard::auth::dpop::ProofSignature;
use crate::server::digest_holders::{DigestHolders, DigestPlaces};

/// Signatures that a shard verifies itself while it does so rarely.
const ON_SHARD_MAX: u32 = 16;
/// Milliseconds after which it may verify one more: less than a twentieth of its time.
const ON_SHARD_INTERVAL: u64 = 4;
/// Signatures of a shard that are on threads, at most.
const PENDING_MAX: usize = 1_024;
/// Results after which those before them are forgotten: their connections have ended.
const RESULTS_MAX: usize = 1_024;

/// The threads of a server; a clone is the same threads.
#[derive(Clone)]
pub struct ProofThreads(Arc<BlockingPool<SignatureJob>>);

impl ProofThreads {
    /// Returns up to `threads` threads, each started when signatures wait for it.
    pub fn new(threads: usize) -> Self {
        // Each shard has at most `PENDING_MAX` signatures here. None is displaced.
        Self(Arc::new(BlockingPool::background("corelane-proofs", threads, usize::MAX)))
    }
}

impl fmt::Debug for ProofThreads {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ProofThreads(..)")
    }
}

/// What a thread has found out about a proof.
#[derive(Clone, Copy, Debug)]
pub struct VerifiedProof {
    /// The digest of the proof.
    digest: u128,
    is_valid: bool,
}

/// Sends what a thread has found out to the shard of the proof.
#[derive(Clone)]
pub struct ProofReport(Arc<dyn Fn(VerifiedProof) + Send + Sync>);

impl ProofReport {
    /// `send` may wait.
    pub fn new(send: impl Fn(VerifiedProof) + Send + Sync + 'static) -> Self {
        Self(Arc::new(send))
    }
}

impl fmt::Debug for ProofReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ProofReport(..)")
    }
}

/// A signature on its way through a thread.
struct SignatureJob {
    signature: ProofSignature,
    digest: u128,
    report: ProofReport,
}

impl Job for SignatureJob {
    type Owner = Holder;

    fn bytes(&self) -> usize {
        0
    }

    fn run(self, _: Reservation) {
        let Self { signature, digest, report } = self;
        // Connections wait for an answer, whatever happens.
        let result = catch_unwind(AssertUnwindSafe(|| signature.is_valid()));
        (report.0)(VerifiedProof { digest, is_valid: result.unwrap_or(false) });
    }
}

/// A signature that a thread is to verify.
#[derive(Debug)]
pub struct AskedProof {
    /// Whose turns it takes.
    pub owner: Holder,
    /// Whose it is on this shard.
    pub holders: DigestHolders,
    /// The digest of the proof.
    pub digest: u128,
    /// What is verified.
    pub signature: ProofSignature,
}

/// A signature on a thread.
#[derive(Debug)]
struct PendingProof {
    holders: DigestHolders,
    /// The connections that wait for it.
    waiting: Vec<Key>,
}

/// The signatures that a shard has verified by threads.
#[derive(Debug)]
pub struct ThreadProofs {
    threads: ProofThreads,
    report: ProofReport,
    /// That of the last check, if no connection waits for it yet.
    asked: Option<AskedProof>,
    /// Those on threads, by the digest of the proof.
    pending: HashMap<u128, PendingProof>,
    /// Whose these are.
    places: DigestPlaces,
    /// By the digest of the proof.
    results: HashMap<u128, bool>,
    /// Those before `results`.
    older_results: HashMap<u128, bool>,
    /// Signatures that the shard may verify itself, and since when there are so many.
    on_shard: u32,
    counted_at: Instant,
}

impl ThreadProofs {
    /// Returns proofs of the shard to which `report` sends what threads have found out.
    pub fn new(threads: ProofThreads, report: ProofReport) -> Self {
        Self {
            threads,
            report,
            asked: None,
            pending: HashMap::new(),
            places: DigestPlaces::default(),
            results: HashMap::new(),
            older_results: HashMap::new(),
            on_shard: ON_SHARD_MAX,
            counted_at: Instant::ORIGIN,
        }
    }

    /// Returns whether the shard verifies the next signature itself.
    pub fn is_rare(&mut self, now: Instant) -> bool {
        let passed = now.milliseconds().saturating_sub(self.counted_at.milliseconds());
        let more = u32::try_from(passed / ON_SHARD_INTERVAL).unwrap_or(u32::MAX);
        if more > 0 {
            self.on_shard = self.on_shard.saturating_add(more).min(ON_SHARD_MAX);
            self.counted_at = now;
        }
        let is_rare = self.on_shard > 0;
        self.on_shard -= u32::from(is_rare);
        is_rare
    }

    /// Returns whether a thread verifies the signature of this proof.
    pub fn is_pending(&self, digest: u128) -> bool {
        self.pending.contains_key(&digest)
    }

    /// Returns whose a proof is.
    pub fn holders_of(&self, owner: PlaceOwner<'_>) -> DigestHolders {
        self.places.holders_of(owner)
    }

    /// Returns whether a thread may verify one more signature of these holders.
    pub fn has_room(&self, holders: DigestHolders) -> bool {
        self.pending.len() < PENDING_MAX && self.places.has_room(holders, PENDING_MAX)
    }

    /// Has a thread verify a signature once a connection [waits](ThreadProofs::wait) for it.
    pub fn ask(&mut self, asked: AskedProof) {
        self.asked = Some(asked);
    }

    /// Forgets what was asked for, if no connection waits for it.
    pub fn begin_check(&mut self) {
        self.asked = None;
    }

    /// Has a connection wait for what was asked for. Returns `false` if nothing was, or the system
    /// allows no thread: the shard verifies it then.
    pub fn wait(&mut self, key: Key) -> bool {
        let Some(AskedProof { owner, holders, digest, signature }) = self.asked.take() else {
            return false;
        };
        if let Some(PendingProof { waiting, .. }) = self.pending.get_mut(&digest) {
            if !waiting.contains(&key) {
                waiting.push(key);
            }
            return true;
        }
        let job = SignatureJob { signature, digest, report: self.report.clone() };
        let is_spawned = self.threads.0.spawn(owner, job).is_ok();
        if is_spawned {
            self.pending.insert(digest, PendingProof { holders, waiting: vec![key] });
            self.places.add(holders);
        } else {
            self.on_shard = self.on_shard.saturating_add(1);
        }
        is_spawned
    }

    /// Keeps a result for the connections that wait for it. Returns them.
    pub fn complete(&mut self, verified: &VerifiedProof) -> Vec<Key> {
        let Some(ended) = self.pending.remove(&verified.digest) else { return Vec::new() };
        self.places.subtract(ended.holders, 1);
        if self.results.len() >= RESULTS_MAX {
            self.older_results = take(&mut self.results);
        }
        self.results.insert(verified.digest, verified.is_valid);
        ended.waiting
    }

    /// Takes the result for a proof.
    pub fn take_result(&mut self, digest: u128) -> Option<bool> {
        self.results.remove(&digest).or_else(|| self.older_results.remove(&digest))
    }
}

#[cfg(test)]
mod tests {
    use corelane_base::client_address::ClientAddress;
    use corelane_base::principal::Principal;

    use super::*;

    fn threads() -> ThreadProofs {
        ThreadProofs::new(ProofThreads::new(1), ProofReport::new(drop))
    }

    #[test]
    fn shard_verifies_few_signatures_itself() {
        let mut threads = threads();
        let mut rare = |ms: u64, count: u32| {
            let now = Instant::from_milliseconds(ms);
            (0..count).filter(|_| threads.is_rare(now)).count()
        };
        assert_eq!((rare(1_000, 100), rare(1_003, 100)), (ON_SHARD_MAX as usize, 0));
        assert_eq!((rare(1_008, 100), rare(1_009, 1)), (2, 0));
        assert_eq!(rare(60_000, 100), ON_SHARD_MAX as usize);
    }

    #[test]
    fn caller_leaves_threads_to_others() {
        let mut threads = threads();
        let [ada, bob] = ["ada", "bob"].map(Principal::new);
        let address = |text: &str| ClientAddress::new(text.parse().unwrap());
        let of = |threads: &ThreadProofs, principal, address| {
            threads.holders_of(PlaceOwner { principal: Some(principal), address })
        };
        let fill = |threads: &mut ThreadProofs, holders| {
            let before = threads.pending.len();
            while threads.has_room(holders) {
                let digest = threads.pending.len() as u128;
                threads.pending.insert(digest, PendingProof { holders, waiting: Vec::new() });
                threads.places.add(holders);
            }
            threads.pending.len() - before
        };
        let first = of(&threads, &ada, address("192.0.2.1"));
        assert_eq!(fill(&mut threads, first), PENDING_MAX * 3 / 4);
        // Another caller at the same address, and one elsewhere.
        let [near, far] =
            ["192.0.2.1", "198.51.100.1"].map(|from| of(&threads, &bob, address(from)));
        assert_eq!(fill(&mut threads, near), 0);
        assert!(fill(&mut threads, far) > 0);
        for digest in 0..PENDING_MAX as u128 {
            threads.complete(&VerifiedProof { digest, is_valid: true });
        }
        assert_eq!(fill(&mut threads, near), PENDING_MAX * 3 / 4);
    }

    #[test]
    fn result_outlives_as_many_unused_ones() {
        let mut threads = threads();
        let key = Key::from_bits(7);
        let complete = |threads: &mut ThreadProofs, digest| {
            let holders = threads.holders_of(PlaceOwner::default());
            threads.pending.insert(digest, PendingProof { holders, waiting: vec![key] });
            threads.places.add(holders);
            let waiting = threads.complete(&VerifiedProof { digest, is_valid: true });
            assert_eq!(waiting, [key]);
        };
        for digest in 0..5 * RESULTS_MAX as u128 {
            complete(&mut threads, digest);
        }
        let last = 5 * RESULTS_MAX as u128 - 1;
        let oldest = last - RESULTS_MAX as u128;
        assert_eq!(
            (threads.take_result(oldest), threads.take_result(last)),
            (Some(true), Some(true))
        );
        assert_eq!((threads.take_result(last), threads.take_result(0)), (None, None));
        assert!(threads.results.len() + threads.older_results.len() <= 2 * RESULTS_MAX);
        // Nothing waits for it.
        assert!(threads.complete(&VerifiedProof { digest: 0, is_valid: true }).is_empty());
    }
}
