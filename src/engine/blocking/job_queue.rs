//! The waiting jobs of a thread pool, in one queue for each owner.
//!
//! Invariants: the jobs of one owner leave in the order in which they came; owners take turns, so
//! that while a job of one owner is next, at most one job of each other owner leaves before it; the
//! jobs of a suspended owner keep their places; at most `jobs_max` jobs wait; of n owners each is
//! sure of `jobs_max / n` places. Every operation takes constant time.

use std::collections::HashMap;
use std::hash::Hash;

use corelane_base::linked_list::{Linked, LinkedList, Links};
use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;

/// The list of the jobs of an owner, and that of the owners in the order of their turns.
const IN_ORDER: usize = 0;

/// A list of the owners with as many jobs.
const SAME_LEN: usize = 1;

/// The waiting jobs `J` of owners `K`.
#[derive(Debug)]
pub(super) struct JobQueue<K, J> {
    jobs: Slab<QueuedJob<J>>,
    jobs_max: usize,
    /// The owners with waiting jobs.
    owners: Slab<Owner<K>>,
    keys: HashMap<K, Key>,
    /// Those of them that are not suspended, the next one first.
    turns: LinkedList<IN_ORDER>,
    /// How often each suspended owner is suspended, whether it has waiting jobs or not.
    suspended: HashMap<K, usize>,
    /// All owners with waiting jobs by the number of their jobs, minus one.
    by_len: Vec<LinkedList<SAME_LEN>>,
    /// The largest number of jobs of one owner.
    longest: usize,
    /// When jobs are added from now on.
    now: Instant,
}

#[derive(Debug)]
struct QueuedJob<J> {
    owner: Key,
    queued_at: Instant,
    job: J,
    links: Links,
}

/// One owner with waiting jobs.
#[derive(Debug)]
struct Owner<K> {
    key: K,
    jobs: LinkedList<IN_ORDER>,
    len: usize,
    /// Whether it takes part in the turns.
    has_turn: bool,
    turn: Links,
    same_len: Links,
}

impl<J> Linked<IN_ORDER> for QueuedJob<J> {
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl<K> Linked<IN_ORDER> for Owner<K> {
    fn links_mut(&mut self) -> &mut Links {
        &mut self.turn
    }
}

impl<K> Linked<SAME_LEN> for Owner<K> {
    fn links_mut(&mut self) -> &mut Links {
        &mut self.same_len
    }
}

/// Names a job while it waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct JobId(Key);

/// A job that was added to the queue.
#[derive(Debug)]
pub(super) struct Queued<J> {
    pub(super) id: JobId,
    /// The job that it has displaced, if the queue was full.
    pub(super) displaced: Option<J>,
}

impl<K, J> JobQueue<K, J> {
    /// Returns the number of waiting jobs.
    pub(super) const fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns whether a job may leave.
    pub(super) fn has_next(&self) -> bool {
        self.turns.first(&self.owners).is_some()
    }
}

impl<K: Clone + Eq + Hash, J> JobQueue<K, J> {
    /// Returns an empty queue for at most `jobs_max` jobs.
    pub(super) fn new(jobs_max: usize) -> Self {
        Self {
            jobs: Slab::new(jobs_max),
            jobs_max,
            owners: Slab::new(jobs_max),
            keys: HashMap::new(),
            turns: LinkedList::default(),
            suspended: HashMap::new(),
            by_len: Vec::new(),
            longest: 0,
            now: Instant::ORIGIN,
        }
    }

    /// Adds a job. In a full queue it displaces the newest job of the owner with the most jobs, if
    /// that owner keeps at least as many as the owner of `job` has then; otherwise `job` is
    /// returned as an error.
    pub(super) fn push(&mut self, owner: K, job: J) -> Result<Queued<J>, J> {
        self.push_within(self.jobs_max, owner, job)
    }

    /// [`JobQueue::push`] with space for `jobs_max` jobs.
    pub(super) fn push_within(
        &mut self,
        jobs_max: usize,
        owner: K,
        job: J,
    ) -> Result<Queued<J>, J> {
        let known = self.keys.get(&owner).copied();
        let len = known.and_then(|key| self.owners.get(key)).map_or(0, |owner| owner.len);
        let mut displaced = None;
        if self.jobs.len() >= jobs_max {
            if self.longest < len + 2 {
                return Err(job);
            }
            displaced = self.displace();
        }
        let key = match known {
            Some(key) => key,
            None => match self.insert_owner(owner) {
                Some(key) => key,
                None => return Err(job),
            },
        };
        let id = self.jobs.insert(QueuedJob {
            owner: key,
            queued_at: self.now,
            job,
            links: Links::NONE,
        });
        let id = id.map_err(|queued| queued.job)?;
        if let Some(owner) = self.owners.get_mut(key) {
            owner.jobs.push_back(&mut self.jobs, id);
        }
        self.set_len(key, len + 1);
        Ok(Queued { id: JobId(id), displaced })
    }

