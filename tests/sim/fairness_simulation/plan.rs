//! What a seed decides: the server and its limits, who takes its places and how, and who is honest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use corelane::Options;
use corelane_base::random::Random;
use corelane_engine::ring::sim::{Fault, Faults};

/// Where hostile clients come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// One address.
    One,
    /// Two addresses.
    Two,
    /// 40 addresses.
    Forty,
    /// 300 IPv6 prefixes of 64 bits.
    Prefixes,
}

/// How a hostile connection takes places.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HostileKind {
    /// Sends nothing, over TCP.
    SilentTcp,
    /// Sends nothing, over HTTP.
    SilentHttp,
    /// Sends a part of a message over TCP.
    HalfLine,
    /// Sends a part of a header section.
    HalfHead,
    /// Sends the beginning of a message of many KiB, over TCP.
    LargeHalf,
    /// Sends no valid message, over TCP.
    Invalid,
    /// Sends HTTP requests without a token.
    Unauthorized,
    /// Is served once over TCP, and idle from then on.
    IdleTcp,
    /// Is served once over HTTP, and idle from then on.
    IdleHttp,
    /// Begins HTTP sessions.
    Sessions,
    /// Begins HTTP sessions, each of which is used.
    UsedSessions,
    /// Begins a session of the parity dialect over TCP.
    ParityTcp,
    /// Begins sessions of the parity dialect over HTTP.
    ParityHttp,
    /// Creates tasks that do not end.
    Tasks,
    /// Creates tasks that end at once.
    EndedTasks,
    /// Opens subscription streams with many names.
    Streams,
    /// Has calls that do not end.
    HeldCalls,
}

impl HostileKind {
    const ALL: [Self; 17] = [
        Self::SilentTcp,
        Self::SilentHttp,
        Self::HalfLine,
        Self::HalfHead,
        Self::LargeHalf,
        Self::Invalid,
        Self::Unauthorized,
        Self::IdleTcp,
        Self::IdleHttp,
        Self::Sessions,
        Self::UsedSessions,
        Self::ParityTcp,
        Self::ParityHttp,
        Self::Tasks,
        Self::EndedTasks,
        Self::Streams,
        Self::HeldCalls,
    ];

    /// Returns whether it is of no use, so that others get its place.
    pub(crate) const fn is_of_no_use(self) -> bool {
        matches!(
            self,
            Self::SilentTcp
                | Self::SilentHttp
                | Self::HalfLine
                | Self::HalfHead
                | Self::LargeHalf
                | Self::Invalid
                | Self::Unauthorized
        )
    }

    /// Returns whether it stays busy until it is closed.
    pub(crate) const fn is_busy(self) -> bool {
        matches!(self, Self::Streams | Self::HeldCalls)
    }

    /// Returns whether it is over TCP.
    pub(crate) const fn is_tcp(self) -> bool {
        !matches!(
            self,
            Self::SilentHttp
                | Self::HalfHead
                | Self::Unauthorized
                | Self::IdleHttp
                | Self::Sessions
                | Self::UsedSessions
                | Self::ParityHttp
        )
    }

    /// Returns whether it takes places of which a small part is left to callers that hold little.
    const fn needs_share(self) -> bool {
        matches!(self, Self::Tasks | Self::EndedTasks | Self::Streams)
    }
}

/// What an honest client does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HonestKind {
    /// Modern calls over TCP.
    Tcp,
    /// Calls in a legacy session over TCP.
    LegacyTcp,
    /// Modern calls over HTTP.
    Http,
    /// Calls in a session over HTTP.
    Session,
    /// Requests of the parity dialect over TCP.
    ParityTcp,
    /// Requests of the parity dialect over HTTP.
    ParityHttp,
    /// Calls over TCP that become tasks.
    Task,
    /// Calls over TCP beside a subscription stream.
    Stream,
}

impl HonestKind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Tcp,
        Self::LegacyTcp,
        Self::Http,
        Self::Session,
        Self::ParityTcp,
        Self::ParityHttp,
        Self::Task,
        Self::Stream,
    ];
}

