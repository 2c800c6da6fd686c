//! A stage for files: a catalog over a temporary directory, and a client in front of it.
//!
//! Blocking handlers run on the thread of the test. Nothing here waits but on a channel.

use std::path::Path;
use std::sync::Arc;

use corelane::Catalog;
use corelane::protocol::era::{ClientCapabilities, LogLevel};
use corelane::protocol::error::Error;
use corelane::protocol::json::{Document, Limits, PADDING_BYTES, Parser};
use corelane::protocol::message::ServerInfo;
use corelane::protocol::params::{GetPrompt, ReadResource};
use corelane::protocol::revision::Revision;
use corelane::protocol::rpc::Id;
use corelane::server::files::{Directory, Files};
use corelane::service::{CatalogError, Client, Edit, Reply, Worker, WorkerHost};
use serde_json::{Value, json};

/// A catalog of nothing.
pub(crate) fn empty() -> Catalog {
    Catalog::builder(ServerInfo::new("files", "1.0.0")).build().expect("nothing is a catalog")
}

/// A catalog of the files in `root`.
pub(crate) fn catalog(root: &Path) -> Catalog {
    catalog_of(directory(root))
}

/// The directory at `root`, with its defaults.
pub(crate) fn directory(root: &Path) -> Directory {
    Directory::new(root).expect("the root is there")
}

/// A catalog of the files in `directory`.
pub(crate) fn catalog_of(directory: Directory) -> Catalog {
    Files::new().resources(directory).offer(&empty()).expect("files are a catalog")
}

/// Writes `content` to a file below `root`, and the folders before it.
pub(crate) fn write(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = root.join(path);
    let folder = path.parent().expect("a path below a root");
    std::fs::create_dir_all(folder).expect("folders can be made");
    std::fs::write(path, content).expect("files can be written");
}

/// The names in `resources/list`, all pages together.
pub(crate) fn names(catalog: &Catalog) -> Vec<String> {
    let mut names: Vec<_> = catalog.resources().map(|it| it.name().to_owned()).collect();
    names.sort_unstable();
    names
}

/// The first page of `resources/list` in `revision`.
pub(crate) fn list(catalog: &Catalog, revision: Revision) -> Value {
    let page = catalog.resources_page(revision, None).expect("there is a first page");
    serde_json::from_slice(page).expect("a page is JSON")
}

/// The URI of the file called `name`.
pub(crate) fn uri(catalog: &Catalog, name: &str) -> String {
    let mut resources = catalog.resources();
    resources.find(|it| it.name() == name).unwrap_or_else(|| panic!("{name}")).uri().to_owned()
}

/// The one content of `resources/read`.
pub(crate) fn read(catalog: &Catalog, uri: &str) -> Result<Value, Error> {
    read_in(catalog, Revision::V2025_11_25, uri)
}

/// [`read`] in any revision.
pub(crate) fn read_in(catalog: &Catalog, revision: Revision, uri: &str) -> Result<Value, Error> {
    let mut result = ask(&json!({ "uri": uri }), |document, out| {
        let asked = ReadResource::read(Some(document.root()))?;
        finish(catalog, revision, out, |out| {
            catalog.read_resource(revision, &asked, Id::Signed(1), out)
        })
    })?;
    assert_eq!(result["contents"].as_array().map(Vec::len), Some(1));
    // This machine is told by its shortest name.
    let path =
        ["file://localhost/", "FILE://LOCALHOST/"].iter().find_map(|it| uri.strip_prefix(it));
    let told = path.map_or_else(|| uri.to_owned(), |path| format!("file:///{path}"));
    assert_eq!(result["contents"][0]["uri"], told);
    Ok(result["contents"][0].take())
}

/// The text of the one message of `prompts/get`.
pub(crate) fn prompt(catalog: &Catalog, name: &str, arguments: &Value) -> Result<String, Error> {
    let revision = Revision::V2025_11_25;
    let params = json!({ "name": name, "arguments": arguments });
    let result = ask(&params, |document, out| {
        let asked = GetPrompt::read(Some(document.root()))?;
        finish(catalog, revision, out, |out| {
            catalog.make_prompt(revision, &asked, Id::Signed(1), out)
        })
    })?;
    assert_eq!(result["messages"].as_array().map(Vec::len), Some(1));
    let message = &result["messages"][0];
    assert_eq!((&message["role"], &message["content"]["type"]), (&json!("user"), &json!("text")));
    Ok(message["content"]["text"].as_str().unwrap_or_default().to_owned())
}

fn ask(
    params: &Value,
    answer: impl FnOnce(&Document<'_>, &mut Vec<u8>) -> Result<(), Error>,
) -> Result<Value, Error> {
    let text = params.to_string();
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len() + PADDING_BYTES, 0);
    let mut parser = Parser::new(Limits::default());
    let document = parser.parse(&mut bytes, text.len()).expect("params are JSON");
    let mut out = Vec::new();
    answer(&document, &mut out)?;
    let mut response: Value = serde_json::from_slice(&out).expect("a response is JSON");
    Ok(response["result"].take())
}

fn finish(
    catalog: &Catalog,
    revision: Revision,
    out: &mut Vec<u8>,
    start: impl FnOnce(&mut Vec<u8>) -> Reply,
) -> Result<(), Error> {
    match start(out) {
        Reply::Ready { .. } => Ok(()),
        Reply::Failed(error) => Err(error),
        Reply::Blocking(work) => {
            let result = work(Worker::new(Arc::new(Pool(revision))));
            catalog.settle(revision, Id::Signed(1), result, out).map(drop)
        }
        Reply::Local(_) => panic!("files are read on the blocking pool"),
    }
}

/// Stands in for the server behind a blocking handler.
struct Pool(Revision);

impl WorkerHost for Pool {
    fn progress(&self, _: f64, _: Option<f64>, _: Option<&str>) {}

    fn is_cancelled(&self) -> bool {
        false
    }

    fn client(&self) -> Client {
        Client { revision: self.0, capabilities: ClientCapabilities::default() }
    }

    fn log(&self, _: LogLevel, _: Option<&str>, _: Value) {}

    fn updated(&self, _: &str) {}

    fn change(&self, _: Edit) -> Result<(), CatalogError> {
        Err(CatalogError::Fixed)
    }
}
