//! Values of parameters as text: the styles of RFC 6570 that OpenAPI names.

use std::borrow::Cow;

use serde_json::Value;

use super::encode;
use super::values::text_of;

/// How a value becomes the text of a parameter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParameterStyle {
    /// `name=a,b`, exploded `name=a&name=b`.
    Form,
    /// `name=a%20b`.
    SpaceDelimited,
    /// `name=a%7Cb`.
    PipeDelimited,
    /// `name[key]=value`.
    DeepObject,
    /// `a,b`.
    Simple,
    /// `.a,b`, exploded `.a.b`.
    Label,
    /// `;name=a,b`, exploded `;name=a;name=b`.
    Matrix,
    /// JSON.
    Json,
}

/// Writes pairs of a query or of a form.
#[derive(Debug)]
pub(super) struct PairWriter<'a> {
    target: &'a mut String,
    /// What stands before the first pair.
    first: &'static str,
    has_pair: bool,
    /// Between pairs.
    separator: &'static str,
    encode: fn(&mut String, &str),
}

impl<'a> PairWriter<'a> {
    /// Writes the query of a URL, with its `?`.
    pub(super) fn for_query(target: &'a mut String) -> Self {
        let encode = encode::push_value;
        Self { target, first: "?", has_pair: false, separator: "&", encode }
    }

    /// Writes a body in `application/x-www-form-urlencoded`.
    pub(super) fn for_form(target: &'a mut String) -> Self {
        let encode = encode::push_form_value;
        Self { target, first: "", has_pair: false, separator: "&", encode }
    }

    /// Writes the value of the header `Cookie`.
    pub(super) fn for_cookies(target: &'a mut String) -> Self {
        let encode = encode::push_value;
        Self { target, first: "", has_pair: false, separator: "; ", encode }
    }

    /// Writes values in which reserved characters stay as they are, until it is called again.
    pub(super) fn allow_reserved(&mut self, allow: bool) {
        self.encode = if allow { encode::push_reserved_value } else { encode::push_value };
    }

    /// Writes pairs that are encoded already.
    pub(super) fn encoded(&mut self, text: &str) {
        self.begin();
        encode::push_query_text(self.target, text);
    }

    /// Writes one pair.
    pub(super) fn pair(&mut self, name: &str, value: &str) {
        self.joined(name, std::iter::once(Cow::Borrowed(value)), "");
    }

    /// Writes the pairs of `value`; `null`, an empty list and an empty object have none.
    pub(super) fn value(&mut self, name: &str, value: &Value, form: ValueForm) {
        let ValueForm { style, explode } = form;
        match (style, value) {
            (_, Value::Null) => {}
            (ParameterStyle::Json, value) => self.pair(name, &value.to_string()),
            (ParameterStyle::DeepObject, value) => self.nested(name, value),
            (ParameterStyle::Form, Value::Array(items)) if explode => {
                for item in items {
                    self.pair(name, &text_of(item));
                }
            }
            (_, Value::Object(members)) if explode => {
                for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
                    self.pair(name, &text_of(value));
                }
            }
            (_, Value::Array(items)) if items.is_empty() => {}
            (_, Value::Object(members)) if members.is_empty() => {}
            (style, Value::Array(items)) => {
                self.joined(name, items.iter().map(text_of), delimiter(style));
            }
            (style, Value::Object(members)) => {
                let texts = members
                    .iter()
                    .flat_map(|(name, value)| [Cow::Borrowed(name.as_str()), text_of(value)]);
                self.joined(name, texts, delimiter(style));
            }
            (_, scalar) => self.pair(name, &text_of(scalar)),
        }
    }

    /// Writes `name[key]=value` for each value in an object, `name[]=value` for one in a list.
    fn nested(&mut self, name: &str, value: &Value) {
        match value {
            Value::Null => {}
            Value::Object(members) => {
                members
                    .iter()
                    .for_each(|(key, value)| self.nested(&format!("{name}[{key}]"), value));
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let key = if item.is_object() || item.is_array() {
                        index.to_string()
                    } else {
                        String::new()
                    };
                    self.nested(&format!("{name}[{key}]"), item);
                }
            }
            scalar => self.pair(name, &text_of(scalar)),
        }
    }

    fn joined<'b>(
        &mut self,
        name: &str,
        texts: impl Iterator<Item = Cow<'b, str>>,
        delimiter: &str,
    ) {
        self.begin();
        (self.encode)(self.target, name);
        self.target.push('=');
        for (index, text) in texts.enumerate() {
            if index > 0 {
                self.target.push_str(delimiter);
            }
            (self.encode)(self.target, &text);
        }
    }

    fn begin(&mut self) {
        self.target.push_str(if self.has_pair { self.separator } else { self.first });
        self.has_pair = true;
    }
}

