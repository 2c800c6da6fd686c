//! One ring for all: nobody takes it for himself.

use std::time::Duration;

use corelane::engine::ring::{Completion, Operation, Patience, Ring, RingOptions};

use super::bench::{Bench, PATIENCE, pattern, write};

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
