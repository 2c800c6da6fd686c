//! Finds names in rules and lists of the options that nothing in the catalog has.

use corelane_protocol::uri;

use crate::guard::pattern::{NamePattern, Pattern, TargetName, TargetUri};
use crate::server::options::Options;
use crate::service::Catalog;

/// Returns a warning for each name of a tool or prompt and each URI of a resource in `options` that
/// nothing in `catalog` has.
pub(super) fn find_unknown_names(options: &Options, catalog: &Catalog) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |key: &str, kind: &str, name: &str| {
        warnings.push(format!("{key}: no {kind} has the name {name}; correct it, or remove it"));
    };
    let has_tool = |name: &str| {
        let pattern = Pattern::new(name);
        catalog.tools().any(|tool| pattern.matches(tool.name()))
    };
    let has_prompt = |name: &str| {
        let pattern = Pattern::new(name);
        catalog.prompts().any(|prompt| pattern.matches(prompt.name()))
    };
    let rules = [("auth.rules", &options.auth.rules), ("rate.rules", &options.rate.rules)];
    for (key, rule) in
        rules.into_iter().flat_map(|(key, rules)| rules.iter().map(move |it| (key, it)))
    {
        let mut words = rule.split_ascii_whitespace();
        let (method, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_condition = CONDITIONS.iter().any(|it| name.starts_with(it)) || name == "mfa";
        if name.is_empty() || is_condition {
            continue;
        }
        match method {
            "resources/read" if !may_have_resource(catalog, name) => warn(key, "resource", name),
            "tools/call" if !has_tool(name) => warn(key, "tool", name),
            "prompts/get" if !has_prompt(name) => warn(key, "prompt", name),
            _ => {}
        }
    }
    for name in options.auth.audit.iter().filter(|name| !has_tool(name)) {
        warn("auth.audit", "tool", name);
    }
    for (name, _) in &options.overload.tool_calls {
        if catalog.tool(name).is_none() {
            warn("overload.tool_calls", "tool", name);
        }
    }
    warnings
}

/// Returns whether a resource in `catalog` has a URI that the pattern `name` stands for, or a
/// template could have one: up to the first `*` and the first expression both begin alike.
fn may_have_resource(catalog: &Catalog, name: &str) -> bool {
    let pattern = NamePattern::new(name);
    let matches = |uri: &str| {
        let forms = TargetUri::with_and_without_query(uri);
        forms.iter().any(|form| pattern.matches(TargetName::Uri(form)))
    };
    let decoded_key = |uri: &str| uri::decode(&uri::comparison_key(uri)).into_owned();
    let start = decoded_key(name.split('*').next().unwrap_or_default());
    let begins_alike = |uri_template: &str| {
        let literal = decoded_key(uri_template.split('{').next().unwrap_or_default());
        literal.starts_with(&start) || start.starts_with(&literal)
    };
    catalog.resources().any(|resource| matches(resource.uri()))
        || catalog.templates().any(|template| begins_alike(template.uri_template()))
}

/// How the words of a rule begin that are no name. A URI may have a `=`, too.
const CONDITIONS: [&str; 6] = ["scope=", "tier=", "acr=", "rate=", "burst=", "per="];

#[cfg(test)]
mod tests {
    use corelane_protocol::model::Implementation;

    use super::*;
    use crate::service::{Resource, ResourceTemplate, demo};

    #[test]
    fn resource_uris_that_nothing_has_are_found() {
        let catalog = Catalog::builder(Implementation::new("test", "1"))
            .resource(Resource::new("file:///a%20b.txt", "note").text("hello"))
            .template(ResourceTemplate::new("docs://{team}/{+path}", "docs").inline(
                |read, contents, _| {
                    contents.text(read.uri(), None, "text");
                    Ok(())
                },
            ))
            .build()
            .unwrap();
        let mut options = Options::default();
        let rules = [
            ("file:///a%20b.txt", true),
            ("file:///*.txt", true),
            ("*", true),
            ("docs://ops/plan?x=1", true),
            ("docs:*", true),
            ("FILE:/%61%20b.txt", true),
            ("DOCS://ops/*", true),
            ("file:///a.txt", false),
            ("file:///b*", false),
            ("doc://ops?x=1", false),
        ];
        for (uri, is_known) in rules {
            options.auth.rules = vec![format!("resources/read {uri} scope=x")];
            let found = find_unknown_names(&options, &catalog);
            assert_eq!(found.is_empty(), is_known, "{uri}: {found:?}");
            assert!(
                found.iter().all(|text| text.contains("no resource has the name")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn names_that_nothing_has_are_found() {
        let catalog = Catalog::builder(Implementation::new("test", "1")).tools(demo::tools());
        let catalog = catalog.build().unwrap();
        let mut options = Options::default();
        options.auth.rules =
            ["tools/call deploy_* scope=x", "tools/call ec* scope=x"].map(str::to_owned).to_vec();
        options.rate.rules = ["prompts/get none rate=1/s", "tools/call rate=1/s", "* x rate=1/s"]
            .map(str::to_owned)
            .to_vec();
        options.auth.audit = vec!["add".to_owned(), "rm_*".to_owned()];
        options.overload.tool_calls = vec![("hash".to_owned(), 1), ("hsah".to_owned(), 1)];
        let found = find_unknown_names(&options, &catalog);
        let starts = [
            "auth.rules: no tool has the name deploy_*; ",
            "rate.rules: no prompt has the name none; ",
            "auth.audit: no tool has the name rm_*; ",
            "overload.tool_calls: no tool has the name hsah; ",
        ];
        assert_eq!(found.len(), starts.len(), "{found:?}");
        assert!(found.iter().zip(starts).all(|(text, start)| text.starts_with(start)), "{found:?}");
    }
}
