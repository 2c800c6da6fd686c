//! Tests of tasks without handlers, connections or a clock.

mod limits;

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use corelane_base::client_address::AddressShare;
use corelane_base::principal::Principal;
use corelane_base::random::Random;
use corelane_protocol::eras::ClientCapabilities;
use corelane_protocol::model::{
    ElicitRequest, InputRequest, InputResponse, TaskDetail, TaskStatus,
};
use serde_json::{Map, Value, json};

use super::table::{CreatedTask, TaskRefusal};
use super::*;
use crate::server::memory::MemoryLimit;
use crate::server::memory::handler_memory::{HandlerMemory, RequestAccount};
use crate::server::owner_id::{OwnerIds, TaskId};
use crate::server::reply_to::PeerId;
use crate::server::shard_message::TaskLimits;
use crate::service::{ClientInfo, ClientRequestError};

const PEER: PeerId = PeerId::Connection(Key::from_bits(7));

fn limits() -> TaskLimits {
    let (ttl, ttl_max) = (Duration::from_secs(10), Duration::from_secs(100));
    TaskLimits {
        tasks_max: 100,
        tasks_per_connection_max: 100,
        address_share: AddressShare::new(75),
        ttl,
        ttl_max,
        result_bytes_max: 100,
    }
}

fn tasks(bounds: TaskLimits) -> TaskTable<&'static str> {
    let mut random = Random::seeded(5);
    let chance = move || Some(u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()));
    TaskTable::new(bounds, OwnerIds::new(ShardId(1), 3, Box::new(chance)))
}

fn new_task(revision: Revision) -> NewTask {
    let client = ClientInfo { revision, capabilities: ClientCapabilities::default() };
    let owner = TaskOwner { peer: PEER, address: None };
    NewTask { owner, client, progress_token: None, ttl: None, principal: None }
}

fn at(milliseconds: u64) -> Instant {
    Instant::from_milliseconds(milliseconds)
}

fn result(body: &str, is_failed: bool) -> TaskOutcome {
    TaskOutcome::Result { body: body.as_bytes().to_vec(), is_failed }
}

#[track_caller]
fn begin(tasks: &mut TaskTable<&'static str>, revision: Revision, now: Instant) -> Key {
    let CreatedTask { key, .. } = tasks.create(new_task(revision), now).unwrap();
    tasks.get_mut(key).unwrap().set_handler(Some("handler"));
    key
}

#[track_caller]
fn status(tasks: &mut TaskTable<&'static str>, key: Key) -> TaskStatus {
    tasks.get_mut(key).unwrap().status()
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn account() -> RequestAccount {
    RequestAccount::new(&Rc::new(HandlerMemory::new(MemoryLimit::new(1 << 20))))
}

fn responses(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other}"),
    }
}

#[test]
fn task_works_until_handler_ends_then_is_final() {
    let mut tasks = tasks(limits());
    let key = begin(&mut tasks, Revision::LATEST, at(1));
    assert_eq!((status(&mut tasks, key), tasks.usage().running), (TaskStatus::Working, 1));
    tasks.complete(key, result("{}", true), at(2));
    // The tool failed, the call did not: the extension reports a completed task.
    assert_eq!((status(&mut tasks, key), tasks.usage().running), (TaskStatus::Completed, 0));
    assert!(!tasks.cancel(key, "late", at(3)));
    tasks.complete(key, TaskOutcome::Error(Error::internal("later still")), at(4));
    assert_eq!(status(&mut tasks, key), TaskStatus::Completed);
    assert!(tasks.get(key).unwrap().handler().is_none());
}

#[test]
fn failed_tool_fails_only_legacy_tasks() {
    let mut tasks = tasks(limits());
    for (revision, is_failed, expected) in [
        (Revision::V2025_11_25, false, TaskStatus::Completed),
        (Revision::V2025_11_25, true, TaskStatus::Failed),
        (Revision::LATEST, true, TaskStatus::Completed),
    ] {
        let key = begin(&mut tasks, revision, at(0));
        tasks.complete(key, result("{}", is_failed), at(1));
        assert_eq!(status(&mut tasks, key), expected, "{revision:?} {is_failed}");
    }
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    tasks.complete(key, TaskOutcome::Error(Error::internal("broken")), at(1));
    let task = tasks.get(key).unwrap();
    let view = task.view(WallClock::default());
    assert_eq!((view.status, view.status_message), (TaskStatus::Failed, Some("broken")));
}

