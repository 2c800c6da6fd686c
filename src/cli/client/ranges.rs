//! A resource that is larger than one response: it is read in ranges, one after the other.
//!
//! A Corelane server refuses to read such a file with -32602, whose `data` has the first range in
//! `corelane/range`; each range states itself in `_meta["corelane/range"]` (docs/files.md).

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use corelane_client::{ClientError, ClientErrorKind};
use corelane_protocol::eras::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::connection::{Connection, read};
use super::failure::Failure;
use super::output::OutputFile;

/// Key of a range.
const RANGE_KEY: &str = "corelane/range";

/// A range of a resource.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub(crate) struct Range {
    offset: u64,
    /// Bytes of the range.
    length: u64,
    /// Bytes of the resource.
    size: u64,
    /// Changes with the resource, if the server knows that.
    etag: Option<String>,
}

impl Range {
    /// Returns the first range to read if the server refuses to read all at once.
    pub(crate) fn first(error: &ClientError) -> Option<Self> {
        let data: Value = serde_json::from_str(error.data()?).ok()?;
        // The parity dialect has the data of MCP in a member of its details.
        let range = data.get(RANGE_KEY).or_else(|| data.get("data")?.get(RANGE_KEY))?;
        Self::deserialize(range).ok().filter(|range| range.offset == 0 && range.length > 0)
    }

    /// Reads all ranges of a resource into the file `path`, which changes only if all are read.
    pub(crate) fn read_all(
        &self,
        uri: &str,
        path: &Path,
        server: &Connection,
    ) -> Result<(), Failure> {
        let failed = |why: &dyn std::fmt::Display| {
            Failure::call(format!("{} was not written: {why}", path.display()), None)
        };
        let mut file = OutputFile::create(path).map_err(|error| failed(&error))?;
        let mut offset = 0;
        while offset < self.size {
            let bytes = self.read_part(uri, offset, server).map_err(|error| match error.kind() {
                ClientErrorKind::Rpc { .. } | ClientErrorKind::Parity { .. } => failed(&format!(
                    "{uri} cannot be read on at byte {offset} of {}; it may have changed: {error}",
                    self.size
                )),
                _ => error.into(),
            })?;
            file.append(&bytes).map_err(|error| failed(&error))?;
            offset += bytes.len() as u64;
        }
        file.finish().map_err(|error| failed(&error))
    }

    /// Reads the range that begins at `offset`.
    fn read_part(
        &self,
        uri: &str,
        offset: u64,
        server: &Connection,
    ) -> Result<Vec<u8>, ClientError> {
        let length = self.length.min(self.size - offset);
        let params = json!({ "uri": format!("{uri}?offset={offset}&length={length}") });
        let document = server.request(Method::ResourcesRead, &params)?;
        self.check_part(offset, &read(&document)?).map_err(|why| {
            let text = format!("the range of {uri} at byte {offset} is of no use: {why}");
            ClientError::new(ClientErrorKind::Protocol, text)
        })
    }

    /// Returns the bytes of the range at `offset`, or why the result does not have them.
    fn check_part(&self, offset: u64, result: &Value) -> Result<Vec<u8>, String> {
        let Some([content]) = result["contents"].as_array().map(Vec::as_slice) else {
            return Err("the result does not have one item of contents".to_owned());
        };
        let bytes = match (content["text"].as_str(), content["blob"].as_str()) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(blob)) => {
                BASE64_STANDARD.decode(blob).map_err(|error| error.to_string())?
            }
            (None, None) => return Err("it has neither text nor a blob".to_owned()),
        };
        let given = bytes.len() as u64;
        // Contents have no `_meta` in the first revisions, so that only their length is known.
        let meta = &content["_meta"];
        if !meta.is_null() {
            self.check_meta(offset, given, meta)?;
        }
        if given == 0 || given > self.size - offset {
            return Err(format!(
                "it has {given} bytes of the {} that are left",
                self.size - offset
            ));
        }
        Ok(bytes)
    }

    /// Checks the `_meta` of a range that begins at `offset` and has `given` bytes.
    fn check_meta(&self, offset: u64, given: u64, meta: &Value) -> Result<(), String> {
        let part = Self::deserialize(&meta[RANGE_KEY]);
        let part = part.map_err(|error| format!("_meta has no valid {RANGE_KEY}: {error}"))?;
        if (part.size, &part.etag) != (self.size, &self.etag) {
            return Err(format!(
                "the resource has changed since the first range, which was of {} bytes, and has {} \
                 now; read it again",
                self.size, part.size
            ));
        }
        if part.offset != offset || part.length != given {
            return Err(format!(
                "it states {} bytes at {} and has {given} bytes",
                part.length, part.offset
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(size: u64) -> Range {
        Range { offset: 0, length: 4, size, etag: Some("a".to_owned()) }
    }

    fn result(text: &str, meta: &Value) -> Value {
        json!({ "contents": [{ "uri": "u", "text": text, "_meta": { "corelane/range": meta } }] })
    }

    fn meta(offset: u64, length: u64, size: u64, etag: &str) -> Value {
        json!({ "offset": offset, "length": length, "size": size, "etag": etag })
    }

    #[test]
    fn part_that_does_not_fit_is_refused() {
        let check = |text: &str, meta: &Value| range(9).check_part(4, &result(text, meta));
        assert_eq!(check("abcd", &meta(4, 4, 9, "a")).unwrap(), b"abcd");
        for (text, meta, expected) in [
            ("abcd", meta(4, 4, 8, "a"), "has changed"),
            ("abcd", meta(4, 4, 9, "b"), "has changed"),
            ("abcd", meta(3, 4, 9, "a"), "states 4 bytes at 3"),
            ("abc", meta(4, 4, 9, "a"), "has 3 bytes"),
            ("", meta(4, 0, 9, "a"), "0 bytes of the 5"),
            ("abcdef", meta(4, 6, 9, "a"), "6 bytes of the 5"),
            ("abcd", json!({}), "no valid corelane/range"),
        ] {
            let error = check(text, &meta).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(range(9).check_part(4, &json!({ "contents": [] })).is_err());
    }
}
