//! The life of tasks, without handlers, connections or a clock.

use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::*;
use crate::base::random::Random;
use crate::base::slab::Key;
use crate::base::time::{Calendar, Moment};
use crate::engine::mesh::ShardId;
use crate::protocol::era::ClientCapabilities;
use crate::protocol::error::Error;
use crate::protocol::message::{InputRequest, InputResponse, TaskDetail, TaskStatus};
use crate::protocol::revision::Revision;
use crate::protocol::rpc::Id;
use crate::server::party::Party;
use crate::service::{AskError, Client};

const PARTY: Party = Party::Connection(Key::from_bits(7));

fn bounds() -> Bounds {
    let (ttl, ttl_max) = (Duration::from_secs(10), Duration::from_secs(100));
    Bounds { tasks_max: 100, tasks_per_connection_max: 100, ttl, ttl_max, bytes_max: 100 }
}

fn tasks(bounds: Bounds) -> Tasks<&'static str> {
    let mut random = Random::seeded(5);
    let chance = move || Some(u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()));
    Tasks::new(bounds, Names::new(ShardId(1), 3, Box::new(chance)))
}

fn birth(revision: Revision) -> Birth {
    let client = Client { revision, capabilities: ClientCapabilities::default() };
    Birth { party: PARTY, client, progress_token: None, ttl: None }
}

fn at(milliseconds: u64) -> Moment {
    Moment::from_milliseconds(milliseconds)
}

fn result(body: &str, is_failed: bool) -> End {
    End::Result { body: body.as_bytes().to_vec(), is_failed }
}

#[track_caller]
fn begin(tasks: &mut Tasks<&'static str>, revision: Revision, now: Moment) -> Key {
    let key = tasks.begin(birth(revision), now).unwrap();
    tasks.attach(key, "handler");
    key
}

#[track_caller]
fn status(tasks: &mut Tasks<&'static str>, key: Key) -> TaskStatus {
    tasks.task(key).unwrap().status()
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn responses(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other}"),
    }
}

#[test]
fn a_task_works_until_its_handler_ends_and_then_stands_still() {
    let mut tasks = tasks(bounds());
    let key = begin(&mut tasks, Revision::LATEST, at(1));
    assert_eq!((status(&mut tasks, key), tasks.running()), (TaskStatus::Working, 1));
    tasks.finish(key, result("{}", true), at(2));
    // The tool failed, the call did not: to the extension that is a task like any other.
    assert_eq!((status(&mut tasks, key), tasks.running()), (TaskStatus::Completed, 0));
    assert!(!tasks.cancel(key, "late", at(3)));
    tasks.finish(key, End::Error(Error::internal("later still")), at(4));
    assert_eq!(status(&mut tasks, key), TaskStatus::Completed);
    assert!(tasks.task(key).unwrap().work().is_none());
}

#[test]
fn a_tool_that_failed_is_a_failed_task_to_the_old_generation_only() {
    let mut tasks = tasks(bounds());
    for (revision, is_failed, expected) in [
        (Revision::V2025_11_25, false, TaskStatus::Completed),
        (Revision::V2025_11_25, true, TaskStatus::Failed),
        (Revision::LATEST, true, TaskStatus::Completed),
    ] {
        let key = begin(&mut tasks, revision, at(0));
        tasks.finish(key, result("{}", is_failed), at(1));
        assert_eq!(status(&mut tasks, key), expected, "{revision:?} {is_failed}");
    }
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    tasks.finish(key, End::Error(Error::internal("broken")), at(1));
    let task = tasks.task(key).unwrap();
    let view = task.view(Calendar::default());
    assert_eq!((view.status, view.status_message), (TaskStatus::Failed, Some("broken")));
}

#[test]
fn a_cancelled_task_stays_cancelled_and_keeps_its_handler_until_that_ends() {
    let mut tasks = tasks(bounds());
    let key = begin(&mut tasks, Revision::V2025_11_25, at(0));
    assert!(tasks.cancel(key, "enough", at(1)));
    assert_eq!(tasks.task(key).unwrap().work(), Some(&mut "handler"));
    assert_eq!(tasks.running(), 0);
    tasks.finish(key, result("{}", false), at(2));
    let task = tasks.task(key).unwrap();
    assert_eq!((task.status(), task.end().is_none()), (TaskStatus::Cancelled, true));
    assert!(task.work().is_none());
}