    /// Sets the time at which jobs are added from now on.
    pub(super) const fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Returns when the next job to leave was added.
    pub(super) fn next_queued_at(&self) -> Option<Instant> {
        let owner = self.owners.get(self.turns.first(&self.owners)?)?;
        let next = owner.jobs.first(&self.jobs)?;
        Some(self.jobs.get(next)?.queued_at)
    }

    /// Keeps the jobs of `owner` until [`JobQueue::resume`] is called as often.
    pub(super) fn suspend(&mut self, owner: K) {
        if let Some(&key) = self.keys.get(&owner) {
            self.end_turns(key);
        }
        *self.suspended.entry(owner).or_default() += 1;
    }

    /// Ends one suspension of `owner`. Its turn is last.
    pub(super) fn resume(&mut self, owner: &K) {
        let Some(times) = self.suspended.get_mut(owner) else { return };
        *times -= 1;
        if *times > 0 {
            return;
        }
        self.suspended.remove(owner);
        if let Some(&key) = self.keys.get(owner) {
            self.begin_turns(key);
        }
    }

    /// Removes and returns the next job.
    pub(super) fn pop(&mut self) -> Option<J> {
        let owner = self.turns.first(&self.owners)?;
        let id = self.owners.get(owner)?.jobs.first(&self.jobs)?;
        let job = self.remove(JobId(id));
        if self.owners.get(owner).is_some() {
            self.turns.remove(&mut self.owners, owner);
            self.turns.push_back(&mut self.owners, owner);
        }
        job
    }

    /// Removes and returns a job, if it still waits.
    pub(super) fn remove(&mut self, JobId(id): JobId) -> Option<J> {
        let key = self.jobs.get(id)?.owner;
        let owner = self.owners.get_mut(key)?;
        owner.jobs.remove(&mut self.jobs, id);
        let len = owner.len - 1;
        self.set_len(key, len);
        if len == 0 {
            self.end_turns(key);
            let owner = self.owners.remove(key)?;
            self.keys.remove(&owner.key);
        }
        self.jobs.remove(id).map(|queued| queued.job)
    }

    /// Removes the newest job of the owner with the most jobs.
    fn displace(&mut self) -> Option<J> {
        let owner = self.by_len.get(self.longest.checked_sub(1)?)?.first(&self.owners)?;
        let newest = self.owners.get(owner)?.jobs.last(&mut self.jobs)?;
        self.remove(JobId(newest))
    }

    /// Adds an owner without jobs, whose turn is last.
    fn insert_owner(&mut self, key: K) -> Option<Key> {
        let (turn, same_len) = (Links::NONE, Links::NONE);
        let is_suspended = self.suspended.contains_key(&key);
        let jobs = LinkedList::default();
        let owner = Owner { key: key.clone(), jobs, len: 0, has_turn: false, turn, same_len };
        let owner = self.owners.insert(owner).ok()?;
        self.keys.insert(key, owner);
        if !is_suspended {
            self.begin_turns(owner);
        }
        Some(owner)
    }

    /// Adds an owner to the turns, as the last one.
    fn begin_turns(&mut self, key: Key) {
        if let Some(owner) = self.owners.get_mut(key) {
            owner.has_turn = true;
            self.turns.push_back(&mut self.owners, key);
        }
    }

    /// Removes an owner from the turns.
    fn end_turns(&mut self, key: Key) {
        if let Some(owner) = self.owners.get_mut(key)
            && std::mem::take(&mut owner.has_turn)
        {
            self.turns.remove(&mut self.owners, key);
        }
    }

