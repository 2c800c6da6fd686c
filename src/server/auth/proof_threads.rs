//! Signatures of proofs that threads in the background verify for a shard, so that calls do not
//! wait for them.
//!
//! Invariants: callers are served in turns; a connection has at most one signature on a thread, and
//! is read again when that is verified; a result is for the same bytes only, and is used once.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use corelane_base::holders::Holder;
use corelane_base::id_map::IdMap;
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::blocking::{BlockingPool, Job, Reservation};

use crate::guard::auth::dpop::ProofSignature;

/// Signatures that a shard verifies itself while it does so rarely.
const ON_SHARD_MAX: u32 = 16;
/// Milliseconds after which it may verify one more: less than a twentieth of its time.
const ON_SHARD_INTERVAL: u64 = 4;
/// Results that wait for their connections, at most.
const RESULTS_MAX: usize = 1_024;

/// The threads of a server; a clone is the same threads.
#[derive(Clone)]
pub struct ProofThreads(Arc<BlockingPool<SignatureJob>>);

impl ProofThreads {
    /// Returns up to `threads` threads, each started when signatures wait for it.
    pub fn new(threads: usize) -> Self {
        // A connection has at most one signature here, and their number is limited.
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
    /// The number of the job on its shard.
    job: u64,
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
    job: u64,
    digest: u128,
    report: ProofReport,
}

impl Job for SignatureJob {
    type Owner = Holder;

    fn bytes(&self) -> usize {
        0
    }

    fn run(self, _: Reservation) {
        let Self { signature, job, digest, report } = self;
        // The connection waits for an answer, whatever happens.
        let result = catch_unwind(AssertUnwindSafe(|| signature.is_valid()));
        (report.0)(VerifiedProof { job, digest, is_valid: result.unwrap_or(false) });
    }
}

/// The signatures that a shard has verified by threads.
#[derive(Debug)]
pub struct ThreadProofs {
    threads: ProofThreads,
    report: ProofReport,
    /// Number of the last job.
    jobs: u64,
    /// The last job, if no connection waits for it yet.
    spawned: Option<u64>,
    waiting: IdMap<u64, Key>,
    /// By the digest of the proof.
    results: HashMap<u128, bool>,
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
            jobs: 0,
            spawned: None,
            waiting: IdMap::default(),
            results: HashMap::new(),
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

    /// Returns whether one more connection may wait.
    pub fn can_wait(&self) -> bool {
        self.waiting.len() < RESULTS_MAX
    }

    /// Has a thread verify a signature of `owner`. Returns whether it will.
    pub fn spawn(&mut self, owner: Holder, digest: u128, signature: ProofSignature) -> bool {
        let (job, report) = (self.jobs + 1, self.report.clone());
        let spawned = self.threads.0.spawn(owner, SignatureJob { signature, job, digest, report });
        // Not if the system allows no thread.
        let is_spawned = spawned.is_ok();
        if is_spawned {
            (self.jobs, self.spawned) = (job, Some(job));
        }
        is_spawned
    }

    /// Forgets the last job, if no connection waits for it.
    pub const fn begin_check(&mut self) {
        self.spawned = None;
    }

    /// Has a connection wait for the last job. Returns `false` if there is none.
    pub fn wait(&mut self, key: Key) -> bool {
        let Some(job) = self.spawned.take() else { return false };
        self.waiting.insert(job, key);
        true
    }

    /// Keeps a result for the connection that waits for it. Returns the connection.
    pub fn complete(&mut self, verified: &VerifiedProof) -> Option<Key> {
        let key = self.waiting.remove(&verified.job)?;
        if self.results.len() >= RESULTS_MAX {
            // Of connections that have ended.
            self.results.clear();
        }
        self.results.insert(verified.digest, verified.is_valid);
        Some(key)
    }

    /// Takes the result for a proof.
    pub fn take_result(&mut self, digest: u128) -> Option<bool> {
        self.results.remove(&digest)
    }
}

#[cfg(test)]
mod tests {
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
    fn result_is_used_once_by_connection_that_waits() {
        let mut threads = threads();
        let key = Key::from_bits(7);
        let verified = |job| VerifiedProof { job, digest: 5, is_valid: true };
        assert!(!threads.wait(key));
        threads.spawned = Some(1);
        assert!(threads.wait(key) && !threads.wait(key));
        assert_eq!((threads.complete(&verified(2)), threads.take_result(5)), (None, None));
        assert_eq!(threads.complete(&verified(1)), Some(key));
        assert_eq!((threads.take_result(5), threads.take_result(5)), (Some(true), None));
        // Nothing waits for the job of a request that is refused.
        threads.spawned = Some(3);
        threads.begin_check();
        assert!(!threads.wait(key));
        assert_eq!(threads.complete(&verified(3)), None);
    }
}
