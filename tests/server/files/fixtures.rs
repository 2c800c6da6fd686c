//! Fixtures of the tests of files: a catalog of a temporary directory, and requests to it.
//!
//! Blocking handlers run on the thread of the test.

use std::path::Path;
use std::sync::Arc;

use corelane::files::{Directory, Files};
use corelane::internal::{BlockingHost, CatalogUpdate, DetachedRequest, Dispatch};
use corelane::{BlockingContext, Catalog, CatalogError, ClientInfo, RequestInfo};
use corelane_protocol::eras::{ClientCapabilities, LoggingLevel};
use corelane_protocol::error::Error;
use corelane_protocol::json::{Document, PADDING_BYTES, PaddedText, ParseLimits, Parser};
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model::Implementation;
use corelane_protocol::params::{GetPromptRequestParams, ReadResourceRequestParams};
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

/// Returns an empty catalog.
pub(crate) fn empty_catalog() -> Catalog {
    Catalog::builder(Implementation::new("files", "1.0.0")).build().expect("an empty catalog")
}

/// Returns a catalog of the files in `root`.
pub(crate) fn catalog(root: &Path) -> Catalog {
    catalog_of(directory(root))
}

/// Returns the directory at `root`, with its defaults.
pub(crate) fn directory(root: &Path) -> Directory {
    Directory::new(root).expect("the root exists")
}

/// Returns a catalog of the files in `directory`.
pub(crate) fn catalog_of(directory: Directory) -> Catalog {
    Files::new()
        .resources(directory)
        .add_to_catalog(&empty_catalog())
        .expect("files can be offered")
}

/// Writes `content` to a file below `root`, and creates its folders.
pub(crate) fn write(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = root.join(path);
    let folder = path.parent().expect("a path below a root");
    std::fs::create_dir_all(folder).expect("folders can be created");
    std::fs::write(path, content).expect("files can be written");
}

/// Returns the names in `resources/list`, from all pages.
pub(crate) fn names(catalog: &Catalog) -> Vec<String> {
    let mut names: Vec<_> = catalog.resources().map(|it| it.name().to_owned()).collect();
    names.sort_unstable();
    names
}

/// Returns the first page of `resources/list` in `revision`.
pub(crate) fn list(catalog: &Catalog, revision: Revision) -> Value {
    let page = catalog.resources_page(revision, None).expect("a first page");
    serde_json::from_slice(page).expect("a page is JSON")
}

/// Returns the URI of the file called `name`.
pub(crate) fn uri(catalog: &Catalog, name: &str) -> String {
    let mut resources = catalog.resources();
    resources.find(|it| it.name() == name).unwrap_or_else(|| panic!("{name}")).uri().to_owned()
}

/// Returns the single content of `resources/read` in revision 2025-11-25.
pub(crate) fn read(catalog: &Catalog, uri: &str) -> Result<Value, Error> {
    read_in(catalog, Revision::V2025_11_25, uri)
}

/// Forms of `file:///`, each before the forms that it begins with.
pub(crate) const FILE_PREFIXES: [&str; 5] =
    ["file://localhost/", "FILE://LOCALHOST/", "FILE:///", "file:///", "file:/"];

/// Returns the single content of `resources/read` in `revision`.
pub(crate) fn read_in(catalog: &Catalog, revision: Revision, uri: &str) -> Result<Value, Error> {
    let mut result = send_request(&json!({ "uri": uri }), |document, out| {
        let request = ReadResourceRequestParams::read(Some(document.root()))?;
        finish_response(catalog, revision, out, |out| {
            catalog.read_resource(&request, &detached(revision), Id::Signed(1), out)
        })
    })?;
    assert_eq!(result["contents"].as_array().map(Vec::len), Some(1));
    // The response has the form of registered URIs, in which unreserved characters are not encoded.
    let uri = uri.replace("%61", "a");
    let path = FILE_PREFIXES.iter().find_map(|it| uri.strip_prefix(it));
    let expected = path.map_or_else(|| uri.clone(), |path| format!("file:///{path}"));
    assert_eq!(result["contents"][0]["uri"], expected);
    Ok(result["contents"][0].take())
}

/// Returns the text of the single message of `prompts/get`.
pub(crate) fn prompt(catalog: &Catalog, name: &str, arguments: &Value) -> Result<String, Error> {
    let revision = Revision::V2025_11_25;
    let params = json!({ "name": name, "arguments": arguments });
    let result = send_request(&params, |document, out| {
        let request = GetPromptRequestParams::read(Some(document.root()))?;
        finish_response(catalog, revision, out, |out| {
            catalog.get_prompt(&request, &detached(revision), Id::Signed(1), out)
        })
    })?;
    assert_eq!(result["messages"].as_array().map(Vec::len), Some(1));
    let message = &result["messages"][0];
    assert_eq!((&message["role"], &message["content"]["type"]), (&json!("user"), &json!("text")));
    Ok(message["content"]["text"].as_str().unwrap_or_default().to_owned())
}

fn detached(revision: Revision) -> DetachedRequest {
    DetachedRequest { client: ClientInfo { revision, capabilities: ClientCapabilities::NONE } }
}

fn send_request(
    params: &Value,
    answer: impl FnOnce(&Document<'_>, &mut Vec<u8>) -> Result<(), Error>,
) -> Result<Value, Error> {
    let text = params.to_string();
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len() + PADDING_BYTES, 0);
    let mut parser = Parser::new(ParseLimits::default());
    let document = parser.parse(PaddedText::new(&mut bytes, text.len())).expect("params are JSON");
    let mut out = Vec::new();
    answer(&document, &mut out)?;
    let mut response: Value = serde_json::from_slice(&out).expect("a response is JSON");
    Ok(response["result"].take())
}

fn finish_response(
    catalog: &Catalog,
    revision: Revision,
    out: &mut Vec<u8>,
    start: impl FnOnce(&mut Vec<u8>) -> Dispatch,
) -> Result<(), Error> {
    match start(out) {
        Dispatch::Ready { .. } => Ok(()),
        Dispatch::Failed(error) => Err(error),
        Dispatch::Internal(error) => panic!("{error}"),
        Dispatch::Blocking(work) => {
            let result = (work.run)(BlockingContext::new(Arc::new(TestHost::new(revision))));
            catalog.write_output(revision, Id::Signed(1), result, out).map(drop)
        }
        Dispatch::Local(_) | Dispatch::Tokio(_) => panic!("files are read on the blocking pool"),
    }
}

/// Host of blocking handlers without progress, cancellation or updates.
struct TestHost {
    request: RequestInfo,
}

impl TestHost {
    fn new(revision: Revision) -> Self {
        let client = ClientInfo { revision, capabilities: ClientCapabilities::default() };
        Self { request: RequestInfo::detached(client) }
    }
}

impl BlockingHost for TestHost {
    fn progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}

    fn is_cancelled(&self) -> bool {
        false
    }

    fn request(&self) -> &RequestInfo {
        &self.request
    }

    fn log(&self, _: LoggingLevel, _: Option<&str>, _: Value) {}

    fn notify_resource_updated(&self, _: &str) {}

    fn update_catalog(&self, _: CatalogUpdate) -> Result<(), CatalogError> {
        Err(CatalogError::ReadOnly)
    }
}
