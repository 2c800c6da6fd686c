//! Counters of a running server.

use corelane::{Catalog, Counters, Handle, NoArguments, Options, Tool};
use corelane_protocol::model::Implementation;
use corelane_test_support::{TestServer, tcp_options};

use crate::accounting::tool_calls::{call_tool, start_server, tool_call};

/// Reads of the counters before a test fails; each waits for up to 500 µs.
const READS_MAX: usize = 50_000;

fn echo() -> Tool {
    Tool::new("echo").inline_writer(|_: NoArguments, response, _| {
        response.text("hello");
        Ok(())
    })
}

fn two_shards() -> Options {
    let mut options = tcp_options();
    options.engine.shards = Some(2);
    options
}

/// Reads the counters of a running server until `matches` accepts them: a shard that the machine
/// delays replies to a later call.
fn wait_for_counters(handle: &Handle, matches: impl Fn(&Counters) -> bool) -> Counters {
    let mut counters = (0..READS_MAX).map(|_| handle.counters());
    counters.find(matches).expect("the counters reach the expected values")
}

#[test]
fn running_server_counts_calls_of_all_shards() {
    let server = start_server(two_shards(), [echo()]);
    let handle = server.handle();
    assert_eq!(handle.counters().requests.tools_call, 0);
    let mut clients: Vec<_> = (0..8).map(|_| server.connect_tcp()).collect();
    for calls in 1..=3 {
        for client in &mut clients {
            call_tool(client, "echo");
        }
        let counters = wait_for_counters(&handle, |it| it.requests.tools_call == 8 * calls);
        assert_eq!((counters.connections.accepted, counters.connections.open()), (8, 8));
        assert_eq!(counters.traffic.messages_in, 8 * calls);
    }
}

#[test]
fn ended_server_returns_its_final_counters() {
    let server = start_server(two_shards(), [echo()]);
    let handle = server.handle();
    call_tool(&mut server.connect_tcp(), "echo");
    let joined = server.close();
    assert_eq!(handle.counters(), joined);
}

#[test]
fn busy_shard_does_not_delay_counters() {
    let server = TestServer::with_gate(tcp_options(), |gate| {
        let gate = gate.clone();
        let block = Tool::new("block").inline_writer(move |_: NoArguments, response, _| {
            gate.signal("blocked");
            gate.block_shard();
            response.text("done");
            Ok(())
        });
        let catalog = Catalog::builder(Implementation::new("accounting", "1"));
        catalog.tools([echo(), block]).build().unwrap()
    });
    let handle = server.handle();
    let mut client = server.connect_tcp();
    call_tool(&mut client, "echo");
    let before = wait_for_counters(&handle, |it| it.requests.tools_call == 1);
    client.send(tool_call("block"));
    assert_eq!(server.next_signal(), "blocked");
    // The shard does not reply before the gate opens, so this returns its last counters.
    assert_eq!(handle.counters().requests, before.requests);
    server.open_gate();
    assert_eq!(client.receive()["id"], "block");
    wait_for_counters(&handle, |it| it.requests.tools_call == 2);
}