#[test]
fn a_task_is_known_by_its_name_in_its_own_generation() {
    let mut tasks = tasks(bounds());
    let (old, new) = (
        begin(&mut tasks, Revision::V2025_11_25, at(0)),
        begin(&mut tasks, Revision::LATEST, at(0)),
    );
    let name_of = |tasks: &mut Tasks<_>, key| TaskId::parse(tasks.task(key).unwrap().name());
    let (old_id, new_id) = (name_of(&mut tasks, old).unwrap(), name_of(&mut tasks, new).unwrap());
    assert_eq!(old_id.owner(3), ShardId(1));
    assert_eq!((tasks.find(old_id, false), tasks.find(old_id, true)), (Some(old), None));
    assert_eq!((tasks.find(new_id, true), tasks.find(new_id, false)), (Some(new), None));
}

#[test]
fn a_task_is_kept_for_its_ttl_and_no_longer() {
    let mut tasks = tasks(bounds());
    let wishes =
        [(None, 10_000), (Some(20_000), 20_000), (Some(0), 1_000), (Some(u64::MAX), 100_000)];
    for (wish, kept) in wishes {
        let ttl = wish.map(Duration::from_millis);
        let key = tasks.begin(Birth { ttl, ..birth(Revision::LATEST) }, at(5)).unwrap();
        let id = tasks.task(key).unwrap().id;
        assert_eq!(tasks.task(key).unwrap().view(Calendar::default()).ttl_ms, Some(kept));
        assert!(tasks.expire(at(5 + kept - 1)).is_none());
        assert_eq!(tasks.find(id, true), Some(key));
        assert_eq!(tasks.deadline(), Some(at(5 + kept)));
        assert_eq!(tasks.expire(at(5 + kept)).map(|task| task.id), Some(id));
        assert_eq!(tasks.find(id, true), None);
        // Time does not go back: the next one needs a table of its own.
        tasks = self::tasks(bounds());
    }
}

#[test]
fn a_full_table_begins_no_task_and_a_result_without_room_is_an_error() {
    let mut tasks = tasks(Bounds { tasks_max: 2, ..bounds() });
    let first = begin(&mut tasks, Revision::LATEST, at(0));
    let second = begin(&mut tasks, Revision::LATEST, at(0));
    assert!(tasks.begin(birth(Revision::LATEST), at(0)).unwrap_err().retryable);
    tasks.finish(first, result(&"x".repeat(90), false), at(1));
    tasks.finish(second, result(&"x".repeat(90), false), at(1));
    assert_eq!(status(&mut tasks, first), TaskStatus::Completed);
    assert_eq!(status(&mut tasks, second), TaskStatus::Failed);
    // What has left takes its bytes along.
    while tasks.expire(at(100_000)).is_some() {}
    let third = begin(&mut tasks, Revision::LATEST, at(100_000));
    tasks.finish(third, result(&"x".repeat(90), false), at(100_001));
    assert_eq!(status(&mut tasks, third), TaskStatus::Completed);
}

#[test]
fn one_connection_takes_its_share_and_leaves_the_rest_to_others() {
    let mut tasks = tasks(Bounds { tasks_max: 4, tasks_per_connection_max: 2, ..bounds() });
    let of =
        |peer| Birth { party: Party::Connection(Key::from_bits(peer)), ..birth(Revision::LATEST) };
    for _ in 0..2 {
        let key = tasks.begin(of(1), at(0)).unwrap();
        // What has ended is kept, and counts.
        tasks.finish(key, result("{}", false), at(1));
    }
    assert!(tasks.begin(of(1), at(2)).unwrap_err().retryable);
    assert!(tasks.begin(of(2), at(2)).is_ok() && tasks.begin(of(3), at(2)).is_ok());
    assert!(tasks.begin(of(4), at(2)).unwrap_err().retryable);
    assert_eq!((tasks.refused.by_shard, tasks.refused.by_connection), (1, 1));
    // What has left takes its place along, and so does what could not be started.
    while tasks.expire(at(10_000)).is_some() {}
    for _ in 0..3 {
        let key = tasks.begin(of(1), at(10_000)).unwrap();
        assert!(tasks.forget(key).is_some());
    }
    assert!(tasks.begin(of(1), at(10_000)).is_ok() && tasks.begin(of(1), at(10_000)).is_ok());
    assert_eq!((tasks.refused.by_shard, tasks.refused.by_connection), (1, 1));
}

