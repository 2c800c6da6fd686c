//! The real server over simulated rings: many seeds, many faults, every answer checked.
//!
//! A seed decides everything: sizes, faults, clients, the order in which shards turn. A run that
//! fails names its seed; `CORELANE_SEED=7 cargo test --test sim CHAPTER` runs that one alone.

mod tally;

mod answer;

mod message;

mod conversation;

mod speaker;

mod dialogue;

mod scenario;

mod watched;

mod wire;

mod client;

mod lane;

mod stage;

mod seeds;

mod canaries;

mod scenes;

use crate::scenario::{Chapter, Scenario};
use crate::seeds::survey;

#[test]
fn a_calm_server_answers_everything_once_and_in_order() {
    survey(Chapter::Calm, 0..100);
}

#[test]
fn a_drained_server_answers_what_it_has_read() {
    survey(Chapter::Drained, 0..80);
}

#[test]
fn a_piped_server_answers_everything_and_ends_with_its_input() {
    survey(Chapter::Piped, 0..60);
}

#[test]
fn a_tight_server_keeps_to_its_limits_and_loses_nothing() {
    survey(Chapter::Tight, 0..100);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for chapter in Chapter::ALL {
        let run = || stage::run(&Scenario::draw(chapter, 1));
        assert_eq!(run(), run(), "{chapter:?}");
    }
}