/// Style of a value, and whether the items of lists and objects are parameters of their own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ValueForm {
    pub(super) style: ParameterStyle,
    pub(super) explode: bool,
}

fn delimiter(style: ParameterStyle) -> &'static str {
    match style {
        ParameterStyle::SpaceDelimited => "%20",
        ParameterStyle::PipeDelimited => "%7C",
        _ => ",",
    }
}

/// The text of a value in a path or a header. Each text in it is written with `encode`.
pub(super) fn write_simple(
    target: &mut String,
    name: &str,
    value: &Value,
    form: ValueForm,
    encode: fn(&mut String, &str),
) {
    let ValueForm { style, explode } = form;
    if style == ParameterStyle::Json {
        return encode(target, &value.to_string());
    }
    let (first, delimiter) = match (style, explode) {
        (ParameterStyle::Label, true) => (".", "."),
        (ParameterStyle::Label, false) => (".", ","),
        (ParameterStyle::Matrix, true) => (";", ";"),
        (ParameterStyle::Matrix, false) => (";", ","),
        _ => ("", ","),
    };
    target.push_str(first);
    // With `matrix` the name stands before each item of an exploded list, and otherwise once.
    let names_items = style == ParameterStyle::Matrix && explode && value.is_array();
    let has_names = explode && value.is_object();
    if style == ParameterStyle::Matrix && !names_items && !has_names {
        encode(target, name);
        target.push('=');
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                target.push_str(if index > 0 { delimiter } else { "" });
                if names_items {
                    encode(target, name);
                    target.push('=');
                }
                encode(target, &text_of(item));
            }
        }
        Value::Object(members) => {
            for (index, (name, value)) in members.iter().enumerate() {
                target.push_str(if index > 0 { delimiter } else { "" });
                encode(target, name);
                target.push_str(if explode { "=" } else { "," });
                encode(target, &text_of(value));
            }
        }
        scalar => encode(target, &text_of(scalar)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ParameterStyle::{
        DeepObject, Form, Label, Matrix, PipeDelimited, Simple, SpaceDelimited,
    };
    use super::*;

    const STYLES: [ParameterStyle; 4] = [Form, SpaceDelimited, PipeDelimited, DeepObject];

    fn query(style: ParameterStyle, explode: bool, value: &Value) -> String {
        let mut text = String::new();
        PairWriter::for_query(&mut text).value("q", value, ValueForm { style, explode });
        text
    }

    fn path(style: ParameterStyle, explode: bool, value: &Value) -> String {
        let mut text = String::new();
        write_simple(&mut text, "q", value, ValueForm { style, explode }, encode::push_value);
        text
    }

    #[test]
    fn query_styles_are_those_of_openapi() {
        let list = json!(["a", "b c"]);
        let object = json!({ "R": 100, "G": "x&y" });
        assert_eq!(query(Form, true, &list), "?q=a&q=b%20c");
        assert_eq!(query(Form, false, &list), "?q=a,b%20c");
        assert_eq!(query(Form, true, &object), "?R=100&G=x%26y");
        assert_eq!(query(Form, false, &object), "?q=R,100,G,x%26y");
        assert_eq!(query(SpaceDelimited, false, &list), "?q=a%20b%20c");
        assert_eq!(query(PipeDelimited, false, &list), "?q=a%7Cb%20c");
        assert_eq!(query(DeepObject, true, &object), "?q%5BR%5D=100&q%5BG%5D=x%26y");
        for style in STYLES {
            assert_eq!(query(style, true, &json!(true)), "?q=true");
            assert_eq!(query(style, false, &json!(null)), "");
            assert_eq!(query(style, false, &json!([])), "");
        }
    }

    #[test]
    fn path_styles_are_those_of_openapi() {
        let list = json!([3, 4, 5]);
        let object = json!({ "role": "a/b", "n": 1 });
        assert_eq!(path(Simple, false, &list), "3,4,5");
        assert_eq!(path(Simple, false, &object), "role,a%2Fb,n,1");
        assert_eq!(path(Simple, true, &object), "role=a%2Fb,n=1");
        assert_eq!(path(Label, false, &json!(5)), ".5");
        assert_eq!(path(Label, true, &list), ".3.4.5");
        assert_eq!(path(Label, true, &object), ".role=a%2Fb.n=1");
        assert_eq!(path(Matrix, false, &json!(5)), ";q=5");
        assert_eq!(path(Matrix, false, &list), ";q=3,4,5");
        assert_eq!(path(Matrix, true, &list), ";q=3;q=4;q=5");
        assert_eq!(path(Matrix, false, &object), ";q=role,a%2Fb,n,1");
        assert_eq!(path(Matrix, true, &object), ";role=a%2Fb;n=1");
    }
}
