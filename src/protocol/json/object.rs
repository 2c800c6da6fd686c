//! Writer of the members of one JSON object.
//!
//! Invariants: members are separated by one comma, in the order of the calls. Duplicate keys are
//! not detected. Results of the request path write their bytes directly instead.

use super::write;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Writes the members of one object at the end of a buffer.
#[derive(Debug)]
#[must_use = "the object is incomplete until `close` is called"]
pub struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> ObjectWriter<'o> {
    /// Writes the opening brace.
    #[inline]
    pub fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Continues an object that is open at the end of `out` and already has members.
    #[inline]
    pub const fn resume(out: &'o mut Vec<u8>) -> Self {
        Self { out, is_empty: false }
    }

    /// Writes `key` and the colon; the caller appends exactly one value.
    #[inline]
    pub fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        write::string(self.out, key);
        self.out.push(b':');
        self.out
    }

    /// Writes a string member.
    #[inline]
    pub fn string(&mut self, key: &str, text: &str) -> &mut Self {
        write::string(self.key(key), text);
        self
    }

    /// Writes a string member; writes nothing for `None`.
    pub fn string_opt(&mut self, key: &str, text: Option<impl AsRef<str>>) -> &mut Self {
        match text {
            Some(text) => self.string(key, text.as_ref()),
            None => self,
        }
    }

    /// Writes an array of strings.
    pub fn strings<T: AsRef<str>>(
        &mut self,
        key: &str,
        texts: impl IntoIterator<Item = T>,
    ) -> &mut Self {
        let out = self.key(key);
        out.push(b'[');
        for (index, text) in texts.into_iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write::string(out, text.as_ref());
        }
        out.push(b']');
        self
    }

    /// Writes `true` or `false`.
    pub fn boolean(&mut self, key: &str, value: bool) -> &mut Self {
        write::boolean(self.key(key), value);
        self
    }

    /// Writes an unsigned integer.
    pub fn unsigned(&mut self, key: &str, number: u64) -> &mut Self {
        write::unsigned(self.key(key), number);
        self
    }

    /// Writes an unsigned integer; writes nothing for `None`.
    pub fn unsigned_opt(&mut self, key: &str, number: Option<u64>) -> &mut Self {
        match number {
            Some(number) => self.unsigned(key, number),
            None => self,
        }
    }

    /// Writes a number; writes nothing for `None`, infinity and NaN.
    pub fn float_opt(&mut self, key: &str, number: Option<f64>) -> &mut Self {
        if let Some(number) = number.filter(|number| number.is_finite()) {
            write::float(self.key(key), number);
        }
        self
    }

    /// Writes bytes as a base64 string (RFC 4648, section 4).
    pub fn base64(&mut self, key: &str, bytes: &[u8]) -> &mut Self {
        write_base64(self.key(key), bytes);
        self
    }

    /// Writes an empty object, `{}`.
    pub fn empty_object(&mut self, key: &str) -> &mut Self {
        self.key(key).extend_from_slice(b"{}");
        self
    }

    /// Writes `json`, which must be one encoded value.
    pub fn raw(&mut self, key: &str, json: &[u8]) -> &mut Self {
        self.key(key).extend_from_slice(json);
        self
    }

    /// Writes a [`serde_json::Value`].
    pub fn value(&mut self, key: &str, value: &serde_json::Value) -> &mut Self {
        write::json(self.key(key), value);
        self
    }

    /// Writes an object; writes nothing for `None`.
    pub fn map_opt(
        &mut self,
        key: &str,
        map: Option<&serde_json::Map<String, serde_json::Value>>,
    ) -> &mut Self {
        if let Some(map) = map {
            write::map(self.key(key), map);
        }
        self
    }

    /// Opens an object as the member `key`.
    pub fn object(&mut self, key: &str) -> ObjectWriter<'_> {
        ObjectWriter::open(self.key(key))
    }

    /// Writes the closing brace.
    #[inline]
    pub fn close(self) {
        self.out.push(b'}');
    }
}

/// Appends bytes as a base64 JSON string.
fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let start = out.len();
    let length = base64::encoded_len(bytes.len(), true).unwrap_or(usize::MAX);
    out.resize(start + length, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]);
    out.truncate(start + written.unwrap_or(0));
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_separated_by_one_comma() {
        let mut out = Vec::new();
        let mut object = ObjectWriter::open(&mut out);
        object.string("a\"", "b").string_opt("none", None::<&str>).unsigned("n", 7);
        object.strings("list", ["x", "y"]).boolean("t", true).float_opt("f", Some(f64::NAN));
        object.object("inner").close();
        object.empty_object("e").base64("d", b"\xff\xfe");
        object.close();
        let text = String::from_utf8(out).unwrap();
        let expected =
            r#"{"a\"":"b","n":7,"list":["x","y"],"t":true,"inner":{},"e":{},"d":"//4="}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn base64_round_trips_for_every_length() {
        for length in 0..50 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte * 5).collect();
            let mut out = Vec::new();
            write_base64(&mut out, &bytes);
            let text = std::str::from_utf8(&out).unwrap().trim_matches('"');
            assert_eq!(STANDARD.decode(text).unwrap(), bytes);
        }
    }
}