#[test]
fn cancelled_task_stays_cancelled_until_handler_ends() {
    let mut tasks = tasks(limits());
    let key = begin(&mut tasks, Revision::V2025_11_25, at(0));
    assert!(tasks.cancel(key, "enough", at(1)));
    assert_eq!(tasks.get(key).unwrap().handler(), Some(&"handler"));
    assert_eq!(tasks.usage().running, 0);
    tasks.complete(key, result("{}", false), at(2));
    let task = tasks.get(key).unwrap();
    assert_eq!((task.status(), task.outcome().is_none()), (TaskStatus::Cancelled, true));
    assert!(task.handler().is_none());
}

#[test]
fn task_is_found_in_its_own_generation_only() {
    let mut tasks = tasks(limits());
    let (old, new) = (
        begin(&mut tasks, Revision::V2025_11_25, at(0)),
        begin(&mut tasks, Revision::LATEST, at(0)),
    );
    let name_of =
        |tasks: &mut TaskTable<_>, key| TaskId::parse(tasks.get_mut(key).unwrap().id_text());
    let (old_id, new_id) = (name_of(&mut tasks, old).unwrap(), name_of(&mut tasks, new).unwrap());
    assert_eq!(old_id.owner(3), ShardId(1));
    assert_eq!((tasks.find(old_id, false), tasks.find(old_id, true)), (Some(old), None));
    assert_eq!((tasks.find(new_id, true), tasks.find(new_id, false)), (Some(new), None));
}

#[test]
fn task_expires_after_its_ttl() {
    let mut tasks = tasks(limits());
    let cases =
        [(None, 10_000), (Some(20_000), 20_000), (Some(0), 1_000), (Some(u64::MAX), 100_000)];
    for (requested, kept) in cases {
        let ttl = requested.map(Duration::from_millis);
        let key = tasks.create(NewTask { ttl, ..new_task(Revision::LATEST) }, at(5)).unwrap().key;
        let id = tasks.get_mut(key).unwrap().id();
        assert_eq!(tasks.get_mut(key).unwrap().view(WallClock::default()).ttl_ms, Some(kept));
        assert!(tasks.expire(at(5 + kept - 1)).is_none());
        assert_eq!(tasks.find(id, true), Some(key));
        assert_eq!(tasks.next_deadline(), Some(at(5 + kept)));
        assert_eq!(tasks.expire(at(5 + kept)).map(|task| task.id()), Some(id));
        assert_eq!(tasks.find(id, true), None);
        // Time does not go back: the next case needs a new table.
        tasks = self::tasks(limits());
    }
}

#[test]
fn removed_unstarted_task_leaves_nothing() {
    let mut tasks = tasks(limits());
    let key = tasks.create(new_task(Revision::LATEST), at(0)).unwrap().key;
    assert!(tasks.remove(key).is_some());
    let next = begin(&mut tasks, Revision::LATEST, at(1));
    let id = tasks.get_mut(next).unwrap().id();
    assert_eq!(tasks.usage().running, 1);
    assert_eq!(tasks.expire(at(1_000_000)).map(|task| task.id()), Some(id));
    assert!(tasks.expire(at(1_000_000)).is_none());
    assert_eq!(tasks.usage().running, 0);
}

#[test]
fn task_without_random_bits_is_rejected() {
    let mut tasks: TaskTable<()> =
        TaskTable::new(limits(), OwnerIds::new(ShardId(0), 1, Box::new(|| None)));
    assert_eq!(tasks.create(new_task(Revision::LATEST), at(0)), Err(TaskRefusal::NoRandomBits));
}

#[test]
fn changed_tasks_are_taken_once_in_order() {
    let mut tasks = tasks(limits());
    let (one, two) =
        (begin(&mut tasks, Revision::LATEST, at(0)), begin(&mut tasks, Revision::LATEST, at(0)));
    assert_eq!(tasks.take_changed(), None);
    assert!(
        tasks
            .get_mut(two)
            .unwrap()
            .requests
            .inputs
            .request("key", InputRequest::ListRoots, &account())
            .unwrap()
    );
    tasks.update_input_status(two, at(1));
    tasks.complete(one, result("{}", false), at(1));
    tasks.complete(two, result("{}", false), at(2));
    assert_eq!(tasks.take_changed(), Some(two));
    assert_eq!(tasks.take_changed(), Some(one));
    assert_eq!(tasks.take_changed(), None);
}

