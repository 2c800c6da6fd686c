//! Property test of the limits of tasks against a simple model, which searches where the table has
//! indexes.

use proptest::prelude::*;

use super::limits::{address, peer};
use super::*;
use crate::server::tasks::table::{Room, TaskUsage};

const TASKS_MAX: usize = 8;
const PER_CONNECTION_MAX: usize = 4;
const BYTES_MAX: usize = 100;

/// One operation. Tasks are counted back from the newest one.
#[derive(Clone, Debug)]
enum Operation {
    Create { peer: usize },
    Complete { task: usize, bytes: usize },
    Cancel { task: usize },
    Fetch { task: usize },
    RemoveOwner { peer: usize },
    Expire,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let task = || 0..8usize;
    let step = prop_oneof![
        8 => (0..PEERS).prop_map(|peer| Operation::Create { peer }),
        8 => (task(), 0..60usize).prop_map(|(task, bytes)| Operation::Complete { task, bytes }),
        1 => task().prop_map(|task| Operation::Cancel { task }),
        3 => task().prop_map(|task| Operation::Fetch { task }),
        3 => (0..PEERS).prop_map(|peer| Operation::RemoveOwner { peer }),
        1 => Just(Operation::Expire),
    ];
    prop::collection::vec(step, 0..150)
}

/// Peers at a time; one that has gone is replaced by a new one.
const PEERS: usize = 5;

#[derive(Clone, Debug)]
struct ModelTask {
    key: Key,
    number: u64,
    peer: usize,
    is_gone: bool,
    /// When it ended, and the bytes of its result.
    end: Option<(u64, usize)>,
    has_unfetched_result: bool,
}

struct TableWithModel {
    table: TaskTable<&'static str>,
    model: Vec<ModelTask>,
    /// Number of times that each peer was replaced.
    generations: [usize; PEERS],
    created: u64,
    now: u64,
}

/// Returns the number of the address of a peer; 0 is exempt.
const fn address_of(peer: usize) -> usize {
    peer % PEERS / 2
}

impl TableWithModel {
    fn new() -> Self {
        let limits = TaskLimits {
            tasks_max: TASKS_MAX,
            tasks_per_connection_max: PER_CONNECTION_MAX,
            address_share: AddressShare::new(50),
            result_bytes_max: BYTES_MAX,
            ..limits()
        };
        let generations = [0; PEERS];
        Self { table: tasks(limits), model: Vec::new(), generations, created: 0, now: 0 }
    }

    fn peer_number(&self, peer: usize) -> usize {
        peer + PEERS * self.generations[peer]
    }

    fn bytes(&self, matches: impl Fn(&ModelTask) -> bool) -> usize {
        let tasks = self.model.iter().filter(|task| matches(task));
        tasks.filter_map(|task| task.end).map(|(_, bytes)| bytes).sum()
    }

    /// Evicts the first task, at the limit of a share one of address `number`; returns `false` if
    /// there is none.
    fn evict(&mut self, limit: TaskLimit, number: usize) -> bool {
        let is_own =
            |task: &ModelTask| limit != TaskLimit::AddressShare || address_of(task.peer) == number;
        let tasks = self.model.iter().enumerate();
        let evictable = tasks.filter(|(_, task)| task.is_gone && is_own(task));
        let ended = evictable.filter_map(|(index, task)| {
            Some(((task.has_unfetched_result, task.end?.0, task.number), index))
        });
        let Some((_, index)) = ended.min() else { return false };
        self.model.remove(index);
        true
    }

    /// Returns the limit that refuses a task of a peer.
    fn limit_of_task(&self, peer: usize) -> Option<TaskLimit> {
        let number = address_of(peer);
        let of_address = self.model.iter().filter(|task| address_of(task.peer) == number);
        if self.model.iter().filter(|task| task.peer == peer).count() >= PER_CONNECTION_MAX {
            Some(TaskLimit::TasksPerConnection)
        } else if number > 0 && of_address.count() >= TASKS_MAX / 2 {
            Some(TaskLimit::AddressShare)
        } else {
            (self.model.len() >= TASKS_MAX).then_some(TaskLimit::Tasks)
        }
    }

