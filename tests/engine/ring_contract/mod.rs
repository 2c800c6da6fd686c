//! The promises of `Ring`, held against every backend that this machine has.
//!
//! Real sockets on the loopback, ports of the system's choice, plain clients on the test's own
//! thread. Nothing sleeps: a test parks the ring until what it waits for has come, and fails when
//! ten seconds have passed without it.

mod bench;
mod closing;
mod connections;
mod pipes;
mod receiving;
mod sending;
mod sharing;
mod waking;

use std::fs::File;
use std::io;

use corelane::engine::clock::Clock;
use corelane::engine::ring::poll::PollRing;
use corelane::engine::ring::{Ring, RingOptions};

/// Small sizes: limits are met within a test.
fn small() -> RingOptions {
    RingOptions {
        sockets_max: 64,
        submissions_max: 64,
        completions_max: 256,
        receive_buffers: 16,
        receive_buffer_bytes: 1024,
        ..RingOptions::default()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other backends may be missing here")]
fn poll(options: &RingOptions) -> Option<PollRing> {
    let ring = PollRing::new(options, Clock::start());
    Some(ring.expect("every system that we test on has a poller"))
}

#[cfg(target_os = "linux")]
fn uring(options: &RingOptions) -> Option<corelane::engine::ring::uring::UringRing> {
    match corelane::engine::ring::uring::UringRing::new(options, Clock::start()) {
        Ok(ring) => Some(ring),
        Err(error) => {
            // A container without it is no failure of ours; the run says so.
            eprintln!("not tested here: {error}");
            None
        }
    }
}

/// The same with queues that hold next to nothing: completions overflow all the time.
#[cfg(target_os = "linux")]
fn cramped(options: &RingOptions) -> Option<corelane::engine::ring::uring::UringRing> {
    uring(&RingOptions { submissions_max: 1, completions_max: 2, ..*options })
}

/// The same without copies of what is sent: every send completes twice.
#[cfg(target_os = "linux")]
fn uncopied(options: &RingOptions) -> Option<corelane::engine::ring::uring::UringRing> {
    uring(&RingOptions { zero_copy_bytes_min: 1, ..*options })
}

/// Runs each promise against one backend.
macro_rules! promises {
    ($backend:ident: $($room:ident::{$($promise:ident),* $(,)?}),* $(,)?) => {
        mod $backend {
            mod promises {
                $($(
                    #[test]
                    fn $promise() {
                        if let Some(ring) =
                            crate::ring_contract::$backend(&crate::ring_contract::$room::options())
                        {
                            let bench = crate::ring_contract::bench::Bench::new(ring);
                            crate::ring_contract::$room::$promise(bench);
                        }
                    }
                )*)*
            }
        }
    };
}

macro_rules! all_promises {
    ($backend:ident) => {
        promises! { $backend:
            closing::{
                a_closed_listener_refuses_connections,
                a_closed_socket_brings_its_send_and_then_its_end,
                a_dropped_ring_closes_its_sockets,
                a_ring_dropped_in_the_middle_of_everything_ends_it,
                a_name_is_free_again_after_its_end,
                bytes_that_nobody_reaped_are_dropped_by_a_close,
                every_socket_of_a_crowd_is_closed_once,
            },
            connections::{
                a_connection_can_be_opened_from_the_ring,
                a_connection_comes_from_the_address_that_was_named,
                a_connection_is_accepted_with_its_peers_address,
                an_address_that_is_not_ours_fails_its_connection_alone,
                a_full_ring_says_so_and_goes_on_when_a_socket_closes,
                a_refused_connection_is_answered_with_the_reason,
                a_stream_can_be_brought_in_from_outside,
                more_connections_than_one_visit_takes_are_all_accepted,
            },
            pipes::{
                a_pipe_that_was_set_not_to_block_is_waited_for,
                a_file_is_read_to_its_end,
                a_file_is_written,
                a_pipe_is_read_until_its_writer_is_gone,
                a_pipe_is_written_at_the_pace_of_its_reader,
                a_pipe_without_reader_fails_its_send,
                a_socket_pair_serves_as_standard_input_and_output,
                the_null_device_ends_at_once,
            },
            receiving::{
                a_paused_socket_loses_nothing,
                a_reset_is_told_as_a_failure,
                a_socket_receives_nothing_before_it_is_asked_to,
                an_exhausted_set_of_buffers_loses_nothing,
                an_exhausted_set_of_buffers_lets_the_ring_sleep,
                bytes_and_the_end_that_came_together_are_both_told,
                bytes_arrive_whole_and_in_order,
                the_end_of_the_peer_is_told_once_and_sending_goes_on,
                the_padding_behind_a_lease_may_be_written,
                urgent_bytes_do_not_keep_the_ring_awake,
            },
            sending::{
                a_finished_socket_still_receives,
                a_large_send_arrives_whole_at_a_slow_reader,
                a_send_after_the_peer_is_gone_is_answered_with_a_failure,
                a_send_begins_where_it_is_told_to,
                an_empty_send_is_answered,
                a_close_takes_the_send_under_way_and_the_end_behind_it_back,
                finishing_waits_for_the_send_under_way,
                requests_are_echoed_on_many_connections,
            },
            sharing::{a_fast_sender_does_not_hide_a_quiet_one},
            waking::{
                a_wake_before_the_park_ends_it,
                a_wake_from_another_thread_ends_the_park,
                no_patience_comes_back_at_once,
                patience_ends,
                time_does_not_go_back,
            },
        }
    };
}

all_promises!(poll);
#[cfg(target_os = "linux")]
all_promises!(uring);
#[cfg(target_os = "linux")]
all_promises!(cramped);
#[cfg(target_os = "linux")]
all_promises!(uncopied);

#[cfg(target_os = "linux")]
#[test]
fn rings_wake_each_other_by_messages() {
    waking::rings_wake_each_other(|| uring(&small()), Ring::wake);
}

#[cfg(target_os = "linux")]
#[test]
fn rings_wake_each_other_by_messages_whose_queues_hold_next_to_nothing() {
    waking::rings_wake_each_other(|| cramped(&small()), Ring::wake);
}

#[cfg(target_os = "linux")]
#[test]
fn rings_wake_each_other_by_events() {
    // What is left where the kernel has no messages.
    waking::rings_wake_each_other(|| uring(&small()), |_, other| other.wake());
}

#[test]
fn readiness_rings_wake_each_other() {
    waking::rings_wake_each_other(|| poll(&small()), Ring::wake);
}

#[cfg(target_os = "linux")]
#[test]
fn a_ring_that_is_gone_is_woken_in_vain() {
    waking::a_ring_that_is_gone_is_woken_in_vain(|| uring(&small()));
    waking::a_ring_that_is_gone_is_woken_in_vain(|| poll(&small()));
}

#[cfg(target_os = "linux")]
#[test]
fn waking_another_does_not_wake_oneself() {
    if let Some(ring) = uring(&small()) {
        waking::waking_another_does_not_wake_oneself(ring, || uring(&small()));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_completion_queue_that_overflows_says_so() {
    let roomy = uring(&RingOptions { sockets_max: 300, completions_max: 1024, ..small() });
    let cramped = cramped(&RingOptions { sockets_max: 300, ..small() });
    for (ring, overflows) in [(roomy, false), (cramped, true)] {
        let Some(ring) = ring else { return };
        let mut bench = bench::Bench::new(ring);
        let (_, address) = bench.listen();
        let clients: Vec<_> = (0..100).map(|_| bench::dial(address)).collect();
        for _ in &clients {
            bench.await_accepted();
        }
        assert_eq!(bench.ring.shortages().completions > 0, overflows);
    }
}

/// The set of `sharing`, but for two buffers: one sender takes both at once.
fn scarce() -> RingOptions {
    RingOptions { receive_buffers: 2, ..small() }
}

#[test]
fn readiness_serves_a_quiet_sender_where_a_fast_one_takes_every_buffer() {
    let ring = poll(&scarce()).unwrap();
    sharing::a_fast_sender_does_not_hide_a_quiet_one(bench::Bench::new(ring));
}

#[cfg(target_os = "linux")]
#[test]
fn a_ring_serves_a_quiet_sender_where_a_fast_one_takes_every_buffer() {
    let Some(ring) = uring(&scarce()) else { return };
    sharing::a_fast_sender_does_not_hide_a_quiet_one(bench::Bench::new(ring));
}

#[test]
fn readiness_has_senders_take_turns_at_the_last_buffers() {
    let ring = poll(&scarce()).unwrap();
    sharing::senders_take_turns_at_the_last_buffers(bench::Bench::new(ring));
}

#[cfg(target_os = "linux")]
#[test]
fn a_ring_has_senders_take_turns_at_the_last_buffers() {
    let Some(ring) = uring(&scarce()) else { return };
    sharing::senders_take_turns_at_the_last_buffers(bench::Bench::new(ring));
}

#[test]
fn readiness_accepts_while_a_crowd_sends() {
    let ring = poll(&sharing::crowded()).unwrap();
    sharing::a_crowd_of_senders_does_not_keep_connections_waiting(bench::Bench::new(ring));
}

#[cfg(target_os = "linux")]
#[test]
fn a_ring_accepts_while_a_crowd_sends() {
    let Some(ring) = uring(&sharing::crowded()) else { return };
    sharing::a_crowd_of_senders_does_not_keep_connections_waiting(bench::Bench::new(ring));
}

#[test]
fn a_backend_says_what_it_is() {
    let ring = poll(&small()).unwrap();
    assert!(ring.describe().starts_with("poll ("), "{}", ring.describe());
}

/// A file of no name with these bytes, at its beginning.
fn file_with(bytes: &[u8]) -> io::Result<File> {
    use std::io::{Seek, Write};
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
