//! Memory: the request path through the protocol module does not allocate.

use crate::parsing::pad;
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::eras::{Lifecycle, Method, RequestMetaObject};
use corelane_protocol::json::{PaddedText, ParseLimits, Parser, Value};
use corelane_protocol::jsonrpc::{Id, InvalidMessage, Message};
use corelane_protocol::model::{
    self, CallToolResultWriter, ChangeNotification, Content, ElicitRequest, Field, Form,
    GetPromptResultWriter, InputRequest, ReadResourceResultWriter, ResourceContents, Role,
    TaskDetail, TaskStatus, TaskView,
};
use corelane_protocol::params::{
    CompleteRequestParams, GetPromptRequestParams, InputResponseRequestParams,
    ReadResourceRequestParams, TaskMetadata,
};
use corelane_protocol::revision::Revision;
use corelane_test_support::alloc_counter::count_allocations;

/// Reads and answers one `tools/call` like the request path does; the tool echoes its argument.
fn serve_tool_call(parser: &mut Parser, text: &mut [u8], length: usize, out: &mut Vec<u8>) {
    let document = parser.parse(PaddedText::new(text, length)).expect("valid JSON");
    let Ok(Message::Request { id, method, params }) = Message::read(document.root()) else {
        panic!("not a request");
    };
    let meta = RequestMetaObject::read(params).expect("valid _meta");
    let revision = if meta.is_modern() {
        meta.parse_modern().expect("complete _meta").revision
    } else {
        Revision::LATEST_LEGACY
    };
    assert_eq!(Method::parse(method), Some(Method::ToolsCall));
    let params = params.and_then(Value::as_object).expect("params");
    let [arguments] = params.find_unique(["arguments"]).expect("unique keys");
    let arguments = arguments.and_then(Value::as_object).expect("arguments");
    let text = arguments.find("message").and_then(Value::as_str).expect("the argument `message`");
    model::begin_response(out, id);
    let mut result = CallToolResultWriter::open(out, revision, b"");
    result.text(text).format(format_args!("{} bytes", text.len()));
    result.finish();
    model::end_response(out);
}

#[test]
fn tool_call_does_not_allocate() {
    let call = r#""name":"echo","arguments":{"message":"a line\nand \"more\""}"#;
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1,
        "io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}"#;
    let head = r#"{"jsonrpc":"2.0","id":"text \u00e9","method":"tools/call","params":{"#;
    let mut parser = Parser::new(ParseLimits::default());
    let mut out = Vec::with_capacity(1024);
    for text in [format!("{head}{call}}}}}"), format!("{head}{meta},{call}}}}}")] {
        let mut rounds: Vec<Vec<u8>> = (0..100).map(|_| pad(text.as_bytes())).collect();
        serve_tool_call(&mut parser, &mut rounds[0], text.len(), &mut out);
        let count = count_allocations(|| {
            for bytes in &mut rounds[1..] {
                out.clear();
                serve_tool_call(&mut parser, bytes, text.len(), &mut out);
            }
        });
        assert_eq!(count, 0);
    }
}

#[test]
fn ping_does_not_allocate() {
    let text = br#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#;
    let mut parser = Parser::new(ParseLimits::default());
    let mut out = Vec::with_capacity(256);
    let lifecycle = Lifecycle::default();
    let mut rounds: Vec<Vec<u8>> = (0..100).map(|_| pad(text)).collect();
    let mut serve = |bytes: &mut Vec<u8>| {
        out.clear();
        let document = parser.parse(PaddedText::new(bytes, text.len())).expect("valid JSON");
        match Message::read(document.root()) {
            Ok(Message::Request { id, .. }) => {
                lifecycle.check_method(Method::Ping).expect("ping is accepted in this state");
                model::write_response(&mut out, id, b"{}");
            }
            Ok(_) | Err(InvalidMessage { .. }) => panic!("not a request"),
        }
    };
    serve(&mut rounds[0]);
    assert_eq!(count_allocations(|| rounds[1..].iter_mut().for_each(&mut serve)), 0);
}

/// Encodes one message of every type.
fn encode_every_message(
    out: &mut Vec<u8>,
    revision: Revision,
    content: &ResourceContents,
    request: &InputRequest,
) {
    let task = TaskView {
        task_id: "t",
        status: TaskStatus::Working,
        status_message: None,
        created_at_ms: 0,
        last_updated_at_ms: 0,
        ttl_ms: None,
        poll_interval_ms: 1,
    };
    let mut result = CallToolResultWriter::open(out, revision, b"");
    result.image(b"\x89PNG", "image/png").audio(b"RIFF", "audio/wav").embedded_resource(content);
    result.finish();
    let mut prompt = GetPromptResultWriter::open(out, revision, Some("d"), b"");
    prompt.text(Role::User, "x").format(Role::Assistant, format_args!("{}", 7));
    prompt.finish();
    let cache = model::CacheHint { ttl_ms: 1, is_public: false };
    let mut contents = ReadResourceResultWriter::open(out, revision, cache, b"");
    contents.content(content).text("test://a", None, "x").blob("test://b", None, b"x");
    contents.finish();
    model::write_complete_result(out, ["a", "b"], Some(2), false, b"");
    model::write_server_request(out, Id::Signed(1), request, revision, Some("t"));
    model::write_input_required_result(out, [("k", request)], Some("s"), b"");
    model::write_create_task_result(out, revision, &task, b"");
    model::write_logging_message(out, LoggingLevel::Info, Some("l"), b"{}");
    model::write_cancelled(out, Id::Text("a"), Some("r"));
    let change = ChangeNotification::ResourceUpdated { uri: "test://a" };
    change.write_head(out);
    change.write_tail(out);
    ChangeNotification::TaskStatus { task, detail: TaskDetail::None }.write_legacy(out);
}

#[test]
fn encoding_into_grown_buffer_does_not_allocate() {
    let content = ResourceContents::blob("test://a", vec![7; 100]).with_mime_type("a/b");
    let form = Form::new().field(Field::integer("age").default(30).description("How old?"));
    let request = InputRequest::Elicit(ElicitRequest::form("Who?", form));
    for revision in Revision::ALL {
        let mut out = Vec::new();
        encode_every_message(&mut out, revision, &content, &request);
        let count = count_allocations(|| {
            out.clear();
            encode_every_message(&mut out, revision, &content, &request);
        });
        assert_eq!(count, 0, "{revision}");
    }
    let block = Content::text("x").into_block();
    let mut out = Vec::with_capacity(64);
    assert_eq!(count_allocations(|| block.write(&mut out, Revision::LATEST)), 0);
}

#[test]
fn reading_params_does_not_allocate() {
    let text = br#"{"uri":"a","name":"b","arguments":{"c":"d"},"requestState":"s","task":{"ttl":1},
        "ref":{"type":"ref/prompt","name":"b"},"argument":{"name":"c","value":""}}"#;
    let mut parser = Parser::new(ParseLimits::default());
    let mut bytes = pad(text);
    let document = parser.parse(PaddedText::new(&mut bytes, text.len())).expect("valid JSON");
    let params = Some(document.root());
    let count = count_allocations(|| {
        ReadResourceRequestParams::read(params).expect("params of resources/read");
        GetPromptRequestParams::read(params).expect("params of prompts/get");
        CompleteRequestParams::read(params).expect("params of completion/complete");
        InputResponseRequestParams::read(params).expect("params of a retry");
        TaskMetadata::from_params(params).expect("params.task");
    });
    assert_eq!(count, 0);
}
