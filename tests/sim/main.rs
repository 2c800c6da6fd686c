//! The real server over simulated rings: many seeds, many faults, every answer checked.
//!
//! A seed decides everything: sizes, faults, clients, the order in which shards turn. A run that
//! fails names its seed; `CORELANE_SEED=7 cargo test --test sim CHAPTER` runs that one alone, and
//! `CORELANE_SEED=0..9000` as many as there is time for.
//! The mesh, whose lanes carry more than a server says today, has runs of its own.

#[expect(dead_code, reason = "others count allocations")]
#[path = "../alloc/counting.rs"]
mod counting;

#[path = "../support/damage.rs"]
mod damage;

mod tally;

mod world;

mod talk;

mod mesh;

mod frames;

mod meeting;

mod web;

mod upgraded;

mod seeds;

use crate::meeting::gathering;
use crate::mesh::courier;
use crate::seeds::{survey, survey_gatherings, survey_mesh};
use crate::talk::scenario::{Chapter, Scenario};

#[test]
fn a_calm_server_answers_everything_once_and_in_order() {
    survey(Chapter::Calm, 0..100);
}

#[test]
fn a_drained_server_answers_what_it_has_read() {
    survey(Chapter::Drained, 0..80);
}

#[test]
fn a_server_whose_time_jumps_answers_everything_once_or_too_late() {
    survey(Chapter::Jumped, 0..80);
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
fn clients_that_vanish_in_the_middle_of_everything_leave_nothing_behind() {
    survey_gatherings(0..240);
}

#[test]
fn sessions_and_streams_over_http_outlive_connections_and_mix_with_no_other() {
    web::seeds::survey(0..200);
}

#[test]
fn clients_of_websocket_hear_whole_frames_and_one_close_frame_and_leave_nothing_behind() {
    upgraded::seeds::survey(0..120);
}

#[test]
fn letters_between_shards_come_once_and_in_the_order_of_their_lane() {
    survey_mesh(0..400);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for chapter in Chapter::ALL {
        let run = || talk::stage::run(&Scenario::draw(chapter, 1));
        assert_eq!(run(), run(), "{chapter:?}");
    }
    assert_eq!(courier::run(1), courier::run(1));
    let plan = gathering::Plan::draw(1);
    assert_eq!(gathering::run(&plan), gathering::run(&plan));
    let plan = upgraded::plan::draw(1);
    assert_eq!(gathering::run(&plan), gathering::run(&plan));
    let plan = web::Plan::draw(1);
    assert_eq!(web::run(&plan), web::run(&plan));
}
