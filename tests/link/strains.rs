//! Peers of frames that do not read: not read either, for a time that ends.

use std::time::Duration;

use corelane::engine::ring::Socket;
use corelane::link::Ending;

use crate::peer::{self, beginning, close, ending, ping, pong, text};
use crate::stage::{Manner, Stage};

const A: Socket = Socket(3);
const UNDRAINED: &str = "close 1011 what was sent is not being read";

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Frames of ten bytes, as their echo has them.
fn words(count: usize) -> (Vec<u8>, Vec<String>) {
    let words: Vec<String> = (0..count).map(|number| format!("word{number:04}")).collect();
    (words.iter().flat_map(|word| text(word)).collect(), words)
}

#[test]
fn a_peer_that_does_not_read_is_not_read_and_goes_on_where_it_stood() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    let (said, words) = words(8);
    stage.arrive(A, &said);
    // Forty bytes may wait, and the answer that passed the bound.
    assert_eq!(stage.heard, words[..5]);
    assert!(!stage.ring.receiving.contains(&A));
    assert_eq!(stage.link.statistics.paused, 1);
    // Neither is it answered what was on its way.
    stage.arrive(A, &ping("p"));
    stage.flush();
    stage.sent(A, &Ok(20));
    stage.wait(milliseconds(499));
    assert_eq!(stage.heard.len(), 5, "thirty bytes still wait");
    stage.sent(A, &Ok(10));
    stage.sent(A, &Ok(20));
    assert_eq!(stage.heard, words, "half of it has gone: the rest is carried");
    assert!(stage.ring.receiving.contains(&A));
    let mut read = stage.drain_frames(A);
    assert_eq!(read.pop().unwrap(), "pong p");
    assert_eq!(read, words[5..]);
    stage.wait(milliseconds(2_000));
    assert!(stage.ring.closing.is_empty() && stage.drain_frames(A).is_empty());
}

#[test]
fn one_that_has_not_drained_to_half_in_time_is_closed() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    let (said, words) = words(9);
    stage.arrive(A, &said);
    stage.flush();
    stage.sent(A, &Ok(25));
    stage.wait(milliseconds(499));
    assert!(stage.link.statistics.frames.undrained == 0);
    stage.wait(milliseconds(1));
    assert_eq!(stage.link.statistics.frames.undrained, 1);
    // It begins to read after all: what was on its way, then why.
    let rest = stage.drain_bytes(A);
    assert_eq!(peer::frames(&rest[5..]), [&words[3], &words[4], UNDRAINED]);
    stage.arrive(A, &close(Some(1011)));
    stage.flush();
    stage.closed(A);
    assert_eq!(stage.ended, [("http", Ending::Fault)]);
    assert_eq!(stage.heard.len(), 5);
}

#[test]
fn one_from_which_the_kernel_takes_nothing_is_cut() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open_frames(A);
    stage.arrive(A, &words(9).0);
    stage.flush();
    stage.say(key, "this one waits behind the send and would only cost memory");
    stage.flush();
    stage.wait(milliseconds(500));
    assert!(stage.weight() < 110, "{}", stage.weight());
    stage.flush();
    assert!(stage.link.outgoing(key).is_none());
    stage.wait(milliseconds(999));
    assert!(stage.ring.closing.is_empty());
    stage.wait(milliseconds(1));
    stage.sent(A, &Err(std::io::Error::from_raw_os_error(125)));
    stage.closed(A);
    assert_eq!(stage.ended, [("http", Ending::Fault)]);
    assert_eq!((stage.weight(), stage.link.deadline().is_none()), (0, false));
}

