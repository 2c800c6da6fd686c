//! Several shards over virtual time: limits, exchange of shares, floods.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::principal::Principal;
use corelane_base::random::Random;
use corelane_protocol::eras::Method;

use super::ConnectionRates;
use super::bucket::Quota;
use super::limiter::{Caller, RateLimiter};
use super::rules::{LimitedMethod, RateRules, RateTarget, parse_quota};
use super::tables::{SmallBurstAccess, SmallBursts};

/// Shards that exchange shares without delay after each step of time.
struct Shards(Vec<RateLimiter>);

impl SmallBurstAccess for RefCell<SmallBursts> {
    fn access(&self, run: &mut dyn FnMut(&mut SmallBursts)) {
        run(&mut self.borrow_mut());
    }
}

impl Shards {
    fn new(shards: u32, rules: &[&str]) -> Self {
        Self::with_keys(shards, rules, 1 << 10)
    }

    fn with_keys(shards: u32, rules: &[&str], keys_max: usize) -> Self {
        let shards = NonZeroU32::new(shards).unwrap();
        let rules = Arc::new(parse(rules));
        let table = Rc::<RefCell<SmallBursts>>::default();
        let limiters = (0..shards.get()).map(|_| {
            let mut limiter =
                RateLimiter::new(7, shards, Rc::<RefCell<_>>::clone(&table), keys_max);
            limiter.install(Arc::clone(&rules));
            limiter
        });
        Self(limiters.collect())
    }

    fn exchange(&mut self, now: u64) {
        for asking in 0..self.0.len() {
            let Some(requests) = self.0[asking].take_requests() else { continue };
            for giving in (0..self.0.len()).filter(|giving| *giving != asking) {
                let gifts = self.0[giving].give(u16::try_from(asking).unwrap(), &requests, now);
                self.0[asking].receive(&gifts);
            }
        }
    }
}

fn parse(rules: &[&str]) -> RateRules {
    let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
    RateRules::parse(&rules).unwrap()
}

const ANONYMOUS: Caller<'static> = Caller { principal: None, address: None, session: 0 };

fn call(tool: &str) -> RateTarget<'_> {
    let method = LimitedMethod::Request(Method::ToolsCall);
    RateTarget { method, name: tool, uri: None, tool }
}

fn address(text: &str) -> Option<ClientAddress> {
    ClientAddress::new(text.parse().unwrap())
}

fn at(milliseconds: u64) -> u64 {
    milliseconds * 1_000_000
}

fn admits(limiter: &mut RateLimiter, caller: Caller<'_>, target: RateTarget<'_>) -> bool {
    limiter.admit(&caller, &target, at(0)).is_ok()
}

#[test]
fn hot_shard_gets_shares_of_idle_ones() {
    for (shards, rule, limit, burst) in [
        (2, "* rate=1000/s", 1_000, 1_000),
        (4, "* rate=1000/s burst=100", 1_000, 100),
        (8, "* rate=100000/s burst=2000", 100_000, 2_000),
        (16, "* rate=600/min", 10, 600),
    ] {
        let mut shards = Shards::new(shards, &[rule]);
        let mut admitted = 0_u64;
        for millisecond in 0..10_000 {
            let now = at(millisecond);
            for _ in 0..2 + 2 * limit / 1_000 {
                let result = shards.0[0].admit(&ANONYMOUS, &call("x"), now);
                admitted += u64::from(result.is_ok());
            }
            shards.exchange(now);
        }
        assert!(admitted <= limit * 10 + burst, "{rule}: {admitted}");
        assert!(admitted * 100 >= limit * 10 * 95, "{rule}: {admitted}");
    }
}

