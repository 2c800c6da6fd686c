//! Capabilities of both sides, and their intersection.
//!
//! Invariants: an intersection has no flag that one side lacks and no number above that of a side;
//! a refinement is intersected with what was negotiated, so that it only narrows.

use super::error::ParityError;
use corelane_protocol::json::{ObjectWriter, Value};

/// One capability.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Feature {
    /// `tools/list` and `tools/call`.
    Tools = 1,
    /// `resources/list`, `resources/templates/list` and `resources/read`.
    Resources = 1 << 1,
    /// `prompts/list`, `prompts/get` and `completion/complete`.
    Prompts = 1 << 2,
    /// Requests with `stream: true`.
    Streaming = 1 << 3,
    /// Streams continue on another connection.
    Resume = 1 << 4,
    /// `cancel`.
    Cancellation = 1 << 5,
}

impl Feature {
    /// Every capability, in the order of the wire.
    pub const ALL: [Self; 6] = [
        Self::Tools,
        Self::Resources,
        Self::Prompts,
        Self::Streaming,
        Self::Resume,
        Self::Cancellation,
    ];

    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Prompts => "prompts",
            Self::Streaming => "streaming",
            Self::Resume => "resume",
            Self::Cancellation => "cancellation",
        }
    }

    /// Returns the capability that a method needs; `None` for `ping` and unknown methods.
    pub fn of_method(method: &str) -> Option<Self> {
        match method {
            "completion/complete" => Some(Self::Prompts),
            _ if method.starts_with("tools/") => Some(Self::Tools),
            _ if method.starts_with("resources/") => Some(Self::Resources),
            _ if method.starts_with("prompts/") => Some(Self::Prompts),
            _ => None,
        }
    }
}

/// How long the chunks of a stream are kept for a client that returns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ResumeWindow {
    /// Number of chunks of one stream.
    pub chunks: u32,
    /// Time in seconds.
    pub seconds: u32,
}

/// A set of capabilities. The default has none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Capabilities {
    /// Bit set of [`Feature`]s.
    features: u8,
    /// Maximum requests in flight; `None` if this side sets no limit.
    pub max_concurrent: Option<u32>,
    /// Maximum length of a message in bytes; `None` if this side sets no limit.
    pub max_payload_bytes: Option<u64>,
    /// What is kept for resumption.
    pub resume_window: Option<ResumeWindow>,
}

impl Capabilities {
    /// Returns the capabilities with these features and without limits.
    pub fn of(features: impl IntoIterator<Item = Feature>) -> Self {
        let features = features.into_iter().fold(0, |set, feature| set | feature as u8);
        Self { features, ..Self::default() }
    }

    /// Returns whether a capability is included.
    #[inline]
    pub const fn has(&self, feature: Feature) -> bool {
        self.features & feature as u8 != 0
    }

    /// Returns whether they offer anything: tools, resources or prompts.
    pub const fn is_usable(&self) -> bool {
        self.has(Feature::Tools) || self.has(Feature::Resources) || self.has(Feature::Prompts)
    }

    /// Returns what both sides have.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let features = self.features & other.features;
        let resumes = features & Feature::Resume as u8 != 0;
        let windows = (self.resume_window, other.resume_window);
        let window = match windows {
            (Some(one), Some(other)) => Some(ResumeWindow {
                chunks: one.chunks.min(other.chunks),
                seconds: one.seconds.min(other.seconds),
            }),
            (one, other) => one.or(other),
        };
        Self {
            features,
            max_concurrent: lower(self.max_concurrent, other.max_concurrent),
            max_payload_bytes: lower(self.max_payload_bytes, other.max_payload_bytes),
            resume_window: window.filter(|_| resumes),
        }
    }

    /// Returns whether everything here is in `other`, and no limit is above its limit.
    pub fn is_within(&self, other: &Self) -> bool {
        self.intersect(other) == *self
    }

    /// Checks that a method may be used.
    ///
    /// # Errors
    ///
    /// `error.feature_not_available` if its capability is not included.
    #[doc(hidden)]
    #[inline]
    pub fn check(&self, feature: Feature) -> Result<(), ParityError> {
        if self.has(feature) { Ok(()) } else { Err(not_negotiated(feature)) }
    }

    /// Reads the value of `capabilities`. Unknown members are ignored.
    ///
    /// # Errors
    ///
    /// A malformed message: not an object, a flag that is no boolean, a number below 1.
    #[doc(hidden)]
    pub fn read(value: Value<'_>) -> Result<Self, ParityError> {
        let invalid = |text: String| ParityError::invalid_envelope(text);
        let Some(object) = value.as_object() else {
            return Err(invalid("capabilities must be an object".into()));
        };
        let mut read = Self::default();
        for feature in Feature::ALL {
            match object.find(feature.as_str()).map(Value::as_bool) {
                Some(Some(true)) => read.features |= feature as u8,
                Some(Some(false)) | None => {}
                Some(None) => {
                    let name = feature.as_str();
                    return Err(invalid(format!("capabilities.{name} must be true or false")));
                }
            }
        }
        let number = |name: &str| match object.find(name) {
            None => Ok(None),
            Some(value) => match read_unsigned(value).filter(|number| *number > 0) {
                Some(number) => Ok(Some(number)),
                None => Err(invalid(format!("capabilities.{name} must be an integer above 0"))),
            },
        };
        read.max_concurrent = number("maxConcurrent")?.map(saturate);
        read.max_payload_bytes = number("maxPayloadBytes")?;
        if let Some(window) = object.find("resumeWindow") {
            let member = |name| read_unsigned(window.as_object()?.find(name)?);
            let (Some(chunks), Some(seconds)) = (member("chunks"), member("seconds")) else {
                return Err(invalid(
                    "capabilities.resumeWindow must have the integers chunks and seconds".into(),
                ));
            };
            let window = ResumeWindow { chunks: saturate(chunks), seconds: saturate(seconds) };
            read.resume_window = Some(window);
        }
        Ok(read)
    }

    /// Appends the object.
    #[doc(hidden)]
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::open(out);
        for feature in Feature::ALL {
            object.boolean(feature.as_str(), self.has(feature));
        }
        object.unsigned_opt("maxConcurrent", self.max_concurrent.map(u64::from));
        object.unsigned_opt("maxPayloadBytes", self.max_payload_bytes);
        if let Some(window) = self.resume_window {
            let mut inner = object.object("resumeWindow");
            inner.unsigned("chunks", window.chunks.into());
            inner.unsigned("seconds", window.seconds.into());
            inner.close();
        }
        object.close();
    }
}

