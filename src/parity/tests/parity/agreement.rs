//! The reader of messages accepts what the schemas accept, and nothing else: each member of each
//! message of a client with values of each kind, and damaged messages.

use std::sync::LazyLock;

use corelane_base::random::Random;
use corelane_parity::envelope::Envelope;
use corelane_protocol::json::{PaddedBuffer, ParseLimits, Parser};
use jsonschema::Validator;
use serde_json::Value;

use crate::damage::{EXAMPLE, damage};
use crate::schemas::{TYPES, validator};

/// What a value is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Null,
    Bool,
    Array,
    EmptyObject,
    /// An object with integers from 0.
    Numbers,
    /// `chunks` and `seconds`.
    Window,
    /// `name` and `version`.
    Implementation,
    Error,
    EmptyString,
    /// At most 128 characters.
    ShortString,
    /// `traceparent`.
    Trace,
    /// At most 256 characters.
    MediumString,
    /// More.
    LongString,
    Zero,
    /// An integer below 2^53.
    Positive,
    /// A larger one.
    Huge,
    /// An integer above -2^53.
    Negative,
    /// A smaller one.
    HugeNegative,
    Fraction,
    NegativeFraction,
}

use Kind::{
    Array, Bool, EmptyObject, EmptyString, Error, Fraction, Huge, HugeNegative, Implementation,
    LongString, MediumString, Negative, NegativeFraction, Null, Numbers, Positive, ShortString,
    Trace, Window, Zero,
};

const STRINGS: [Kind; 4] = [ShortString, Trace, MediumString, LongString];
const OBJECTS: [Kind; 5] = [EmptyObject, Numbers, Window, Implementation, Error];
const IDS: [Kind; 7] = [EmptyString, ShortString, Trace, MediumString, Zero, Positive, Negative];