    fn create(&mut self, peer_number: usize) {
        let number = address_of(peer_number);
        let (mut evicted, mut expected) = (0, Ok(0));
        while let Some(limit) = self.limit_of_task(peer_number) {
            if limit == TaskLimit::TasksPerConnection || !self.evict(limit, number) {
                expected = Err(TaskRefusal::Limit { limit, evicted });
                break;
            }
            evicted += 1;
            expected = Ok(evicted);
        }
        let address = address(u8::try_from(number).unwrap()).filter(|_| number > 0);
        let owner = TaskOwner { peer: peer(peer_number as u64), address };
        let task = NewTask { owner, ..new_task(Revision::LATEST_LEGACY) };
        let created = self.table.create(task, at(self.now));
        assert_eq!(created.map(|created| created.evicted), expected);
        if let Ok(CreatedTask { key, .. }) = created {
            self.created += 1;
            self.model.push(ModelTask {
                key,
                number: self.created,
                peer: peer_number,
                is_gone: false,
                end: None,
                has_unfetched_result: false,
            });
        }
    }

    /// Returns the limit that refuses a result of an address, with or without the evictable tasks.
    fn limit_of_result(&self, number: usize, bytes: usize, is_freed: bool) -> Option<TaskLimit> {
        let is_held = |task: &ModelTask| !is_freed || !task.is_gone;
        let own = self.bytes(|task| is_held(task) && address_of(task.peer) == number);
        if number > 0 && own + bytes > BYTES_MAX / 2 {
            return Some(TaskLimit::AddressShare);
        }
        (self.bytes(is_held) + bytes > BYTES_MAX).then_some(TaskLimit::TaskBytes)
    }

    fn complete(&mut self, index: usize, bytes: usize) {
        let task = self.model[index].clone();
        let stored = self.table.complete(task.key, result(&"x".repeat(bytes), false), at(self.now));
        if task.end.is_some() {
            return assert_eq!(stored, Room::default());
        }
        let number = address_of(task.peer);
        let mut expected = Room::default();
        let would_suffice = self.limit_of_result(number, bytes, true).is_none();
        while let Some(limit) = self.limit_of_result(number, bytes, false) {
            if !would_suffice || !self.evict(limit, number) {
                expected.refused = Some(limit);
                break;
            }
            expected.evicted += 1;
        }
        assert_eq!(stored, expected);
        let stored_bytes = self.table.get_mut(task.key).unwrap().result_bytes();
        assert!(expected.refused.is_some() || stored_bytes == bytes);
        let task = self.model.iter_mut().find(|other| other.key == task.key).unwrap();
        task.end = Some((self.now, stored_bytes));
        task.has_unfetched_result = true;
    }

    fn apply(&mut self, step: &Operation) {
        self.now += 1;
        let index = |task: usize| self.model.len().checked_sub(task + 1);
        match *step {
            Operation::Create { peer } => self.create(self.peer_number(peer)),
            Operation::Complete { task, bytes } => {
                if let Some(index) = index(task) {
                    self.complete(index, bytes);
                }
            }
            Operation::Cancel { task } => {
                let Some(index) = index(task) else { return };
                let task = &mut self.model[index];
                assert_eq!(self.table.cancel(task.key, "enough", at(self.now)), task.end.is_none());
                task.end.get_or_insert((self.now, 0));
            }
            Operation::Fetch { task } => {
                let Some(index) = index(task) else { return };
                let task = &mut self.model[index];
                self.table.mark_fetched(task.key);
                task.has_unfetched_result = false;
            }
            Operation::RemoveOwner { peer: slot } => {
                let number = self.peer_number(slot);
                self.table.remove_owner(peer(number as u64));
                let own = self.model.iter_mut().filter(|task| task.peer == number);
                own.for_each(|task| task.is_gone = true);
                self.generations[slot] += 1;
            }
            Operation::Expire => {
                self.now += 20_000;
                while self.table.expire(at(self.now)).is_some() {}
                self.model.clear();
            }
        }
        while self.table.take_changed().is_some() {}
    }

    fn compare(&mut self) {
        let numbers: Vec<u64> = self.model.iter().map(|task| task.number).collect();
        assert_eq!(self.table.tasks.numbers(), numbers);
        let running = self.model.iter().filter(|task| task.end.is_none()).count();
        let result_bytes = self.bytes(|_| true);
        let usage = TaskUsage { tasks: self.model.len(), running, result_bytes };
        assert_eq!(self.table.usage(), usage);
        for slot in 0..PEERS {
            let number = self.peer_number(slot);
            let own = self.model.iter().filter(|task| task.peer == number);
            let own: Vec<u64> = own.map(|task| task.number).collect();
            let (page, _) = self.table.list_page(peer(number as u64), None).unwrap();
            assert_eq!(page.iter().map(|task| task.number()).collect::<Vec<_>>(), own);
        }
    }
}

proptest! {
    #[test]
    fn limits_of_tasks_agree_with_model(steps in operations()) {
        let mut pair = TableWithModel::new();
        for step in &steps {
            pair.apply(step);
            pair.compare();
        }
    }
}
