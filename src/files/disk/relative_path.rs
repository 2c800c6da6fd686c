//! Paths below a root, relative and as `file:` URIs.
//!
//! Invariants: a [`RelativePath`] does not lead out of its root: it has no empty component, no `.`,
//! `..`, backslash or control character. A URI is decoded exactly once and component by component,
//! so that `%2F` does not become a separator and `%252e` does not become a dot. Symbolic links are
//! handled by `root`.
//!
//! Source: RFC 8089 (the `file` scheme), RFC 3986 sections 2.1 and 3.3.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use corelane_protocol::uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

/// Path of a file or folder below a root, with `/` between its components; empty for the root.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RelativePath(String);

impl RelativePath {
    /// Returns the path of `name` in this folder; `None` if the name cannot be served.
    pub fn child(&self, name: &[u8]) -> Option<Self> {
        let name = path_component(name)?;
        let separator = if self.0.is_empty() { "" } else { "/" };
        Some(Self(format!("{}{separator}{name}", self.0)))
    }

    /// Returns `path` relative to `root`; `None` if it is not below it or cannot be served.
    pub fn from_absolute(path: &Path, root: &Path) -> Option<Self> {
        path.strip_prefix(root).ok()?.components().try_fold(Self::default(), |place, component| {
            match component {
                Component::Normal(name) => place.child(name.as_bytes()),
                _ => None,
            }
        })
    }

    /// Returns its components with `/` between them.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether it is the root itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a component begins with a dot.
    pub fn is_hidden(&self) -> bool {
        self.0.split('/').any(|step| step.starts_with('.'))
    }
}

/// The URI of a root, from which those of all files below it are built.
#[derive(Clone, Debug)]
pub struct RootUri {
    /// Encoded: `file:///srv/docs/`.
    prefix: String,
    /// Decoded components: `srv`, `docs`; `None` if the prefix was chosen, which is compared by its
    /// key.
    components: Option<Vec<Vec<u8>>>,
}

impl RootUri {
    /// Returns the URI of `root`, an absolute path without `.` and `..`; `None` if a component of
    /// it cannot be served.
    pub fn new(root: &Path) -> Option<Self> {
        let names = root.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name.as_bytes()),
            _ => None,
        });
        let steps: Option<Vec<_>> =
            names.map(|name| Some(path_component(name)?.as_bytes().to_vec())).collect();
        let steps = steps?;
        let mut prefix = String::from("file:///");
        for step in &steps {
            prefix.extend(percent_encode(step, ESCAPED));
            prefix.push('/');
        }
        Some(Self { prefix, components: Some(steps) })
    }

    /// Returns a root with a chosen URI that ends with a slash.
    pub fn with_prefix(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), components: None }
    }

    /// Returns the encoded URI of the root, with a slash at its end.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the URI of `place`.
    pub fn uri_of(&self, place: &RelativePath) -> String {
        let mut uri = self.prefix.clone();
        uri.extend(percent_encode(place.0.as_bytes(), ESCAPED));
        uri
    }

    /// Returns what follows the prefix in a normalized URI.
    fn path_after_prefix<'u>(&self, uri: &'u str) -> Option<&'u str> {
        let key = uri::comparison_key(&self.prefix);
        let (prefix, path) = uri.split_at_checked(key.len())?;
        (uri::comparison_key(prefix) == key).then_some(path)
    }

    /// Returns the path of `uri`, which has no query; `None` if it is outside the root.
    pub fn relative_path(&self, uri: &str) -> Option<RelativePath> {
        let uri = uri::normalize(uri);
        let path = match &self.components {
            Some(_) => file_uri_path(&uri)?,
            None => self.path_after_prefix(&uri)?,
        };
        let mut steps = path.split('/').map(decode_component);
        for expected in self.components.iter().flatten() {
            if steps.next()??.as_slice() != expected.as_slice() {
                return None;
            }
        }
        let place = steps.try_fold(RelativePath::default(), |place, step| place.child(&step?))?;
        (!place.is_root()).then_some(place)
    }
}

/// Returns the path of a `file:` URI of this machine, without its first slash.
fn file_uri_path(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once("://")?;
    let (host, path) = rest.split_once('/')?;
    let is_here = host.is_empty() || host.eq_ignore_ascii_case("localhost");
    (scheme.eq_ignore_ascii_case("file") && is_here).then_some(path)
}

