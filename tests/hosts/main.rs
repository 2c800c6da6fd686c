//! Every host runs the same shard the same way: what wakes it, what it runs, how it ends.

mod stage;

use std::future::pending;
use std::time::Duration;

use crossbeam::channel::{bounded, unbounded};

use self::stage::{Kind, Letter, Running, Said, word};

#[test]
fn a_letter_wakes_a_parked_shard() {
    for kind in Kind::all() {
        let running = Running::start(kind);
        for _ in 0..100 {
            running.tell(Letter::Count);
            assert_eq!(running.hear(), Said::Alive(0), "{kind:?}");
        }
        running.end();
    }
}

#[test]
fn a_letter_wakes_a_shard_whose_futures_all_wait() {
    for kind in Kind::all() {
        let running = Running::start(kind);
        running.spawn(pending);
        for _ in 0..100 {
            running.tell(Letter::Count);
            assert_eq!(running.hear(), Said::Alive(1), "{kind:?}");
        }
        running.end();
    }
}

#[test]
fn bytes_arrive_with_and_without_futures_alive() {
    for kind in Kind::all() {
        let mut running = Running::start(kind);
        running.send(b"one");
        assert_eq!(running.hear(), Said::Received(3), "{kind:?}");
        running.spawn(pending);
        for length in 1..100 {
            running.send(&vec![b'x'; length]);
            assert_eq!(running.hear(), Said::Received(length), "{kind:?}");
        }
        running.tell(Letter::Cancel);
        running.send(b"four");
        assert_eq!(running.hear(), Said::Received(4), "{kind:?}");
        running.end();
    }
}

#[test]
fn a_deadline_ends_the_wait_with_and_without_futures_alive() {
    for kind in Kind::all() {
        let running = Running::start(kind);
        running.tell(Letter::Alarm(Duration::from_millis(1)));
        assert_eq!(running.hear(), Said::Alarmed, "{kind:?}");
        running.spawn(pending);
        // A later deadline first: the earlier one must not wait for it.
        running.tell(Letter::Alarm(Duration::from_hours(1)));
        running.tell(Letter::Count);
        assert_eq!(running.hear(), Said::Alive(1), "{kind:?}");
        for _ in 0..10 {
            running.tell(Letter::Alarm(Duration::from_millis(1)));
            assert_eq!(running.hear(), Said::Alarmed, "{kind:?}");
        }
        running.end();
    }
}

#[test]
fn a_future_that_another_thread_wakes_goes_on() {
    for kind in Kind::all() {
        let running = Running::start(kind);
        let (speaker, word) = word();
        let (answer, answers) = unbounded();
        running.spawn(move || async move {
            loop {
                answer.send(word.await_it().await * 2).unwrap();
            }
        });
        for number in 0..100 {
            speaker.speak(number);
            assert_eq!(answers.recv(), Ok(number * 2), "{kind:?}");
        }
        running.end();
    }
}

#[test]
fn a_cancelled_future_is_dropped_on_its_own_thread() {
    for kind in Kind::all() {
        let running = Running::start(kind);
        let (end, ended) = bounded(1);
        running.spawn(move || async move {
            let _witness = Witness(end);
            pending::<()>().await;
        });
        running.tell(Letter::Count);
        assert_eq!(running.hear(), Said::Alive(1), "{kind:?}");
        running.tell(Letter::Cancel);
        assert_eq!(ended.recv().unwrap().as_deref(), Some("stage-0"), "{kind:?}");
        running.end();
    }
}

#[test]
fn futures_that_are_alive_at_the_end_are_dropped_on_their_own_thread() {
    for kind in Kind::all() {
        let running = Running::start(kind);
        let (end, ended) = bounded(1);
        running.spawn(move || async move {
            let _witness = Witness(end);
            pending::<()>().await;
        });
        running.tell(Letter::Count);
        assert_eq!(running.hear(), Said::Alive(1), "{kind:?}");
        running.end();
        assert_eq!(ended.recv().unwrap().as_deref(), Some("stage-0"), "{kind:?}");
    }
}

#[test]
fn a_future_that_panics_takes_nobody_with_it() {
    for kind in Kind::all() {
        let running = Running::start(kind);
        running.spawn(|| async { panic!("on purpose") });
        let (answer, answers) = bounded(1);
        running.spawn(move || async move { answer.send(7).unwrap() });
        assert_eq!(answers.recv(), Ok(7), "{kind:?}");
        running.tell(Letter::Count);
        assert_eq!(running.hear(), Said::Alive(0), "{kind:?}");
        running.end();
    }
}

#[cfg(all(target_os = "linux", feature = "glommio"))]
#[test]
fn a_handler_on_glommio_may_use_its_timers_and_files() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "seven").unwrap();
    for kind in Kind::all() {
        if !matches!(kind, Kind::Glommio | Kind::GlommioHere) {
            continue;
        }
        let running = Running::start(kind);
        let (answer, answers) = bounded(1);
        let path = file.path().to_owned();
        running.spawn(move || async move {
            glommio::timer::Timer::new(Duration::from_millis(1)).await;
            let file = glommio::io::BufferedFile::open(&path).await.unwrap();
            answer.send(file.read_at(0, 64).await.unwrap().to_vec()).unwrap();
            file.close().await.unwrap();
        });
        assert_eq!(answers.recv().unwrap(), b"seven", "{kind:?}");
        running.end();
    }
}

/// Tells on which thread it is dropped.
struct Witness(crossbeam::channel::Sender<Option<String>>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0
            .send(std::thread::current().name().map(str::to_owned))
            .expect("the test waits for the name");
    }
}
