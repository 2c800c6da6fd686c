//! Tests of subscription streams: filters, limits, memory and pending notifications.

use std::sync::Arc;

use corelane_base::client_address::ClientAddress;

use super::*;
use crate::server::reply_to::PeerId;

const LIMITS: SubscriptionLimits = SubscriptionLimits {
    streams_max: 3,
    names_max: 4,
    name_bytes_max: 16,
    held_bytes_max: 1 << 20,
    address_share: AddressShare::new(75),
};

fn connection(number: u64) -> Subscriber<'static> {
    let peer = PeerId::Connection(Key::from_bits(number));
    Subscriber { peer, client: None, principal: None }
}

fn lists(list: CatalogList) -> CatalogLists {
    CatalogLists::of(|other| other == list)
}

/// Returns the streams that get a change of `list`.
fn streams_notified_of_list(
    subscriptions: &mut SubscriptionRegistry,
    list: CatalogList,
) -> Vec<String> {
    let mut notified = Vec::new();
    subscriptions.notify_list_changed(list, |stream| {
        notified.push(format!("{:?}", stream.id()));
        true
    });
    notified.sort();
    notified
}

/// Returns the streams that get an update of `uri`.
fn streams_notified_of(subscriptions: &mut SubscriptionRegistry, uri: &str) -> Vec<String> {
    let mut notified = Vec::new();
    subscriptions.notify_updated(TopicKind::Resource, uri, |stream| {
        notified.push(format!("{:?}", stream.id()));
        true
    });
    notified.sort();
    notified
}

#[test]
fn stream_gets_only_notifications_of_its_filter() {
    let mut all = SubscriptionRegistry::new(LIMITS);
    let mut subscriber = ConnectionSubscriptions::default();
    let filter = GrantedFilter {
        lists: lists(CatalogList::Tools),
        uris: &["a:1", "a:2"],
        ..GrantedFilter::default()
    };
    all.open_stream(connection(1), &mut subscriber, Id::Signed(7), filter).unwrap();
    let other = GrantedFilter { uris: &["a:2"], ..GrantedFilter::default() };
    all.open_stream(connection(1), &mut subscriber, Id::Text("7"), other).unwrap();
    assert_eq!(streams_notified_of_list(&mut all, CatalogList::Tools), ["Some(Signed(7))"]);
    assert!(streams_notified_of_list(&mut all, CatalogList::Prompts).is_empty());
    assert_eq!(streams_notified_of(&mut all, "a:1"), ["Some(Signed(7))"]);
    assert_eq!(streams_notified_of(&mut all, "a:2"), ["Some(Signed(7))", "Some(Text(\"7\"))"]);
    assert!(streams_notified_of(&mut all, "a:3").is_empty());
    assert!(all.index.listeners(TopicKind::Task, "a:1").is_empty());
}

#[test]
fn duplicate_uri_in_filter_is_notified_once() {
    let mut all = SubscriptionRegistry::new(LIMITS);
    let mut subscriber = ConnectionSubscriptions::default();
    let filter = GrantedFilter { uris: &["a:1", "a:1", "a:1"], ..GrantedFilter::default() };
    let key = all.open_stream(connection(1), &mut subscriber, Id::Signed(1), filter).unwrap();
    assert_eq!(streams_notified_of(&mut all, "a:1").len(), 1);
    assert!(all.close_stream(&mut subscriber, key).is_some());
    assert_eq!((all.index.len(), all.held_bytes()), (0, 0));
}

