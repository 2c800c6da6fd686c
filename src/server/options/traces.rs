//! The options of spans that are sent to a collector of OpenTelemetry.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::Url;

use super::declare::{MINUTE, options};
use super::value::{Choice, Ratio, choice};

options! {
    /// Spans of requests, sent to a collector of OpenTelemetry. Off without an endpoint.
    pub struct TraceOptions at |options| options.traces;

    group TRACES {
        /// URL that the spans of requests are sent to (OTLP over HTTP, protobuf), such as
        /// `http://127.0.0.1:4318/v1/traces`; default is none, and no spans.
        ///
        /// Without a path it is `/v1/traces`.
        #[option("traces.endpoint", Text, restart)]
        #[cost = "about 1 µs of its shard for each span, and a thread"]
        #[source = "OTLP, section OTLP/HTTP"]
        pub endpoint: Option<String> = None;

        /// Files with header fields of these requests, such as keys of the collector: a line `name:
        /// value` each.
        #[option("traces.headers", Files, restart)]
        #[cost = "none"]
        #[source = "RFC 9110, section 5"]
        pub headers: Vec<PathBuf> = Vec::new();

        /// PEM files with the authorities that issue the certificate of the collector; default is
        /// those of the system.
        #[option("traces.authorities", Files, restart)]
        #[cost = "none"]
        #[source = "RFC 5280"]
        pub authorities: Vec<PathBuf> = Vec::new();

        /// Time in which the collector must respond.
        #[option("traces.timeout", Milliseconds { min: 100, max: 5 * MINUTE }, restart)]
        #[cost = "spans wait for that long meanwhile"]
        #[source = "OpenTelemetry, OTLP Exporter Configuration"]
        pub timeout: Duration = Duration::from_secs(10);

        /// Name of the service in the collector; default is the name of the server.
        #[option("traces.service_name", Text, restart)]
        #[cost = "none"]
        #[source = "OpenTelemetry, Resource Semantic Conventions"]
        pub service_name: Option<String> = None;

        /// Further attributes of the service, `name=value` each, such as
        /// `deployment.environment.name=production`; values may be percent-encoded.
        #[option("traces.resource_attributes", Words, restart)]
        #[cost = "sent with every 512 spans"]
        #[source = "OpenTelemetry, Resource SDK"]
        pub resource_attributes: Vec<String> = Vec::new();

        /// Which requests have spans: with `parentbased_`, those whose caller is sampled, and of
        /// those without a caller, all, none or a part.
        #[option("traces.sampler", Choice(TraceSampler::NAMES), restart)]
        #[cost = "that of each span"]
        #[source = "OpenTelemetry, Tracing SDK, section Sampling"]
        pub sampler: TraceSampler = TraceSampler::ParentBasedTraceIdRatio;

        /// Part of the traces that the samplers with a ratio choose, from 0 to 1.
        #[option("traces.sampling_ratio", Ratio, restart)]
        #[cost = "that of each span"]
        #[source = "OpenTelemetry, Tracing SDK, section TraceIdRatioBased"]
        pub sampling_ratio: Ratio = Ratio::ONE;

        /// Spans that wait for the collector; further ones are dropped and counted.
        #[option("traces.queue_spans_max", Count { min: 1, max: 1_000_000 }, restart)]
        #[cost = "up to 1 KiB each"]
        pub queue_spans_max: u32 = 4_096, tiny 64;
    }
    nested {
        /// Further header fields of these requests. They are not printed.
        pub header_fields: SecretFields = SecretFields::default(), tiny SecretFields::default();
    }
}

choice! {
    /// Which requests have spans.
    #[non_exhaustive]
    pub enum TraceSampler {
        /// All.
        AlwaysOn = "always_on",
        /// None.
        AlwaysOff = "always_off",
        /// A part of the traces.
        TraceIdRatio = "traceidratio",
        /// Those with a sampled caller or without a caller.
        ParentBasedAlwaysOn = "parentbased_always_on",
        /// Those with a sampled caller.
        ParentBasedAlwaysOff = "parentbased_always_off",
        /// Those with a sampled caller, and a part of those without a caller.
        #[default]
        ParentBasedTraceIdRatio = "parentbased_traceidratio",
    }
}

