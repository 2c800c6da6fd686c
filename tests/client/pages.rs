//! Lists, page by page.

use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use corelane::Client;
use corelane::client::{ClientErrorKind, Pages, ToolInfo};
use corelane::testing::block_on;
use corelane_test_support::LineClient;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::http_peer::{HttpPeer, text_result};
use super::{discover_result, response};

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

/// A server that answers with these pages, in order, and then with none.
fn serve(pages: Vec<Value>) -> (Client, JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("it succeeds");
    let target = format!("tcp://{}", listener.local_addr().expect("it succeeds"));
    let peer = thread::spawn(move || {
        let mut peer = LineClient::accept(&listener);
        let discover = peer.receive();
        peer.send(discover_result(&discover));
        let mut requests = Vec::new();
        for page in pages {
            let list = peer.receive();
            peer.send(response(&list, &page));
            requests.push(list["params"]["cursor"].clone());
        }
        peer.receive_rest();
        requests
    });
    (Client::builder(target.as_str()).connect_blocking().expect("it succeeds"), peer)
}

fn names(pages: &mut Pages<ToolInfo>) -> Vec<String> {
    let page = pages.wait_next().expect("a page").expect("a result");
    page.items.into_iter().map(|tool| tool.name).collect()
}

#[test]
fn pages_of_list_are_a_stream() {
    let (client, peer) = serve(vec![
        json!({ "tools": [tool("a"), tool("b")], "nextCursor": "2" }),
        json!({ "tools": [tool("c")] }),
    ]);
    let pages = client.pages::<ToolInfo>();
    let pages = block_on(pages.map(|page| page.unwrap().items.len()).collect::<Vec<_>>());
    assert_eq!(pages, [2, 1]);
    drop(client);
    assert_eq!(peer.join().unwrap(), [json!(null), json!("2")]);
}

#[test]
fn pages_of_list_are_read_one_by_one() {
    let (client, peer) = serve(vec![
        json!({ "tools": [tool("a"), tool("b")], "nextCursor": "" }),
        json!({ "tools": [], "nextCursor": "2" }),
        json!({ "tools": [tool("c")] }),
    ]);
    let mut pages = client.pages::<ToolInfo>();
    assert_eq!(names(&mut pages), ["a", "b"]);
    assert!(names(&mut pages).is_empty());
    assert_eq!(names(&mut pages), ["c"]);
    assert!(pages.wait_next().is_none());
    assert!(block_on(pages.next()).is_none());
    drop((client, pages));
    assert_eq!(peer.join().unwrap(), [json!(null), json!(""), json!("2")]);
}

#[test]
fn failed_page_is_requested_again() {
    let (client, peer) = serve(vec![
        json!({ "tools": [tool("a")], "nextCursor": "2" }),
        json!({ "tools": 7 }),
        json!({ "tools": [tool("b")] }),
    ]);
    let mut pages = client.pages::<ToolInfo>();
    assert_eq!(names(&mut pages), ["a"]);
    let error = pages.wait_next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Protocol);
    assert_eq!(names(&mut pages), ["b"]);
    drop((client, pages));
    assert_eq!(peer.join().unwrap(), [json!(null), json!("2"), json!("2")]);
}

#[test]
fn more_pages_than_allowed_end_list() {
    let page = |page: u8| json!({ "tools": [tool("a")], "nextCursor": page.to_string() });
    let (client, peer) = serve((0..3).map(page).collect());
    let mut pages = client.pages::<ToolInfo>().pages_max(3);
    for _ in 0..3 {
        assert_eq!(names(&mut pages), ["a"]);
    }
    let error = pages.wait_next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Protocol);
    assert!(pages.wait_next().is_none());
    drop((client, pages));
    peer.join().unwrap();
}

#[test]
fn request_for_list_teaches_tool_headers() {
    let (client, peer) = HttpPeer::modern(|_, mut connection| {
        for (name, cursor) in [("a", Value::Null), ("b", json!("2"))] {
            let list = connection.receive();
            assert_eq!(list.body["params"]["cursor"], cursor);
            let property = json!({ "type": "string", "x-mcp-header": "Region" });
            let schema = json!({ "type": "object", "properties": { "region": property } });
            let tools = json!([{ "name": name, "inputSchema": schema }]);
            connection.send_json(&response(&list.body, &json!({ "tools": tools })));
        }
        for _ in 0..2 {
            let call = connection.receive();
            assert_eq!(call.header("Mcp-Param-Region"), Some("us"));
            connection.send_json(&text_result(&call, "called"));
        }
        connection.expect_end();
    });
    let _: Value = client.request("tools/list", &json!({})).wait().unwrap();
    let _: Value = client.request("tools/list", &json!({ "cursor": "2" })).wait().unwrap();
    for name in ["a", "b"] {
        client.call_tool(name, &json!({ "region": "us" })).wait().unwrap();
    }
    drop(client);
    peer.join().unwrap();
}

#[test]
fn repeated_cursor_ends_pages() {
    let page = json!({ "tools": [tool("a")], "nextCursor": "2" });
    let (client, peer) = serve(vec![page.clone(), page]);
    let mut pages = client.pages::<ToolInfo>();
    assert_eq!((names(&mut pages), names(&mut pages)), (vec!["a".into()], vec!["a".into()]));
    let error = pages.wait_next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Protocol);
    assert!(pages.wait_next().is_none());
    drop((client, pages));
    assert_eq!(peer.join().unwrap(), [json!(null), json!("2")]);
}
