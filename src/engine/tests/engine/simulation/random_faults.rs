//! Many seeds with injected faults: all bytes are echoed in order or the connection breaks, and
//! nothing leaks.

use corelane_base::random::Random;
use corelane_engine::ring::ParkTimeout;
use corelane_engine::ring::sim::{Client, Fault, Faults, ResourceUsage, World};

use super::echo_driver::{run_shard, shard};
use super::{ADDRESS, small_ring};

/// One client of a run.
struct EchoClient {
    client: Client,
    sent: Vec<u8>,
    received: Vec<u8>,
    is_done: bool,
    closes_early: bool,
}

impl EchoClient {
    fn connect(world: &World, random: &mut Random) -> Self {
        let length_max = if random.chance(1, 6) { 40_000 } else { 400 };
        let length = 1 + random.below(length_max);
        let sent: Vec<u8> = (0..length).map(|_| random.next_u64().to_le_bytes()[0]).collect();
        let client = world.connect(ADDRESS);
        let mut rest = &sent[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(1 + random.below(rest.len()));
            client.write(piece);
            rest = after;
        }
        let closes_early = random.chance(1, 8);
        if !closes_early {
            client.shutdown_write();
        }
        Self { client, sent, received: Vec::new(), is_done: false, closes_early }
    }

    /// Checks the received bytes; returns `true` when the client has finished.
    fn check(&mut self, random: &mut Random, seed: u64) -> bool {
        if self.is_done {
            return true;
        }
        self.received.extend(self.client.take_received());
        assert!(self.sent.starts_with(&self.received), "seed {seed}: echoed bytes differ");
        if self.closes_early && random.chance(1, 4) {
            if random.chance(1, 2) {
                self.client.reset();
            } else {
                self.client.close();
            }
            self.is_done = true;
        } else if self.client.is_reset() {
            self.is_done = true;
        } else if self.client.is_at_end() {
            assert_eq!(self.received.len(), self.sent.len(), "seed {seed}: early end of stream");
            self.is_done = true;
        }
        self.is_done
    }
}

/// Advances all clients; returns whether all have finished.
fn have_finished(parts: &mut [EchoClient], random: &mut Random, seed: u64) -> bool {
    let mut are_over = true;
    for part in parts {
        are_over &= part.check(random, seed);
    }
    are_over
}

/// Runs one seed; returns the trace and the event counts.
fn run_seed(seed: u64, faults: Option<Faults>) -> (u64, ResourceUsage) {
    let world = match faults {
        Some(faults) => World::with_faults(seed, faults),
        None => World::seeded(seed),
    };
    let mut random = Random::seeded(!seed);
    let mut shard = shard(&world, small_ring());
    let mut parts: Vec<EchoClient> = Vec::new();
    let mut calls_left = 60;
    run_shard(&world, &mut shard, || {
        let is_over = have_finished(&mut parts, &mut random, seed);
        while calls_left > 0 && random.chance(2, 3) {
            calls_left -= 1;
            parts.push(EchoClient::connect(&world, &mut random));
        }
        calls_left == 0 && is_over
    });
    run_shard(&world, &mut shard, || world.resource_usage().is_idle());
    (shard.driver().trace, world.resource_usage())
}

#[test]
fn faults_break_connections_but_never_bytes() {
    let mut sum = ResourceUsage::default();
    for seed in 0..150 {
        sum = sum.plus(run_seed(seed, None).1);
    }
    // The faults did occur.
    assert!(
        sum.accepted > 5_000 && sum.accepts_failed > 100 && sum.buffer_exhaustions > 1_000,
        "{sum:?}"
    );
}

#[test]
fn same_seed_gives_same_run() {
    for seed in 0..10 {
        assert_eq!(run_seed(seed, None), run_seed(seed, None), "seed {seed}");
    }
    assert_ne!(run_seed(1, None).0, run_seed(2, None).0);
}

#[test]
fn each_fault_alone_is_survived() {
    for fault in Fault::ALL {
        for seed in 0..4 {
            run_seed(seed, Some(Faults::NONE.with(fault)));
        }
    }
}

#[test]
fn all_faults_together_are_survived() {
    for seed in 0..25 {
        run_seed(seed, Some(Faults::all()));
    }
}

#[test]
fn run_without_faults_refuses_no_connection() {
    let world = World::with_faults(7, Faults::NONE);
    let mut shard = shard(&world, small_ring());
    let clients: Vec<Client> = (0..20).map(|_| world.connect(ADDRESS)).collect();
    for client in &clients {
        client.write(b"hello");
        client.shutdown_write();
    }
    run_shard(&world, &mut shard, || clients.iter().all(Client::is_at_end));
    assert!(clients.iter().all(|client| client.take_received() == b"hello" && !client.is_reset()));
    assert_eq!(shard.driver().accepts_failed, 0);
}

#[test]
fn two_shards_share_address_and_clock() {
    for seed in 0..40 {
        let world = World::seeded(seed);
        let mut shards = [shard(&world, small_ring()), shard(&world, small_ring())];
        let mut random = Random::seeded(!seed);
        let mut parts: Vec<EchoClient> = Vec::new();
        for _ in 0..30 {
            parts.push(EchoClient::connect(&world, &mut random));
        }
        let mut steps = 0;
        loop {
            for shard in &mut shards {
                shard.run_turn(ParkTimeout::Infinite);
            }
            let is_over = have_finished(&mut parts, &mut random, seed);
            if is_over && world.resource_usage().is_idle() {
                break;
            }
            if world.is_idle() {
                assert!(world.advance(), "seed {seed} is deadlocked: {:?}", world.resource_usage());
            }
            steps += 1;
            assert!(steps < 1_000_000, "seed {seed} does not end");
        }
        let accepted = shards.each_ref().map(|shard| shard.ring().resource_usage().accepted);
        assert!(accepted.iter().all(|&count| count > 0), "seed {seed}: {accepted:?}");
    }
}
