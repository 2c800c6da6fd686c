//! Tasks of a program on an I/O thread.

use std::rc::Rc;

use corelane::client::{ClientErrorKind, IoThread};
use corelane::testing::block_on;
use corelane_test_support::{TestServer, tcp_options};
use serde_json::json;

use super::client_of;

/// More than the inbox of an I/O thread holds.
const CALLS: usize = 5_000;

#[test]
fn io_thread_task_makes_calls_beyond_its_inbox() {
    let server = TestServer::start(tcp_options());
    let thread = IoThread::start().unwrap();
    let client = client_of(&server).io_thread(&thread).connect_blocking().unwrap();
    let task = move || async move {
        let mut calls = Vec::new();
        for number in 0..CALLS {
            let arguments = json!({ "message": number.to_string() });
            let call = client.call_tool("echo", &arguments);
            calls.push((number, call.into_future()));
        }
        for (number, call) in calls {
            assert_eq!(call.await.unwrap().text(), number.to_string());
        }
        CALLS
    };
    assert_eq!(block_on(thread.spawn(task).unwrap()).unwrap(), CALLS);
}

#[test]
fn panic_ends_only_its_io_task() {
    let thread = IoThread::start().unwrap();
    let panicked = thread.spawn(|| async {
        // Not `Send`.
        let shared = Rc::new(());
        std::future::ready(()).await;
        assert_eq!(Rc::strong_count(&shared), 2, "a test");
    });
    let error = block_on(panicked.unwrap()).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Closed);
    assert_eq!(block_on(thread.spawn(|| async { 7 }).unwrap()).unwrap(), 7);
}

#[test]
fn io_thread_task_ends_its_own_client() {
    let server = TestServer::start(tcp_options());
    let thread = IoThread::start().unwrap();
    let client = client_of(&server).io_thread(&thread).connect_blocking().unwrap();
    let task = thread.spawn(move || async move {
        let first = client.call_tool("echo", &json!({ "message": "a" })).await.unwrap();
        client.close().await;
        first.text()
    });
    drop(thread);
    assert_eq!(block_on(task.unwrap()).unwrap(), "a");
}