const INTEGERS: [Kind; 3] = [Zero, Positive, Huge];

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The values, as JSON.
fn values() -> Vec<(Kind, String)> {
    let written = |kind: Kind, texts: &[&str]| -> Vec<_> {
        texts.iter().map(|text| (kind, (*text).to_owned())).collect()
    };
    let mut values = [
        written(Null, &["null"]),
        written(Bool, &["true", "false"]),
        written(Array, &["[]", "[1]", r#"["s"]"#]),
        written(EmptyObject, &["{}"]),
        written(Numbers, &[r#"{"s1":0}"#, r#"{"s1":1.0,"s2":18446744073709551616}"#]),
        written(Window, &[r#"{"chunks":0,"seconds":0,"other":1}"#]),
        written(
            Implementation,
            &[r#"{"name":"n","version":""}"#, r#"{"name":"n","version":"1","title":1}"#],
        ),
        written(
            Error,
            &[
                r#"{"code":"error.internal","message":"m","retryable":true}"#,
                r#"{"code":"error.rate_limited","message":"m","retryable":true,"retryAfter":0}"#,
            ],
        ),
        written(EmptyString, &[r#""""#]),
        written(
            ShortString,
            &[
                r#""1""#,
                r#""1.0""#,
                r#""\u0000""#,
                r#""00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331""#,
                r#""00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01""#,
                r#""00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011""#,
                r#"" 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01""#,
            ],
        ),
        written(Zero, &["0", "-0", "0.0", "-0e5"]),
        written(Positive, &["1", "1.0", "1e2", "120", "9007199254740991"]),
        written(
            Huge,
            &[
                "9007199254740992",
                "9007199254740993",
                "1e16",
                "9223372036854775807",
                "9223372036854775808",
                "18446744073709551615",
                "18446744073709551616",
                "1e300",
            ],
        ),
        written(Negative, &["-1", "-1.0", "-9007199254740991"]),
        written(
            HugeNegative,
            &["-9007199254740992", "-9223372036854775808", "-9223372036854775809", "-1e19"],
        ),
        written(Fraction, &["1.5", "1e-2"]),
        written(NegativeFraction, &["-0.5"]),
    ]
    .concat();
    values.push((Trace, format!("\"{TRACE}\"")));
    values.push((Trace, format!("\"{TRACE}-later\"")));
    for (kind, count) in
        [(ShortString, 128), (MediumString, 129), (MediumString, 256), (LongString, 257)]
    {
        values.push((kind, format!("\"{}\"", "é".repeat(count))));
        values.push((kind, format!("\"{}\"", "x".repeat(count))));
    }
    values
}

/// Messages with `$` in place of one value, each with the kinds of values that it may have.
struct Places(Vec<(String, Vec<Kind>)>);

impl Places {
    /// Returns those of each message of a client.
    fn of_clients() -> Self {
        let mut places = Self(Vec::new());
        places.add("$", r#""extension":1"#, &[]);
        add_handshakes(&mut places);
        add_capabilities(&mut places);
        add_requests(&mut places);
        add_errors(&mut places);
        places
    }

    fn add(&mut self, kind: &str, members: &str, valid: &[&[Kind]]) {
        self.0.push((format!(r#"{{"type":"{kind}",{members}}}"#), valid.concat()));
    }
}

fn add_handshakes(places: &mut Places) {
    let hello = r#""protocolVersion":"1.0","capabilities":{"tools":true}"#;
    places.add("handshake", r#""protocolVersion":$,"capabilities":{}"#, &[&STRINGS]);
    for (member, valid) in [
        ("clientInfo", &[Implementation][..]),
        ("capabilitiesExchange", &[Bool]),
        ("auth_token", &[EmptyString, ShortString, Trace, MediumString, LongString]),
        ("resumeToken", &STRINGS),
        ("lastAckSeq", &[]),
        ("traceparent", &[Trace]),
        ("extension", &ALL),
    ] {
        places.add("handshake", &format!(r#"{hello},"{member}":$"#), &[valid]);
    }
    let resumes = format!(r#"{hello},"resumeToken":"t""#);
    let acks = [EmptyObject, Numbers, Window];
    places.add("handshake", &format!(r#"{resumes},"lastAckSeq":$"#), &[&acks]);
    places.add("handshake", &format!(r#"{resumes},"lastAckSeq":{{"s1":1,"s2":$}}"#), &[&INTEGERS]);
    let name = format!(r#"{hello},"clientInfo":{{"name":$,"version":"1"}}"#);
    places.add("handshake", &name, &[&STRINGS]);
    let version = format!(r#"{hello},"clientInfo":{{"name":"n","version":$}}"#);
    places.add("handshake", &version, &[&[EmptyString], &STRINGS]);
}

fn add_capabilities(places: &mut Places) {
    for kind in ["handshake", "capabilities"] {
        let before = if kind == "handshake" { r#""protocolVersion":"1.0","# } else { "" };
        places.add(kind, &format!(r#"{before}"capabilities":$"#), &[&OBJECTS]);
        let flags = ["tools", "resources", "prompts", "streaming", "resume", "cancellation"];
        let numbers = ["maxConcurrent", "maxPayloadBytes"];
        let members = flags.map(|name| (name, &[Bool][..])).into_iter();
        let members = members.chain(numbers.map(|name| (name, &[Positive, Huge][..])));
        for (name, valid) in members.chain([("resumeWindow", &[Window][..]), ("other", &ALL)]) {
            places.add(kind, &format!(r#"{before}"capabilities":{{"{name}":$}}"#), &[valid]);
        }
        for window in [r#"{"chunks":$,"seconds":1}"#, r#"{"chunks":1,"seconds":$}"#] {
            let members = format!(r#"{before}"capabilities":{{"resumeWindow":{window}}}"#);
            places.add(kind, &members, &[&INTEGERS]);
        }
    }
}

fn add_requests(places: &mut Places) {
    places.add("request", r#""id":$,"method":"ping""#, &[&IDS]);
    places.add("request", r#""id":1,"method":$"#, &[&STRINGS]);
    for (member, valid) in [
        ("params", &OBJECTS[..]),
        ("stream", &[Bool]),
        ("idempotencyKey", &[ShortString, Trace]),
        ("auth_token", &[EmptyString, ShortString, Trace, MediumString, LongString]),
        ("traceparent", &[Trace]),
        ("extension", &ALL),
    ] {
        places.add("request", &format!(r#""id":1,"method":"ping","{member}":$"#), &[valid]);
    }
    places.add("keepalive", r#""timeoutHintSec":$"#, &[&[Positive, Huge]]);
    places.add("keepalive", r#""extension":$"#, &[&ALL]);
    places.add("cancel", r#""id":$"#, &[&IDS]);
    places.add("cancel", r#""streamId":$"#, &[&STRINGS]);
    places.add("cancel", r#""id":$,"streamId":"s1""#, &[]);
    places.add("cancel", r#""id":1,"streamId":$"#, &[]);
    places.add("cancel", r#""id":1,"reason":$"#, &[&[EmptyString], &STRINGS]);
    places.add("cancel", r#""id":1,"extension":$"#, &[&ALL]);
}

fn add_errors(places: &mut Places) {
    for (code, is_retryable) in [("rate_limited", true), ("payload_too_large", false)] {
        let error = format!(r#""code":"error.{code}","message":"m","retryable":"#);
        let both = format!(r#""error":{{{error}{is_retryable},"retryAfter":$}}"#);
        places.add("error", &both, &[&[Zero, Positive, Huge, Fraction]]);
        let other = format!(r#""error":{{{error}{},"retryAfter":$}}"#, !is_retryable);
        places.add("error", &other, &[]);
        let none = format!(r#""error":{{{error}{is_retryable},"extension":$}}"#);
        places.add("error", &none, if is_retryable { &[] } else { &[&ALL] });
    }
    let forbidden = r#""code":"error.auth.forbidden","message":"m","retryable":$"#;
    places.add("error", &format!(r#""error":{{{forbidden}}}"#), &[&[Bool]]);
    places.add("error", r#""error":$"#, &[&[Error]]);
    let error = r#""code":"error.internal","message":"m","retryable":true"#;
    places.add("error", &format!(r#""error":{{{error}}},"id":$"#), &[&IDS]);
    places.add("error", &format!(r#""error":{{{error}}},"streamId":$"#), &[&STRINGS]);
    places.add("error", r#""error":{"code":$,"message":"m","retryable":true}"#, &[]);
    places.add(
        "error",
        r#""error":{"code":"error.internal","message":$,"retryable":true}"#,
        &[&STRINGS],
    );
    places.add(
        "error",
        r#""error":{"code":"error.internal","message":"m","retryable":$}"#,
        &[&[Bool]],
    );
    let seconds = [Zero, Positive, Huge, Fraction];
    places.add("error", &format!(r#""error":{{{error},"retryAfter":$}}"#), &[&seconds]);
    places.add("error", &format!(r#""error":{{{error},"details":$}}"#), &[&OBJECTS]);
    places.add("error", &format!(r#""error":{{{error},"extension":$}}"#), &[&ALL]);
}

const ALL: [Kind; 20] = [
    Null,
    Bool,
    Array,
    EmptyObject,
    Numbers,
    Window,
    Implementation,
    Error,
    EmptyString,
    ShortString,
    Trace,
    MediumString,
    LongString,
    Zero,
    Positive,
    Huge,
    Negative,
    HugeNegative,
    Fraction,
    NegativeFraction,
];

/// Whole messages, with whether they are valid.
const MESSAGES: [(&str, bool); 31] = [
    ("null", false),
    ("1", false),
    ("[]", false),
    (r#"[{"type":"keepalive"}]"#, false),
    ("{}", false),
    (r#"{"Type":"keepalive"}"#, false),
    (r#"{"type":"Keepalive"}"#, false),
    (r#"{"type":"keepalive"}"#, true),
    (r#"{"type":"handshake"}"#, false),
    (r#"{"type":"handshake","protocolVersion":"1.0"}"#, false),
    (r#"{"type":"handshake","capabilities":{}}"#, false),
    (r#"{"type":"handshake","protocolVersion":"2.0","capabilities":{}}"#, true),
    (r#"{"type":"handshake","protocolVersion":"1.0","capabilities":{},"resumeToken":"t"}"#, true),
    (r#"{"type":"capabilities"}"#, false),
    (r#"{"type":"capabilities","capabilities":{"resumeWindow":{"chunks":1}}}"#, false),
    (r#"{"type":"capabilities","capabilities":{"resumeWindow":{"seconds":1}}}"#, false),
    (r#"{"type":"request"}"#, false),
    (r#"{"type":"request","id":1}"#, false),
    (r#"{"type":"request","method":"ping"}"#, false),
    (r#"{"type":"request","id":1,"method":"ping"}"#, true),
    (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, false),
    (r#"{"type":"cancel"}"#, false),
    (r#"{"type":"cancel","reason":"r"}"#, false),
    (r#"{"type":"error"}"#, false),
    (r#"{"type":"error","id":1}"#, false),
    (r#"{"type":"error","error":{"code":"error.internal","message":"m"}}"#, false),
    (r#"{"type":"error","error":{"code":"error.internal","retryable":true}}"#, false),
    (r#"{"type":"error","error":{"message":"m","retryable":true}}"#, false),
    (r#"{"type":"error","error":{"code":"error.other","message":"m","retryable":true}}"#, false),
    (r#"{"type":"response","id":1}"#, false),
    (r#"{"type":"stream.chunk","streamId":"s","seq":0,"chunkType":"log","data":1}"#, false),
];

/// The schemas of the eight files, by name.
static SCHEMAS: LazyLock<Vec<(&str, Validator)>> = LazyLock::new(|| {
    let mut names = TYPES.map(|(_, name)| name).to_vec();
    names.dedup();
    names.into_iter().map(|name| (name, validator(name))).collect()
});

/// Returns the names of the schemas that a message matches.
fn matching(text: &str) -> Vec<&'static str> {
    let message: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"));
    let matching = SCHEMAS.iter().filter(|(_, schema)| schema.is_valid(&message));
    matching.map(|(name, _)| *name).collect()
}

/// Returns whether a server accepts a message as one of its type; `None` if it has a duplicate key,
/// which the schemas cannot see, or is no JSON.
fn is_accepted(text: &str) -> Option<bool> {
    let mut parser = Parser::new(ParseLimits::default());
    let mut buffer = PaddedBuffer::new(text.as_bytes().to_vec());
    let document = parser.parse(buffer.text()).ok()?;
    let root = document.root();
    if root.duplicate_key().is_some() {
        return None;
    }
    Some(match Envelope::read(root) {
        // A session answers its absence as that of each capability.
        Ok(Envelope::Handshake(handshake)) => handshake.capabilities.is_some(),
        read => read.is_ok(),
    })
}

/// Describes how a message is not treated as expected.
fn difference(text: &str, is_valid: bool) -> Option<String> {
    let (names, accepted) = (matching(text), is_accepted(text));
    let kind = TYPES.iter().find(|(kind, _)| text.contains(&format!(r#""type":"{kind}""#)));
    let own = kind.map(|(_, name)| *name);
    let expected: Vec<&str> = own.into_iter().filter(|_| is_valid).collect();
    (names != expected || accepted != Some(is_valid)).then(|| {
        let text: String = text.chars().take(160).collect();
        format!("{text}: valid is {is_valid}, schemas {names:?}, server {accepted:?}\n")
    })
}

#[test]
fn server_accepts_what_its_schemas_accept() {
    let values = values();
    let mut differences = String::new();
    for (place, valid) in Places::of_clients().0 {
        for (kind, value) in &values {
            let text = place.replace("\"$\"", value).replace('$', value);
            differences.extend(difference(&text, valid.contains(kind)));
        }
    }
    for (text, is_valid) in MESSAGES {
        differences.extend(difference(text, is_valid));
    }
    assert_eq!(differences, "");
}

#[test]
fn server_and_schemas_agree_on_damaged_messages() {
    let mut random = Random::seeded(21);
    let (mut valid, mut invalid) = (0, 0);
    for _ in 0..4_000 {
        for text in damage(EXAMPLE, &mut random) {
            let Ok(message) = serde_json::from_str::<Value>(&text) else { continue };
            let Some(is_accepted) = is_accepted(&text) else { continue };
            let kind = TYPES.iter().find(|(kind, _)| message["type"] == *kind);
            let is_valid = kind.is_some_and(|(_, name)| matching(&text).contains(name));
            assert_eq!(is_accepted, is_valid, "{text}");
            *(if is_valid { &mut valid } else { &mut invalid }) += 1;
        }
    }
    assert!(valid > 1_000 && invalid > 400, "{valid} valid, {invalid} invalid");
}
