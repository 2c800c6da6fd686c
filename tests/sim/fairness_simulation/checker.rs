//! What is fair: how long an honest client may wait, whose places it loses, and how many a caller
//! may have.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use corelane::internal::{HeldPlace, PlaceKind};
use corelane::{Options, Transport};
use corelane_base::client_address::{AddressShare, ClientAddress};
use corelane_base::holders::Holder;
use corelane_base::time::Instant;
use corelane_engine::ring::SPARE_SOCKETS_MAX;

use crate::fairness_simulation::plan::network;

/// A call of an honest client: a place is found in the second in which those of others may be kept,
/// and the rest is for the pauses between attempts.
pub(crate) const CALL_TIME_MAX: Duration = Duration::from_millis(1_300);
/// The first call of a client that comes after an attack.
pub(crate) const RECOVERY_TIME_MAX: Duration = Duration::from_secs(1);

/// How many places there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceLimits {
    pub(crate) tcp_max: usize,
    pub(crate) http_max: usize,
    pub(crate) sessions_max: usize,
    pub(crate) parity_sessions_max: usize,
    pub(crate) tasks_max: usize,
    /// What one caller may take of connections, sessions of the parity dialect and tasks.
    pub(crate) share: AddressShare,
}

impl PlaceLimits {
    /// Returns the limits of one shard.
    pub(crate) const fn new(options: &Options) -> Self {
        let [tcp_max, http_max] =
            [options.tcp.connections_max as usize, options.http.connections_max as usize];
        let others_max = options.websocket.connections_max + SPARE_SOCKETS_MAX;
        Self {
            tcp_max,
            http_max,
            sessions_max: options.http.sessions_max as usize,
            parity_sessions_max: 2 * (tcp_max + http_max + others_max as usize),
            tasks_max: options.limits.tasks_max as usize,
            share: AddressShare::new(options.limits.address_share_percent),
        }
    }

    const fn of(&self, kind: PlaceKind) -> usize {
        match kind {
            PlaceKind::Connection(Transport::Tcp) => self.tcp_max,
            PlaceKind::Connection(_) => self.http_max,
            PlaceKind::Session => self.sessions_max,
            PlaceKind::ParitySession => self.parity_sessions_max,
            PlaceKind::Task => self.tasks_max,
        }
    }
}

/// What each caller has, at one time: by the index of the kind in [`KINDS`].
type HeldByCaller = BTreeMap<(usize, Holder), usize>;

const KINDS: [PlaceKind; 5] = [
    PlaceKind::Connection(Transport::Tcp),
    PlaceKind::Connection(Transport::Http),
    PlaceKind::Session,
    PlaceKind::ParitySession,
    PlaceKind::Task,
];

fn index_of(kind: PlaceKind) -> usize {
    KINDS.iter().position(|known| *known == kind).unwrap_or(KINDS.len())
}

/// Decides what is fair.
#[derive(Debug)]
pub(crate) struct FairnessChecker {
    limits: PlaceLimits,
    held: HeldByCaller,
    /// The longest time of a call.
    pub(crate) slowest: Duration,
}

impl FairnessChecker {
    pub(crate) const fn new(limits: PlaceLimits) -> Self {
        Self { limits, held: HeldByCaller::new(), slowest: Duration::ZERO }
    }

    /// Records all places of the shard.
    ///
    /// # Errors
    ///
    /// There are more than the limit, a caller has more than its share, or one with an eighth of
    /// all sessions or more took a further one of others.
    pub(crate) fn record_places(&mut self, places: &[HeldPlace]) -> Result<(), String> {
        let mut held = HeldByCaller::new();
        for place in places {
            *held.entry((index_of(place.kind), place.holder)).or_default() += 1;
        }
        let before = std::mem::replace(&mut self.held, held);
        let total = |held: &HeldByCaller, kind| {
            let places = held.iter().filter(|((of, _), _)| *of == kind);
            places.map(|(_, count)| *count).sum::<usize>()
        };
        for ((index, holder), count) in &self.held {
            let kind = KINDS.get(*index).ok_or("a place of another kind")?;
            let places_max = self.limits.of(*kind);
            let all = total(&self.held, *index);
            if all > places_max {
                return Err(format!("{all} places of {kind:?}, of {places_max}"));
            }
            let share_max = if *kind == PlaceKind::Session {
                // At the limit an eighth, of which no more are taken from others.
                let had = before.get(&(*index, *holder)).copied().unwrap_or_default();
                let was_full = total(&before, *index) == places_max;
                if was_full { had.max(places_max / 8 + 1) } else { places_max }
            } else {
                self.limits.share.of(places_max)
            };
            if *count > share_max {
                return Err(format!(
                    "{holder:?} has {count} places of {kind:?}, at most {share_max} of {places_max}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that an honest client of `address` may lose a place that it used `idle` ago.
    ///
    /// # Errors
    ///
    /// Another network has more of them.
    pub(crate) fn check_loss(
        &self,
        kind: PlaceKind,
        address: IpAddr,
        idle: Duration,
    ) -> Result<(), String> {
        let mut networks: BTreeMap<u128, usize> = BTreeMap::new();
        let index = index_of(kind);
        for ((of, holder), count) in &self.held {
            if *of == index
                && let Holder::Address(address) = holder
            {
                *networks.entry(network(address.ip())).or_default() += count;
            }
        }
        let own = ClientAddress::new(address).map(|it| network(it.ip()));
        let has = own.and_then(|own| networks.remove(&own)).unwrap_or(1);
        let heaviest = networks.values().copied().max().unwrap_or_default();
        if heaviest > has {
            return Err(format!(
                "{address}, whose network has {has} places of {kind:?}, lost one that it used \
                 {idle:?} ago, and another network has {heaviest}"
            ));
        }
        Ok(())
    }

    /// Records a call that has its result, or has none yet.
    ///
    /// # Errors
    ///
    /// It takes too long.
    pub(crate) fn check_call(
        &mut self,
        began: Instant,
        is_newcomer: bool,
        now: Instant,
    ) -> Result<(), String> {
        let took = now.since(began);
        self.slowest = self.slowest.max(took);
        let time_max = if is_newcomer { RECOVERY_TIME_MAX } else { CALL_TIME_MAX };
        if took <= time_max {
            return Ok(());
        }
        Err(format!("a call has no result after {took:?}"))
    }
}