#[test]
fn spellings_of_one_uri_are_counted_and_removed() {
    let mut all = SubscriptionRegistry::new(LIMITS);
    let mut subscriber = ConnectionSubscriptions::default();
    for uri in ["A:1", "a:%31", "a:1", "A:1"] {
        all.subscribe(connection(1), &mut subscriber, uri).unwrap();
    }
    assert_eq!(all.held_bytes(), all.recount_bytes());
    let mut others: Vec<_> = all.other_spellings("a:1").iter().map(ToString::to_string).collect();
    others.sort();
    assert_eq!((all.index.len(), others), (3, vec!["A:1".to_owned(), "a:%31".to_owned()]));
    assert_eq!(all.other_spellings("A:%31").len(), 3);
    assert!(all.unsubscribe(&mut subscriber, "A:1"));
    assert_eq!(all.index.len(), 2);
    assert!(all.unsubscribe(&mut subscriber, "A:%31"));
    assert!(!all.unsubscribe(&mut subscriber, "a:1") && !subscriber.has_streams());
    assert_eq!((all.index.len(), all.held_bytes()), (0, 0));
}

#[test]
fn streams_closed_in_any_order_leave_nothing() {
    let bounds = SubscriptionLimits { streams_max: 100, ..LIMITS };
    for step in [1, 3, 7] {
        let mut all = SubscriptionRegistry::new(bounds);
        let mut subscribers =
            [ConnectionSubscriptions::default(), ConnectionSubscriptions::default()];
        let mut keys = Vec::new();
        for number in 0..50_i64 {
            let uris = [["a:1", "a:2", "a:3"], ["a:2", "a:3", "a:4"]];
            let side = usize::from(number % 3 == 0);
            let filter =
                GrantedFilter { uris: &uris[side], task_ids: &["a:1"], ..GrantedFilter::default() };
            let subscriber = &mut subscribers[side];
            let owner = connection(side as u64);
            keys.push((
                side,
                all.open_stream(owner, subscriber, Id::Signed(number), filter).unwrap(),
            ));
        }
        for turn in 0..50 {
            let (side, key) = keys[turn * step % 50];
            assert_eq!(streams_notified_of(&mut all, "a:2").len(), 50 - turn);
            let ended = all.close_stream(&mut subscribers[side], key).unwrap();
            assert_eq!(ended.peer, connection(side as u64).peer);
            assert!(all.close_stream(&mut subscribers[side], key).is_none());
        }
        assert!(subscribers.iter().all(|subscriber| !subscriber.has_streams()));
        assert_eq!((all.streams.len(), all.index.len(), all.held_bytes()), (0, 0, 0));
    }
}

#[test]
fn closing_connection_closes_its_own_streams_only() {
    let mut all = SubscriptionRegistry::new(LIMITS);
    let (mut one, mut two) =
        (ConnectionSubscriptions::default(), ConnectionSubscriptions::default());
    let filter = GrantedFilter { uris: &["a:1"], ..GrantedFilter::default() };
    for id in 0..3_i64 {
        all.open_stream(connection(1), &mut one, Id::Signed(id), filter).unwrap();
    }
    all.open_stream(connection(2), &mut two, Id::Text("two"), filter).unwrap();
    all.subscribe(connection(1), &mut one, "a:1").unwrap();
    let mut ended = 0;
    all.close_all_streams(&mut one, |_| ended += 1);
    assert_eq!(ended, 4);
    assert!(!one.has_streams());
    assert_eq!(streams_notified_of(&mut all, "a:1"), ["Some(Text(\"two\"))"]);
    assert!(two.has_streams());
}

#[test]
fn session_subscribes_once_and_unsubscribes() {
    let mut all = SubscriptionRegistry::new(LIMITS);
    let mut subscriber = ConnectionSubscriptions::default();
    assert!(!all.unsubscribe(&mut subscriber, "a:1"));
    let filter = GrantedFilter { uris: &["a:1"], ..GrantedFilter::default() };
    let stream = all.open_stream(connection(1), &mut subscriber, Id::Signed(1), filter).unwrap();
    for uri in ["a:1", "a:1", "a:2"] {
        all.subscribe(connection(1), &mut subscriber, uri).unwrap();
    }
    assert_eq!(streams_notified_of(&mut all, "a:1"), ["None", "Some(Signed(1))"]);
    assert!(!all.unsubscribe(&mut subscriber, "a:3"));
    assert!(all.unsubscribe(&mut subscriber, "a:1"));
    assert!(!all.unsubscribe(&mut subscriber, "a:1"));
    assert_eq!(streams_notified_of(&mut all, "a:2"), ["None"]);
    assert!(all.unsubscribe(&mut subscriber, "a:2"));
    assert!(all.close_stream(&mut subscriber, stream).is_some());
    assert!(!subscriber.has_streams());
    assert_eq!((all.streams.len(), all.held_bytes()), (0, 0));
    assert!(streams_notified_of(&mut all, "a:1").is_empty());
}