/// An honest client.
#[derive(Clone, Debug)]
pub(crate) struct HonestPlan {
    pub(crate) kind: HonestKind,
    pub(crate) address: IpAddr,
    pub(crate) token: Option<String>,
    pub(crate) arrives_at: Duration,
    /// Longest pause between two calls.
    pub(crate) pause_max: Duration,
    /// It closes its connection after one call in so many.
    pub(crate) close_chance: usize,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct FairnessPlan {
    pub(crate) seed: u64,
    pub(crate) shards: usize,
    pub(crate) faults: Faults,
    pub(crate) options: Options,
    pub(crate) has_tokens: bool,
    pub(crate) origin: Origin,
    pub(crate) hostile: HostilePlan,
    pub(crate) honest: Vec<HonestPlan>,
    /// Those that come after the attack.
    pub(crate) newcomers: Vec<HonestPlan>,
}

/// The hostile clients of a run.
#[derive(Clone, Debug)]
pub(crate) struct HostilePlan {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) kinds: Vec<HostileKind>,
    /// Those with a token have this one.
    pub(crate) token: Option<&'static str>,
    /// Connections that are open at once.
    pub(crate) connections_max: usize,
    /// Those of a transport among them that keep their places, because they are busy or of use.
    pub(crate) firm_max: usize,
    /// Connections that are opened together.
    pub(crate) opened_at_once: usize,
    /// Longest pause between two of these.
    pub(crate) pause_max: Duration,
    pub(crate) ends_at: Duration,
    /// Connections stay open at the end, and do nothing.
    pub(crate) stays: bool,
}

impl FairnessPlan {
    /// Draws the run of this seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut random = Random::seeded(seed ^ FAIRNESS_SALT);
        let random = &mut random;
        let origin = match random.below(16) {
            0..=4 => Origin::One,
            5..=9 => Origin::Two,
            10..=14 => Origin::Forty,
            _ => Origin::Prefixes,
        };
        let addresses = draw_addresses(origin, random);
        let networks = count_networks(&addresses);
        let has_tokens = random.chance(1, 3);
        let honest_count = 2 + random.below(4);
        let hostile = HostilePlan::draw(addresses, has_tokens, networks, random);
        let places = 2 * (networks + honest_count) + 12 + random.below(24);
        let hostile = HostilePlan {
            connections_max: places + random.below(2 * places) + 64,
            firm_max: places / 2 - honest_count - 2,
            ..hostile
        };
        let options = draw_options(places, networks, random);
        let faults = draw_faults(random);
        let attack = hostile.ends_at;
        let honest = (0..honest_count).map(|number| {
            let arrives_at = fraction(attack, random.below(80));
            HonestPlan::draw(
                number,
                HonestKind::ALL[random.below(8)],
                has_tokens,
                arrives_at,
                random,
            )
        });
        let honest = honest.collect();
        let newcomers = (0..=random.below(3)).map(|number| {
            let arrives_at = attack + Duration::from_millis(random.below(50) as u64);
            let kind = HonestKind::ALL[random.below(8)];
            HonestPlan::draw(100 + number, kind, has_tokens, arrives_at, random)
        });
        let newcomers = newcomers.collect();
        Self { seed, shards: 1, faults, options, has_tokens, origin, hostile, honest, newcomers }
    }
}

impl HostilePlan {
    fn draw(
        addresses: Vec<IpAddr>,
        has_tokens: bool,
        networks: usize,
        random: &mut Random,
    ) -> Self {
        let token = (has_tokens && random.chance(1, 2)).then_some("token-mallory");
        let may_have = |kind: &HostileKind| match kind {
            HostileKind::Unauthorized => has_tokens,
            kind if kind.needs_share() => {
                networks <= NETWORKS_MAX && (!has_tokens || token.is_some())
            }
            kind => kind.is_of_no_use() || !has_tokens || token.is_some(),
        };
        let all: Vec<HostileKind> = HostileKind::ALL.into_iter().filter(may_have).collect();
        let kinds = (0..=random.below(4)).map(|_| all[random.below(all.len())]).collect();
        let is_large = addresses.len() > NETWORKS_MAX;
        Self {
            addresses,
            kinds,
            token,
            connections_max: 0,
            firm_max: 0,
            opened_at_once: 1 + random.below(if is_large { 16 } else { 8 }),
            pause_max: Duration::from_millis(1 + random.below(12) as u64),
            ends_at: Duration::from_millis(1_200 + random.below(500) as u64),
            stays: random.chance(1, 2),
        }
    }
}