#[test]
fn a_task_that_could_not_start_leaves_nothing_behind() {
    let mut tasks = tasks(bounds());
    let key = tasks.begin(birth(Revision::LATEST), at(0)).unwrap();
    assert!(tasks.forget(key).is_some());
    let next = begin(&mut tasks, Revision::LATEST, at(1));
    let id = tasks.task(next).unwrap().id;
    assert_eq!(tasks.running(), 1);
    assert_eq!(tasks.expire(at(1_000_000)).map(|task| task.id), Some(id));
    assert!(tasks.expire(at(1_000_000)).is_none());
    assert_eq!(tasks.running(), 0);
}

#[test]
fn without_chance_there_is_no_task() {
    let mut tasks: Tasks<()> = Tasks::new(bounds(), Names::new(ShardId(0), 1, Box::new(|| None)));
    assert_eq!(tasks.begin(birth(Revision::LATEST), at(0)).unwrap_err().code, -32603);
}

#[test]
fn changes_are_told_once_each_and_in_order() {
    let mut tasks = tasks(bounds());
    let (one, two) =
        (begin(&mut tasks, Revision::LATEST, at(0)), begin(&mut tasks, Revision::LATEST, at(0)));
    assert_eq!(tasks.take_changed(), None);
    assert!(tasks.task(two).unwrap().inquiries.ask("key", InputRequest::Roots).unwrap());
    tasks.weigh_questions(two, at(1));
    tasks.finish(one, result("{}", false), at(1));
    tasks.finish(two, result("{}", false), at(2));
    assert_eq!(tasks.take_changed(), Some(two));
    assert_eq!(tasks.take_changed(), Some(one));
    assert_eq!(tasks.take_changed(), None);
}

#[test]
fn questions_and_answers_move_a_task_to_and_fro() {
    let mut tasks = tasks(bounds());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let inquiries = Rc::clone(&tasks.task(key).unwrap().inquiries);
    assert!(inquiries.ask("one", InputRequest::Roots).unwrap());
    assert!(inquiries.ask("two", InputRequest::Roots).unwrap());
    assert!(!inquiries.ask("one", InputRequest::Roots).unwrap(), "the same question");
    tasks.weigh_questions(key, at(1));
    let task = tasks.task(key).unwrap();
    assert_eq!(task.status(), TaskStatus::InputRequired);
    let keys = task.tell(Calendar::default(), |_, detail| match detail {
        TaskDetail::Requests(open) => open.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(),
        _ => panic!("{detail:?}"),
    });
    assert_eq!(keys, ["one", "two"]);
    assert!(poll(inquiries.answer_to("two")).is_pending());

    let roots = json!({"roots": [{"uri": "file:///a"}]});
    inquiries.update(&responses(json!({"two": roots, "three": 7}))).unwrap();
    tasks.weigh_questions(key, at(2));
    assert_eq!(status(&mut tasks, key), TaskStatus::InputRequired);
    // Asked again, before or after: the same answer.
    for _ in 0..2 {
        assert!(!inquiries.ask("two", InputRequest::Roots).unwrap());
        let Poll::Ready(Ok(InputResponse::Roots(roots))) = poll(inquiries.answer_to("two")) else {
            panic!("no answer");
        };
        assert_eq!(roots.len(), 1);
    }
    inquiries.update(&responses(json!({"one": {"roots": []}, "two": {"roots": 7}}))).unwrap();
    tasks.weigh_questions(key, at(3));
    assert_eq!(status(&mut tasks, key), TaskStatus::Working);
}

