//! Many seeds, each with troubles of its own: bytes come back whole and in order, or the
//! connection is broken; in the end nothing is out.

use corelane::base::random::Random;
use corelane::engine::ring::Patience;
use corelane::engine::ring::sim::{Client, Fault, Faults, Ledger, World};

use super::echo::{run, shard};
use super::{ADDRESS, small};

/// A client's part of a run.
struct Part {
    client: Client,
    said: Vec<u8>,
    heard: Vec<u8>,
    is_done: bool,
    hangs_up: bool,
}

impl Part {
    fn call(world: &World, random: &mut Random) -> Self {
        let length_max = if random.chance(1, 6) { 40_000 } else { 400 };
        let length = 1 + random.below(length_max);
        let said: Vec<u8> = (0..length).map(|_| random.next_u64().to_le_bytes()[0]).collect();
        let client = world.connect(ADDRESS);
        let mut rest = &said[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(1 + random.below(rest.len()));
            client.write(piece);
            rest = after;
        }
        let hangs_up = random.chance(1, 8);
        if !hangs_up {
            client.finish();
        }
        Self { client, said, heard: Vec::new(), is_done: false, hangs_up }
    }

    /// Looks at what came back; `true` when its part is over.
    fn look(&mut self, random: &mut Random, seed: u64) -> bool {
        if self.is_done {
            return true;
        }
        self.heard.extend(self.client.heard());
        assert!(self.said.starts_with(&self.heard), "seed {seed}: other bytes came back");
        if self.hangs_up && random.chance(1, 4) {
            if random.chance(1, 2) {
                self.client.reset();
            } else {
                self.client.close();
            }
            self.is_done = true;
        } else if self.client.is_reset() {
            self.is_done = true;
        } else if self.client.has_ended() {
            assert_eq!(self.heard.len(), self.said.len(), "seed {seed}: ended before all was back");
            self.is_done = true;
        }
        self.is_done
    }
}

/// Looks at all of them.
fn are_over(parts: &mut [Part], random: &mut Random, seed: u64) -> bool {
    let mut are_over = true;
    for part in parts {
        are_over &= part.look(random, seed);
    }
    are_over
}

/// One run; returns what was seen on the way.
fn play(seed: u64, faults: Option<Faults>) -> (u64, Ledger) {
    let world = match faults {
        Some(faults) => World::with_faults(seed, faults),
        None => World::seeded(seed),
    };
    let mut random = Random::seeded(!seed);
    let mut shard = shard(&world, small());
    let mut parts: Vec<Part> = Vec::new();
    let mut calls_left = 60;
    run(&world, &mut shard, || {
        let is_over = are_over(&mut parts, &mut random, seed);
        while calls_left > 0 && random.chance(2, 3) {
            calls_left -= 1;
            parts.push(Part::call(&world, &mut random));
        }
        calls_left == 0 && is_over
    });
    run(&world, &mut shard, || world.ledger().is_settled());
    (shard.driver().trace, world.ledger())
}

#[test]
fn bytes_come_back_whole_or_the_connection_is_broken() {
    let mut sum = Ledger::default();
    for seed in 0..150 {
        sum = sum.plus(play(seed, None).1);
    }
    // The troubles did happen.
    assert!(sum.accepted > 5_000 && sum.accepts_failed > 100 && sum.starved > 1_000, "{sum:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..10 {
        assert_eq!(play(seed, None), play(seed, None), "seed {seed}");
    }
    assert_ne!(play(1, None).0, play(2, None).0);
}

#[test]
fn each_trouble_alone_is_survived() {
    for fault in Fault::ALL {
        for seed in 0..4 {
            play(seed, Some(Faults::NONE.with(fault)));
        }
    }
}

#[test]
fn all_troubles_together_are_survived() {
    for seed in 0..25 {
        play(seed, Some(Faults::all()));
    }
}

#[test]
fn without_trouble_nobody_is_turned_away() {
    let world = World::with_faults(7, Faults::NONE);
    let mut shard = shard(&world, small());
    let clients: Vec<Client> = (0..20).map(|_| world.connect(ADDRESS)).collect();
    for client in &clients {
        client.write(b"hello");
        client.finish();
    }
    run(&world, &mut shard, || clients.iter().all(Client::has_ended));
    assert!(clients.iter().all(|client| client.heard() == b"hello" && !client.is_reset()));
    assert_eq!(shard.driver().accepts_failed, 0);
}

#[test]
fn two_shards_share_one_address_and_one_time() {
    for seed in 0..40 {
        let world = World::seeded(seed);
        let mut shards = [shard(&world, small()), shard(&world, small())];
        let mut random = Random::seeded(!seed);
        let mut parts: Vec<Part> = Vec::new();
        for _ in 0..30 {
            parts.push(Part::call(&world, &mut random));
        }
        let mut steps = 0;
        loop {
            for shard in &mut shards {
                shard.turn(Patience::Forever);
            }
            let is_over = are_over(&mut parts, &mut random, seed);
            if is_over && world.ledger().is_settled() {
                break;
            }
            if world.is_calm() {
                assert!(world.step(), "seed {seed} is stuck: {:?}", world.ledger());
            }
            steps += 1;
            assert!(steps < 1_000_000, "seed {seed} takes forever");
        }
        let accepted = shards.each_ref().map(|shard| shard.ring().ledger().accepted);
        assert!(accepted.iter().all(|&count| count > 0), "seed {seed}: {accepted:?}");
    }
}
