//! Sections of the environment and the plan. Values of HTTP header fields are hidden.

use std::error::Error;
use std::time::{Duration, UNIX_EPOCH};

use maud::{Markup, html};
use serde_json::Value;

use super::other_results::other_manifest_rows;
use crate::plan::Plan;
use crate::result::Manifest;

/// Placeholder of a hidden value.
const HIDDEN: &str = "(hidden)";

/// Returns the section of the environment.
pub(super) fn manifest(manifest: &Manifest) -> Markup {
    html! {
        section class="card wide" id="manifest" {
            h2 { "Environment" }
            dl class="facts" {
                dt { "Command" }
                dd { code { "corelane-load " (command(&manifest.arguments)) } }
                dt { "Ended" }
                dd { (ended(manifest)) }
                dt { "Version" }
                dd { "corelane-load " (manifest.version) }
                dt { "Processor" }
                dd { (manifest.cpu) ", " (manifest.cores) " cores" }
                dt { "Kernel" }
                dd { (manifest.kernel) }
                dt { "Ring" }
                dd { (manifest.ring) }
                dt { "Load threads" }
                dd { (manifest.threads) }
                (other_manifest_rows(manifest))
                @for (name, value) in manifest.sysctls.iter().filter(|row| !row.1.is_empty()) {
                    dt { code { (name) } }
                    dd { (value) }
                }
            }
        }
    }
}

/// Returns the section of the plan, which `command` accepts.
pub(super) fn plan(plan: &Plan, command: &str) -> Markup {
    // A plan can be written as TOML unless a value is out of range.
    let text = plan_text(plan).unwrap_or_else(|error| error.to_string());
    html! {
        section class="card wide" id="plan" {
            h2 { "The plan" }
            p class="caption" {
                "Save it to a file to repeat this: "
                code { "corelane-load " (command) " --plan FILE" }
            }
            pre tabindex="0" { code { (text) } }
        }
    }
}

/// Returns a plan as TOML, without values of header fields.
fn plan_text(plan: &Plan) -> Result<String, Box<dyn Error>> {
    let mut plan = serde_json::to_value(plan)?;
    let fields = plan.get_mut("headers").and_then(Value::as_array_mut);
    for value in fields.into_iter().flatten().filter_map(|field| field.get_mut(1)) {
        *value = HIDDEN.into();
    }
    Ok(toml::to_string_pretty(&plan)?)
}

/// Returns the end of the run in UTC.
pub(super) fn ended(manifest: &Manifest) -> String {
    // The format has four digits for the year.
    let seconds = manifest.ended_unix_s.min(253_402_300_799);
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    humantime::format_rfc3339_seconds(time).to_string().replace('T', " ").replace('Z', " UTC")
}

/// Returns the arguments quoted for a shell, without values of header fields.
fn command(arguments: &[String]) -> String {
    let mut shown: Vec<String> = Vec::with_capacity(arguments.len());
    let mut is_field = false;
    for argument in arguments {
        let argument = match argument.strip_prefix("--header=") {
            Some(field) => format!("--header={}", without_value(field)),
            None if is_field => without_value(argument),
            None => argument.clone(),
        };
        is_field = argument == "--header";
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
        if argument.bytes().all(is_plain) && !argument.is_empty() {
            shown.push(argument);
        } else {
            shown.push(format!("'{}'", argument.replace('\'', r"'\''")));
        }
    }
    shown.join(" ")
}

fn without_value(field: &str) -> String {
    let name = field.split(':').next().unwrap_or_default();
    format!("{name}: {HIDDEN}")
}