#[test]
fn answers_that_come_later_strain_a_peer_that_says_nothing_more() {
    let mut stage = Stage::new(Manner::Owe);
    let key = stage.open_frames(A);
    stage.arrive(A, &words(8).0);
    stage.repay(key, "an answer that the kernel does not take");
    stage.flush();
    for number in 0..7 {
        stage.repay(key, &format!("word{number:04}"));
        stage.flush();
    }
    assert_eq!(stage.link.statistics.paused, 1);
    assert!(!stage.ring.receiving.contains(&A));
    stage.wait(milliseconds(1_500));
    assert_eq!(stage.link.statistics.frames.undrained, 1);
}

#[test]
fn one_long_answer_has_the_time_that_its_length_takes() {
    let mut stage = Stage::new(Manner::Owe);
    let key = stage.open_frames(A);
    stage.arrive(A, &text("read it all"));
    stage.repay(key, &"x".repeat(165));
    stage.flush();
    // Four times the bound and a bit: it is under way and nothing is wrong with it.
    stage.wait(milliseconds(1_000));
    stage.arrive(A, &text("are you there?"));
    stage.wait(milliseconds(1_999));
    assert_eq!(stage.link.statistics.frames.undrained, 0);
    stage.wait(milliseconds(1));
    assert_eq!(stage.link.statistics.frames.undrained, 1);
}

#[test]
fn a_pause_is_nobodys_silence_and_takes_nothing_from_half_a_message() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    stage.arrive(A, &beginning("half "));
    stage.wait(milliseconds(2_900));
    let pings: Vec<u8> = (0..10).flat_map(|_| ping("1234")).collect();
    for _ in 0..4 {
        stage.arrive(A, &pings);
        assert!(!stage.ring.receiving.contains(&A));
        stage.flush();
        stage.wait(milliseconds(490));
        stage.drain_bytes(A);
        assert!(stage.ring.receiving.contains(&A));
    }
    stage.wait(milliseconds(1_000));
    stage.arrive(A, &ending("whole"));
    assert_eq!(stage.drain_frames(A), ["half whole"]);
    let counts = stage.link.statistics.frames;
    assert_eq!((counts.pings_out, counts.pings_in, counts.unfinished), (0, 40, 0));
}

#[test]
fn one_that_reads_slowly_enough_is_waited_for_with_half_a_message() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    stage.arrive(A, &[beginning("half "), ping("1234").repeat(10)].concat());
    stage.flush();
    // Less than half of the bound is left of the send, which is not over.
    stage.sent(A, &Ok(35));
    for _ in 0..9 {
        stage.wait(milliseconds(1_000));
        stage.flush();
    }
    stage.sent_bytes(A);
    stage.arrive(A, &ending("whole"));
    assert!(stage.drain_bytes(A).ends_with(b"half whole"));
    let counts = stage.link.statistics.frames;
    assert_eq!((counts.closes_out, counts.pings_out), (0, 0));
}

#[test]
fn a_strain_that_is_over_is_forgotten_and_the_next_has_its_own_time() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    for _ in 0..20 {
        stage.arrive(A, &words(6).0);
        stage.flush();
        stage.wait(milliseconds(450));
        stage.drain_bytes(A);
        stage.arrive(A, &pong());
    }
    assert_eq!(stage.link.statistics.paused, 20);
    assert_eq!(stage.link.statistics.frames.undrained, 0);
    assert_eq!(stage.weight(), 0);
}

#[test]
fn one_that_does_not_read_while_it_is_to_go_is_closed_for_that_alone() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open_frames(A);
    let (said, words) = words(9);
    stage.arrive(A, &said);
    stage.flush();
    let now = stage.now;
    stage.link.finish(&mut stage.ring, key, Ending::Drain, now);
    stage.wait(milliseconds(500));
    assert_eq!(stage.link.statistics.frames.undrained, 1);
    assert_eq!(stage.drain_frames(A).last().map(String::as_str), Some(UNDRAINED));
    stage.arrive(A, &close(Some(1011)));
    stage.flush();
    stage.closed(A);
    assert_eq!(stage.ended, [("http", Ending::Fault)]);
    assert_eq!(stage.heard, words[..5]);
}
