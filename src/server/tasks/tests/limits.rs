//! Limits of tasks and results: what is refused, and what is evicted; and a property test against a
//! simple model, which searches where the table has indexes.

use corelane_base::holders::{HeldPlaces, Holder, HolderScope};
use proptest::prelude::*;

use super::*;
use crate::server::tasks::table::{Room, TaskUsage};

/// Returns address 192.0.2.`last`.
pub(super) fn address(last: u8) -> Option<ClientAddress> {
    ClientAddress::new([192, 0, 2, last].into())
}

pub(super) const fn peer(number: u64) -> PeerId {
    PeerId::Connection(Key::from_bits(number))
}

fn task_of(peer_number: u64, address: Option<ClientAddress>) -> NewTask {
    let owner = TaskOwner { peer: peer(peer_number), address };
    NewTask { owner, ..new_task(Revision::LATEST) }
}

/// Creates a task that ends at once with a result of `bytes`; returns it and how many were evicted.
fn end_task(
    tasks: &mut TaskTable<&'static str>,
    peer: u64,
    address: Option<ClientAddress>,
    bytes: usize,
    now: Instant,
) -> (Key, usize) {
    let CreatedTask { key, evicted } = tasks.create(task_of(peer, address), now).unwrap();
    let stored = tasks.complete(key, result(&"x".repeat(bytes), false), now);
    assert_eq!(stored.refused, None);
    while tasks.take_changed().is_some() {}
    (key, evicted + stored.evicted)
}

fn refused(limit: TaskLimit) -> Result<CreatedTask, TaskRefusal> {
    Err(TaskRefusal::Limit { limit, evicted: 0 })
}

#[test]
fn full_table_rejects_tasks_and_oversized_results_fail() {
    let mut tasks = tasks(TaskLimits { tasks_max: 2, ..limits() });
    let first = begin(&mut tasks, Revision::LATEST, at(0));
    let second = begin(&mut tasks, Revision::LATEST, at(0));
    assert_eq!(tasks.create(new_task(Revision::LATEST), at(0)), refused(TaskLimit::Tasks));
    let text = "x".repeat(90);
    assert_eq!(tasks.complete(first, result(&text, false), at(1)), Room::default());
    let stored = tasks.complete(second, result(&text, false), at(1));
    assert_eq!(stored, Room { evicted: 0, refused: Some(TaskLimit::TaskBytes) });
    assert_eq!(status(&mut tasks, first), TaskStatus::Completed);
    assert_eq!(status(&mut tasks, second), TaskStatus::Failed);
    // Expired tasks free their bytes.
    while tasks.expire(at(100_000)).is_some() {}
    let third = begin(&mut tasks, Revision::LATEST, at(100_000));
    tasks.complete(third, result(&text, false), at(100_001));
    assert_eq!(status(&mut tasks, third), TaskStatus::Completed);
}

#[test]
fn task_limit_per_connection_leaves_others_unaffected() {
    let mut tasks = tasks(TaskLimits { tasks_max: 4, tasks_per_connection_max: 2, ..limits() });
    // Ended tasks are stored, and count.
    let own = [1, 1].map(|peer| end_task(&mut tasks, peer, None, 2, at(1)).0);
    assert_eq!(tasks.create(task_of(1, None), at(2)), refused(TaskLimit::TasksPerConnection));
    assert!(tasks.create(task_of(2, None), at(2)).is_ok());
    assert!(tasks.create(task_of(3, None), at(2)).is_ok());
    assert_eq!(tasks.create(task_of(4, None), at(2)), refused(TaskLimit::Tasks));
    assert!(own.iter().all(|key| tasks.get_mut(*key).is_some()));
    // Expired tasks do not count, nor do tasks that could not be started.
    while tasks.expire(at(20_000)).is_some() {}
    for _ in 0..3 {
        let CreatedTask { key, .. } = tasks.create(task_of(1, None), at(20_000)).unwrap();
        assert!(tasks.remove(key).is_some());
    }
    assert!((0..2).all(|_| tasks.create(task_of(1, None), at(20_000)).is_ok()));
}

