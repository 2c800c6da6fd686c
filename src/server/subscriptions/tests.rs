//! Streams, what they hear of and what they hold.

use super::*;

const BOUNDS: Bounds =
    Bounds { streams_max: 3, names_max: 4, name_bytes_max: 16, held_bytes_max: 1 << 20 };

fn connection(number: u64) -> Party {
    Party::Connection(Key::from_bits(number))
}

fn lists(list: List) -> Lists {
    Lists::of(|other| other == list)
}

/// Who is told of `list`, by the names of the streams.
fn told_of_list(subscriptions: &mut Subscriptions, list: List) -> Vec<String> {
    let mut told = Vec::new();
    subscriptions.tell_list(list, |stream| {
        told.push(format!("{:?}", stream.id()));
        true
    });
    told.sort();
    told
}

/// Who is told of the resource `uri`.
fn told_of(subscriptions: &mut Subscriptions, uri: &str) -> Vec<String> {
    let mut told = Vec::new();
    subscriptions.tell_name(Subject::Resource, uri, |stream| {
        told.push(format!("{:?}", stream.id()));
        true
    });
    told.sort();
    told
}

#[test]
fn a_stream_hears_of_what_it_asked_for_and_of_nothing_else() {
    let mut all = Subscriptions::new(BOUNDS);
    let mut subscriber = Subscriber::default();
    let wish = Wish { lists: lists(List::Tools), uris: &["a:1", "a:2"], ..Wish::default() };
    all.listen(connection(1), &mut subscriber, Id::Signed(7), wish).unwrap();
    let other = Wish { uris: &["a:2"], ..Wish::default() };
    all.listen(connection(1), &mut subscriber, Id::Text("7"), other).unwrap();
    assert_eq!(told_of_list(&mut all, List::Tools), ["Some(Signed(7))"]);
    assert!(told_of_list(&mut all, List::Prompts).is_empty());
    assert_eq!(told_of(&mut all, "a:1"), ["Some(Signed(7))"]);
    assert_eq!(told_of(&mut all, "a:2"), ["Some(Signed(7))", "Some(Text(\"7\"))"]);
    assert!(told_of(&mut all, "a:3").is_empty());
    assert!(all.index.listeners(Subject::Task, "a:1").is_empty());
}

#[test]
fn a_name_that_stands_twice_in_a_wish_is_told_once() {
    let mut all = Subscriptions::new(BOUNDS);
    let mut subscriber = Subscriber::default();
    let wish = Wish { uris: &["a:1", "a:1", "a:1"], ..Wish::default() };
    let key = all.listen(connection(1), &mut subscriber, Id::Signed(1), wish).unwrap();
    assert_eq!(told_of(&mut all, "a:1").len(), 1);
    assert!(all.end(&mut subscriber, key).is_some());
    assert_eq!((all.index.len(), all.held_bytes()), (0, 0));
}

#[test]
fn nothing_is_left_of_streams_that_have_ended_in_any_order() {
    let bounds = Bounds { streams_max: 100, ..BOUNDS };
    for step in [1, 3, 7] {
        let mut all = Subscriptions::new(bounds);
        let mut subscribers = [Subscriber::default(), Subscriber::default()];
        let mut keys = Vec::new();
        for number in 0..50_i64 {
            let uris = [["a:1", "a:2", "a:3"], ["a:2", "a:3", "a:4"]];
            let side = usize::from(number % 3 == 0);
            let wish = Wish { uris: &uris[side], task_ids: &["a:1"], ..Wish::default() };
            let subscriber = &mut subscribers[side];
            let owner = connection(side as u64);
            keys.push((side, all.listen(owner, subscriber, Id::Signed(number), wish).unwrap()));
        }
        for turn in 0..50 {
            let (side, key) = keys[turn * step % 50];
            assert_eq!(told_of(&mut all, "a:2").len(), 50 - turn);
            let ended = all.end(&mut subscribers[side], key).unwrap();
            assert_eq!(ended.party, connection(side as u64));
            assert!(all.end(&mut subscribers[side], key).is_none());
        }
        assert!(subscribers.iter().all(|subscriber| !subscriber.listens()));
        assert_eq!((all.streams.len(), all.index.len(), all.held_bytes()), (0, 0, 0));
    }
}

#[test]
fn the_end_of_a_connection_ends_its_streams_and_no_others() {
    let mut all = Subscriptions::new(BOUNDS);
    let (mut one, mut two) = (Subscriber::default(), Subscriber::default());
    let wish = Wish { uris: &["a:1"], ..Wish::default() };
    for id in 0..3_i64 {
        all.listen(connection(1), &mut one, Id::Signed(id), wish).unwrap();
    }
    all.listen(connection(2), &mut two, Id::Text("two"), wish).unwrap();
    all.subscribe(connection(1), &mut one, "a:1").unwrap();
    let mut ended = 0;
    all.end_all(&mut one, |_| ended += 1);
    assert_eq!(ended, 4);
    assert!(!one.listens());
    assert_eq!(told_of(&mut all, "a:1"), ["Some(Text(\"two\"))"]);
    assert!(two.listens());
}

