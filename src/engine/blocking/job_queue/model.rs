//! Property test of the job queue against a simple model, which searches where the queue has lists.

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
            assert!(*waiting == owner || served.insert(owner), "{owner} twice before {waiting}");
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
        let (mut queue, mut model, mut ids) = (JobQueue::new(jobs_max), Model::default(), vec![]);
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