#[test]
fn address_share_limits_tasks_of_many_connections() {
    let mut tasks = tasks(TaskLimits { tasks_max: 4, ..limits() });
    for number in 0..3 {
        assert!(tasks.create(task_of(number, address(1)), at(0)).is_ok());
        tasks.remove_owner(peer(number));
    }
    assert_eq!(tasks.create(task_of(9, address(1)), at(0)), refused(TaskLimit::AddressShare));
    assert!(tasks.create(task_of(9, address(2)), at(0)).is_ok());
    // Exempt clients have the limit of the shard only, and running tasks are not evicted.
    assert_eq!(tasks.create(task_of(9, None), at(0)), refused(TaskLimit::Tasks));
    while tasks.expire(at(20_000)).is_some() {}
    assert_eq!(tasks.tasks.owner_counts(), (0, 0));
    assert!((0..4).all(|peer| tasks.create(task_of(peer, None), at(20_000)).is_ok()));
}

#[test]
fn address_at_its_share_evicts_only_its_own() {
    let mut tasks = tasks(TaskLimits { tasks_max: 4, ..limits() });
    end_task(&mut tasks, 9, address(2), 2, at(0));
    tasks.remove_owner(peer(9));
    let evicted = [1, 2, 3, 4].map(|number| {
        let (_, evicted) = end_task(&mut tasks, number, address(1), 2, at(number));
        tasks.remove_owner(peer(number));
        evicted
    });
    assert_eq!((evicted, tasks.tasks.numbers()), ([0, 0, 0, 1], vec![1, 3, 4, 5]));
    // 73 bytes of its share of 75.
    let (_, evicted) = end_task(&mut tasks, 5, address(1), 73, at(5));
    assert_eq!((evicted, tasks.tasks.numbers()), (2, vec![1, 5, 6]));
}

#[test]
fn address_share_of_100_percent_is_no_limit() {
    let address_share = AddressShare::new(100);
    let mut tasks = tasks(TaskLimits { tasks_max: 2, address_share, ..limits() });
    assert!((0..2).all(|peer| tasks.create(task_of(peer, address(1)), at(0)).is_ok()));
    assert_eq!(tasks.create(task_of(2, address(1)), at(0)), refused(TaskLimit::Tasks));
}

#[test]
fn address_share_limits_bytes_of_results() {
    let mut tasks = tasks(limits());
    end_task(&mut tasks, 1, address(1), 70, at(0));
    let CreatedTask { key, .. } = tasks.create(task_of(2, address(1)), at(0)).unwrap();
    let stored = tasks.complete(key, result(&"x".repeat(6), false), at(1));
    assert_eq!(stored.refused, Some(TaskLimit::AddressShare));
    assert_eq!(status(&mut tasks, key), TaskStatus::Failed);
    tasks.remove(key).unwrap();
    end_task(&mut tasks, 2, address(1), 5, at(1));
    end_task(&mut tasks, 3, address(2), 6, at(1));
    assert_eq!(tasks.usage(), TaskUsage { tasks: 3, running: 0, result_bytes: 81 });
}

#[test]
fn tasks_of_gone_owners_are_evicted_in_order() {
    let mut tasks = tasks(TaskLimits { tasks_max: 6, ..limits() });
    let [present, fetched, _, _] =
        [1, 2, 3, 4].map(|peer| end_task(&mut tasks, peer, None, 2, at(peer)).0);
    let CreatedTask { key: cancelled, .. } = tasks.create(task_of(5, None), at(5)).unwrap();
    assert!(tasks.cancel(cancelled, "enough", at(5)));
    tasks.take_changed();
    let CreatedTask { key: running, .. } = tasks.create(task_of(6, None), at(6)).unwrap();
    tasks.mark_fetched(fetched);
    tasks.mark_fetched(present);
    assert_eq!(tasks.create(task_of(7, None), at(7)), refused(TaskLimit::Tasks));
    // The order in which the owners go is of no importance.
    for number in [4, 6, 5, 3, 2] {
        tasks.remove_owner(peer(number));
    }
    let mut left = Vec::new();
    for _ in 0..4 {
        let created = tasks.create(task_of(7, None), at(8)).unwrap();
        assert_eq!(created.evicted, 1);
        let names = tasks.tasks.numbers();
        left.push(names.into_iter().filter(|number| *number <= 6).collect::<Vec<_>>());
    }
    assert_eq!(left, [vec![1, 3, 4, 5, 6], vec![1, 3, 4, 6], vec![1, 4, 6], vec![1, 6]]);
    assert!(tasks.get_mut(present).is_some() && tasks.get_mut(running).is_some());
    assert_eq!(tasks.create(task_of(7, None), at(9)), refused(TaskLimit::Tasks));
}

