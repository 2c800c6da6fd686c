//! The entry of the MCP registry, `server.json`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use corelane_protocol::model::Implementation;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::cli::publish::bundle::variable_names;
use crate::config::Options;
use crate::server::card::{remote, server_identity};

/// The schema of the entry.
const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";

/// Returns the entry of a server with `packages` (`TYPE=IDENTIFIER`) and `bundles` (`FILE=URL`).
///
/// # Errors
///
/// What the registry would refuse.
pub(crate) fn server_json(
    options: &Options,
    info: &Implementation,
    packages: &[String],
    bundles: &[String],
    config: Option<&Path>,
) -> Result<Value, String> {
    let mut entry = Map::new();
    entry.insert("$schema".to_owned(), SCHEMA.into());
    entry.append(&mut server_identity(options, info).map_err(|fault| fault.to_string())?);
    let variables = match config {
        Some(config) => variable_names(config)?,
        None => Vec::new(),
    };
    let mut listed = Vec::new();
    for package in packages {
        listed.push(package_of(package, &info.version)?);
    }
    for bundle in bundles {
        listed.push(bundle_of(bundle)?);
    }
    let variables: Vec<Value> = variables
        .iter()
        .map(|name| json!({ "name": name, "isRequired": true, "isSecret": true }))
        .collect();
    for package in &mut listed {
        package["transport"] = json!({ "type": "stdio" });
        if !variables.is_empty() {
            package["environmentVariables"] = variables.clone().into();
        }
    }
    let remote = remote(options).map_err(|fault| fault.to_string())?;
    // A registry is for other machines.
    let remote = remote.filter(|_| options.card.url.is_some() || options.auth.resource.is_some());
    if listed.is_empty() && remote.is_none() {
        let hint = "set card.url, or name one with --package or --mcpb";
        return Err(format!("the entry has neither a URL nor a package; {hint}"));
    }
    if !listed.is_empty() {
        entry.insert("packages".to_owned(), listed.into());
    }
    if let Some(remote) = remote {
        entry.insert("remotes".to_owned(), json!([remote]));
    }
    Ok(entry.into())
}

/// Returns a package of a registry of packages.
fn package_of(package: &str, version: &str) -> Result<Value, String> {
    let hint = "write TYPE=IDENTIFIER, such as oci=ghcr.io/example/shop:1.0.2";
    let (kind, identifier) =
        package.split_once('=').ok_or_else(|| format!("--package {package}: has no =; {hint}"))?;
    if identifier.is_empty() || identifier.contains(char::is_whitespace) {
        return Err(format!("--package {package}: {identifier:?} is not an identifier; {hint}"));
    }
    match kind {
        // The identifier of an image has its version.
        "oci" if identifier.rsplit('/').next().is_some_and(|last| last.contains([':', '@'])) => {
            Ok(json!({ "registryType": kind, "identifier": identifier }))
        }
        "oci" => Err(format!("--package {package}: the image has no tag or digest; {hint}")),
        "npm" | "pypi" | "nuget" | "cargo" => {
            Ok(json!({ "registryType": kind, "identifier": identifier, "version": version }))
        }
        other => {
            let known = "npm, pypi, nuget, cargo or oci";
            Err(format!("--package {package}: {other:?} is not a type; write {known}"))
        }
    }
}

/// Returns the package of a bundle.
fn bundle_of(bundle: &str) -> Result<Value, String> {
    let hint = "write FILE=URL, such as shop.mcpb=https://example.com/shop.mcpb";
    let (file, url) =
        bundle.split_once('=').ok_or_else(|| format!("--mcpb {bundle}: has no =; {hint}"))?;
    if !url.starts_with("https://") || url.contains(char::is_whitespace) {
        return Err(format!("--mcpb {bundle}: {url:?} is not an https URL; {hint}"));
    }
    let content = fs::read(file).map_err(|error| format!("{file} cannot be read: {error}"))?;
    let mut digest = String::new();
    for byte in Sha256::digest(content) {
        // Writing to a string does not fail.
        write!(digest, "{byte:02x}").unwrap_or(());
    }
    Ok(json!({ "registryType": "mcpb", "identifier": url, "fileSha256": digest }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(change: impl FnOnce(&mut Options)) -> (Options, Implementation) {
        let mut options = Options::default();
        options.card.name = Some("com.example/shop".to_owned());
        change(&mut options);
        let description = Some("Sells things.".to_owned());
        (options, Implementation { description, ..Implementation::new("shop", "1.0.2") })
    }

    #[test]
    fn entry_names_packages_and_remote() {
        let (options, info) =
            server(|options| options.card.url = Some("https://shop.example/mcp".to_owned()));
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("corelane.toml");
        fs::write(&config, "# ${COMMENT}\n[[tool]]\nname = \"a\"\nx = [\"${TOKEN}\", \"$${NOT}\"]")
            .unwrap();
        let bundle = folder.path().join("shop.mcpb");
        fs::write(&bundle, "abc").unwrap();
        let packages = ["npm=@example/shop", "oci=ghcr.io/example/shop:1.0.2"].map(String::from);
        let bundles = [format!("{}=https://example.com/shop.mcpb", bundle.display())];
        let entry = server_json(&options, &info, &packages, &bundles, Some(&config)).unwrap();
        let packages = entry["packages"].as_array().unwrap();
        assert_eq!(packages[0]["version"], "1.0.2");
        assert_eq!(packages[1].get("version"), None);
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(packages[2]["fileSha256"], digest);
        for package in packages {
            assert_eq!(package["transport"], json!({ "type": "stdio" }));
            let variable = json!({ "name": "TOKEN", "isRequired": true, "isSecret": true });
            assert_eq!(package["environmentVariables"], json!([variable]));
        }
        let remote = json!({ "type": "streamable-http", "url": "https://shop.example/mcp" });
        assert_eq!(entry["remotes"], json!([remote]));
    }

    #[test]
    fn entry_that_registry_refuses_is_an_error() {
        let (options, info) = server(|_| {});
        let entry = |packages: &[&str], bundles: &[&str]| {
            let [packages, bundles] = [packages, bundles]
                .map(|it| it.iter().map(ToString::to_string).collect::<Vec<_>>());
            server_json(&options, &info, &packages, &bundles, None)
        };
        assert!(entry(&[], &[]).unwrap_err().contains("card.url"));
        for package in ["npm", "npm=", "gem=a", "oci=ghcr.io:80/a/b", "npm=a b"] {
            assert!(entry(&[package], &[]).unwrap_err().contains("--package"), "{package}");
        }
        for bundle in ["a", "a=http://b", "/none=https://b"] {
            assert!(entry(&[], &[bundle]).is_err(), "{bundle}");
        }
    }
}
