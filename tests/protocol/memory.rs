//! Memory: the road through this room asks for none.

use crate::counting::allocations;
use crate::stage::padded;
use corelane::protocol::era::LogLevel;
use corelane::protocol::era::{Lifecycle, Meta, Method};
use corelane::protocol::json::{Limits, Parser, Value};
use corelane::protocol::message::{
    self, Answer, Change, Content, ContentsWriter, Elicitation, Field, Form, InputRequest,
    PromptWriter, ResourceContent, Role, TaskDetail, TaskStatus, TaskView,
};
use corelane::protocol::params::{Complete, GetPrompt, ReadResource, Retry, TaskMetadata};
use corelane::protocol::revision::Revision;
use corelane::protocol::rpc::{Envelope, Id, Refused};

/// Reads and answers one call of a tool that repeats its argument, as the road does.
fn serve(parser: &mut Parser, text: &mut [u8], length: usize, out: &mut Vec<u8>) {
    let document = parser.parse(text, length).expect("the message is JSON");
    let Ok(Envelope::Request { id, method, params }) = Envelope::read(document.root()) else {
        panic!("the message is a request");
    };
    let meta = Meta::read(params).expect("its _meta is in order");
    let revision = if meta.is_modern() {
        meta.modern().expect("its _meta is complete").revision
    } else {
        Revision::LATEST_LEGACY
    };
    assert_eq!(Method::parse(method), Some(Method::ToolsCall));
    let params = params.and_then(Value::as_object).expect("it has params");
    let [arguments] = params.once(["arguments"]).expect("no key is twice");
    let arguments = arguments.and_then(Value::as_object).expect("it has arguments");
    let text = arguments.find("message").and_then(Value::as_str).expect("a message");
    message::result_open(out, id);
    let mut answer = Answer::open(out, revision, b"");
    answer.text(text).format(format_args!("{} bytes", text.len()));
    answer.finish();
    message::result_close(out);
}

#[test]
fn a_call_is_read_and_answered_without_an_allocation() {
    let call = r#""name":"echo","arguments":{"message":"a line\nand \"more\""}"#;
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1,
        "io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}"#;
    let head = r#"{"jsonrpc":"2.0","id":"text \u00e9","method":"tools/call","params":{"#;
    let mut parser = Parser::new(Limits::default());
    let mut out = Vec::with_capacity(1024);
    for text in [format!("{head}{call}}}}}"), format!("{head}{meta},{call}}}}}")] {
        let mut rounds: Vec<Vec<u8>> = (0..100).map(|_| padded(text.as_bytes())).collect();
        serve(&mut parser, &mut rounds[0], text.len(), &mut out);
        let made = allocations(|| {
            for bytes in &mut rounds[1..] {
                out.clear();
                serve(&mut parser, bytes, text.len(), &mut out);
            }
        });
        assert_eq!(made, 0);
    }
}

#[test]
fn a_ping_is_read_and_answered_without_an_allocation() {
    let text = br#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#;
    let mut parser = Parser::new(Limits::default());
    let mut out = Vec::with_capacity(256);
    let lifecycle = Lifecycle::new();
    let mut rounds: Vec<Vec<u8>> = (0..100).map(|_| padded(text)).collect();
    let mut serve = |bytes: &mut Vec<u8>| {
        out.clear();
        let document = parser.parse(bytes, text.len()).expect("the message is JSON");
        match Envelope::read(document.root()) {
            Ok(Envelope::Request { id, .. }) => {
                lifecycle.admit(Method::Ping).expect("ping is always answered");
                message::result(&mut out, id, b"{}");
            }
            Ok(_) | Err(Refused { .. }) => panic!("the message is a request"),
        }
    };
    serve(&mut rounds[0]);
    assert_eq!(allocations(|| rounds[1..].iter_mut().for_each(&mut serve)), 0);
}

/// Says one thing of every kind.
fn say_everything(
    out: &mut Vec<u8>,
    revision: Revision,
    content: &ResourceContent,
    question: &InputRequest,
) {
    let task = TaskView {
        id: "t",
        status: TaskStatus::Working,
        status_message: None,
        created_ms: 0,
        updated_ms: 0,
        ttl_ms: None,
        poll_ms: 1,
    };
    let mut answer = Answer::open(out, revision, b"");
    answer.image(b"\x89PNG", "image/png").audio(b"RIFF", "audio/wav").embed(content);
    answer.finish();
    let mut prompt = PromptWriter::open(out, revision, Some("d"), b"");
    prompt.text(Role::User, "x").format(Role::Assistant, format_args!("{}", 7));
    prompt.finish();
    let cache = message::CacheHint { fresh_ms: 1, shared: false };
    let mut contents = ContentsWriter::open(out, revision, cache, b"");
    contents.content(content).text("test://a", None, "x").blob("test://b", None, b"x");
    contents.finish();
    message::completion_result(out, ["a", "b"], Some(2), false, b"");
    message::request(out, Id::Signed(1), question, revision, Some("t"));
    message::input_required_body(out, [("k", question)], Some("s"), b"");
    message::create_task_result(out, revision, &task, b"");
    message::log(out, LogLevel::Info, Some("l"), b"{}");
    message::cancelled(out, Id::Text("a"), Some("r"));
    Change::Resource { uri: "test://a" }.write_subscribed(out, Id::Signed(1));
    Change::Task { task, detail: TaskDetail::Nothing }.write_legacy(out);
}

#[test]
fn what_was_said_once_is_said_again_without_an_allocation() {
    let content = ResourceContent::blob("test://a", vec![7; 100]).with_mime_type("a/b");
    let form = Form::new().field(Field::integer("age").default(30).describe("How old?"));
    let question = InputRequest::Elicit(Elicitation::form("Who?", form));
    for revision in Revision::ALL {
        let mut out = Vec::new();
        say_everything(&mut out, revision, &content, &question);
        let made = allocations(|| {
            out.clear();
            say_everything(&mut out, revision, &content, &question);
        });
        assert_eq!(made, 0, "{revision}");
    }
    let block = Content::text("x").block();
    let mut out = Vec::with_capacity(64);
    assert_eq!(allocations(|| block.write(&mut out, Revision::LATEST)), 0);
}

#[test]
fn params_are_read_without_an_allocation() {
    let text = br#"{"uri":"a","name":"b","arguments":{"c":"d"},"requestState":"s","task":{"ttl":1},
        "ref":{"type":"ref/prompt","name":"b"},"argument":{"name":"c","value":""}}"#;
    let mut parser = Parser::new(Limits::default());
    let mut bytes = padded(text);
    let document = parser.parse(&mut bytes, text.len()).expect("the params are JSON");
    let params = Some(document.root());
    let made = allocations(|| {
        ReadResource::read(params).expect("a resource");
        GetPrompt::read(params).expect("a prompt");
        Complete::read(params).expect("a completion");
        Retry::read(params).expect("a retry");
        TaskMetadata::wanted(params).expect("a task");
    });
    assert_eq!(made, 0);
}