#[test]
fn input_requests_and_responses_change_task_status() {
    let mut tasks = tasks(limits());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let inquiries = Rc::clone(&tasks.get_mut(key).unwrap().requests.inputs);
    assert!(inquiries.request("one", InputRequest::ListRoots, &account()).unwrap());
    assert!(inquiries.request("two", InputRequest::ListRoots, &account()).unwrap());
    assert!(
        !inquiries.request("one", InputRequest::ListRoots, &account()).unwrap(),
        "the same request"
    );
    tasks.update_input_status(key, at(1));
    let task = tasks.get(key).unwrap();
    assert_eq!(task.status(), TaskStatus::InputRequired);
    let keys = task.with_detail(WallClock::default(), |_, detail| match detail {
        TaskDetail::InputRequests(open) => {
            open.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>()
        }
        _ => panic!("{detail:?}"),
    });
    assert_eq!(keys, ["one", "two"]);
    assert!(poll(inquiries.response_to("two")).is_pending());

    let roots = json!({"roots": [{"uri": "file:///a"}]});
    inquiries.update(&responses(json!({"two": roots, "three": 7}))).unwrap();
    tasks.update_input_status(key, at(2));
    assert_eq!(status(&mut tasks, key), TaskStatus::InputRequired);
    // The same request gets the same response.
    for _ in 0..2 {
        assert!(!inquiries.request("two", InputRequest::ListRoots, &account()).unwrap());
        let Poll::Ready(Ok(InputResponse::ListRoots(roots))) = poll(inquiries.response_to("two"))
        else {
            panic!("no response");
        };
        assert_eq!(roots.len(), 1);
    }
    inquiries.update(&responses(json!({"one": {"roots": []}, "two": {"roots": 7}}))).unwrap();
    tasks.update_input_status(key, at(3));
    assert_eq!(status(&mut tasks, key), TaskStatus::Working);
}

#[test]
fn open_inputs_of_task_are_limited_like_calls() {
    let mut tasks = tasks(limits());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let inquiries = Rc::clone(&tasks.get_mut(key).unwrap().requests.inputs);
    for number in 0..32 {
        assert!(
            inquiries.request(&number.to_string(), InputRequest::ListRoots, &account()).unwrap()
        );
    }
    assert!(matches!(
        inquiries.request("more", InputRequest::ListRoots, &account()),
        Err(ClientRequestError::Refused(_))
    ));
    // An open request may be repeated, and a response frees its slot.
    assert!(!inquiries.request("7", InputRequest::ListRoots, &account()).unwrap());
    inquiries.update(&responses(json!({"7": {"roots": []}}))).unwrap();
    assert!(inquiries.request("more", InputRequest::ListRoots, &account()).unwrap());
}

#[test]
fn task_update_with_one_invalid_response_changes_nothing() {
    let mut tasks = tasks(limits());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let inquiries = Rc::clone(&tasks.get_mut(key).unwrap().requests.inputs);
    inquiries.request("one", InputRequest::ListRoots, &account()).unwrap();
    inquiries.request("two", InputRequest::ListRoots, &account()).unwrap();
    let mixed = responses(json!({"one": {"roots": []}, "two": {"roots": "none"}}));
    assert_eq!(inquiries.update(&mixed).unwrap_err().code, -32602);
    assert!(poll(inquiries.response_to("one")).is_pending());
    assert!(inquiries.is_open());
}

#[test]
fn task_inputs_are_charged_until_task_ends() {
    let mut tasks = tasks(limits());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let inputs = Rc::clone(&tasks.get_mut(key).unwrap().requests.inputs);
    let memory = Rc::new(HandlerMemory::new(MemoryLimit::new(64 << 10)));
    let account = RequestAccount::new(&memory);
    let long = InputRequest::Elicit(ElicitRequest::url("x".repeat(8 << 10), "https://example.com"));
    inputs.request("page", long.clone(), &account).unwrap();
    assert!(memory.held_bytes() > 8 << 10);
    let refused = inputs.request("more", long, &account);
    assert!(matches!(refused, Err(ClientRequestError::Refused(_))));
    inputs.update(&responses(json!({"page": {"action": "decline"}}))).unwrap();
    assert!((1..1 << 10).contains(&memory.held_bytes()));
    inputs.request("roots", InputRequest::ListRoots, &account).unwrap();
    let roots = |bytes| json!({"roots": {"roots": [{"uri": "x".repeat(bytes)}]}});
    assert_eq!(inputs.update(&responses(roots(16 << 10))).unwrap_err().code, -32603);
    assert!(inputs.is_open());
    inputs.update(&responses(roots(8 << 10))).unwrap();
    assert!(memory.held_bytes() > 8 << 10);
    tasks.complete(key, result("{}", false), at(1));
    assert_eq!(memory.held_bytes(), 0);
}

