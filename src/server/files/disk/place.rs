//! Places below a root, as relative paths and as `file:` URIs.
//!
//! What it keeps true: a [`Place`] cannot lead out of its root by its own words: it holds no empty
//! step, no `.`, no `..`, no backslash, no control character. A URI is decoded exactly once and
//! step by step, so that `%2F` never becomes a separator and `%252e` never becomes a dot. It does
//! not look at the disk: symbolic links are the business of `beneath`.
//!
//! Source: RFC 8089 (the `file` scheme), RFC 3986 sections 2.1 and 3.3.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

/// A file or a folder below a root, by its steps with `/` between them; empty for the root itself.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(in crate::server::files) struct Place(String);

impl Place {
    /// The place `name` steps into from here; `None` where `name` is no step that can be served.
    pub(in crate::server::files) fn child(&self, name: &[u8]) -> Option<Self> {
        let name = servable(name)?;
        let separator = if self.0.is_empty() { "" } else { "/" };
        Some(Self(format!("{}{separator}{name}", self.0)))
    }

    /// The place of `path` below `root`; `None` where it is not below it or cannot be served.
    pub(in crate::server::files) fn of(path: &Path, root: &Path) -> Option<Self> {
        path.strip_prefix(root).ok()?.components().try_fold(Self::default(), |place, component| {
            match component {
                Component::Normal(name) => place.child(name.as_bytes()),
                _ => None,
            }
        })
    }

    /// Its steps with `/` between them.
    pub(in crate::server::files) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the root itself.
    pub(in crate::server::files) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a step of it begins with a dot.
    pub(in crate::server::files) fn is_hidden(&self) -> bool {
        self.0.split('/').any(|step| step.starts_with('.'))
    }
}

/// The URI of a root, and with it those of all places below.
#[derive(Clone, Debug)]
pub(in crate::server::files) struct Address {
    /// `file:///srv/docs/`, encoded.
    prefix: String,
    /// The same, decoded: `srv`, `docs`.
    steps: Vec<Vec<u8>>,
}

impl Address {
    /// The URI of `root`, an absolute path without `.` and `..`; `None` where a step of it is none
    /// that can be served.
    pub(in crate::server::files) fn new(root: &Path) -> Option<Self> {
        let names = root.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name.as_bytes()),
            _ => None,
        });
        let steps: Option<Vec<_>> =
            names.map(|name| Some(servable(name)?.as_bytes().to_vec())).collect();
        let steps = steps?;
        let mut prefix = String::from("file:///");
        for step in &steps {
            prefix.extend(percent_encode(step, ESCAPED));
            prefix.push('/');
        }
        Some(Self { prefix, steps })
    }

    /// The encoded URI of the root, with a slash at its end.
    pub(in crate::server::files) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The URI of `place`.
    pub(in crate::server::files) fn uri(&self, place: &Place) -> String {
        let mut uri = self.prefix.clone();
        uri.extend(percent_encode(place.0.as_bytes(), ESCAPED));
        uri
    }

    /// The place that `uri`, without its query, leads to: `None` where it leads elsewhere, in
    /// whatever form.
    pub(in crate::server::files) fn place(&self, uri: &str) -> Option<Place> {
        let (scheme, rest) = uri.split_once("://")?;
        let (host, path) = rest.split_once('/')?;
        let is_here = host.is_empty() || host.eq_ignore_ascii_case("localhost");
        if !scheme.eq_ignore_ascii_case("file") || !is_here {
            return None;
        }
        let mut steps = path.split('/').map(decode);
        for expected in &self.steps {
            if steps.next()??.as_slice() != expected.as_slice() {
                return None;
            }
        }
        let place = steps.try_fold(Place::default(), |place, step| place.child(&step?))?;
        (!place.is_root()).then_some(place)
    }
}

/// One step of a path in a URI, decoded once; `None` where it is not well formed.
fn decode(step: &str) -> Option<Vec<u8>> {
    let mut bytes = step.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut is_digit = || bytes.next().is_some_and(|byte| byte.is_ascii_hexdigit());
                if !(is_digit() && is_digit()) {
                    return None;
                }
            }
            b'?' | b'#' => return None,
            _ => {}
        }
    }
    Some(percent_decode(step.as_bytes()).collect())
}

