//! Public documents: every operation becomes a valid tool, or is skipped with a reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{OpenApiDeclaration, check, generate_from};

/// Documents of npm packages, below `tmp/openapi/node_modules` in the target folder.
const DOCUMENTS: [PublicDocument; 8] = [
    document("@readme/oas-examples/3.0/json/petstore.json", 20, 0),
    document("@readme/oas-examples/3.0/yaml/star-trek.yaml", 120, 0),
    document("@readme/oas-examples/3.0/json/circular.json", 1, 0),
    document("@readme/oas-examples/3.0/yaml/schema-circular.yaml", 3, 0),
    document("@readme/oas-examples/3.0/json/file-uploads.json", 3, 0),
    document("@readme/oas-examples/3.0/json/parameters-style.json", 25, 0),
    document("@readme/oas-examples/3.1/yaml/train-travel.yaml", 7, 0),
    document("@readme/oas-examples/3.1/json/schema-types.json", 23, 0),
];

/// A document, with the number of its tools at least and of skipped operations at most.
struct PublicDocument {
    path: &'static str,
    tools_min: usize,
    skipped_max: usize,
}

const fn document(path: &'static str, tools_min: usize, skipped_max: usize) -> PublicDocument {
    PublicDocument { path, tools_min, skipped_max }
}

/// The folder of the packages.
fn packages() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    // TARGET/PROFILE/deps/PROGRAM
    program.ancestors().nth(3).unwrap().join("tmp/openapi/node_modules")
}

/// All documents below a folder.
fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_document =
            ["json", "yaml"].iter().any(|it| path.extension().is_some_and(|e| e == *it));
        if path.is_dir() {
            find(&path, found);
        } else if is_document {
            found.push(path);
        }
    }
}

fn declaration() -> OpenApiDeclaration {
    OpenApiDeclaration {
        document: "https://docs.example/openapi.json".to_owned(),
        anonymous: true,
        ..OpenApiDeclaration::default()
    }
}

#[test]
#[ignore = "needs npm packages with documents: ./test.sh installs them"]
fn operations_of_public_documents_become_tools() {
    for PublicDocument { path, tools_min, skipped_max } in DOCUMENTS {
        let document = fs::read(packages().join(path)).unwrap();
        let generated = generate_from(&declaration(), &document).unwrap();
        let names: BTreeSet<&str> = generated.tools.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), generated.tools.len(), "{path}");
        assert!(names.len() >= tools_min, "{path}: {} tools", names.len());
        assert!(generated.skipped.len() <= skipped_max, "{path}: {:?}", generated.skipped);
        generated.tools.iter().for_each(check);
    }
}

#[test]
#[ignore = "needs npm packages with documents: ./test.sh installs them"]
fn every_public_document_has_valid_tools() {
    let mut paths = Vec::new();
    find(&packages().join("@readme/oas-examples"), &mut paths);
    let mut tools = 0;
    for path in paths {
        match generate_from(&declaration(), &fs::read(&path).unwrap()) {
            Ok(generated) => {
                generated.tools.iter().for_each(check);
                tools += generated.tools.len();
                assert!(generated.skipped.is_empty(), "{path:?}: {:?}", generated.skipped);
            }
            // Swagger 2.0, documents of webhooks alone, and files that are not OpenAPI.
            Err(problems) => assert_eq!(problems[0].key, "document", "{path:?}: {problems:?}"),
        }
    }
    assert!(tools > 1000, "{tools} tools");
}
