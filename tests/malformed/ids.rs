//! Ids come back as they were sent, type and value.

use serde_json::Value;

use crate::client::{Client, LEGACY};
use crate::stage::{Stage, options};

/// Ids whose text is the shortest there is, so that even their bytes come back.
const PLAIN: [&str; 20] = [
    "0",
    "1",
    "-1",
    "9007199254740993",
    "-9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    r#""""#,
    r#"" ""#,
    r#""0""#,
    r#""1e5""#,
    r#""null""#,
    r#""a\"b\\c""#,
    r#""line\nbreak\r\ttab""#,
    r#""ünïcödé""#,
    r#""日本語 😀""#,
    r#""</script>/""#,
    r#""9223372036854775807""#,
];

/// Ids that may come back in fewer characters.
const ESCAPED: [&str; 8] = [
    r#""\u0041""#,
    r#""\u00e9\u65e5""#,
    r#""\ud83d\ude00""#,
    r#""\/""#,
    r#""\u0000\u0001\u001f\u007f""#,
    r#""\u2028\u2029""#,
    r#""\b\f""#,
    "-0",
];

fn id_of(line: &str) -> Value {
    let answer: Value = serde_json::from_str(line).expect("JSON");
    answer["id"].clone()
}

fn ask(client: &mut Client, id: &str, method: &str, params: &str) -> String {
    client.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
    client.line().expect("an answer")
}

#[test]
fn ids_of_both_types_are_echoed_byte_for_byte() {
    let stage = Stage::open(options());
    let mut client = stage.session(LEGACY);
    for id in PLAIN {
        let line = ask(&mut client, id, "ping", "{}");
        assert_eq!(line, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
    drop(client);
    stage.close();
}

#[test]
fn an_id_is_the_same_in_answers_now_answers_later_and_errors() {
    let stage = Stage::open(options());
    let mut client = stage.session(LEGACY);
    // The longest there may be.
    let long = format!("\"{}\"", "long".repeat(1024));
    for id in PLAIN.into_iter().chain(ESCAPED).chain([long.as_str()]) {
        let sent: Value = serde_json::from_str(id).expect("JSON");
        // JSON knows one zero.
        let sent = if id == "-0" { Value::from(0) } else { sent };
        for (method, params) in [
            ("ping", "{}"),
            ("tools/call", r#"{"name":"echo","arguments":{"message":"x"}}"#),
            ("tools/call", r#"{"name":"slow","arguments":{"steps":1,"step_ms":0}}"#),
            ("tools/call", r#"{"name":"hash","arguments":{"bytes":10}}"#),
            ("tools/call", r#"{"name":"nope"}"#),
            ("nope", "{}"),
            ("ping", "7"),
        ] {
            let line = ask(&mut client, id, method, params);
            assert_eq!(id_of(&line), sent, "{method} {params}: {line}");
        }
    }
    drop(client);
    stage.close();
}

#[test]
fn an_id_or_a_token_of_progress_that_is_too_long_to_keep_is_refused_and_the_next_is_served() {
    let stage = Stage::open(options());
    let mut client = stage.session(LEGACY);
    let long = "x".repeat(4097);
    let call = r#"{"name":"slow","arguments":{"steps":1,"step_ms":0}}"#;
    for id in [format!("\"{long}\""), format!("\"{}\"", long.repeat(10))] {
        let answer: Value =
            serde_json::from_str(&ask(&mut client, &id, "tools/call", call)).unwrap();
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        assert!(answer["id"].is_null());
    }
    let params = format!(
        r#"{{"name":"slow","arguments":{{"steps":1}},"_meta":{{"progressToken":"{long}"}}}}"#
    );
    let answer: Value =
        serde_json::from_str(&ask(&mut client, "1", "tools/call", &params)).unwrap();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&(-32602).into(), &1.into()));
    let answer: Value = serde_json::from_str(&ask(&mut client, "1", "tools/call", call)).unwrap();
    assert!(answer["result"].is_object(), "{answer}");
    drop(client);
    stage.close();
}
