//! Finds names in rules and lists of the options that nothing in the catalog has.

use crate::guard::pattern::Pattern;
use crate::server::options::Options;
use crate::service::Catalog;

/// Returns a warning for each name of a tool or prompt in `options` that nothing in `catalog` has.
/// Names of resources are not looked at, as templates have any number of them.
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
        if name.is_empty() || name.contains('=') || name == "mfa" {
            continue;
        }
        match method {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::model::Implementation;
    use crate::service::demo;

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