#[test]
fn evicted_results_make_room_for_a_new_one() {
    let mut tasks = tasks(limits());
    for number in 1..=3 {
        end_task(&mut tasks, number, None, 30, at(number));
    }
    tasks.remove_owner(peer(1));
    tasks.remove_owner(peer(2));
    let CreatedTask { key, .. } = tasks.create(task_of(4, None), at(4)).unwrap();
    // 71 bytes do not fit, even without the tasks of owners that have gone.
    let stored = tasks.complete(key, result(&"x".repeat(71), false), at(4));
    assert_eq!(stored, Room { evicted: 0, refused: Some(TaskLimit::TaskBytes) });
    tasks.remove(key).unwrap();
    let (_, evicted) = end_task(&mut tasks, 4, None, 70, at(5));
    assert_eq!((evicted, tasks.tasks.numbers()), (2, vec![3, 5]));
}

#[test]
fn unsent_end_keeps_task_from_eviction() {
    let mut tasks = tasks(TaskLimits { tasks_max: 1, ..limits() });
    let CreatedTask { key, .. } = tasks.create(task_of(1, None), at(0)).unwrap();
    tasks.get_mut(key).unwrap().set_handler(Some("handler"));
    tasks.remove_owner(peer(1));
    assert!(tasks.cancel(key, "enough", at(1)));
    assert_eq!(tasks.create(task_of(2, None), at(1)), refused(TaskLimit::Tasks));
    assert_eq!(tasks.take_changed(), Some(key));
    // Its handler still runs.
    assert_eq!(tasks.create(task_of(2, None), at(1)), refused(TaskLimit::Tasks));
    tasks.complete(key, result("{}", false), at(2));
    assert_eq!(tasks.create(task_of(2, None), at(2)).map(|created| created.evicted), Ok(1));
}

#[test]
fn several_addresses_leave_task_to_another_one() {
    let mut tasks = tasks(TaskLimits { tasks_max: 64, ..limits() });
    let (mut peers, mut held) = (0.., Vec::new());
    for last in 1..=3 {
        let mut own = 0;
        while tasks.create(task_of(peers.next().unwrap(), address(last)), at(0)).is_ok() {
            own += 1;
        }
        held.push(own);
    }
    // The third finds what all addresses of the prefix keep for those that hold little.
    assert_eq!(held, [48, 7, 1]);
    assert!(tasks.create(task_of(1_000, address(4)), at(0)).is_ok());
    let other_prefix = ClientAddress::new([198, 51, 100, 1].into());
    assert!(tasks.create(task_of(1_001, other_prefix), at(0)).is_ok());
    assert!(tasks.create(task_of(1_002, None), at(0)).is_ok());
}

#[test]
fn place_of_expired_task_is_kept_for_caller() {
    let mut tasks = tasks(TaskLimits { tasks_max: 64, ..limits() });
    let ttl = Some(Duration::from_secs(1));
    let short = || NewTask { ttl, ..task_of(1_000, address(200)) };
    for _ in 0..3 {
        tasks.create(short(), at(0)).unwrap();
    }
    // Others take all that is free, and what is kept for those that hold little.
    let mut peers = 0..;
    let mut fill = |tasks: &mut TaskTable<&'static str>, now| {
        let before = tasks.usage().tasks;
        for last in 1..100 {
            for network in [2, 3] {
                let client = ClientAddress::new([192, 0, network, last].into());
                while tasks.create(task_of(peers.next().unwrap(), client), now).is_ok() {}
            }
        }
        tasks.usage().tasks - before
    };
    fill(&mut tasks, at(0));
    assert!(tasks.create(short(), at(0)).is_err());
    while tasks.expire(at(1_000)).is_some() {}
    assert_eq!(fill(&mut tasks, at(1_000)), 0);
    // As often as the tasks expire.
    for second in 1..4 {
        while tasks.expire(at(second * 1_000)).is_some() {}
        for _ in 0..3 {
            tasks.create(short(), at(second * 1_000)).unwrap();
        }
        assert_eq!(fill(&mut tasks, at(second * 1_000)), 0);
    }
    // Others get those that are not used again.
    while tasks.expire(at(4_000)).is_some() {}
    assert_eq!(fill(&mut tasks, at(4_999)), 0);
    assert!(fill(&mut tasks, at(5_000)) > 0);
}

