//! The contract of `Ring`, checked on every backend that this system supports.
//!
//! Sockets are real, on free ports of 127.0.0.1; clients run on the test's thread. No test sleeps:
//! it parks the ring until the expected completion arrives and fails after ten seconds.

mod closing;
mod connections;
mod fairness;
mod pipes;
mod receiving;
mod sending;
mod test_ring;
mod wake_ups;

use std::fs::File;
use std::io;

use corelane_engine::clock::Clock;
use corelane_engine::ring::poll::PollRing;
use corelane_engine::ring::{Ring, RingOptions};

/// Small sizes, so that tests reach the limits.
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

#[expect(clippy::unnecessary_wraps, reason = "other backends may be unavailable")]
fn poll(options: &RingOptions) -> Option<PollRing> {
    let ring = PollRing::new(options, Clock::start());
    Some(ring.expect("poll ring is available on every system"))
}

#[cfg(target_os = "linux")]
fn uring(options: &RingOptions) -> Option<corelane_engine::ring::uring::UringRing> {
    match corelane_engine::ring::uring::UringRing::new(options, Clock::start()) {
        Ok(ring) => Some(ring),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// An `io_uring` with minimal queues: completions overflow constantly.
#[cfg(target_os = "linux")]
fn cramped(options: &RingOptions) -> Option<corelane_engine::ring::uring::UringRing> {
    uring(&RingOptions { submissions_max: 1, completions_max: 2, ..*options })
}

/// An `io_uring` with zero-copy sends of any size: every send completes twice.
#[cfg(target_os = "linux")]
fn uncopied(options: &RingOptions) -> Option<corelane_engine::ring::uring::UringRing> {
    uring(&RingOptions { zero_copy_bytes_min: 1, ..*options })
}

/// Defines a test of each contract function for one backend.
macro_rules! backend_tests {
    ($backend:ident: $($module:ident::{$($test:ident),* $(,)?}),* $(,)?) => {
        mod $backend {
            mod contract {
                $($(
                    #[test]
                    fn $test() {
                        let options = crate::ring_contract::$module::options();
                        if let Some(ring) = crate::ring_contract::$backend(&options) {
                            let test_ring = crate::ring_contract::test_ring::TestRing::new(ring);
                            crate::ring_contract::$module::$test(test_ring);
                        }
                    }
                )*)*
            }
        }
    };
}

macro_rules! contract_tests {
    ($backend:ident) => {
        backend_tests! { $backend:
            closing::{
                closed_listener_refuses_connections,
                close_completes_send_before_closed,
                dropped_ring_closes_its_sockets,
                ring_dropped_with_operations_in_flight_closes_all,
                socket_number_is_reusable_after_close,
                close_drops_unreaped_bytes,
                many_sockets_are_each_closed_once,
                socket_with_unacknowledged_send_is_closed_once,
                reset_with_unread_output_fails_reads_of_peer,
                reset_of_idle_connection_fails_reads_of_peer,
            },
            connections::{
                connect_opens_connection,
                connect_uses_given_source_address,
                accept_reports_peer_address,
                foreign_source_address_fails_only_its_connect,
                full_ring_reports_failure_and_accepts_after_close,
                refused_connect_reports_error,
                connected_stream_can_be_registered,
                registered_name_waits_until_close_is_handled,
                connections_beyond_one_batch_are_all_accepted,
            },
            pipes::{
                nonblocking_pipe_is_waited_for,
                file_is_read_to_end,
                file_is_written_in_order,
                pipe_is_read_until_writer_closes,
                pipe_write_waits_for_slow_reader,
                send_to_pipe_without_reader_fails,
                socket_pair_serves_as_standard_streams,
                null_device_ends_immediately,
            },
            receiving::{
                stopped_receive_loses_no_bytes,
                reset_is_reported_as_error,
                bytes_wait_for_first_receive,
                exhausted_receive_buffers_lose_no_bytes,
                exhausted_receive_buffers_do_not_spin_the_ring,
                bytes_arriving_with_end_of_stream_are_received,
                bytes_arrive_complete_and_in_order,
                end_of_stream_is_reported_once_and_sends_continue,
                padding_behind_received_bytes_is_writable,
                urgent_data_does_not_spin_the_ring,
            },
            sending::{
                shutdown_write_keeps_receiving,
                large_send_completes_with_slow_reader,
                send_after_peer_reset_fails,
                send_starts_at_given_offset,
                empty_send_completes_with_zero,
                close_cancels_send_and_pending_shutdown,
                shutdown_write_waits_for_send_in_flight,
                requests_are_echoed_on_many_connections,
            },
            fairness::{fast_sender_does_not_starve_slow_sender},
            wake_ups::{
                wake_before_park_ends_it,
                wake_from_other_thread_ends_park,
                park_without_timeout_returns_immediately,
                park_ends_after_its_timeout,
                time_never_goes_back,
            },
        }
    };
}

contract_tests!(poll);
#[cfg(target_os = "linux")]
contract_tests!(uring);
#[cfg(target_os = "linux")]
contract_tests!(cramped);
#[cfg(target_os = "linux")]
contract_tests!(uncopied);

#[cfg(target_os = "linux")]
#[test]
fn uring_rings_wake_each_other_by_messages() {
    wake_ups::rings_wake_each_other(|| uring(&small()), Ring::wake);
}

#[cfg(target_os = "linux")]
#[test]
fn rings_wake_each_other_with_full_queues() {
    wake_ups::rings_wake_each_other(|| cramped(&small()), Ring::wake);
}

#[cfg(target_os = "linux")]
#[test]
fn uring_rings_wake_each_other_by_eventfd() {
    // The fallback where the kernel does not support `IORING_OP_MSG_RING`.
    wake_ups::rings_wake_each_other(|| uring(&small()), |_, other| other.wake());
}

#[test]
fn poll_rings_wake_each_other() {
    wake_ups::rings_wake_each_other(|| poll(&small()), Ring::wake);
}

#[cfg(target_os = "linux")]
#[test]
fn waking_dropped_ring_has_no_effect() {
    wake_ups::wake_dropped_ring(|| uring(&small()));
    wake_ups::wake_dropped_ring(|| poll(&small()));
}

#[cfg(target_os = "linux")]
#[test]
fn waking_another_ring_does_not_end_park() {
    if let Some(ring) = uring(&small()) {
        wake_ups::wake_other_ring_without_ending_own_park(ring, || uring(&small()));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn completion_queue_overflow_is_counted() {
    let roomy = uring(&RingOptions { sockets_max: 300, completions_max: 1024, ..small() });
    let cramped = cramped(&RingOptions { sockets_max: 300, ..small() });
    for (ring, overflows) in [(roomy, false), (cramped, true)] {
        let Some(ring) = ring else { return };
        let mut bench = test_ring::TestRing::new(ring);
        let (_, address) = bench.listen();
        let clients: Vec<_> = (0..100).map(|_| test_ring::connect(address)).collect();
        for _ in &clients {
            bench.await_accepted();
        }
        assert_eq!(bench.ring.exhaustion().completions > 0, overflows);
    }
}

/// Two receive buffers: one fast sender can occupy both.
fn with_two_buffers() -> RingOptions {
    RingOptions { receive_buffers: 2, ..small() }
}

#[test]
fn poll_ring_serves_slow_sender_with_two_buffers() {
    let ring = poll(&with_two_buffers()).unwrap();
    fairness::fast_sender_does_not_starve_slow_sender(test_ring::TestRing::new(ring));
}

#[cfg(target_os = "linux")]
#[test]
fn uring_serves_slow_sender_with_two_buffers() {
    let Some(ring) = uring(&with_two_buffers()) else { return };
    fairness::fast_sender_does_not_starve_slow_sender(test_ring::TestRing::new(ring));
}

#[test]
fn poll_ring_shares_last_buffers_between_senders() {
    let ring = poll(&with_two_buffers()).unwrap();
    fairness::last_buffers_are_shared_between_senders(test_ring::TestRing::new(ring));
}

#[cfg(target_os = "linux")]
#[test]
fn uring_shares_last_buffers_between_senders() {
    let Some(ring) = uring(&with_two_buffers()) else { return };
    fairness::last_buffers_are_shared_between_senders(test_ring::TestRing::new(ring));
}

#[test]
fn poll_ring_accepts_under_load_of_senders() {
    let ring = poll(&fairness::for_many_senders()).unwrap();
    fairness::many_senders_do_not_delay_accepts(test_ring::TestRing::new(ring));
}

#[cfg(target_os = "linux")]
#[test]
fn uring_accepts_under_load_of_senders() {
    let Some(ring) = uring(&fairness::for_many_senders()) else { return };
    fairness::many_senders_do_not_delay_accepts(test_ring::TestRing::new(ring));
}

#[test]
fn poll_ring_describes_itself() {
    let ring = poll(&small()).unwrap();
    assert!(ring.describe().starts_with("poll ("), "{}", ring.describe());
}

/// Creates a temporary file with `bytes`, positioned at its start.
fn file_with(bytes: &[u8]) -> io::Result<File> {
    use std::io::{Seek, Write};
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

#[test]
fn large_send_over_poll_gives_way() {
    let ring = poll(&sending::options()).unwrap();
    sending::large_send_gives_way_to_others(test_ring::TestRing::new(ring));
}

#[cfg(target_os = "linux")]
#[test]
fn large_send_over_uring_gives_way() {
    let Some(ring) = uring(&sending::options()) else { return };
    sending::large_send_gives_way_to_others(test_ring::TestRing::new(ring));
}