#[test]
fn shards_never_exceed_limit_together() {
    for seed in 0..50 {
        let mut random = Random::seeded(seed);
        let count = 1 + random.below(8);
        let limit = 10 + random.below(5_000);
        let burst = count + random.below(2 * limit);
        let (limit, burst) = (limit as u64, burst as u64);
        let rule = format!("* rate={limit}/s burst={burst} per=principal");
        let mut shards = Shards::new(u32::try_from(count).unwrap(), &[&rule]);
        let mut admitted = vec![0_u64; 3_000];
        for (millisecond, admitted) in admitted.iter_mut().enumerate() {
            let now = at(millisecond as u64);
            // Demand moves between shards, and pauses.
            let (phase, load) = (millisecond / 100, random.below(30));
            for _ in 0..if phase % 7 == 6 { 0 } else { load } {
                let shard = if phase % 2 == 0 { phase % count } else { random.below(count) };
                let result = shards.0[shard].admit(&ANONYMOUS, &call("x"), now);
                *admitted += u64::from(result.is_ok());
            }
            if random.chance(9, 10) {
                shards.exchange(now);
            }
        }
        // In every window, not only from the start.
        for from in (0..3_000).step_by(97) {
            let mut sum = 0;
            for (length, count) in admitted[from..].iter().enumerate() {
                sum += count;
                let most = burst + limit * (length as u64 + 1) / 1_000 + 1;
                assert!(sum <= most, "seed {seed}: {sum} of {most} from {from} in {length} ms");
            }
        }
    }
}

#[test]
fn small_burst_is_exact_in_any_order() {
    for seed in 0..50 {
        let mut random = Random::seeded(seed);
        let count = 2 + random.below(7);
        let burst = 1 + random.below(4 * count - 1);
        let rule = format!("* rate={burst}/min");
        let mut shards = Shards::new(u32::try_from(count).unwrap(), &[&rule]);
        // The turns of shards begin at different times.
        let mut admit = |from: u64| {
            let now = at(from + random.below(20) as u64);
            shards.0[random.below(count)].admit(&ANONYMOUS, &call("x"), now).is_ok()
        };
        let outcomes: Vec<bool> = (0..3 * burst).map(|_| admit(1_000)).collect();
        let (first, rest) = outcomes.split_at(burst);
        assert!(first.iter().all(|it| *it), "seed {seed}: {burst} of {count} shards");
        assert!(rest.iter().all(|it| !it), "seed {seed}: {burst} of {count} shards");
        // The rate earns the whole burst again.
        let again = (0..3 * burst).filter(|_| admit(70_000)).count();
        assert_eq!(again, burst, "seed {seed}");
    }
}

#[test]
fn refused_request_counts_against_no_small_limit() {
    let rules = ["tools/call rate=5/min", "tools/call x rate=1/min"];
    let mut shards = Shards::new(4, &rules);
    let mut admitted = |shard: usize, tool| admits(&mut shards.0[shard], ANONYMOUS, call(tool));
    assert!(admitted(0, "x"));
    for shard in 0..4 {
        assert!(!admitted(shard, "x"));
    }
    let others = (0..8).filter(|request| admitted(request % 4, "y")).count();
    assert_eq!(others, 4);
}

#[test]
fn keys_are_limited_apart() {
    let rule = "tools/call rate=1/s per=principal+tool";
    let (ada, bob) = (Principal::new("ada"), Principal::new("bob"));
    let client = ada.clone().with_client_id("other");
    let limiter = &mut Shards::new(1, &[rule]).0[0];
    for principal in [&ada, &bob, &client].map(|it| Arc::new(it.clone())) {
        let caller = Caller { principal: Some(&principal), ..ANONYMOUS };
        for tool in ["a", "b"] {
            assert!(admits(limiter, caller, call(tool)), "{principal:?} {tool}");
            assert!(!admits(limiter, caller, call(tool)), "{principal:?} {tool}");
        }
    }
}

#[test]
fn equal_principals_share_one_limit() {
    let limiter = &mut Shards::new(1, &["tools/call rate=2/s per=principal"]).0[0];
    let tokens = ["ada", "ada", "bob"].map(|id| Arc::new(Principal::new(id)));
    let mut admitted = |token: &Arc<Principal>| {
        admits(limiter, Caller { principal: Some(token), ..ANONYMOUS }, call("a"))
    };
    let [first, second, other] = &tokens;
    assert!(admitted(first) && admitted(second) && admitted(other));
    assert!(!admitted(first) && !admitted(second));
    assert!(admitted(other));
}

#[test]
fn caller_without_principal_counts_by_address() {
    let limiter = &mut Shards::new(1, &["* rate=1/s per=principal"]).0[0];
    let from = |text| Caller { address: address(text), ..ANONYMOUS };
    assert!(admits(limiter, from("192.0.2.1"), call("a")));
    assert!(!admits(limiter, from("192.0.2.1"), call("a")));
    assert!(admits(limiter, from("192.0.2.2"), call("a")));
    assert!(admits(limiter, from("127.0.0.1"), call("a")));
    assert!(!admits(limiter, from("::1"), call("a")));
}

