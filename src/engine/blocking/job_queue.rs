//! The waiting jobs of a thread pool, in one queue for each owner.
//!
//! Invariants: the jobs of one owner leave in the order in which they came; owners take turns; one
//! whose next job hands on bytes then waits for room, in turns of such owners, and the first of
//! them is not passed by another. As long as owners of both turns go on, they alternate. So while a
//! job of one owner is next, at most one job of each other owner in the same turns leaves before
//! it. At most `jobs_max` jobs wait; of n owners each is sure of `jobs_max / n` places. Every
//! operation takes constant time, over all jobs.

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
    /// Those of them that do not wait for room, the next one first.
    turns: LinkedList<IN_ORDER>,
    /// Those that wait for room, the next one first.
    waiting: LinkedList<IN_ORDER>,
    /// The last job that has left had not waited for room.
    is_waiting_next: bool,
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
    /// Whether it waits for room.
    is_waiting: bool,
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

/// What jobs hand on.
pub(super) trait HandsOn {
    /// Returns how many bytes the job may hand on. The number can change while it waits.
    fn bytes(&self) -> usize;
}

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

    /// Returns the next job of the first owner in `turns`.
    fn first_of(&self, turns: &LinkedList<IN_ORDER>) -> Option<Key> {
        let owner = turns.first(&self.owners)?;
        self.owners.get(owner)?.jobs.first(&self.jobs)
    }
}

impl<K: Clone + Eq + Hash, J: HandsOn> JobQueue<K, J> {
    /// Returns an empty queue for at most `jobs_max` jobs.
    pub(super) fn new(jobs_max: usize) -> Self {
        Self {
            jobs: Slab::new(jobs_max),
            jobs_max,
            owners: Slab::new(jobs_max),
            keys: HashMap::new(),
            turns: LinkedList::default(),
            waiting: LinkedList::default(),
            is_waiting_next: false,
            by_len: Vec::new(),
            longest: 0,
            now: Instant::ORIGIN,
        }
    }

