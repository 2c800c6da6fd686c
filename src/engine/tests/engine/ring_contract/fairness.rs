//! Fairness: no connection takes all buffers, completions or turns.

use std::net::TcpStream;
use std::time::Duration;

use corelane_engine::ring::{Completion, Operation, ParkTimeout, Ring, RingOptions, Socket};

use super::test_ring::{TIMEOUT, TestRing, connect, pattern, write};

pub(super) fn options() -> RingOptions {
    RingOptions { receive_buffers: 256, ..super::small() }
}

pub(super) fn fast_sender_does_not_starve_slow_sender<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    let (mut fast, fast_socket) = bench.connect(address);
    let (mut quiet, quiet_socket) = bench.connect(address);
    bench.submit(Operation::Receive(fast_socket));
    bench.submit(Operation::Receive(quiet_socket));
    bench.turn(ParkTimeout::Zero);
    let (finished, waiting) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        let piece = pattern(50_000);
        while waiting.try_recv().is_err() {
            write(&mut fast, &piece);
        }
    });
    for _ in 0..20 {
        write(&mut quiet, b"!");
        let mut is_received = false;
        // The fast sender never pauses, so only its limit lets the slow one through.
        for _ in 0..1_000 {
            bench.turn(ParkTimeout::After(TIMEOUT));
            for completion in std::mem::take(&mut bench.completions) {
                let Completion::Received { socket, buffer } = completion else { continue };
                is_received |= socket == quiet_socket;
                bench.ring.release(buffer);
            }
            if is_received {
                break;
            }
        }
        assert!(is_received);
    }
    finished.send(()).unwrap();
    while !writer.is_finished() {
        bench.turn(ParkTimeout::After(Duration::from_millis(1)));
        for completion in std::mem::take(&mut bench.completions) {
            if let Completion::Received { buffer, .. } = completion {
                bench.ring.release(buffer);
            }
        }
    }
    writer.join().unwrap();
}

/// Every socket has more pending input than all buffers hold; each must receive regularly.
pub(super) fn last_buffers_are_shared_between_senders<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    let mut pairs: Vec<(TcpStream, Socket)> = (0..6).map(|_| bench.connect(address)).collect();
    for (client, socket) in &mut pairs {
        write(client, &pattern(60_000));
        bench.submit(Operation::Receive(*socket));
    }
    // By socket: its remaining bytes, and buffers of other sockets since its last one.
    let mut senders = vec![(60_000, 0); pairs.len()];
    while senders.iter().all(|&(left, _)| left > 0) {
        bench.turn(ParkTimeout::After(TIMEOUT));
        assert!(!bench.completions.is_empty(), "free buffers are unused: {senders:?}");
        for completion in std::mem::take(&mut bench.completions) {
            let Completion::Received { socket, buffer } = completion else { continue };
            for ((_, other), (left, waited)) in pairs.iter().zip(&mut senders) {
                if *other == socket {
                    *left -= buffer.len as usize;
                    *waited = 0;
                } else {
                    *waited += 1;
                }
            }
            bench.ring.release(buffer);
        }
        // Each may take every buffer, and may come twice if it arrives just before.
        let waited_max = 2 * 2 * senders.len();
        assert!(senders.iter().all(|&(_, waited)| waited <= waited_max), "starved: {senders:?}");
    }
}

/// Sizes for more ready sockets than one poll or completion batch reports.
pub(super) fn for_many_senders() -> RingOptions {
    RingOptions { sockets_max: 700, completions_max: 4_096, ..options() }
}

/// New connections are accepted within a few turns while hundreds of sockets have pending input.
pub(super) fn many_senders_do_not_delay_accepts<R: Ring>(mut bench: TestRing<R>) {
    let (_, address) = bench.listen();
    let mut senders: Vec<(TcpStream, Socket)> = (0..600).map(|_| bench.connect(address)).collect();
    for (client, socket) in &mut senders {
        write(client, &pattern(20_000));
        bench.submit(Operation::Receive(*socket));
    }
    bench.turn(ParkTimeout::Zero);
    let new_connections = u32::from(for_many_senders().accepts_in_flight);
    let _clients: Vec<TcpStream> = (0..new_connections).map(|_| connect(address)).collect();
    let (mut accepted, mut turns) = (0, 0);
    while accepted < new_connections {
        turns += 1;
        assert!(turns <= 4, "only {accepted} were accepted");
        bench.turn(ParkTimeout::After(TIMEOUT));
        for completion in std::mem::take(&mut bench.completions) {
            match completion {
                Completion::Accepted { .. } => accepted += 1,
                Completion::Received { buffer, .. } => bench.ring.release(buffer),
                _ => {}
            }
        }
    }
}