#[test]
fn subscription_beyond_limit_is_rejected_without_change() {
    let mut all = SubscriptionRegistry::new(LIMITS);
    let mut subscriber = ConnectionSubscriptions::default();
    let mut ask = |all: &mut SubscriptionRegistry, id: i64, uris: &[&str]| {
        let filter = GrantedFilter { uris, ..GrantedFilter::default() };
        all.open_stream(connection(1), &mut subscriber, Id::Signed(id), filter).map(drop)
    };
    let many = ["1", "2", "3", "4", "5"];
    assert_eq!(ask(&mut all, 1, &many), Err(SubscriptionError::NameLimit(4)));
    assert_eq!(
        ask(&mut all, 1, &["a", "0123456789abcdef0"]),
        Err(SubscriptionError::NameTooLong(16))
    );
    assert_eq!((all.streams.len(), all.held_bytes()), (0, 0));
    for id in 0..3 {
        assert_eq!(ask(&mut all, id, &[]), Ok(()));
    }
    assert_eq!(ask(&mut all, 4, &[]), Err(SubscriptionError::StreamLimit(3)));
    let held_bytes = all.held_bytes();
    all.limits = SubscriptionLimits { streams_max: 9, held_bytes_max: held_bytes + 10, ..LIMITS };
    assert_eq!(ask(&mut all, 4, &[]), Err(SubscriptionError::MemoryLimit));
    assert_eq!(all.held_bytes(), held_bytes);
    assert_eq!(Error::from(SubscriptionError::MemoryLimit).code, -32603);
    assert_eq!(Error::from(SubscriptionError::NameLimit(4)).code, -32602);
}

