//! `corelane skill`: reads a skill, verified.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::ArgMatches;
use serde_json::json;

use super::connection::{Connection, to_document};
use super::failure::Failure;
use super::flags::{FILE, NAME};
use super::output::{Content, Output};

/// Loads and verifies a skill, and prints its instructions or one of its files.
pub(crate) fn read_skill(
    matches: &ArgMatches,
    server: &Connection,
    output: &mut Output,
) -> Result<(), Failure> {
    let uri = matches.get_one::<String>(NAME).map(String::as_str).unwrap_or_default();
    let skill = server.load_skill(uri)?;
    let Some(file) = matches.get_one::<String>(FILE) else {
        if output.is_json() {
            let (front_matter, instructions) = (&skill.info().frontmatter, skill.instructions());
            let document =
                json!({ "uri": uri, "frontmatter": front_matter, "instructions": instructions });
            output.write_document(&to_document(&document)?)?;
            return Ok(());
        }
        return output.write_contents(&[Content::Text(skill.instructions())]);
    };
    let file_uri = match uri.rsplit_once('/') {
        Some((folder, _)) if !file.contains("://") => format!("{folder}/{file}"),
        _ => file.clone(),
    };
    let bytes = server.read_skill_file(&skill, &file_uri)?;
    let (text, data);
    let content = match String::from_utf8(bytes) {
        Ok(valid) => {
            text = valid;
            Content::Text(&text)
        }
        Err(error) => {
            data = BASE64_STANDARD.encode(error.as_bytes());
            Content::Bytes { data: &data, mime_type: "application/octet-stream" }
        }
    };
    if output.is_json() {
        let (key, value) = match content {
            Content::Bytes { data, .. } => ("blob", data),
            Content::Text(text) => ("text", text),
            Content::Link { .. } | Content::Unknown { .. } => ("text", ""),
        };
        output.write_document(&to_document(&json!({ "uri": file_uri, key: value }))?)?;
        return Ok(());
    }
    output.write_contents(&[content])
}