#[test]
fn a_task_asks_no_more_at_once_than_a_call() {
    let mut tasks = tasks(bounds());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let inquiries = Rc::clone(&tasks.task(key).unwrap().inquiries);
    for number in 0..32 {
        assert!(inquiries.ask(&number.to_string(), InputRequest::Roots).unwrap());
    }
    assert!(matches!(inquiries.ask("more", InputRequest::Roots), Err(AskError::Refused(_))));
    // One that is open may be waited for again, and an answer makes room.
    assert!(!inquiries.ask("7", InputRequest::Roots).unwrap());
    inquiries.update(&responses(json!({"7": {"roots": []}}))).unwrap();
    assert!(inquiries.ask("more", InputRequest::Roots).unwrap());
}

#[test]
fn an_update_with_one_wrong_answer_changes_nothing() {
    let mut tasks = tasks(bounds());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let inquiries = Rc::clone(&tasks.task(key).unwrap().inquiries);
    inquiries.ask("one", InputRequest::Roots).unwrap();
    inquiries.ask("two", InputRequest::Roots).unwrap();
    let mixed = responses(json!({"one": {"roots": []}, "two": {"roots": "none"}}));
    assert_eq!(inquiries.update(&mixed).unwrap_err().code, -32602);
    assert!(poll(inquiries.answer_to("one")).is_pending());
    assert!(inquiries.is_open());
}

#[test]
fn whoever_asks_hears_when_the_task_has_ended() {
    let mut tasks = tasks(bounds());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let inquiries = Rc::clone(&tasks.task(key).unwrap().inquiries);
    inquiries.ask("one", InputRequest::Roots).unwrap();
    tasks.cancel(key, "enough", at(1));
    let answer = poll(inquiries.answer_to("one"));
    assert!(matches!(answer, Poll::Ready(Err(AskError::Cancelled))), "{answer:?}");
    tasks.weigh_questions(key, at(2));
    assert_eq!(status(&mut tasks, key), TaskStatus::Cancelled);
}

#[test]
fn a_task_that_will_not_have_its_input_fails_and_keeps_its_handler_until_that_ends() {
    let mut tasks = tasks(bounds());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let inquiries = Rc::clone(&tasks.task(key).unwrap().inquiries);
    inquiries.ask("one", InputRequest::Roots).unwrap();
    tasks.weigh_questions(key, at(1));
    assert!(tasks.fail(key, Error::internal("no input"), at(2)));
    assert!(matches!(poll(inquiries.answer_to("one")), Poll::Ready(Err(AskError::Cancelled))));
    assert_eq!((status(&mut tasks, key), tasks.running()), (TaskStatus::Failed, 0));
    assert_eq!(tasks.task(key).unwrap().work(), Some(&mut "handler"));
    tasks.finish(key, result("{}", false), at(3));
    assert!(!tasks.fail(key, Error::internal("again"), at(4)) && !tasks.cancel(key, "", at(4)));
    let task = tasks.task(key).unwrap();
    let view = task.view(Calendar::default());
    assert_eq!((view.status, view.status_message), (TaskStatus::Failed, Some("no input")));
    assert!(task.work().is_none());
}

#[test]
fn a_task_needs_input_as_long_as_a_request_of_its_is_open() {
    let mut tasks = tasks(bounds());
    let key = begin(&mut tasks, Revision::V2025_11_25, at(0));
    assert!(tasks.ask(key, 1, 2, at(1)));
    assert!(tasks.ask(key, 2, 2, at(2)));
    assert!(!tasks.ask(key, 3, 2, at(3)), "as many as may be are open");
    tasks.hear(key, 1, at(4));
    assert_eq!(status(&mut tasks, key), TaskStatus::InputRequired);
    tasks.hear(key, 2, at(5));
    assert_eq!(status(&mut tasks, key), TaskStatus::Working);
    assert!(tasks.ask(key, 4, 2, at(6)));
    assert!(tasks.cancel(key, "enough", at(7)));
    assert!(!tasks.ask(key, 5, 2, at(8)), "it has ended");
    assert_eq!(tasks.task(key).unwrap().dialogue.take(), [4]);
    tasks.hear(key, 4, at(9));
    assert_eq!(status(&mut tasks, key), TaskStatus::Cancelled);
}