/// Returns how many subscriptions of new connections a client at `address` finds room for.
fn fill(all: &mut SubscriptionRegistry, address: &str) -> usize {
    let client = ClientAddress::new(address.parse().unwrap());
    let by = Subscriber { client, ..connection(1) };
    let mut opened = 0;
    loop {
        let filter = GrantedFilter { uris: &["a:1"], ..GrantedFilter::default() };
        let subscriber = &mut ConnectionSubscriptions::default();
        match all.open_stream(by, subscriber, Id::Signed(1), filter) {
            Ok(_) => opened += 1,
            Err(SubscriptionError::Share | SubscriptionError::MemoryLimit) => return opened,
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn client_leaves_subscriptions_to_others() {
    let limits = SubscriptionLimits { held_bytes_max: 64 << 10, ..LIMITS };
    for addresses in [["192.0.2.1", "192.0.2.2"], ["2001:db8:0:1::1", "2001:db8:0:2::1"]] {
        let mut all = SubscriptionRegistry::new(limits);
        let opened = addresses.map(|address| fill(&mut all, address));
        assert!(opened[0] > opened[1] && opened[1] > 0, "{opened:?}");
        assert!(fill(&mut all, "198.51.100.1") > 0);
        assert!(all.held_bytes() <= limits.held_bytes_max + (1 << 10));
        assert_eq!(all.held_bytes(), all.recount_bytes());
    }
    // Exempt clients take what is left.
    let mut all = SubscriptionRegistry::new(limits);
    assert!(fill(&mut all, "127.0.0.1") > 100);
    assert_eq!(fill(&mut all, "192.0.2.1"), 0);
    assert_eq!(Error::from(SubscriptionError::Share).code, -32603);
}

#[test]
fn ended_subscriptions_return_share() {
    let mut all = SubscriptionRegistry::new(LIMITS);
    let client = ClientAddress::new([192, 0, 2, 1].into());
    let by = Subscriber { client, ..connection(1) };
    let mut subscribers = [(); 2].map(|()| ConnectionSubscriptions::default());
    for _ in 0..1_000 {
        // The first one adds the name, the second one is the last to leave it.
        for subscriber in &mut subscribers {
            all.subscribe(by, subscriber, "a:1").unwrap();
            all.subscribe(by, subscriber, "a:2").unwrap();
        }
        for subscriber in &mut subscribers {
            assert!(all.unsubscribe(subscriber, "a:2"));
        }
    }
    for subscriber in &mut subscribers {
        all.close_all_streams(subscriber, drop);
    }
    assert_eq!((all.held_bytes(), all.holders.total()), (0, 0));
}

#[test]
fn long_stream_id_counts_towards_memory_limit() {
    let mut all = SubscriptionRegistry::new(SubscriptionLimits { held_bytes_max: 4096, ..LIMITS });
    let mut subscriber = ConnectionSubscriptions::default();
    let id = "x".repeat(4096);
    let refused =
        all.open_stream(connection(1), &mut subscriber, Id::Text(&id), GrantedFilter::default());
    assert_eq!(refused, Err(SubscriptionError::MemoryLimit));
}

#[test]
fn slow_peer_gets_missed_notifications_once() {
    let mut all = SubscriptionRegistry::new(LIMITS);
    let mut subscriber = ConnectionSubscriptions::default();
    let filter = GrantedFilter {
        lists: lists(CatalogList::Tools),
        uris: &["a:1", "a:2"],
        ..GrantedFilter::default()
    };
    for id in 1..3_i64 {
        all.open_stream(connection(1), &mut subscriber, Id::Signed(id), filter).unwrap();
    }
    for _ in 0..5 {
        all.notify_list_changed(CatalogList::Tools, |_| false);
        all.notify_updated(TopicKind::Resource, "a:2", |_| false);
    }
    subscriber.mark_dirty();
    let mut notified = Vec::new();
    // The third frame does not fit again.
    all.send_pending(&mut subscriber, |stream, missed| {
        notified.push(format!("{:?} {missed:?}", stream.id().unwrap()));
        notified.len() != 3
    });
    assert!(subscriber.is_dirty());
    notified.pop();
    all.send_pending(&mut subscriber, |stream, missed| {
        notified.push(format!("{:?} {missed:?}", stream.id().unwrap()));
        true
    });
    assert!(!subscriber.is_dirty());
    let of = |id: i64| {
        [format!("Signed({id}) List(Tools)"), format!("Signed({id}) Topic(Resource, \"a:2\")")]
    };
    notified.sort();
    assert_eq!(notified, [of(1), of(2)].concat());
    assert_eq!(streams_notified_of(&mut all, "a:2").len(), 2);
    assert_eq!(streams_notified_of_list(&mut all, CatalogList::Tools).len(), 2);
}

#[test]
fn task_status_reaches_streams_of_its_caller() {
    let [ada, bob] = ["ada", "bob"].map(|id| Arc::new(Principal::new(id)));
    let mut all = SubscriptionRegistry::new(LIMITS);
    let mut subscriber = ConnectionSubscriptions::default();
    for (id, principal) in [(1, Some(&ada)), (2, Some(&bob)), (3, None)] {
        let filter = GrantedFilter { task_ids: &["t"], ..GrantedFilter::default() };
        let by = Subscriber { principal, ..connection(1) };
        all.open_stream(by, &mut subscriber, Id::Signed(id), filter).unwrap();
    }
    let mut notified = |version, caller| {
        let mut ids = Vec::new();
        all.notify_task("t", version, caller, |stream| {
            ids.push(format!("{:?}", stream.id()));
            true
        });
        ids
    };
    assert_eq!(notified(1, Some(&ada)), ["Some(Signed(1))"]);
    assert!(notified(1, Some(&ada)).is_empty());
    assert_eq!(notified(2, None), ["Some(Signed(3))"]);
}