    /// Sets the number of jobs of an owner, which changes by one.
    fn set_len(&mut self, key: Key, len: usize) {
        let Some(owner) = self.owners.get_mut(key) else { return };
        let before = std::mem::replace(&mut owner.len, len);
        if before > 0 {
            let list = &mut self.by_len[before - 1];
            list.remove(&mut self.owners, key);
        }
        if self.by_len.len() < len {
            self.by_len.push(LinkedList::default());
        }
        if len > 0 {
            let list = &mut self.by_len[len - 1];
            list.push_back(&mut self.owners, key);
        }
        let was_longest = before == self.longest && before > 0;
        let is_alone = was_longest && self.by_len[before - 1].first(&self.owners).is_none();
        if len > self.longest || is_alone {
            self.longest = len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the jobs that leave the queue, in order.
    fn drain(queue: &mut JobQueue<char, u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn owners_take_turns() {
        let mut queue = JobQueue::new(10);
        for (owner, job) in [('a', 1), ('a', 2), ('a', 3), ('b', 4), ('c', 5), ('b', 6)] {
            assert!(queue.push(owner, job).is_ok());
        }
        assert_eq!(drain(&mut queue), [1, 4, 5, 2, 6, 3]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn owner_that_returns_is_served_last() {
        let mut queue = JobQueue::new(10);
        for (owner, job) in [('a', 1), ('b', 2), ('c', 3)] {
            queue.push(owner, job).unwrap();
        }
        assert_eq!(queue.pop(), Some(1));
        queue.push('a', 4).unwrap();
        assert_eq!(drain(&mut queue), [2, 3, 4]);
    }

    #[test]
    fn full_queue_displaces_newest_of_longest_owner() {
        let mut queue = JobQueue::new(4);
        for job in 1..=4 {
            queue.push('a', job).unwrap();
        }
        assert_eq!(queue.push('a', 5).unwrap_err(), 5);
        assert_eq!(queue.push('b', 6).unwrap().displaced, Some(4));
        assert_eq!(queue.push('b', 7).unwrap().displaced, Some(3));
        // Both have two.
        assert_eq!(queue.push('b', 8).unwrap_err(), 8);
        assert_eq!(queue.push('c', 9).unwrap().displaced, Some(2));
        assert_eq!(queue.push('d', 10).unwrap().displaced, Some(7));
        // All have one: another owner would only take the place of one of them.
        assert_eq!(queue.push('e', 11).unwrap_err(), 11);
        assert_eq!(drain(&mut queue), [1, 6, 9, 10]);
    }

    #[test]
    fn suspended_owner_keeps_its_jobs() {
        let mut queue = JobQueue::new(10);
        for (owner, job) in [('a', 1), ('a', 2), ('b', 3)] {
            queue.push(owner, job).unwrap();
        }
        queue.suspend('a');
        queue.suspend('c');
        queue.push('c', 4).unwrap();
        let withdrawn = queue.push('a', 5).unwrap().id;
        assert_eq!(drain(&mut queue), [3]);
        assert!(!queue.has_next() && queue.len() == 4);
        queue.suspend('a');
        queue.resume(&'a');
        assert_eq!(queue.remove(withdrawn), Some(5));
        assert!(!queue.has_next());
        queue.resume(&'a');
        assert_eq!(drain(&mut queue), [1, 2]);
        queue.resume(&'c');
        assert_eq!(drain(&mut queue), [4]);
        assert!(queue.suspended.is_empty());
    }

    #[test]
    fn removed_job_frees_its_place() {
        let mut queue = JobQueue::new(2);
        let first = queue.push('a', 1).unwrap().id;
        queue.push('b', 2).unwrap();
        assert_eq!(queue.remove(first), Some(1));
        assert_eq!(queue.remove(first), None);
        queue.push('c', 3).unwrap();
        assert_eq!((queue.len(), drain(&mut queue)), (2, vec![2, 3]));
    }
}

#[cfg(test)]
mod model {
    //! Property test of the job queue against a simple model, which searches where the queue has
    //! lists.

    use std::collections::{BTreeMap, BTreeSet, VecDeque};

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Operation {
        Pop,
        Push {
            owner: u8,
        },
        Suspend {
            owner: u8,
        },
        Resume {
            owner: u8,
        },
        /// Counted back from the newest job, those that have left included.
        Remove {
            job: usize,
        },
    }

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        // Some owners send more than others.
        let owner = || prop_oneof![3 => Just(0u8), 2 => 1..3u8, 2 => 3..8u8];
        let operation = prop_oneof![
            6 => owner().prop_map(|owner| Operation::Push { owner }),
            1 => owner().prop_map(|owner| Operation::Suspend { owner }),
            1 => owner().prop_map(|owner| Operation::Resume { owner }),
            3 => Just(Operation::Pop),
            1 => (0..16usize).prop_map(|job| Operation::Remove { job }),
        ];
        prop::collection::vec(operation, 1..200)
    }

    /// The waiting jobs, each the number of its arrival.
    #[derive(Debug, Default)]
    struct Model {
        jobs: BTreeMap<u8, VecDeque<usize>>,
        turns: VecDeque<u8>,
        /// How often each owner is suspended.
        suspended: BTreeMap<u8, usize>,
        /// For each owner in `turns`: the owners that were served since it was.
        served: BTreeMap<u8, BTreeSet<u8>>,
    }

    impl Model {
        fn count(&self) -> usize {
            self.jobs.values().map(VecDeque::len).sum()
        }

        fn count_of(&self, owner: u8) -> usize {
            self.jobs.get(&owner).map_or(0, VecDeque::len)
        }

        fn push(&mut self, owner: u8, job: usize) {
            if self.count_of(owner) == 0 && !self.suspended.contains_key(&owner) {
                self.begin_turns(owner);
            }
            self.jobs.entry(owner).or_default().push_back(job);
        }

        /// Removes a job; returns its owner, which may have more.
        fn remove(&mut self, job: usize) -> Option<u8> {
            let (owner, jobs) = self.jobs.iter_mut().find(|(_, jobs)| jobs.contains(&job))?;
            let owner = *owner;
            jobs.retain(|other| *other != job);
            if jobs.is_empty() {
                self.jobs.remove(&owner);
                self.end_turns(owner);
            }
            Some(owner)
        }

        fn begin_turns(&mut self, owner: u8) {
            self.turns.push_back(owner);
            self.served.insert(owner, BTreeSet::new());
        }

        fn end_turns(&mut self, owner: u8) {
            self.served.remove(&owner);
            self.turns.retain(|other| *other != owner);
        }

        fn suspend(&mut self, owner: u8) {
            *self.suspended.entry(owner).or_default() += 1;
            self.end_turns(owner);
        }

        fn resume(&mut self, owner: u8) {
            let Some(times) = self.suspended.get_mut(&owner) else { return };
            *times -= 1;
            if *times == 0 {
                self.suspended.remove(&owner);
                if self.count_of(owner) > 0 {
                    self.begin_turns(owner);
                }
            }
        }

        fn pop(&mut self) -> Option<usize> {
            let owner = *self.turns.front()?;
            let job = *self.jobs[&owner].front()?;
            self.remove(job);
            for (waiting, served) in &mut self.served {
                assert!(
                    *waiting == owner || served.insert(owner),
                    "{owner} twice before {waiting}"
                );
            }
            if self.count_of(owner) > 0 {
                self.turns.rotate_left(1);
                self.served.insert(owner, BTreeSet::new());
            }
            Some(job)
        }

        /// Checks what a full queue does with a new job of `owner`.
        fn displace(&mut self, owner: u8, displaced: Option<usize>, jobs_max: usize) {
            let own = self.count_of(owner);
            let longest = self.jobs.values().map(VecDeque::len).max().unwrap_or_default();
            let Some(displaced) = displaced else {
                assert!(longest < own + 2, "{self:?}");
                let owners = self.jobs.len() + usize::from(own == 0);
                assert!(own >= jobs_max / owners, "each owner is sure of its places: {self:?}");
                return;
            };
            let loser = self.jobs.iter().find(|(_, jobs)| jobs.back() == Some(&displaced));
            assert_eq!(loser.map(|(_, jobs)| jobs.len()), Some(longest), "{self:?}");
            assert!(longest >= own + 2, "{self:?}");
            self.remove(displaced);
        }
    }

    proptest! {
        #[test]
        fn job_queue_agrees_with_model(operations in operations(), jobs_max in 1..12usize) {
            let (mut queue, mut model) = (JobQueue::new(jobs_max), Model::default());
            let mut ids = vec![];
            for operation in operations {
                match operation {
                    Operation::Pop => prop_assert_eq!(queue.pop(), model.pop()),
                    Operation::Push { owner } => {
                        let (job, is_full) = (ids.len(), model.count() == jobs_max);
                        let queued = queue.push(owner, job);
                        let displaced = queued.as_ref().ok().and_then(|queued| queued.displaced);
                        prop_assert!(is_full || (queued.is_ok() && displaced.is_none()));
                        if is_full {
                            model.displace(owner, displaced, jobs_max);
                        }
                        if queued.is_ok() {
                            model.push(owner, job);
                        }
                        ids.push(queued.ok().map(|queued| queued.id));
                    }
                    Operation::Suspend { owner } => {
                        queue.suspend(owner);
                        model.suspend(owner);
                    }
                    Operation::Resume { owner } => {
                        queue.resume(&owner);
                        model.resume(owner);
                    }
                    Operation::Remove { job } => {
                        let Some(job) = ids.len().checked_sub(job + 1) else { continue };
                        let removed = ids[job].and_then(|id| queue.remove(id));
                        let owner = model.remove(job);
                        prop_assert_eq!(removed, owner.map(|_| job));
                    }
                }
                prop_assert_eq!(queue.len(), model.count());
                prop_assert!(queue.len() <= jobs_max);
                prop_assert_eq!(queue.has_next(), !model.turns.is_empty());
            }
            while let Some((&owner, _)) = model.suspended.first_key_value() {
                queue.resume(&owner);
                model.resume(owner);
            }
            while let Some(job) = model.pop() {
                prop_assert_eq!(queue.pop(), Some(job));
            }
            prop_assert_eq!((queue.pop(), queue.len()), (None, 0));
        }
    }
}