/// Decodes one component of a URI path once; `None` if it is malformed.
fn decode_component(step: &str) -> Option<Vec<u8>> {
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

/// Returns a name as a path component; `None` if it is special (`.`, `..`), contains a separator of
/// any system or a control character, or is not UTF-8.
fn path_component(name: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(name).ok()?;
    let is_unsafe = |char: char| matches!(char, '/' | '\\') || char.is_control();
    let is_component = !matches!(name, "" | "." | "..") && !name.contains(is_unsafe);
    is_component.then_some(name)
}

/// Characters escaped in a path: all but the unreserved ones and the separator. More than RFC 3986
/// requires, so that parsers cannot misread a `+` or a `;`.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

#[cfg(test)]
mod tests {
    use super::*;

    fn root_uri() -> RootUri {
        RootUri::new(Path::new("/srv/my docs")).unwrap()
    }

    fn resolve(uri: &str) -> Option<String> {
        root_uri().relative_path(uri).map(|place| place.as_str().to_owned())
    }

    #[test]
    fn path_converts_to_uri_and_back() {
        for name in ["a.txt", "sub/b c.md", "100%.txt", "ü/é", "a+b;c=d", "%2e%2e", "..a/b..", "~"]
        {
            let root = Path::new("/srv/my docs");
            let place = RelativePath::from_absolute(&root.join(name), root).unwrap();
            let uri = root_uri().uri_of(&place);
            assert_eq!(resolve(&uri).as_deref(), Some(name), "{uri}");
        }
        let place = RelativePath::default().child(b"b c").unwrap();
        assert_eq!(root_uri().uri_of(&place), "file:///srv/my%20docs/b%20c");
    }

    #[test]
    fn equivalent_uri_spellings_resolve_to_same_file() {
        for uri in [
            "file:///srv/my%20docs/a.txt",
            "FILE:///srv/my%20docs/a.txt",
            "file://localhost/srv/my%20docs/a.txt",
            "file:///%73rv/my docs/%61.txt",
        ] {
            assert_eq!(resolve(uri).as_deref(), Some("a.txt"), "{uri}");
        }
    }

    #[test]
    fn uris_outside_root_are_rejected() {
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
            "http:///srv/my%20docs/a.txt",
            "/srv/my docs/a.txt",
            "a.txt",
            "",
        ] {
            assert_eq!(resolve(uri), None, "{uri}");
        }
    }

    #[test]
    fn doubly_encoded_uri_is_decoded_once() {
        let twice = resolve("file:///srv/my%20docs/%252e%252e/secret");
        assert_eq!(twice.as_deref(), Some("%2e%2e/secret"));
    }

    #[test]
    fn chosen_prefix_replaces_path_of_root() {
        for prefix in ["docs://", "https://example.com/a%20b/", "file:///docs/"] {
            let root = RootUri::with_prefix(prefix);
            let place = RelativePath::default().child(b"b c").unwrap().child(b"d.md").unwrap();
            let uri = root.uri_of(&place);
            assert_eq!(uri, format!("{prefix}b%20c/d.md"));
            assert_eq!(root.relative_path(&uri), Some(place.clone()));
            let other = uri.replace("docs", "DOCS").replace("example", "Example");
            let is_path = prefix == "file:///docs/";
            assert_eq!(root.relative_path(&other), (!is_path).then_some(place));
            for outside in ["", "../a", "a/../../b", "%2e%2e/a", "/etc/passwd", "..%2fa", "a?b"] {
                assert_eq!(root.relative_path(&format!("{prefix}{outside}")), None, "{outside}");
            }
            assert_eq!(root.relative_path("file:///srv/my%20docs/a.txt"), None);
        }
    }

    #[test]
    fn leading_dot_in_any_component_is_hidden() {
        let root = Path::new("/srv");
        let is_hidden =
            |name: &str| RelativePath::from_absolute(&root.join(name), root).unwrap().is_hidden();
        assert!(is_hidden(".git/config") && is_hidden("a/.b"));
        assert!(!is_hidden("a.b/c.") && !RelativePath::default().is_hidden());
    }
}
