//! Headers that repeat arguments of tool calls over HTTP, and the answers to wrong headers.

use std::thread::JoinHandle;

use corelane::client::ClientErrorKind;
use corelane::internal::demo;
use corelane::model::Implementation;
use corelane::testing::block_on;
use corelane::{Catalog, Client};
use corelane_test_support::{TestServer, http_options};
use serde_json::{Value, json};

use super::http_peer::{Connection, HttpPeer, HttpRequest, text_result};
use super::response;

/// A list with a valid tool and one that clients over HTTP ignore.
fn list_result() -> Value {
    let schema = |header: &str| {
        let region = json!({ "type": "string", "x-mcp-header": header });
        json!({ "type": "object", "properties": { "region": region } })
    };
    json!({ "tools": [
        { "name": "a", "inputSchema": schema("Region") },
        { "name": "b", "inputSchema": schema("two words") },
    ] })
}

/// Refuses a call for its headers.
fn refuse(connection: &mut Connection, call: &HttpRequest) {
    let error = json!({ "code": -32020, "message": "Mcp-Param-Region is missing" });
    let body = json!({ "jsonrpc": "2.0", "id": call.body["id"], "error": error });
    connection.send_body("400 Bad Request", "application/json", &body.to_string());
}

fn answer_list(connection: &mut Connection, result: &Value) {
    let list = connection.receive();
    assert_eq!(list.body["method"], "tools/list");
    connection.send_json(&response(&list.body, result));
}

fn end(client: Client, peer: JoinHandle<()>) {
    drop(client);
    peer.join().expect("the peer is served");
}

#[test]
fn listed_tool_is_called_with_its_headers() {
    let (client, peer) = HttpPeer::modern(|_, mut connection| {
        answer_list(&mut connection, &list_result());
        for expected in [Some("=?base64?S8O2bG4=?="), None] {
            let call = connection.receive();
            assert_eq!(call.header("Mcp-Param-Region"), expected);
            connection.send_json(&text_result(&call, "called"));
        }
        connection.expect_end();
    });
    let tools = block_on(client.list_tools()).unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a"]);
    for region in [json!("Köln"), Value::Null] {
        client.call_tool("a", &json!({ "region": region })).wait().unwrap();
    }
    end(client, peer);
}

#[test]
fn call_with_required_input_keeps_its_headers() {
    let (client, peer) = HttpPeer::modern(|_, mut connection| {
        answer_list(&mut connection, &list_result());
        let call = connection.receive();
        let result = json!({ "resultType": "input_required", "requestState": "s" });
        connection.send_json(&response(&call.body, &result));
        let call = connection.receive();
        assert_eq!(call.body["params"]["requestState"], "s");
        assert_eq!(call.header("Mcp-Param-Region"), Some("us"));
        connection.send_json(&text_result(&call, "called"));
        connection.expect_end();
    });
    block_on(client.list_tools()).unwrap();
    let call = client.call_tool("a", &json!({ "region": "us" }));
    assert_eq!(call.wait().unwrap().text(), "called");
    end(client, peer);
}

#[test]
fn server_accepts_headers_of_unlisted_tool() {
    let builder = Catalog::builder(Implementation::new("test", "1.0.0"));
    let catalog = demo::add_services(builder).build().unwrap();
    let server = TestServer::with_catalog(http_options(), catalog);
    let client = Client::builder(format!("http://{}/mcp", server.http()).as_str());
    let client = client.connect_blocking().unwrap();
    let call = client.call_tool("test_header_parameter", &json!({ "region": "Köln" }));
    assert!(!call.wait().unwrap().is_error);
}

#[test]
fn refused_headers_are_corrected_once() {
    let (client, peer) = HttpPeer::modern(|_, mut connection| {
        for succeeds in [true, false] {
            let call = connection.receive();
            refuse(&mut connection, &call);
            answer_list(&mut connection, &list_result());
            let call = connection.receive();
            assert_eq!(call.header("Mcp-Param-Region"), Some("us"));
            if succeeds {
                connection.send_json(&text_result(&call, "called"));
            } else {
                refuse(&mut connection, &call);
            }
        }
        connection.expect_end();
    });
    let call = || client.call_tool("a", &json!({ "region": "us" })).wait();
    assert_eq!(call().unwrap().text(), "called");
    assert_eq!(call().unwrap_err().kind(), ClientErrorKind::Rpc { code: -32020 });
    end(client, peer);
}

#[test]
fn ignored_tool_is_not_called_again() {
    let (client, peer) = HttpPeer::modern(|_, mut connection| {
        let call = connection.receive();
        refuse(&mut connection, &call);
        answer_list(&mut connection, &list_result());
        connection.expect_end();
    });
    let error = client.call_tool("b", &json!({ "region": "us" })).wait().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Rpc { code: -32020 });
    end(client, peer);
}

#[test]
fn legacy_session_has_no_parameter_headers() {
    let (client, peer) = HttpPeer::legacy(|peer, _stream| {
        let mut connection = peer.accept();
        answer_list(&mut connection, &list_result());
        let call = connection.receive();
        assert_eq!(call.header("Mcp-Param-Region"), None);
        connection.send_json(&text_result(&call, "called"));
        assert_eq!(connection.receive().line(), "DELETE /mcp");
    });
    assert_eq!(block_on(client.list_tools()).unwrap().len(), 2);
    client.call_tool("a", &json!({ "region": "us" })).wait().unwrap();
    end(client, peer);
}
