//! The same shard on every executor: wake-ups, futures, deadlines and shutdown.

mod test_shard;

use std::future::pending;
use std::time::Duration;

use crossbeam::channel::{bounded, unbounded};

use self::test_shard::{ExecutorKind, Report, ShardCommand, TestShard, wake_channel};

#[test]
fn message_wakes_parked_shard() {
    for kind in ExecutorKind::all() {
        let running = TestShard::start(kind);
        for _ in 0..100 {
            running.send_command(ShardCommand::CountFutures);
            assert_eq!(running.receive_report(), Report::LiveFutures(0), "{kind:?}");
        }
        running.stop();
    }
}

#[test]
fn message_wakes_shard_with_pending_futures() {
    for kind in ExecutorKind::all() {
        let running = TestShard::start(kind);
        running.spawn(pending);
        for _ in 0..100 {
            running.send_command(ShardCommand::CountFutures);
            assert_eq!(running.receive_report(), Report::LiveFutures(1), "{kind:?}");
        }
        running.stop();
    }
}

#[test]
fn socket_input_is_received_with_and_without_futures() {
    for kind in ExecutorKind::all() {
        let mut running = TestShard::start(kind);
        running.send_bytes(b"one");
        assert_eq!(running.receive_report(), Report::Received(3), "{kind:?}");
        running.spawn(pending);
        for length in 1..100 {
            running.send_bytes(&vec![b'x'; length]);
            assert_eq!(running.receive_report(), Report::Received(length), "{kind:?}");
        }
        running.send_command(ShardCommand::Cancel);
        running.send_bytes(b"four");
        assert_eq!(running.receive_report(), Report::Received(4), "{kind:?}");
        running.stop();
    }
}

#[test]
fn deadline_expires_with_and_without_futures() {
    for kind in ExecutorKind::all() {
        let running = TestShard::start(kind);
        running.send_command(ShardCommand::SetDeadline(Duration::from_millis(1)));
        assert_eq!(running.receive_report(), Report::DeadlineExpired, "{kind:?}");
        running.spawn(pending);
        // The earlier deadline must not wait for a later one set before it.
        running.send_command(ShardCommand::SetDeadline(Duration::from_hours(1)));
        running.send_command(ShardCommand::CountFutures);
        assert_eq!(running.receive_report(), Report::LiveFutures(1), "{kind:?}");
        for _ in 0..10 {
            running.send_command(ShardCommand::SetDeadline(Duration::from_millis(1)));
            assert_eq!(running.receive_report(), Report::DeadlineExpired, "{kind:?}");
        }
        running.stop();
    }
}

#[test]
fn future_resumes_after_wake_by_other_thread() {
    for kind in ExecutorKind::all() {
        let running = TestShard::start(kind);
        let (speaker, word) = wake_channel();
        let (tx, rx) = unbounded();
        running.spawn(move || async move {
            loop {
                tx.send(word.receive().await * 2).unwrap();
            }
        });
        for number in 0..100 {
            speaker.send(number);
            assert_eq!(rx.recv(), Ok(number * 2), "{kind:?}");
        }
        running.stop();
    }
}

#[test]
fn cancelled_future_is_dropped_on_shard_thread() {
    for kind in ExecutorKind::all() {
        let running = TestShard::start(kind);
        let (tx, rx) = bounded(1);
        running.spawn(move || async move {
            let _witness = DropNotifier(tx);
            pending::<()>().await;
        });
        running.send_command(ShardCommand::CountFutures);
        assert_eq!(running.receive_report(), Report::LiveFutures(1), "{kind:?}");
        running.send_command(ShardCommand::Cancel);
        assert_eq!(rx.recv().unwrap().as_deref(), Some("test-shard-0"), "{kind:?}");
        running.stop();
    }
}

#[test]
fn pending_futures_are_dropped_on_shard_thread() {
    for kind in ExecutorKind::all() {
        let running = TestShard::start(kind);
        let (tx, rx) = bounded(1);
        running.spawn(move || async move {
            let _witness = DropNotifier(tx);
            pending::<()>().await;
        });
        running.send_command(ShardCommand::CountFutures);
        assert_eq!(running.receive_report(), Report::LiveFutures(1), "{kind:?}");
        running.stop();
        assert_eq!(rx.recv().unwrap().as_deref(), Some("test-shard-0"), "{kind:?}");
    }
}

#[test]
fn panicking_future_spares_shard_and_other_futures() {
    for kind in ExecutorKind::all() {
        let running = TestShard::start(kind);
        running.spawn(|| async { panic!("on purpose") });
        let (tx, rx) = bounded(1);
        running.spawn(move || async move { tx.send(7).unwrap() });
        assert_eq!(rx.recv(), Ok(7), "{kind:?}");
        running.send_command(ShardCommand::CountFutures);
        assert_eq!(running.receive_report(), Report::LiveFutures(0), "{kind:?}");
        running.stop();
    }
}

#[cfg(all(target_os = "linux", feature = "glommio"))]
#[test]
fn glommio_handler_uses_glommio_timers_and_files() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "seven").unwrap();
    for kind in ExecutorKind::all() {
        if !matches!(kind, ExecutorKind::Glommio | ExecutorKind::GlommioShared) {
            continue;
        }
        let running = TestShard::start(kind);
        let (tx, rx) = bounded(1);
        let path = file.path().to_owned();
        running.spawn(move || async move {
            glommio::timer::Timer::new(Duration::from_millis(1)).await;
            let file = glommio::io::BufferedFile::open(&path).await.unwrap();
            tx.send(file.read_at(0, 64).await.unwrap().to_vec()).unwrap();
            file.close().await.unwrap();
        });
        assert_eq!(rx.recv().unwrap(), b"seven", "{kind:?}");
        running.stop();
    }
}

/// Sends the name of the thread on which it is dropped.
struct DropNotifier(crossbeam::channel::Sender<Option<String>>);

impl Drop for DropNotifier {
    fn drop(&mut self) {
        self.0
            .send(std::thread::current().name().map(str::to_owned))
            .expect("the test waits for the name");
    }
}
