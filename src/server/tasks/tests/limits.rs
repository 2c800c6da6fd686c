//! Limits of tasks and results: what is refused, and what is evicted.

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
    end_task(&mut tasks, 3, address(2), 6, at(1));
    end_task(&mut tasks, 2, address(1), 5, at(1));
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