/// Header fields with secrets: their values are not printed.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct SecretFields(Vec<(String, String)>);

impl SecretFields {
    /// Adds a field.
    ///
    /// # Errors
    ///
    /// What is wrong, without the value.
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), String> {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err("the name of a header field is not valid; write name and value".to_owned());
        }
        if OWN_FIELDS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            return Err(format!("the header field {name} is set by the exporter"));
        }
        if value.is_empty()
            || value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f)
        {
            return Err(format!("the value of the header field {name} is empty or not valid"));
        }
        self.0.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Returns the names and values.
    #[cfg(any(feature = "cli", feature = "otlp"))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Fields that the exporter sets.
const OWN_FIELDS: [&str; 7] = [
    "Accept",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Type",
    "Host",
    "Transfer-Encoding",
];

impl fmt::Debug for SecretFields {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl TraceOptions {
    /// Returns the URL of the endpoint, if there is one.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub(crate) fn endpoint_url(&self) -> Result<Option<Url>, String> {
        let Some(text) = &self.endpoint else { return Ok(None) };
        if !cfg!(feature = "otlp") {
            return Err("this build has no exporter of traces (feature otlp)".to_owned());
        }
        // Not the text itself: it may have a credential.
        let mut url = Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
        match url.scheme() {
            "http" => {}
            "https" if cfg!(feature = "_tls") => {}
            "https" => return Err("this build has no TLS (feature tls)".to_owned()),
            _ => return Err("it must begin with http:// or https://".to_owned()),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it has a credential; use traces.headers".to_owned());
        }
        let has_path = text.splitn(4, '/').nth(3).is_some();
        if !has_path {
            url.set_path("/v1/traces");
        }
        Ok(Some(url))
    }

    /// Returns the further attributes of the service.
    ///
    /// # Errors
    ///
    /// Which one has no name or value.
    pub(crate) fn resource_attributes(&self) -> Result<Vec<(&str, Cow<'_, str>)>, String> {
        let split = |text: &'_ String| -> Option<usize> {
            text.find('=').filter(|at| !text[..*at].trim().is_empty())
        };
        let mut attributes = Vec::new();
        for text in &self.resource_attributes {
            let at = split(text).ok_or_else(|| format!("{text:?} is not name=value"))?;
            let value = percent_decode_str(text[at + 1..].trim()).decode_utf8();
            let value = value.map_err(|_| format!("{text:?} is not UTF-8"))?;
            attributes.push((text[..at].trim(), value));
        }
        Ok(attributes)
    }
}

#[cfg(all(test, feature = "otlp"))]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Result<String, String> {
        let options = TraceOptions { endpoint: Some(text.to_owned()), ..TraceOptions::default() };
        options.endpoint_url().map(|url| url.map(String::from).unwrap_or_default())
    }

    #[test]
    fn endpoint_without_path_has_default_path() {
        assert_eq!(endpoint("http://a:4318").unwrap(), "http://a:4318/v1/traces");
        for text in ["http://a:4318/", "http://a/otlp/v1/traces", "http://[::1]:1/x?y=z"] {
            assert_eq!(endpoint(text).unwrap(), text);
        }
        for text in ["a:4318", "grpc://a:4317", "http://user:secret@a/", "/v1/traces", "http://"] {
            let error = endpoint(text).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn secret_fields_are_not_printed() {
        let mut fields = SecretFields::default();
        fields.add("api-key", "secret").unwrap();
        assert_eq!(format!("{fields:?}"), r#"["api-key"]"#);
        for (name, value) in
            [("", "secret"), ("a b", "secret"), ("a", "secret\r\nb: c"), ("host", "secret")]
        {
            let error = fields.add(name, value).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn resource_attribute_needs_name_and_value() {
        let with = |texts: &[&str]| TraceOptions {
            resource_attributes: texts.iter().map(|text| (*text).to_owned()).collect(),
            ..TraceOptions::default()
        };
        let options = with(&["a=b=c", " d = e%2Cf "]);
        let attributes = options.resource_attributes().unwrap();
        assert_eq!(attributes, [("a", "b=c".into()), ("d", "e,f".into())]);
        for text in ["a", "=b"] {
            assert!(with(&[text]).resource_attributes().is_err());
        }
    }
}