#[cold]
fn not_negotiated(feature: Feature) -> ParityError {
    let name = feature.as_str();
    ParityError::feature_not_available(format!("the capability \"{name}\" is not negotiated"))
}

fn lower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Reads an integer from 0, also one with fraction or exponent, such as `2.0` (JSON Schema 2020-12,
/// core, section 4.2.3). One above `u64::MAX` is read as that.
pub(super) fn read_unsigned(value: Value<'_>) -> Option<u64> {
    value.written_u64().or_else(|| {
        let number = value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an integer from 0; the conversion saturates"
        )]
        Some(number as u64)
    })
}

fn saturate(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseLimits, Parser};
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Capabilities, ParityError> {
        let mut parser = Parser::new(ParseLimits::default());
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + PADDING_BYTES, 0);
        let document = parser.parse(PaddedText::new(&mut bytes, text.len())).unwrap();
        Capabilities::read(document.root())
    }

    fn written(capabilities: &Capabilities) -> String {
        let mut out = Vec::new();
        capabilities.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn capabilities_read_back_as_written() {
        let text = r#"{"tools":true,"resources":false,"prompts":true,"streaming":true,"#.to_owned()
            + r#""resume":true,"cancellation":false,"maxConcurrent":7,"maxPayloadBytes":9000,"#
            + r#""resumeWindow":{"chunks":1000,"seconds":60}}"#;
        assert_eq!(written(&read(&text).unwrap()), text);
        assert_eq!(read(r#"{"unknown":1}"#), Ok(Capabilities::default()));
    }

    #[test]
    fn malformed_capabilities_are_rejected() {
        for text in [
            "[]",
            r#"{"tools":1}"#,
            r#"{"maxConcurrent":0}"#,
            r#"{"maxPayloadBytes":"1"}"#,
            r#"{"resumeWindow":{"chunks":1}}"#,
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.details.as_deref(), Some(r#"{"mcpCode":-32600}"#), "{text}");
        }
    }

    #[test]
    fn methods_need_their_feature() {
        for (method, feature) in [
            ("tools/call", Some(Feature::Tools)),
            ("resources/templates/list", Some(Feature::Resources)),
            ("prompts/get", Some(Feature::Prompts)),
            ("completion/complete", Some(Feature::Prompts)),
            ("ping", None),
        ] {
            assert_eq!(Feature::of_method(method), feature);
        }
        let tools = Capabilities::of([Feature::Tools]);
        assert!(tools.check(Feature::Tools).is_ok() && tools.check(Feature::Prompts).is_err());
    }

    fn any_capabilities() -> impl Strategy<Value = Capabilities> {
        let number = || proptest::option::of(1..100_u32);
        let window = proptest::option::of((1..50_u32, 1..50_u32));
        (0..64_u8, number(), number(), window).prop_map(|(features, concurrent, bytes, window)| {
            Capabilities {
                features,
                max_concurrent: concurrent,
                max_payload_bytes: bytes.map(u64::from),
                resume_window: window.map(|(chunks, seconds)| ResumeWindow { chunks, seconds }),
            }
        })
    }

    proptest! {
        #[test]
        fn intersection_only_narrows(one in any_capabilities(), other in any_capabilities()) {
            let both = one.intersect(&other);
            prop_assert_eq!(both, other.intersect(&one));
            prop_assert!(both.is_within(&both));
            for feature in Feature::ALL {
                prop_assert_eq!(both.has(feature), one.has(feature) && other.has(feature));
            }
            prop_assert!(both.intersect(&one).is_within(&both));
            let limit = |of: &Capabilities| of.max_concurrent.unwrap_or(u32::MAX);
            prop_assert!(limit(&both) <= limit(&one) && limit(&both) <= limit(&other));
        }
    }
}