    /// Adds a job. A queue with `jobs_max` jobs is full, too. In a full queue it displaces the
    /// newest job of the owner with the most jobs, if that owner keeps at least as many as the
    /// owner of `job` has then; otherwise `job` is returned as an error.
    pub(super) fn push(&mut self, jobs_max: usize, owner: K, job: J) -> Result<Queued<J>, J> {
        let known = self.keys.get(&owner).copied();
        let len = known.and_then(|key| self.owners.get(key)).map_or(0, |owner| owner.len);
        let mut displaced = None;
        if self.jobs.len() >= jobs_max.min(self.jobs_max) {
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
        let (queued_at, links) = (self.now, Links::NONE);
        let id = self.jobs.insert(QueuedJob { owner: key, queued_at, job, links });
        let id = id.map_err(|queued| queued.job)?;
        if let Some(owner) = self.owners.get_mut(key) {
            owner.jobs.push_back(&mut self.jobs, id);
        }
        self.set_len(key, len + 1);
        if len == 0 {
            self.begin_turn(key, false);
        }
        Ok(Queued { id: JobId(id), displaced })
    }

    /// Sets the time at which jobs are added from now on.
    pub(super) const fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Returns whether a job may leave if there is room for `room` bytes. One that was not looked
    /// at may wait for more.
    pub(super) fn has_next(&self, room: usize) -> bool {
        self.turns.first(&self.owners).is_some() || self.next_waiting(room).is_some()
    }

    /// Returns when the next job was added; one that waits for room counts if `needs_room`.
    pub(super) fn next_queued_at(&self, needs_room: bool) -> Option<Instant> {
        let waiting = || self.first_of(&self.waiting).filter(|_| needs_room);
        let next = self.first_of(&self.turns).or_else(waiting)?;
        Some(self.jobs.get(next)?.queued_at)
    }

    /// Removes and returns the next job, if there is room for `room` bytes.
    pub(super) fn pop(&mut self, room: usize) -> Option<J> {
        let waiting = self.next_waiting(room);
        let id = match waiting.filter(|_| self.is_waiting_next) {
            Some(id) => id,
            None => self.next_free().or_else(|| self.next_waiting(room))?,
        };
        let owner = self.jobs.get(id)?.owner;
        self.is_waiting_next = self.owners.get(owner).is_some_and(|owner| !owner.is_waiting);
        let job = self.remove(JobId(id));
        if self.owners.get(owner).is_some() {
            self.end_turn(owner);
            self.begin_turn(owner, false);
        }
        job
    }

    /// Returns the first job that waits for room, if there is that for `room` bytes.
    fn next_waiting(&self, room: usize) -> Option<Key> {
        let fits = |id: &Key| self.jobs.get(*id).is_some_and(|queued| queued.job.bytes() <= room);
        self.first_of(&self.waiting).filter(fits)
    }

    /// Returns the first job in turn that hands on nothing. Owners whose jobs hand on bytes wait
    /// for room from now on.
    fn next_free(&mut self) -> Option<Key> {
        loop {
            let id = self.first_of(&self.turns)?;
            let queued = self.jobs.get(id)?;
            if queued.job.bytes() == 0 {
                return Some(id);
            }
            let owner = queued.owner;
            self.end_turn(owner);
            self.begin_turn(owner, true);
        }
    }

    /// Removes and returns a job, if it still waits.
    pub(super) fn remove(&mut self, JobId(id): JobId) -> Option<J> {
        let key = self.jobs.get(id)?.owner;
        let owner = self.owners.get_mut(key)?;
        let is_next = owner.jobs.first(&self.jobs) == Some(id);
        owner.jobs.remove(&mut self.jobs, id);
        let (len, is_waiting) = (owner.len - 1, owner.is_waiting);
        self.set_len(key, len);
        if len == 0 {
            self.end_turn(key);
            let owner = self.owners.remove(key)?;
            self.keys.remove(&owner.key);
        } else if is_next && is_waiting {
            self.end_turn(key);
            self.begin_turn(key, false);
        }
        self.jobs.remove(id).map(|queued| queued.job)
    }

    /// Removes the newest job of the owner with the most jobs.
    fn displace(&mut self) -> Option<J> {
        let owner = self.by_len.get(self.longest.checked_sub(1)?)?.first(&self.owners)?;
        let newest = self.owners.get(owner)?.jobs.last(&mut self.jobs)?;
        self.remove(JobId(newest))
    }

    /// Adds an owner without jobs.
    fn insert_owner(&mut self, key: K) -> Option<Key> {
        let (turn, same_len) = (Links::NONE, Links::NONE);
        let jobs = LinkedList::default();
        let owner = Owner { key: key.clone(), jobs, len: 0, is_waiting: false, turn, same_len };
        let owner = self.owners.insert(owner).ok()?;
        self.keys.insert(key, owner);
        Some(owner)
    }

    /// Adds an owner to the turns, or to those of the owners that wait for room, as the last one.
    fn begin_turn(&mut self, key: Key, is_waiting: bool) {
        if let Some(owner) = self.owners.get_mut(key) {
            owner.is_waiting = is_waiting;
            let turns = if is_waiting { &mut self.waiting } else { &mut self.turns };
            turns.push_back(&mut self.owners, key);
        }
    }

    /// Removes an owner from its turns.
    fn end_turn(&mut self, key: Key) {
        if let Some(owner) = self.owners.get(key) {
            let turns = if owner.is_waiting { &mut self.waiting } else { &mut self.turns };
            turns.remove(&mut self.owners, key);
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
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    impl HandsOn for u32 {
        fn bytes(&self) -> usize {
            0
        }
    }

    /// A job, and what it hands on.
    #[derive(Clone, Debug, Eq, PartialEq)]
    struct SizedJob(u32, Rc<Cell<usize>>);

    impl SizedJob {
        fn new(number: u32, bytes: usize) -> Self {
            Self(number, Rc::new(Cell::new(bytes)))
        }
    }

    impl HandsOn for SizedJob {
        fn bytes(&self) -> usize {
            self.1.get()
        }
    }

    /// Removes the next job; returns its number.
    fn pop(queue: &mut JobQueue<char, SizedJob>, room: usize) -> Option<u32> {
        queue.pop(room).map(|SizedJob(number, _)| number)
    }

    /// Returns the jobs that leave the queue, in order.
    fn drain(queue: &mut JobQueue<char, u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop(0)).collect()
    }

    #[test]
    fn owners_take_turns() {
        let mut queue = JobQueue::new(10);
        for (owner, job) in [('a', 1), ('a', 2), ('a', 3), ('b', 4), ('c', 5), ('b', 6)] {
            assert!(queue.push(usize::MAX, owner, job).is_ok());
        }
        assert_eq!(drain(&mut queue), [1, 4, 5, 2, 6, 3]);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn owner_that_returns_is_served_last() {
        let mut queue = JobQueue::new(10);
        for (owner, job) in [('a', 1), ('b', 2), ('c', 3)] {
            queue.push(usize::MAX, owner, job).unwrap();
        }
        assert_eq!(queue.pop(0), Some(1));
        queue.push(usize::MAX, 'a', 4).unwrap();
        assert_eq!(drain(&mut queue), [2, 3, 4]);
    }

    #[test]
    fn full_queue_displaces_newest_of_longest_owner() {
        let mut queue = JobQueue::new(4);
        for job in 1..=4 {
            queue.push(usize::MAX, 'a', job).unwrap();
        }
        assert_eq!(queue.push(usize::MAX, 'a', 5).unwrap_err(), 5);
        assert_eq!(queue.push(usize::MAX, 'b', 6).unwrap().displaced, Some(4));
        assert_eq!(queue.push(usize::MAX, 'b', 7).unwrap().displaced, Some(3));
        // Both have two.
        assert_eq!(queue.push(usize::MAX, 'b', 8).unwrap_err(), 8);
        assert_eq!(queue.push(usize::MAX, 'c', 9).unwrap().displaced, Some(2));
        assert_eq!(queue.push(usize::MAX, 'd', 10).unwrap().displaced, Some(7));
        // All have one: another owner would only take the place of one of them.
        assert_eq!(queue.push(usize::MAX, 'e', 11).unwrap_err(), 11);
        assert_eq!(drain(&mut queue), [1, 6, 9, 10]);
    }

    #[test]
    fn jobs_wait_for_room_in_turns() {
        let mut queue = JobQueue::new(10);
        for (owner, job, bytes) in [('a', 1, 8), ('b', 2, 3), ('a', 3, 0), ('c', 4, 0), ('c', 5, 0)]
        {
            queue.push(usize::MAX, owner, SizedJob::new(job, bytes)).unwrap();
        }
        // The smaller one of another owner does not pass the first.
        assert_eq!([(); 3].map(|()| pop(&mut queue, 7)), [Some(4), Some(5), None]);
        assert!(!queue.has_next(7) && queue.has_next(8));
        assert_eq!(pop(&mut queue, 8), Some(1));
        // The next one of its owner hands on nothing.
        assert_eq!(pop(&mut queue, 0), Some(3));
        assert_eq!(pop(&mut queue, 3), Some(2));
        assert_eq!((pop(&mut queue, usize::MAX), queue.len()), (None, 0));
    }

    #[test]
    fn waiting_and_other_jobs_alternate() {
        let mut queue = JobQueue::new(10);
        for (owner, job, bytes) in [('a', 1, 1), ('b', 2, 1), ('c', 3, 0), ('c', 4, 0), ('d', 5, 0)]
        {
            queue.push(usize::MAX, owner, SizedJob::new(job, bytes)).unwrap();
        }
        let left: Vec<_> = std::iter::from_fn(|| pop(&mut queue, 1)).collect();
        assert_eq!(left, [3, 1, 5, 2, 4]);
    }

    #[test]
    fn bytes_of_waiting_job_can_change() {
        let mut queue = JobQueue::new(10);
        let [first, second] = [1, 2].map(|number| SizedJob::new(number, 0));
        queue.push(usize::MAX, 'a', first.clone()).unwrap();
        queue.push(usize::MAX, 'b', second.clone()).unwrap();
        first.1.set(5);
        second.1.set(5);
        assert_eq!(pop(&mut queue, 4), None);
        first.1.set(4);
        assert_eq!([(); 2].map(|()| pop(&mut queue, 4)), [Some(1), None]);
    }

    #[test]
    fn withdrawn_job_gives_next_its_turn() {
        let mut queue = JobQueue::new(10);
        let large = queue.push(usize::MAX, 'a', SizedJob::new(1, 9)).unwrap().id;
        queue.push(usize::MAX, 'a', SizedJob::new(2, 0)).unwrap();
        assert_eq!(pop(&mut queue, 8), None);
        assert!(queue.remove(large).is_some());
        assert_eq!(pop(&mut queue, 0), Some(2));
    }

    #[test]
    fn removed_job_frees_its_place() {
        let mut queue = JobQueue::new(2);
        let first = queue.push(usize::MAX, 'a', 1).unwrap().id;
        queue.push(usize::MAX, 'b', 2).unwrap();
        assert_eq!(queue.remove(first), Some(1));
        assert_eq!(queue.remove(first), None);
        queue.push(usize::MAX, 'c', 3).unwrap();
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
        Pop {
            room: usize,
        },
        Push {
            owner: u8,
            bytes: usize,
        },
        /// Counted back from the newest job, those that have left included.
        Remove {
            job: usize,
        },
    }

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        // Some owners send more than others.
        let owner = || prop_oneof![3 => Just(0u8), 2 => 1..3u8, 2 => 3..8u8];
        let bytes = prop_oneof![2 => Just(0), 1 => 1..4usize];
        let operation = prop_oneof![
            6 => (owner(), bytes).prop_map(|(owner, bytes)| Operation::Push { owner, bytes }),
            4 => (0..4usize).prop_map(|room| Operation::Pop { room }),
            1 => (0..16usize).prop_map(|job| Operation::Remove { job }),
        ];
        prop::collection::vec(operation, 1..200)
    }

    /// The number of its arrival, and what it hands on.
    #[derive(Clone, Copy, Debug, Eq, PartialEq)]
    struct ModelJob {
        number: usize,
        bytes: usize,
    }

    impl HandsOn for ModelJob {
        fn bytes(&self) -> usize {
            self.bytes
        }
    }

    /// The waiting jobs.
    #[derive(Debug, Default)]
    struct Model {
        jobs: BTreeMap<u8, VecDeque<ModelJob>>,
        /// The owners in the order of their turns, and those that wait for room.
        turns: [VecDeque<u8>; 2],
        is_waiting_next: bool,
        /// For each owner: the owners of the same turns that were served since its turn began.
        served: BTreeMap<u8, BTreeSet<u8>>,
    }

    impl Model {
        fn count(&self) -> usize {
            self.jobs.values().map(VecDeque::len).sum()
        }

        fn count_of(&self, owner: u8) -> usize {
            self.jobs.get(&owner).map_or(0, VecDeque::len)
        }

        /// Returns what the next job of an owner hands on.
        fn next_bytes(&self, owner: u8) -> usize {
            self.jobs[&owner][0].bytes
        }

        fn push(&mut self, owner: u8, job: ModelJob) {
            let jobs = self.jobs.entry(owner).or_default();
            jobs.push_back(job);
            if jobs.len() == 1 {
                self.begin_turn(owner, 0);
            }
        }

        /// Removes a job; returns it.
        fn remove(&mut self, number: usize) -> Option<ModelJob> {
            let is_removed = |job: &ModelJob| job.number == number;
            let (owner, jobs) =
                self.jobs.iter_mut().find(|(_, jobs)| jobs.iter().any(is_removed))?;
            let (owner, index) = (*owner, jobs.iter().position(is_removed)?);
            let job = jobs.remove(index);
            if jobs.is_empty() {
                self.jobs.remove(&owner);
                self.end_turn(owner);
            } else if index == 0 && self.turns[1].contains(&owner) {
                self.begin_turn(owner, 0);
            }
            job
        }

        /// Makes an owner the last one of some turns.
        fn begin_turn(&mut self, owner: u8, turns: usize) {
            self.end_turn(owner);
            self.turns[turns].push_back(owner);
            self.served.insert(owner, BTreeSet::new());
        }

        fn end_turn(&mut self, owner: u8) {
            self.served.remove(&owner);
            self.turns.iter_mut().for_each(|turns| turns.retain(|other| *other != owner));
        }

        /// Returns the turns from which the next job leaves.
        fn next_turns(&mut self, room: usize) -> Option<usize> {
            let waits = |model: &Self| model.turns[1].front().map(|owner| model.next_bytes(*owner));
            if self.is_waiting_next && waits(self).is_some_and(|bytes| bytes <= room) {
                return Some(1);
            }
            while let Some(&owner) = self.turns[0].front() {
                if self.next_bytes(owner) == 0 {
                    return Some(0);
                }
                self.begin_turn(owner, 1);
            }
            waits(self).filter(|bytes| *bytes <= room).map(|_| 1)
        }

        fn pop(&mut self, room: usize) -> Option<ModelJob> {
            let turns = self.next_turns(room)?;
            let owner = self.turns[turns][0];
            for other in self.turns[turns].iter().skip(1) {
                let is_first = self.served.get_mut(other).is_none_or(|it| it.insert(owner));
                assert!(is_first, "{owner} twice before {other}");
            }
            self.is_waiting_next = turns == 0;
            let job = self.remove(self.jobs[&owner][0].number);
            if self.jobs.contains_key(&owner) {
                self.begin_turn(owner, 0);
            }
            job
        }

        /// Checks what a full queue does with a new job of `owner`.
        fn displace(&mut self, owner: u8, displaced: Option<ModelJob>, jobs_max: usize) {
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
            self.remove(displaced.number);
        }
    }

    proptest! {
        #[test]
        fn job_queue_agrees_with_model(operations in operations(), jobs_max in 1..12usize) {
            let (mut queue, mut model) = (JobQueue::new(jobs_max), Model::default());
            let mut ids = vec![];
            for operation in operations {
                match operation {
                    Operation::Pop { room } => {
                        let has_next = queue.has_next(room);
                        let job = queue.pop(room);
                        prop_assert!(has_next || job.is_none());
                        prop_assert_eq!(job, model.pop(room));
                    }
                    Operation::Push { owner, bytes } => {
                        let number = ids.len();
                        let is_full = model.count() == jobs_max;
                        let job = ModelJob { number, bytes };
                        let queued = queue.push(usize::MAX, owner, job);
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
                    Operation::Remove { job } => {
                        let Some(job) = ids.len().checked_sub(job + 1) else { continue };
                        let removed = ids[job].and_then(|id| queue.remove(id));
                        prop_assert_eq!(removed, model.remove(job));
                    }
                }
                prop_assert_eq!(queue.len(), model.count());
                prop_assert!(queue.len() <= jobs_max);
            }
            while let Some(job) = model.pop(usize::MAX) {
                prop_assert_eq!(queue.pop(usize::MAX), Some(job));
            }
            prop_assert_eq!((queue.pop(usize::MAX), queue.len()), (None, 0));
        }
    }
}
