//! One ring for all: nobody takes it for himself.

use std::net::TcpStream;
use std::time::Duration;

use corelane::engine::ring::{Completion, Operation, Patience, Ring, RingOptions, Socket};

use super::bench::{Bench, PATIENCE, dial, pattern, write};

pub(super) fn options() -> RingOptions {
    RingOptions { receive_buffers: 256, ..super::small() }
}

pub(super) fn a_fast_sender_does_not_hide_a_quiet_one<R: Ring>(mut bench: Bench<R>) {
    let (_, address) = bench.listen();
    let (mut fast, fast_socket) = bench.pair(address);
    let (mut quiet, quiet_socket) = bench.pair(address);
    bench.submit(Operation::Receive(fast_socket));
    bench.submit(Operation::Receive(quiet_socket));
    bench.turn(Patience::None);
    let (finished, waiting) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        let piece = pattern(50_000);
        while waiting.try_recv().is_err() {
            write(&mut fast, &piece);
        }
    });
    for _ in 0..20 {
        write(&mut quiet, b"!");
        let mut is_heard = false;
        // The fast one never runs dry, so that only its bound lets the quiet one through.
        for _ in 0..1_000 {
            bench.turn(Patience::For(PATIENCE));
            for told in std::mem::take(&mut bench.told) {
                let Completion::Received { socket, lease } = told else { continue };
                is_heard |= socket == quiet_socket;
                bench.ring.release(lease);
            }
            if is_heard {
                break;
            }
        }
        assert!(is_heard);
    }
    finished.send(()).unwrap();
    while !writer.is_finished() {
        bench.turn(Patience::For(Duration::from_millis(1)));
        for told in std::mem::take(&mut bench.told) {
            if let Completion::Received { lease, .. } = told {
                bench.ring.release(lease);
            }
        }
    }
    writer.join().unwrap();
}

/// Every socket has more to say than all buffers hold; none is left out while others go again and
/// again.
pub(super) fn senders_take_turns_at_the_last_buffers<R: Ring>(mut bench: Bench<R>) {
    let (_, address) = bench.listen();
    let mut pairs: Vec<(TcpStream, Socket)> = (0..6).map(|_| bench.pair(address)).collect();
    for (client, socket) in &mut pairs {
        write(client, &pattern(60_000));
        bench.submit(Operation::Receive(*socket));
    }
    // By socket: what it has left, and the buffers of others since its own.
    let mut lanes = vec![(60_000, 0); pairs.len()];
    while lanes.iter().all(|&(left, _)| left > 0) {
        bench.turn(Patience::For(PATIENCE));
        assert!(!bench.told.is_empty(), "nobody gets the buffers that are free: {lanes:?}");
        for told in std::mem::take(&mut bench.told) {
            let Completion::Received { socket, lease } = told else { continue };
            for ((_, other), (left, waited)) in pairs.iter().zip(&mut lanes) {
                if *other == socket {
                    *left -= lease.length as usize;
                    *waited = 0;
                } else {
                    *waited += 1;
                }
            }
            bench.ring.release(lease);
        }
        // Each may take every buffer, and each may come twice where it arrives just before.
        let waited_max = 2 * 2 * lanes.len();
        assert!(lanes.iter().all(|&(_, waited)| waited <= waited_max), "left out: {lanes:?}");
    }
}

/// Room for a crowd of which more is ready than one look at the kernel tells.
pub(super) fn crowded() -> RingOptions {
    RingOptions { sockets_max: 700, completions_max: 4_096, ..options() }
}

/// Sockets that always have something to say, and connections that want in meanwhile: the number
/// of turns that this takes does not grow with the crowd.
pub(super) fn a_crowd_of_senders_does_not_keep_connections_waiting<R: Ring>(mut bench: Bench<R>) {
    let (_, address) = bench.listen();
    let mut crowd: Vec<(TcpStream, Socket)> = (0..600).map(|_| bench.pair(address)).collect();
    for (client, socket) in &mut crowd {
        write(client, &pattern(20_000));
        bench.submit(Operation::Receive(*socket));
    }
    bench.turn(Patience::None);
    let newcomers = u32::from(crowded().accepts_in_flight);
    let _clients: Vec<TcpStream> = (0..newcomers).map(|_| dial(address)).collect();
    let (mut accepted, mut turns) = (0, 0);
    while accepted < newcomers {
        turns += 1;
        assert!(turns <= 4, "only {accepted} were accepted");
        bench.turn(Patience::For(PATIENCE));
        for told in std::mem::take(&mut bench.told) {
            match told {
                Completion::Accepted { .. } => accepted += 1,
                Completion::Received { lease, .. } => bench.ring.release(lease),
                _ => {}
            }
        }
    }
}
