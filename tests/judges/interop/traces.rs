//! Spans, decoded by the messages of OpenTelemetry for Python.

use std::io::Write;
use std::process::Stdio;

use corelane_test_support::ServeProcess;
use corelane_test_support::collector::Collector;
use corelane_test_support::messages::{call, modern};
use serde_json::{Value, json};

use crate::CORELANE;
use crate::interop::sdk::python;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_decodes_exported_spans() {
    let collector = Collector::start();
    let server = ServeProcess::tcp(CORELANE, &["--traces-endpoint", &collector.url()]);
    let mut client = server.connect();
    let mut traced = modern(call("q", "no-such-tool", json!({})));
    traced["params"]["_meta"]["traceparent"] = json!(TRACE);
    client.exchange(traced);
    let spans = decode(&collector.next_export().body);
    let span = &spans[0];
    assert_eq!(span["service"]["service.name"], "corelane", "{spans}");
    assert_eq!((&span["scope"], &span["name"]), (&json!("corelane"), &json!("tools/call")));
    assert_eq!(span["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(
        (&span["parentSpanId"], &span["kind"]),
        (&json!("b7ad6b7169203331"), &json!("SPAN_KIND_SERVER"))
    );
    let attributes = &span["attributes"];
    assert_eq!(attributes["jsonrpc.request.id"], "q");
    assert_eq!(
        (&attributes["error.type"], &span["status"]),
        (&json!("-32602"), &json!("STATUS_CODE_ERROR"))
    );
    assert!(span["ended"].as_u64() >= span["begun"].as_u64(), "{span}");
}

fn decode(body: &[u8]) -> Value {
    let mut command = python("traces.py");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python");
    child.stdin.take().expect("a pipe").write_all(body).expect("the script reads");
    let output = child.wait_with_output().expect("the script ends");
    serde_json::from_slice(&output.stdout).expect("JSON")
}