#[test]
fn a_connection_sees_its_own_tasks_of_the_old_generation_page_by_page() {
    let mut tasks = tasks(Bounds { tasks_max: 1_000, tasks_per_connection_max: 1_000, ..bounds() });
    let mut own = Vec::new();
    for number in 0..120 {
        let key = begin(&mut tasks, Revision::V2025_11_25, at(0));
        own.push(tasks.task(key).unwrap().id);
        begin(&mut tasks, Revision::LATEST, at(0));
        let party = Party::Connection(Key::from_bits(number + 100));
        tasks.begin(Birth { party, ..birth(Revision::V2025_11_25) }, at(0)).unwrap();
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    for length in [50, 50, 20] {
        let (page, next) = tasks.page(PARTY, cursor.as_deref()).unwrap();
        assert_eq!(page.len(), length);
        seen.extend(page.iter().map(|task| task.id));
        cursor = next;
    }
    assert_eq!((seen, cursor), (own, None));
    assert!(tasks.page(Party::Connection(Key::from_bits(1)), None).unwrap().0.is_empty());
    let long = "0".repeat(17);
    for wrong in ["", "0", "0000000000000000", "00000000000fffff", "+000000000000001", &long] {
        assert_eq!(tasks.page(PARTY, Some(wrong)).unwrap_err().code, -32602, "{wrong}");
    }
}

#[test]
fn those_who_wait_are_bounded_and_make_room_when_their_time_is_over() {
    let mut tasks = tasks(bounds());
    let key = begin(&mut tasks, Revision::V2025_11_25, at(0));
    let task = tasks.task(key).unwrap();
    let waiter = |number: u64| {
        let deadline = at(10 + number);
        Waiter { shard: ShardId(0), ticket: Key::from_bits(number), deadline }
    };
    let mut count = 0;
    while task.may_wait(at(1)) {
        task.wait(waiter(count));
        count += 1;
    }
    assert!(!task.may_wait(at(9)));
    assert!(task.may_wait(at(10)), "the first one has given up");
    assert_eq!(task.take_waiters().len() as u64, count - 1);
}

#[test]
fn a_shard_is_a_watcher_once() {
    let mut tasks = tasks(bounds());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let task = tasks.task(key).unwrap();
    for shard in [0, 2, 0] {
        task.watch(ShardId(shard));
    }
    assert_eq!(task.watchers(), [ShardId(0), ShardId(2)]);
}

#[test]
fn tasks_that_could_not_be_started_leave_no_deadlines_that_pile_up() {
    let mut tasks = tasks(bounds());
    let kept = begin(&mut tasks, Revision::LATEST, at(0));
    for _ in 0..10_000 {
        let refused = tasks.begin(birth(Revision::LATEST), at(0)).unwrap();
        assert!(tasks.forget(refused).is_some());
    }
    assert!(tasks.deadlines() < 1_000, "{}", tasks.deadlines());
    assert!(tasks.expire(at(9_999)).is_none());
    assert!(tasks.task(kept).is_some() && tasks.expire(at(10_001)).is_some());
}

#[test]
fn a_token_that_is_long_to_keep_is_told_no_progress() {
    let mut tasks = tasks(bounds());
    for (length, is_kept) in [(1, true), (256, true), (257, false), (1 << 20, false)] {
        let token = Some(Id::Text(&"t".repeat(length)).into());
        let birth = Birth { progress_token: token, ..birth(Revision::LATEST_LEGACY) };
        let key = tasks.begin(birth, at(0)).unwrap();
        assert_eq!(tasks.task(key).unwrap().progress_token.is_some(), is_kept, "{length}");
    }
}