#[test]
fn unauthenticated_callers_evict_no_authenticated_task() {
    let address_share = AddressShare::new(75).with_reserve(true);
    let mut tasks = tasks(TaskLimits { tasks_max: 8, address_share, ..limits() });
    let principal = Some(Arc::new(Principal::new("ada")));
    let of_ada = NewTask { principal, ..task_of(1, address(1)) };
    let CreatedTask { key: own, .. } = tasks.create(of_ada, at(0)).unwrap();
    tasks.complete(own, result("{}", false), at(0));
    while tasks.take_changed().is_some() {}
    tasks.remove_owner(peer(1));
    for number in 2..20 {
        if tasks.create(task_of(number, None), at(1)).is_err() {
            break;
        }
    }
    // An eighth is kept for authenticated callers.
    assert_eq!(tasks.usage().tasks, 8);
    assert_eq!(tasks.create(task_of(20, None), at(1)), refused(TaskLimit::AddressShare));
    assert!(tasks.get_mut(own).is_some());
}

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

impl ModelTask {
    /// Returns whether it must not be evicted.
    const fn is_pinned(&self) -> bool {
        !self.is_gone || self.end.is_none()
    }
}

/// Returns the holder of the tasks of an address; 0 is exempt.
fn holder_of(number: usize) -> Holder {
    let address = address(u8::try_from(number).unwrap()).filter(|_| number > 0);
    address.map_or(Holder::Exempt, Holder::Address)
}

const HALF: AddressShare = AddressShare::new(50);

impl TableWithModel {
    fn new() -> Self {
        let limits = TaskLimits {
            tasks_max: TASKS_MAX,
            tasks_per_connection_max: PER_CONNECTION_MAX,
            address_share: HALF,
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

    /// Returns what each holder has, `amount` of each task.
    fn held(&self, amount: impl Fn(&ModelTask) -> usize) -> HeldPlaces {
        let mut held = HeldPlaces::default();
        for task in &self.model {
            held.add(holder_of(address_of(task.peer)), amount(task));
        }
        held
    }

    /// Evicts the first task, at the limit of a share one of address `number`; returns `false` if
    /// there is none.
    fn evict(&mut self, limit: TaskLimit, number: usize) -> bool {
        let first_of = |holder| {
            let tasks = self.model.iter().enumerate();
            let own = tasks.filter(|(_, task)| holder_of(address_of(task.peer)) == holder);
            let evictable = own.filter(|(_, task)| task.is_gone);
            let ended = evictable.filter_map(|(index, task)| {
                Some(((task.has_unfetched_result, task.end?.0, task.number), index))
            });
            ended.min().map(|(_, index)| index)
        };
        let holder = holder_of(number);
        let is_evictable = |task: &ModelTask| usize::from(!task.is_pinned());
        let first = match limit {
            TaskLimit::AddressShare => first_of(holder),
            _ => self.held(is_evictable).find_heaviest(HolderScope::Unauthenticated, first_of),
        };
        let Some(index) = first else { return false };
        self.model.remove(index);
        true
    }

    /// Returns the limit that refuses a task of a peer.
    fn limit_of_task(&self, peer: usize) -> Option<TaskLimit> {
        let holder = holder_of(address_of(peer));
        let pinned = self.held(|task| usize::from(task.is_pinned()));
        let all = self.held(|_| 1).of(holder);
        let held = if holder == Holder::Exempt { pinned.of(holder) } else { all };
        let excess = (pinned.total() + 1).saturating_sub(TASKS_MAX);
        if self.model.iter().filter(|task| task.peer == peer).count() >= PER_CONNECTION_MAX {
            Some(TaskLimit::TasksPerConnection)
        } else if held >= pinned.limit_of(holder, TASKS_MAX + excess, HALF) {
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
        let holder = holder_of(number);
        let own = self.bytes(|task| {
            let counts = number > 0 || task.is_pinned();
            counts && is_held(task) && address_of(task.peer) == number
        });
        let bytes_of = |task: &ModelTask| task.end.map_or(0, |(_, bytes)| bytes);
        let pinned = self.held(|task| if task.is_pinned() { bytes_of(task) } else { 0 });
        let excess = (pinned.total() + bytes).saturating_sub(BYTES_MAX);
        if own + bytes > pinned.limit_of(holder, BYTES_MAX + excess, HALF) {
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
        assert_eq!(self.table.held_bytes(), self.table.tasks.recount_bytes());
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