#[test]
fn waiting_handler_gets_cancelled_when_task_ends() {
    let mut tasks = tasks(limits());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let inquiries = Rc::clone(&tasks.get_mut(key).unwrap().requests.inputs);
    inquiries.request("one", InputRequest::ListRoots, &account()).unwrap();
    tasks.cancel(key, "enough", at(1));
    let answer = poll(inquiries.response_to("one"));
    assert!(matches!(answer, Poll::Ready(Err(ClientRequestError::Cancelled))), "{answer:?}");
    tasks.update_input_status(key, at(2));
    assert_eq!(status(&mut tasks, key), TaskStatus::Cancelled);
}

#[test]
fn failed_input_fails_task_until_handler_ends() {
    let mut tasks = tasks(limits());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let inquiries = Rc::clone(&tasks.get_mut(key).unwrap().requests.inputs);
    inquiries.request("one", InputRequest::ListRoots, &account()).unwrap();
    tasks.update_input_status(key, at(1));
    assert!(tasks.fail(key, Error::internal("no input"), at(2)));
    assert!(matches!(
        poll(inquiries.response_to("one")),
        Poll::Ready(Err(ClientRequestError::Cancelled))
    ));
    assert_eq!((status(&mut tasks, key), tasks.usage().running), (TaskStatus::Failed, 0));
    assert_eq!(tasks.get(key).unwrap().handler(), Some(&"handler"));
    tasks.complete(key, result("{}", false), at(3));
    assert!(!tasks.fail(key, Error::internal("again"), at(4)) && !tasks.cancel(key, "", at(4)));
    let task = tasks.get(key).unwrap();
    let view = task.view(WallClock::default());
    assert_eq!((view.status, view.status_message), (TaskStatus::Failed, Some("no input")));
    assert!(task.handler().is_none());
}

#[test]
fn task_requires_input_while_request_is_open() {
    let mut tasks = tasks(limits());
    let key = begin(&mut tasks, Revision::V2025_11_25, at(0));
    assert!(tasks.add_client_request(key, 1, 2, at(1)));
    assert!(tasks.add_client_request(key, 2, 2, at(2)));
    assert!(!tasks.add_client_request(key, 3, 2, at(3)), "the limit of open requests is reached");
    tasks.remove_client_request(key, 1, at(4));
    assert_eq!(status(&mut tasks, key), TaskStatus::InputRequired);
    tasks.remove_client_request(key, 2, at(5));
    assert_eq!(status(&mut tasks, key), TaskStatus::Working);
    assert!(tasks.add_client_request(key, 4, 2, at(6)));
    assert!(tasks.cancel(key, "enough", at(7)));
    assert!(!tasks.add_client_request(key, 5, 2, at(8)), "it has ended");
    assert_eq!(tasks.get_mut(key).unwrap().requests.client_requests.take(), [4]);
    tasks.remove_client_request(key, 4, at(9));
    assert_eq!(status(&mut tasks, key), TaskStatus::Cancelled);
}

