//! The environment variables of OpenTelemetry, as options of traces.
//!
//! Invariants: without an endpoint none of the others is read, so that those of a whole machine do
//! not keep a server from starting that exports nothing. No error has the value of a header field.
//!
//! Source: OpenTelemetry, "Environment Variable Specification" and "OTLP Exporter Configuration".

use std::ffi::OsString;

use percent_encoding::percent_decode_str;

use crate::config::issue::{ConfigIssue, Diagnostic, Source};
use crate::config::options::SecretFields;
use crate::config::read::raw_value::Assignment;
use crate::config::table;

/// Options whose value a variable has; the first of the variables that is set decides.
const OPTIONS: [(&str, &[&str]); 6] = [
    ("traces.timeout", &["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]),
    (
        "traces.authorities",
        &["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"],
    ),
    ("traces.service_name", &["OTEL_SERVICE_NAME"]),
    ("traces.resource_attributes", &["OTEL_RESOURCE_ATTRIBUTES"]),
    ("traces.sampler", &["OTEL_TRACES_SAMPLER"]),
    ("traces.sampling_ratio", &["OTEL_TRACES_SAMPLER_ARG"]),
];
const ENDPOINT: &str = "traces.endpoint";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const BASE_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// What the variables set.
#[derive(Debug, Default)]
pub struct StandardVariables {
    /// Options.
    pub assignments: Vec<Assignment>,
    /// Turns the exporter off, whatever else is set.
    pub disabling: Option<Assignment>,
    /// Header fields of the requests.
    pub header_fields: SecretFields,
}

/// Returns whether a variable is one of those that are read.
pub fn has_meaning(name: &str) -> bool {
    let of_options = OPTIONS.iter().flat_map(|(_, names)| names.iter());
    let others = [TRACES_ENDPOINT, BASE_ENDPOINT, EXPORTER, DISABLED];
    let mut all = of_options.chain(&others).chain(&PROTOCOLS).chain(&HEADERS);
    all.any(|known| *known == name)
}

/// Returns whether an assignment turns the exporter on.
pub fn is_endpoint(assignment: &Assignment) -> bool {
    assignment.row.key == ENDPOINT
}

/// Reads the variables; errors are appended. `has_endpoint`: another source has set one.
pub fn read(
    variables: &[(String, OsString)],
    has_endpoint: bool,
    problems: &mut Vec<ConfigIssue>,
) -> StandardVariables {
    let mut reader = Reader { variables, problems };
    let mut read = StandardVariables::default();
    let traces = reader.first_of(&[TRACES_ENDPOINT]);
    let base = reader.first_of(&[BASE_ENDPOINT]).filter(|_| traces.is_none());
    if !has_endpoint && traces.is_none() && base.is_none() {
        return read;
    }
    // Used as it is; one without a path has the path `/`.
    read.assignments.extend(traces.and_then(|(name, text)| {
        let has_path = text.splitn(4, '/').nth(3).is_some();
        assignment(ENDPOINT, name, if has_path { text } else { format!("{text}/") })
    }));
    read.assignments.extend(base.and_then(|(name, text)| {
        assignment(ENDPOINT, name, format!("{}/v1/traces", text.trim_end_matches('/')))
    }));
    for (key, names) in OPTIONS {
        let set = reader.first_of(names);
        read.assignments.extend(set.and_then(|(name, text)| assignment(key, name, text)));
    }
    reader.check_protocol();
    if let Some(name) = reader.disabling_variable() {
        read.disabling = assignment(ENDPOINT, name, "default".to_owned());
    }
    read.header_fields = reader.header_fields();
    read
}

fn assignment(key: &str, variable: &str, text: String) -> Option<Assignment> {
    let source = Source::Environment { variable: variable.to_owned() };
    Some(Assignment { row: table::find(key)?, text, source })
}

struct Reader<'a> {
    variables: &'a [(String, OsString)],
    problems: &'a mut Vec<ConfigIssue>,
}

impl Reader<'_> {
    /// Returns the first of these variables that is set, and its value.
    fn first_of<'n>(&mut self, names: &[&'n str]) -> Option<(&'n str, String)> {
        let value = |name| self.variables.iter().find(|(known, _)| known == name);
        let (name, value) = names.iter().find_map(|name| Some((*name, &value(*name)?.1)))?;
        let Some(text) = value.to_str() else {
            self.report(name, ENDPOINT, "the value is not UTF-8", "set it as UTF-8");
            return None;
        };
        Some((name, text.trim().to_owned()))
    }

    fn report(&mut self, variable: &str, key: &str, message: impl Into<String>, hint: &str) {
        let source = Source::Environment { variable: variable.to_owned() };
        self.problems.push(ConfigIssue::new(source, key, Diagnostic::new(message, hint)));
    }

    fn check_protocol(&mut self) {
        if let Some((name, text)) = self.first_of(&PROTOCOLS)
            && text != "http/protobuf"
        {
            let message = format!("{text:?} is not supported");
            self.report(name, ENDPOINT, message, "set http/protobuf, and the port of OTLP/HTTP");
        }
    }

    /// Returns the variable that turns the exporter off, if one does.
    fn disabling_variable(&mut self) -> Option<&'static str> {
        if let Some((name, text)) = self.first_of(&[DISABLED]) {
            match &*text.to_ascii_lowercase() {
                "true" => return Some(name),
                "false" => {}
                _ => {
                    let message = format!("{text:?} is neither true nor false");
                    self.report(name, ENDPOINT, message, "write true or false");
                }
            }
        }
        let (name, text) = self.first_of(&[EXPORTER])?;
        match &*text {
            "none" => return Some(name),
            "otlp" => {}
            _ => {
                let message = format!("{text:?} is not supported");
                self.report(name, ENDPOINT, message, "write otlp or none");
            }
        }
        None
    }

    /// Returns the header fields: a list of `name=value`, the values percent-encoded.
    fn header_fields(&mut self) -> SecretFields {
        let mut fields = SecretFields::default();
        let Some((name, text)) = self.first_of(&HEADERS) else { return fields };
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (field, value) = pair.split_once('=').unwrap_or_default();
            let added = match percent_decode_str(value.trim()).decode_utf8() {
                Ok(value) => fields.add(field.trim(), &value),
                Err(_) => Err("the value of a header field is not UTF-8".to_owned()),
            };
            if let Err(what) = added {
                self.report(name, "traces.headers", what, "write name=value,name=value");
            }
        }
        fields
    }
}