#[test]
fn a_session_subscribes_once_and_unsubscribes_from_what_it_never_had() {
    let mut all = Subscriptions::new(BOUNDS);
    let mut subscriber = Subscriber::default();
    assert!(!all.unsubscribe(&mut subscriber, "a:1"));
    let wish = Wish { uris: &["a:1"], ..Wish::default() };
    let stream = all.listen(connection(1), &mut subscriber, Id::Signed(1), wish).unwrap();
    for uri in ["a:1", "a:1", "a:2"] {
        all.subscribe(connection(1), &mut subscriber, uri).unwrap();
    }
    assert_eq!(told_of(&mut all, "a:1"), ["None", "Some(Signed(1))"]);
    assert!(!all.unsubscribe(&mut subscriber, "a:3"));
    assert!(all.unsubscribe(&mut subscriber, "a:1"));
    assert!(!all.unsubscribe(&mut subscriber, "a:1"));
    assert_eq!(told_of(&mut all, "a:2"), ["None"]);
    assert!(all.unsubscribe(&mut subscriber, "a:2"));
    assert!(all.end(&mut subscriber, stream).is_some());
    assert!(!subscriber.listens());
    assert_eq!((all.streams.len(), all.held_bytes()), (0, 0));
    assert!(told_of(&mut all, "a:1").is_empty());
}

#[test]
fn what_passes_a_bound_is_refused_and_changes_nothing() {
    let mut all = Subscriptions::new(BOUNDS);
    let mut subscriber = Subscriber::default();
    let mut ask = |all: &mut Subscriptions, id: i64, uris: &[&str]| {
        let wish = Wish { uris, ..Wish::default() };
        all.listen(connection(1), &mut subscriber, Id::Signed(id), wish).map(drop)
    };
    let many = ["1", "2", "3", "4", "5"];
    assert_eq!(ask(&mut all, 1, &many), Err(Refusal::Names(4)));
    assert_eq!(ask(&mut all, 1, &["a", "0123456789abcdef0"]), Err(Refusal::LongName(16)));
    assert_eq!((all.streams.len(), all.held_bytes()), (0, 0));
    for id in 0..3 {
        assert_eq!(ask(&mut all, id, &[]), Ok(()));
    }
    assert_eq!(ask(&mut all, 4, &[]), Err(Refusal::Streams(3)));
    let held_bytes = all.held_bytes();
    all.bounds = Bounds { streams_max: 9, held_bytes_max: held_bytes + 10, ..BOUNDS };
    assert_eq!(ask(&mut all, 4, &[]), Err(Refusal::Memory));
    assert_eq!(all.held_bytes(), held_bytes);
    assert!(Error::from(Refusal::Memory).retryable);
    assert_eq!(Error::from(Refusal::Names(4)).code, -32602);
}

#[test]
fn a_long_name_of_a_stream_is_weighed() {
    let mut all = Subscriptions::new(Bounds { held_bytes_max: 4096, ..BOUNDS });
    let mut subscriber = Subscriber::default();
    let id = "x".repeat(4096);
    let refused = all.listen(connection(1), &mut subscriber, Id::Text(&id), Wish::default());
    assert_eq!(refused, Err(Refusal::Memory));
}

#[test]
fn a_slow_peer_is_told_once_what_it_missed_many_times() {
    let mut all = Subscriptions::new(BOUNDS);
    let mut subscriber = Subscriber::default();
    let wish = Wish { lists: lists(List::Tools), uris: &["a:1", "a:2"], ..Wish::default() };
    for id in 1..3_i64 {
        all.listen(connection(1), &mut subscriber, Id::Signed(id), wish).unwrap();
    }
    for _ in 0..5 {
        all.tell_list(List::Tools, |_| false);
        all.tell_name(Subject::Resource, "a:2", |_| false);
    }
    subscriber.fall_behind();
    let mut told = Vec::new();
    // The third frame finds the queue full again.
    all.catch_up(&mut subscriber, |stream, missed| {
        told.push(format!("{:?} {missed:?}", stream.id().unwrap()));
        told.len() != 3
    });
    assert!(subscriber.is_behind());
    told.pop();
    all.catch_up(&mut subscriber, |stream, missed| {
        told.push(format!("{:?} {missed:?}", stream.id().unwrap()));
        true
    });
    assert!(!subscriber.is_behind());
    let of = |id: i64| {
        [format!("Signed({id}) List(Tools)"), format!("Signed({id}) Name(Resource, \"a:2\")")]
    };
    told.sort();
    assert_eq!(told, [of(1), of(2)].concat());
    assert_eq!(told_of(&mut all, "a:2").len(), 2);
    assert_eq!(told_of_list(&mut all, List::Tools).len(), 2);
}