#[test]
fn tasks_list_pages_own_legacy_tasks() {
    let mut tasks =
        tasks(TaskLimits { tasks_max: 1_000, tasks_per_connection_max: 1_000, ..limits() });
    let mut own = Vec::new();
    for number in 0..120 {
        let key = begin(&mut tasks, Revision::V2025_11_25, at(0));
        own.push(tasks.get_mut(key).unwrap().id());
        begin(&mut tasks, Revision::LATEST, at(0));
        let peer = PeerId::Connection(Key::from_bits(number + 100));
        let owner = TaskOwner { peer, address: None };
        tasks.create(NewTask { owner, ..new_task(Revision::V2025_11_25) }, at(0)).unwrap();
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    for length in [50, 50, 20] {
        let (page, next) = tasks.list_page(PEER, cursor.as_deref()).unwrap();
        assert_eq!(page.len(), length);
        seen.extend(page.iter().map(|task| task.id()));
        cursor = next;
    }
    assert_eq!((seen, cursor), (own, None));
    assert!(tasks.list_page(PeerId::Connection(Key::from_bits(1)), None).unwrap().0.is_empty());
    let long = "0".repeat(17);
    for wrong in ["", "0", "0000000000000000", "00000000000fffff", "+000000000000001", &long] {
        assert_eq!(tasks.list_page(PEER, Some(wrong)).unwrap_err().code, -32602, "{wrong}");
    }
}

#[test]
fn waiting_calls_are_limited_and_time_out() {
    let mut tasks = tasks(limits());
    let key = begin(&mut tasks, Revision::V2025_11_25, at(0));
    let mut task = tasks.get_mut(key).unwrap();
    let waiter = |number: u64| {
        let deadline = at(10 + number);
        TaskWaiter { shard: ShardId(0), call: Key::from_bits(number), deadline }
    };
    let mut count = 0;
    while task.observers.has_waiter_capacity(at(1)) {
        task.observers.add_waiter(waiter(count));
        count += 1;
    }
    assert!(!task.observers.has_waiter_capacity(at(9)));
    assert!(task.observers.has_waiter_capacity(at(10)), "the first call timed out");
    assert_eq!(task.observers.take_waiters().len() as u64, count - 1);
}

#[test]
fn tasks_count_what_they_own() {
    let mut tasks = tasks(limits());
    let principal = Some(Arc::new(Principal::new("p".repeat(1_000))));
    let birth = NewTask { principal, ..new_task(Revision::LATEST) };
    let key = tasks.create(birth, at(0)).unwrap().key;
    let new_bytes = tasks.held_bytes();
    assert!((200..1_000).contains(&new_bytes), "{new_bytes}");
    let waiter = TaskWaiter { shard: ShardId(0), call: key, deadline: at(1) };
    tasks.get_mut(key).unwrap().observers.add_waiter(waiter);
    assert!(tasks.held_bytes() >= new_bytes + size_of::<TaskWaiter>());
    tasks.get_mut(key).unwrap().observers.take_waiters();
    assert_eq!(tasks.held_bytes(), new_bytes);
    tasks.remove_owner(PEER);
    assert!(tasks.held_bytes() > new_bytes + 1_000, "its peer has no longer the principal");
    assert_eq!(tasks.held_bytes(), tasks.tasks.recount_bytes());
    assert!(tasks.remove(key).is_some());
    assert_eq!(tasks.held_bytes(), 0);
}

#[test]
fn watching_shard_is_stored_once() {
    let mut tasks = tasks(limits());
    let key = begin(&mut tasks, Revision::LATEST, at(0));
    let mut task = tasks.get_mut(key).unwrap();
    for shard in [0, 2, 0] {
        task.observers.add_watcher(ShardId(shard));
    }
    assert_eq!(task.observers.watchers(), [ShardId(0), ShardId(2)]);
}

#[test]
fn unstarted_tasks_do_not_accumulate_deadlines() {
    let mut tasks = tasks(limits());
    let kept = begin(&mut tasks, Revision::LATEST, at(0));
    for _ in 0..10_000 {
        let refused = tasks.create(new_task(Revision::LATEST), at(0)).unwrap().key;
        assert!(tasks.remove(refused).is_some());
    }
    assert!(tasks.deadlines() < 1_000, "{}", tasks.deadlines());
    assert!(tasks.expire(at(9_999)).is_none());
    assert!(tasks.get_mut(kept).is_some() && tasks.expire(at(10_001)).is_some());
}

#[test]
fn long_progress_token_gets_no_progress() {
    let mut tasks = tasks(limits());
    for (length, is_kept) in [(1, true), (256, true), (257, false), (1 << 20, false)] {
        let token = Some(Id::Text(&"t".repeat(length)).into());
        let birth = NewTask { progress_token: token, ..new_task(Revision::LATEST_LEGACY) };
        let key = tasks.create(birth, at(0)).unwrap().key;
        assert_eq!(
            tasks.get_mut(key).unwrap().advance_progress(1.0).is_some(),
            is_kept,
            "{length}"
        );
    }
}