impl HonestPlan {
    fn draw(
        number: usize,
        kind: HonestKind,
        has_tokens: bool,
        arrives_at: Duration,
        random: &mut Random,
    ) -> Self {
        let low = number as u16;
        let address = if random.chance(1, 2) {
            IpAddr::V4(Ipv4Addr::new(203, 0, low as u8, 1))
        } else {
            IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xff00 + low, 0, 0, 0, 0, 1))
        };
        let pause_max = [60, 300, 1_500][random.below(3)];
        Self {
            kind,
            address,
            token: has_tokens.then(|| format!("token-honest-{number}")),
            arrives_at,
            pause_max: Duration::from_millis(pause_max),
            close_chance: [1, 3, 1_000][random.below(3)],
        }
    }
}

fn draw_addresses(origin: Origin, random: &mut Random) -> Vec<IpAddr> {
    let is_apart = random.chance(1, 2);
    let v4 = |number: u8| {
        let octets = if is_apart { [198, 51, number, 1] } else { [198, 51, 100, number] };
        IpAddr::from(octets)
    };
    match origin {
        Origin::One => vec![v4(1)],
        Origin::Two => vec![v4(1), v4(2)],
        Origin::Forty => (1..=40).map(v4).collect(),
        Origin::Prefixes => {
            // Each of a /48 of its own, or all of a few.
            let networks = [300, 1, 2, 8][random.below(4)];
            let address = |number: u16| {
                let (network, prefix) = (number % networks, number / networks);
                IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, network, prefix, 0, 0, 0, 1))
            };
            (0..300).map(address).collect()
        }
    }
}

/// Returns the number of the IPv4 /24 or IPv6 /48 of an address.
pub(crate) fn network(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits() >> 8),
        IpAddr::V6(address) => address.to_bits() >> 80,
    }
}

/// Returns the number of IPv4 /24 and IPv6 /48.
fn count_networks(addresses: &[IpAddr]) -> usize {
    let mut networks: Vec<u128> = addresses.iter().copied().map(network).collect();
    networks.sort_unstable();
    networks.dedup();
    networks.len()
}

fn draw_options(places: usize, networks: usize, random: &mut Random) -> Options {
    let mut options = Options::default();
    options.engine.blocking_threads = 1;
    options.engine.drain_timeout = Duration::from_millis(300);
    options.engine.ring_sizes.receive_buffers = 64;
    options.engine.ring_sizes.receive_buffer_bytes = 1024;
    options.engine.ring_sizes.burst_buffers_max = 4;
    let places = places as u32;
    options.tcp.connections_max = places;
    options.http.connections_max = places;
    options.http.sessions_max = places;
    options.websocket.connections_max = 1;
    options.http.session_idle_timeout = Duration::from_secs(4);
    options.parity.resume_window = Duration::from_secs(2);
    options.parity.timeouts.idle = Duration::from_secs(4);
    options.parity.timeouts.keepalive = Duration::from_secs(2);
    options.parity.timeouts.sse_keepalive = Duration::from_secs(2);
    let limits = &mut options.limits;
    limits.request_timeout = Duration::from_secs(3);
    limits.memory_bytes_max = (2 << 20) << random.below(4);
    limits.task_ttl = TASK_TTL;
    limits.task_ttl_max = TASK_TTL;
    // A thirteenth is less than the 8 % that are kept for those that hold little.
    limits.tasks_max = if networks > NETWORKS_MAX { 64 } else { 13 * (networks as u32 + 8) };
    limits.subscription_bytes_max = 1 << 20;
    if random.chance(1, 4) {
        options.rate.rules = vec!["* rate=400/s burst=200 per=address".to_owned()];
        options.rate.keys_max = 1_024;
    }
    options
}

/// Draws faults that neither break connections nor delay all clients for long.
fn draw_faults(random: &mut Random) -> Faults {
    let others =
        [Fault::ClockJump, Fault::Reset, Fault::AcceptFailure, Fault::NoBuffers, Fault::SlowReader];
    others.into_iter().fold(Faults::random(random), Faults::without)
}

/// Returns so many percent of a time.
fn fraction(time: Duration, percent: usize) -> Duration {
    time * percent as u32 / 100
}

/// Time for which a task is stored.
pub(crate) const TASK_TTL: Duration = Duration::from_millis(600);

/// Networks of hostile clients beyond which they can take what is kept for those that hold little.
const NETWORKS_MAX: usize = 41;

/// Distinguishes the plan from other random streams of the same seed.
const FAIRNESS_SALT: u64 = 0x6661_6972;
