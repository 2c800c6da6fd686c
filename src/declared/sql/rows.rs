//! Results of statements as JSON, written row by row.
//!
//! Invariants: the text is never longer than `bytes_max`; what is too much for it is never copied.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::declared::call::{Failure, Output};

/// Names of the columns, encoded once: `{"id":`, `,"name":`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ColumnKeys {
    keys: Vec<Box<[u8]>>,
}

impl ColumnKeys {
    /// Encodes `names`.
    ///
    /// # Errors
    ///
    /// Two columns have the same name, which is returned.
    pub(crate) fn new<'n>(names: impl Iterator<Item = &'n str>) -> Result<Self, String> {
        let mut keys: Vec<Box<[u8]>> = Vec::with_capacity(names.size_hint().0);
        for name in names {
            let mut key = vec![if keys.is_empty() { b'{' } else { b',' }];
            write_json(&mut key, name);
            key.push(b':');
            if keys.iter().any(|other| other[1..] == key[1..]) {
                return Err(name.to_owned());
            }
            keys.push(key.into_boxed_slice());
        }
        Ok(Self { keys })
    }

    /// Number of columns.
    pub(crate) const fn len(&self) -> usize {
        self.keys.len()
    }
}

/// What a statement returns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Shape {
    /// `{"rows":[…],"truncated":…}`.
    Rows {
        /// Rows, at most.
        max: usize,
    },
    /// The one row.
    One,
    /// `{"changes":…}`: the statement has no columns.
    Changes,
}

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell<'v> {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number; `null` if JSON cannot express it.
    Real(f64),
    /// Text; what is not UTF-8 is replaced.
    Text(&'v [u8]),
    /// Bytes, written in base64.
    Blob(&'v [u8]),
}

/// Whether a writer takes further rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// It does.
    More,
    /// The result is complete as it is.
    Enough,
}

/// Writes the rows of one result.
#[derive(Debug)]
pub(crate) struct RowsWriter {
    text: Vec<u8>,
    shape: Shape,
    rows: usize,
    is_truncated: bool,
    bytes_max: usize,
}

/// What stands behind the last row, at most.
const END: &[u8] = b"],\"truncated\":false}";

impl RowsWriter {
    /// Begins a result of `shape` with `bytes_max` bytes at most.
    pub(crate) fn new(shape: Shape, bytes_max: usize) -> Self {
        let mut text = Vec::with_capacity(256);
        let end = if let Shape::Rows { .. } = shape {
            text.extend_from_slice(b"{\"rows\":[");
            END.len()
        } else {
            0
        };
        let bytes_max = bytes_max.saturating_sub(end);
        Self { text, shape, rows: 0, is_truncated: false, bytes_max }
    }

    /// Writes a row of `keys.len()` cells.
    ///
    /// # Errors
    ///
    /// The first row alone is too long; there is a second row of a result with one.
    pub(crate) fn write_row<'v>(
        &mut self,
        keys: &ColumnKeys,
        cells: impl Iterator<Item = Cell<'v>>,
    ) -> Result<Next, Failure> {
        if !self.begin_row()? {
            return Ok(Next::Enough);
        }
        let start = self.text.len();
        self.separate();
        for (key, cell) in keys.keys.iter().zip(cells) {
            self.text.extend_from_slice(key);
            if !self.write_cell(cell) {
                break;
            }
        }
        self.text.push(b'}');
        self.end_row(start)
    }

    /// Writes a row that is encoded already; `None` if it is too long to be there.
    #[cfg(feature = "postgres")]
    pub(crate) fn write_encoded(&mut self, row: Option<&str>) -> Result<Next, Failure> {
        if !self.begin_row()? {
            return Ok(Next::Enough);
        }
        let start = self.text.len();
        self.separate();
        match row {
            Some(row) if self.has_space(row.len()) => self.text.extend_from_slice(row.as_bytes()),
            _ => self.text.resize(self.bytes_max.saturating_add(1), b' '),
        }
        self.end_row(start)
    }

    /// The result.
    ///
    /// # Errors
    ///
    /// A result with one row has none.
    pub(crate) fn finish(mut self, changes: u64) -> Result<Output, Failure> {
        match self.shape {
            Shape::Rows { .. } if self.is_truncated => {
                self.text.extend_from_slice(b"],\"truncated\":true}");
            }
            Shape::Rows { .. } => self.text.extend_from_slice(END),
            Shape::One if self.rows == 0 => {
                return Err(Failure::failed("no row matches these arguments"));
            }
            Shape::One => {}
            Shape::Changes => self.text = format!("{{\"changes\":{changes}}}").into_bytes(),
        }
        // Everything that was written is UTF-8.
        let text = String::from_utf8(self.text).map_err(Failure::failed)?;
        Ok(Output::JsonText(text))
    }

    /// Returns whether a row may follow.
    fn begin_row(&mut self) -> Result<bool, Failure> {
        match self.shape {
            Shape::Rows { max } if self.rows >= max => {
                self.is_truncated = true;
                Ok(false)
            }
            Shape::One if self.rows > 0 => {
                let text = "the statement has more than one row, but declares one = true: make the \
                            arguments select one row";
                Err(Failure::failed(text))
            }
            _ => Ok(true),
        }
    }

    fn separate(&mut self) {
        if self.rows > 0 {
            self.text.push(b',');
        }
    }

    /// Ends the row that begins at `start`, or takes it back.
    fn end_row(&mut self, start: usize) -> Result<Next, Failure> {
        if self.text.len() <= self.bytes_max {
            self.rows += 1;
            return Ok(Next::More);
        }
        self.text.truncate(start);
        if self.rows == 0 {
            let text = "a row is longer than the limit of the output: select fewer columns, or a \
                        part of the text";
            return Err(Failure::failed(text));
        }
        self.is_truncated = true;
        Ok(Next::Enough)
    }

    fn has_space(&self, bytes: usize) -> bool {
        self.text.len().saturating_add(bytes) <= self.bytes_max
    }

    /// Writes a value; returns `false` if it is too long, and the text is too long then.
    fn write_cell(&mut self, cell: Cell<'_>) -> bool {
        match cell {
            Cell::Null => self.text.extend_from_slice(b"null"),
            Cell::Integer(number) => write_json(&mut self.text, &number),
            Cell::Real(number) => write_json(&mut self.text, &number),
            Cell::Text(text) if self.has_space(text.len()) => match std::str::from_utf8(text) {
                Ok(text) => write_json(&mut self.text, text),
                Err(_) => write_json(&mut self.text, &*String::from_utf8_lossy(text)),
            },
            Cell::Blob(bytes) if self.has_space(bytes.len() / 3 * 4) => {
                self.text.push(b'"');
                let start = self.text.len();
                self.text.resize(start + bytes.len().div_ceil(3) * 4, b'=');
                // The slice is as long as the text in base64.
                let length = STANDARD.encode_slice(bytes, &mut self.text[start..]).unwrap_or(0);
                self.text.truncate(start + length);
                self.text.push(b'"');
            }
            Cell::Text(_) | Cell::Blob(_) => {
                self.text.resize(self.bytes_max.saturating_add(1), b' ');
            }
        }
        self.text.len() <= self.bytes_max
    }
}