/// A name as a step of a path; `None` where serving it could mislead: a name of no file, one that
/// another system reads as a path, one with control characters, or one that is not text.
fn servable(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let misleads = |letter: char| matches!(letter, '/' | '\\') || letter.is_control();
    let is_step = !matches!(name, "" | "." | "..") && !name.contains(misleads);
    is_step.then_some(name)
}

/// What is escaped in a path: all but the unreserved characters and the separator. More than RFC
/// 3986 asks for, so that no parser can take a `+` or a `;` for something else.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address::new(Path::new("/srv/my docs")).unwrap()
    }

    fn read(uri: &str) -> Option<String> {
        address().place(uri).map(|place| place.as_str().to_owned())
    }

    #[test]
    fn a_place_becomes_a_uri_and_a_place_again() {
        for name in ["a.txt", "sub/b c.md", "100%.txt", "ü/é", "a+b;c=d", "%2e%2e", "..a/b..", "~"]
        {
            let root = Path::new("/srv/my docs");
            let place = Place::of(&root.join(name), root).unwrap();
            let uri = address().uri(&place);
            assert_eq!(read(&uri).as_deref(), Some(name), "{uri}");
        }
        let place = Place::default().child(b"b c").unwrap();
        assert_eq!(address().uri(&place), "file:///srv/my%20docs/b%20c");
    }

    #[test]
    fn other_spellings_of_the_same_file_lead_to_it() {
        for uri in [
            "file:///srv/my%20docs/a.txt",
            "FILE:///srv/my%20docs/a.txt",
            "file://localhost/srv/my%20docs/a.txt",
            "file:///%73rv/my docs/%61.txt",
        ] {
            assert_eq!(read(uri).as_deref(), Some("a.txt"), "{uri}");
        }
    }

    #[test]
    fn every_way_out_leads_nowhere() {
        for uri in [
            "file:///etc/passwd",
            "file:///srv/my%20docs",
            "file:///srv/my%20docs/",
            "file:///srv/my%20docs/../secret",
            "file:///srv/my%20docs/a/../../secret",
            "file:///srv/my%20docs/./a.txt",
            "file:///srv/my%20docs//etc/passwd",
            "file:///srv/my%20docs/%2e%2e/secret",
            "file:///srv/my%20docs/.%2E/secret",
            "file:///srv/my%20docs/..%2fsecret",
            "file:///srv/my%20docs/%2fetc%2fpasswd",
            "file:///srv/my%20docs/..\\secret",
            "file:///srv/my%20docs/..%5csecret",
            "file:///srv/my%20docs/a.txt%00.md",
            "file:///srv/my%20docs/a.txt%",
            "file:///srv/my%20docs/a.txt%2",
            "file:///srv/my%20docs/a.txt%zz",
            "file:///srv/my%20docs/%c0%ae%c0%ae/secret",
            "file:///srv/my%20docs/%ff",
            "file:///srv/my%20docs/a.txt#part",
            "file:///srv/my%20docs/a.txt?offset=1",
            "file:///srv/my%20docs/../my%20docs/a.txt",
            "file://elsewhere/srv/my%20docs/a.txt",
            "file:/srv/my%20docs/a.txt",
            "http:///srv/my%20docs/a.txt",
            "/srv/my docs/a.txt",
            "a.txt",
            "",
        ] {
            assert_eq!(read(uri), None, "{uri}");
        }
    }

    #[test]
    fn what_was_encoded_twice_is_decoded_once() {
        let twice = read("file:///srv/my%20docs/%252e%252e/secret");
        assert_eq!(twice.as_deref(), Some("%2e%2e/secret"));
    }

    #[test]
    fn a_dot_at_the_beginning_of_any_step_hides() {
        let root = Path::new("/srv");
        let is_hidden = |name: &str| Place::of(&root.join(name), root).unwrap().is_hidden();
        assert!(is_hidden(".git/config") && is_hidden("a/.b"));
        assert!(!is_hidden("a.b/c.") && !Place::default().is_hidden());
    }
}
