//! The writer of one object: commas and keys are its work, values that of the caller.
//!
//! What it keeps true: the members stand between their braces with one comma between them, in the
//! order in which they were written. It does not look for keys that are written twice. For bodies
//! off the road; what every call writes is spelled out where it is written.

use super::write;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Writes the members of one object at the end of a buffer.
#[derive(Debug)]
#[must_use = "an object is complete when it is closed"]
pub struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> ObjectWriter<'o> {
    /// Starts an object.
    #[inline]
    pub fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Goes on with an object that is open at the end of `out` and has members already.
    #[inline]
    pub const fn resume(out: &'o mut Vec<u8>) -> Self {
        Self { out, is_empty: false }
    }

    /// Starts the member called `key`; the caller appends exactly one value.
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

    /// Writes a string.
    #[inline]
    pub fn text(&mut self, key: &str, text: &str) -> &mut Self {
        write::string(self.key(key), text);
        self
    }

    /// Writes a string, where there is one.
    pub fn text_if(&mut self, key: &str, text: Option<impl AsRef<str>>) -> &mut Self {
        match text {
            Some(text) => self.text(key, text.as_ref()),
            None => self,
        }
    }

    /// Writes a list of strings.
    pub fn texts<T: AsRef<str>>(
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
    pub fn boolean(&mut self, key: &str, truth: bool) -> &mut Self {
        write::boolean(self.key(key), truth);
        self
    }

    /// Writes a number without sign.
    pub fn unsigned(&mut self, key: &str, number: u64) -> &mut Self {
        write::unsigned(self.key(key), number);
        self
    }

    /// Writes a number without sign, where there is one.
    pub fn unsigned_if(&mut self, key: &str, number: Option<u64>) -> &mut Self {
        match number {
            Some(number) => self.unsigned(key, number),
            None => self,
        }
    }

    /// Writes a number, where there is one and JSON can say it.
    pub fn float_if(&mut self, key: &str, number: Option<f64>) -> &mut Self {
        if let Some(number) = number.filter(|number| number.is_finite()) {
            write::float(self.key(key), number);
        }
        self
    }

    /// Writes bytes as base64 (RFC 4648, section 4), straight into the buffer.
    pub fn base64(&mut self, key: &str, bytes: &[u8]) -> &mut Self {
        base64_string(self.key(key), bytes);
        self
    }

    /// Writes an object without members.
    pub fn empty(&mut self, key: &str) -> &mut Self {
        self.key(key).extend_from_slice(b"{}");
        self
    }

    /// Writes a value that is JSON already.
    pub fn encoded(&mut self, key: &str, json: &[u8]) -> &mut Self {
        self.key(key).extend_from_slice(json);
        self
    }

    /// Writes an owned value.
    pub fn json(&mut self, key: &str, value: &serde_json::Value) -> &mut Self {
        write::json(self.key(key), value);
        self
    }

    /// Writes an owned object, where there is one.
    pub fn map_if(
        &mut self,
        key: &str,
        map: Option<&serde_json::Map<String, serde_json::Value>>,
    ) -> &mut Self {
        if let Some(map) = map {
            write::map(self.key(key), map);
        }
        self
    }

    /// Starts an object as the member called `key`.
    pub fn object(&mut self, key: &str) -> ObjectWriter<'_> {
        ObjectWriter::open(self.key(key))
    }

    /// Ends the object.
    #[inline]
    pub fn close(self) {
        self.out.push(b'}');
    }
}

/// Appends bytes as a JSON string of base64.
fn base64_string(out: &mut Vec<u8>, bytes: &[u8]) {
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
    fn members_have_one_comma_between_them_and_none_around() {
        let mut out = Vec::new();
        let mut object = ObjectWriter::open(&mut out);
        object.text("a\"", "b").text_if("none", None::<&str>).unsigned("n", 7);
        object.texts("list", ["x", "y"]).boolean("t", true).float_if("f", Some(f64::NAN));
        object.object("inner").close();
        object.empty("e").base64("d", b"\xff\xfe");
        object.close();
        let text = String::from_utf8(out).unwrap();
        let expected =
            r#"{"a\"":"b","n":7,"list":["x","y"],"t":true,"inner":{},"e":{},"d":"//4="}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn base64_is_written_for_every_length() {
        for length in 0..50 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte * 5).collect();
            let mut out = Vec::new();
            base64_string(&mut out, &bytes);
            let text = std::str::from_utf8(&out).unwrap().trim_matches('"');
            assert_eq!(STANDARD.decode(text).unwrap(), bytes);
        }
    }
}