/// Writes `value` as JSON.
fn write_json(text: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // Numbers and texts always have a form in JSON, and a vector takes it.
    drop(serde_json::to_writer(text, value));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(shape: Shape, bytes_max: usize, rows: &[&[Cell<'_>]]) -> Result<String, Failure> {
        let columns = rows.first().map_or(0, |row| row.len());
        let names = ["a", "b\"", "c"];
        let keys = ColumnKeys::new(names.into_iter().take(columns)).unwrap();
        let mut writer = RowsWriter::new(shape, bytes_max);
        for row in rows {
            if writer.write_row(&keys, row.iter().copied())? == Next::Enough {
                break;
            }
        }
        match writer.finish(2)? {
            Output::JsonText(text) => Ok(text),
            other => panic!("{other:?}"),
        }
    }

    const ROWS: Shape = Shape::Rows { max: 2 };

    #[test]
    fn values_are_written_exactly() {
        let row = [Cell::Integer(i64::MIN), Cell::Text(b"a\"\0\xff\n"), Cell::Blob(b"\x00\xff")];
        let text = write(Shape::One, 100, &[&row]).unwrap();
        let expected = "{\"a\":-9223372036854775808,\"b\\\"\":\"a\\\"\\u0000\u{fffd}\\n\",\
                        \"c\":\"AP8=\"}";
        assert_eq!(text, expected);
        let row = [Cell::Real(0.1), Cell::Real(f64::INFINITY), Cell::Null];
        let text = write(Shape::One, 100, &[&row]).unwrap();
        assert_eq!(text, "{\"a\":0.1,\"b\\\"\":null,\"c\":null}");
    }

    #[test]
    fn rows_beyond_the_maximum_are_truncated() {
        let row: &[Cell<'_>] = &[Cell::Integer(1)];
        assert_eq!(write(ROWS, 100, &[]).unwrap(), "{\"rows\":[],\"truncated\":false}");
        let two = "{\"rows\":[{\"a\":1},{\"a\":1}],\"truncated\":false}";
        assert_eq!(write(ROWS, 100, &[row, row]).unwrap(), two);
        assert_eq!(write(ROWS, 100, &[row, row, row]).unwrap(), two.replace("false", "true"));
        assert!(write(Shape::One, 100, &[row, row]).is_err());
        assert!(write(Shape::One, 100, &[]).is_err());
        assert_eq!(write(Shape::Changes, 100, &[]).unwrap(), "{\"changes\":2}");
    }

    #[test]
    fn result_keeps_its_bytes_at_every_limit() {
        let texts = [&b"aa"[..], b"\n\n\n\n", b"bbbbbbbbbbbb"];
        for bytes_max in 0..90 {
            for kind in [Cell::Text, Cell::Blob] {
                let rows = texts.map(|text| [kind(text)]);
                let rows: Vec<&[Cell<'_>]> = rows.iter().map(|row| &row[..]).collect();
                if let Ok(text) = write(Shape::Rows { max: 9 }, bytes_max, &rows) {
                    assert!(text.len() <= bytes_max, "{text}");
                    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
                    let found = value["rows"].as_array().unwrap().len();
                    assert_eq!(value["truncated"], found < 3);
                }
            }
        }
    }

    #[test]
    fn column_names_are_unique() {
        assert_eq!(ColumnKeys::new(["a", "b", "a"].into_iter()), Err("a".to_owned()));
        assert_eq!(ColumnKeys::new(["a", "A"].into_iter()).unwrap().len(), 2);
    }
}