#[test]
fn ipv6_addresses_of_prefix_count_together() {
    let limiter = &mut Shards::new(1, &["* rate=1/s per=address"]).0[0];
    let from = |text| Caller { address: address(text), ..ANONYMOUS };
    assert!(admits(limiter, from("2001:db8:0:1::1"), call("a")));
    assert!(!admits(limiter, from("2001:db8:0:1:ffff::2"), call("a")));
    assert!(admits(limiter, from("2001:db8:0:2::1"), call("a")));
    // Exempt.
    assert!((0..9).all(|_| admits(limiter, from("127.0.0.1"), call("a"))));
}

#[test]
fn session_has_whole_limit_on_its_shard() {
    let mut shards = Shards::new(8, &["* rate=40/s per=session"]);
    let caller = Caller { session: 1, ..ANONYMOUS };
    let admitted = (0..99).filter(|_| admits(&mut shards.0[3], caller, call("a"))).count();
    assert_eq!(admitted, 40);
    assert!(shards.0[3].take_requests().is_none());
}

#[test]
fn refused_request_counts_against_no_limit() {
    let rules = ["* rate=9/s", "tools/call deploy rate=1/s"];
    let limiter = &mut Shards::new(1, &rules).0[0];
    let deploys = (0..50).filter(|_| admits(limiter, ANONYMOUS, call("deploy"))).count();
    let others = (0..50).filter(|_| admits(limiter, ANONYMOUS, call("echo"))).count();
    assert_eq!((deploys, others), (1, 8));
    let exceeded = limiter.admit(&ANONYMOUS, &call("deploy"), at(0)).unwrap_err();
    assert_eq!((&*exceeded.policy, exceeded.limit, exceeded.seconds), ("all", 9, 1));
}

#[test]
fn unchanged_rule_keeps_its_buckets() {
    let limiter = &mut Shards::new(1, &["* rate=1/s"]).0[0];
    assert!(admits(limiter, ANONYMOUS, call("a")));
    limiter.install(Arc::new(parse(&["ping rate=1/s", "*  rate=1/s"])));
    assert!(!admits(limiter, ANONYMOUS, call("a")));
    limiter.install(Arc::new(parse(&["* rate=2/s"])));
    assert!(admits(limiter, ANONYMOUS, call("a")));
    limiter.install(Arc::default());
    assert!(!limiter.is_active() && admits(limiter, ANONYMOUS, call("a")));
}

#[test]
fn flood_of_addresses_shares_one_limit() {
    let keys_max = 1 << 8;
    let limiter = &mut Shards::with_keys(1, &["* rate=1/h per=address"], keys_max).0[0];
    let honest = Caller { address: address("192.0.2.1"), ..ANONYMOUS };
    assert!(admits(limiter, honest, call("a")));
    let from = |number: u32| {
        let ip = std::net::Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(number) << 64);
        Caller { address: ClientAddress::new(ip.into()), ..ANONYMOUS }
    };
    let admitted = (0..100_000).filter(|it| admits(limiter, from(*it), call("a"))).count();
    // One for each place, and one for all that have none.
    assert!(admitted <= keys_max, "{admitted}");
    let (keys, overflowed) = (limiter.keys(at(0)), limiter.take_overflows());
    assert!(keys <= keys_max && overflowed > 90_000, "{keys} {overflowed}");
    assert!(!admits(limiter, honest, call("a")), "the flood has removed a bucket");
}

#[test]
fn address_opens_connections_at_its_rate() {
    let mut rates = ConnectionRates::new(7, 64);
    let one = address("192.0.2.1").unwrap();
    assert_eq!(rates.admit(one, at(0)), Ok(()));
    rates.install(Some(parse_quota("rate=10/s burst=2").unwrap()));
    let admitted = (0..9).filter(|_| rates.admit(one, at(0)).is_ok()).count();
    assert_eq!(admitted, 2);
    assert_eq!(rates.admit(one, at(40)), Err(Duration::from_millis(60)));
    assert_eq!(rates.admit(address("192.0.2.2").unwrap(), at(40)), Ok(()));
    let same: Option<Quota> = Some(parse_quota("burst=2 rate=10/s").unwrap());
    rates.install(same);
    assert!(rates.admit(one, at(40)).is_err());
    rates.install(None);
    assert_eq!(rates.admit(one, at(40)), Ok(()));
}
