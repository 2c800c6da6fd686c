//! The table of revisions, row by row against the official schemas, where `MCP_SCHEMA_DIR` names
//! their folder.

use corelane::protocol::era::Method;
use corelane::protocol::revision::{Dialect, Revision};
use serde_json::Value;
use std::path::Path;

/// Reads columns of the table out of one schema.
struct Schema(Value);

impl Schema {
    fn of(folder: &str, revision: Revision) -> Self {
        let path = Path::new(folder).join(revision.as_str()).join("schema.json");
        let text = std::fs::read_to_string(&path).expect("the folder has every revision");
        Self(serde_json::from_str(&text).expect("a schema is JSON"))
    }

    /// The methods of the members of `ClientRequest`.
    fn requests_of_clients(&self) -> Vec<String> {
        let requests = self.definition("ClientRequest").expect("clients ask for something");
        let members = requests["anyOf"].as_array().expect("for one of several things");
        let method = |member: &Value| {
            let name = member["$ref"].as_str()?.rsplit('/').next()?;
            let method = self.definition(name)?.pointer("/properties/method/const")?;
            Some(method.as_str()?.to_owned())
        };
        members.iter().map(|member| method(member).expect("each has a method")).collect()
    }

    fn definition(&self, name: &str) -> Option<&Value> {
        self.0.get("$defs").or_else(|| self.0.get("definitions"))?.get(name)
    }

    fn property(&self, definition: &str, property: &str) -> Option<&Value> {
        let definition = self.definition(definition)?;
        // Until 2025-06-18 the params of a notification stand inside it.
        let inside = definition.pointer("/properties/params").unwrap_or(definition);
        inside.get("properties").or_else(|| definition.get("properties"))?.get(property)
    }

    fn has(&self, definition: &str, property: &str) -> bool {
        self.property(definition, property).is_some()
    }

    /// Whether a list is among what a property may be.
    fn has_list(&self, definition: &str, property: &str) -> bool {
        let kinds = self.property(definition, property).and_then(|kinds| kinds["anyOf"].as_array());
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["type"] == "array"))
    }

    /// The row as this schema would write it.
    fn row(&self, ours: &Dialect) -> Dialect {
        let structured = self.property("CallToolResult", "structuredContent");
        let progress = ["ProgressNotificationParams", "ProgressNotification"];
        Dialect {
            name: ours.name,
            batches: self.definition("JSONRPCBatchRequest").is_some(),
            tool_annotations: self.has("Tool", "annotations"),
            audio: self.definition("AudioContent").is_some(),
            progress_message: progress.iter().any(|name| self.has(name, "message")),
            titles: self.has("Tool", "title") && self.has("Implementation", "title"),
            structured_content: structured.is_some() && self.has("Tool", "outputSchema"),
            structured_any: structured.is_some_and(|content| content.get("type").is_none()),
            resource_link: self.definition("ResourceLink").is_some(),
            meta_on_types: self.has("Tool", "_meta"),
            icons: self.has("Tool", "icons") && self.has("Implementation", "icons"),
            implementation_details: self.has("Implementation", "websiteUrl"),
            // Said in prose only: basic/index and server/tools of 2025-11-25.
            arguments_fail_in_band: ours.arguments_fail_in_band,
            error_id_null: self.definition("JSONRPCErrorResponse").is_none(),
            result_type: self.has("Result", "resultType"),
            cache_hints: self.has("ListToolsResult", "ttlMs"),
            // Said in prose only: server/resources, "Error Handling", of each revision.
            resource_not_found_code: ours.resource_not_found_code,
            completions_capability: self.has("ServerCapabilities", "completions"),
            annotations_last_modified: self.has("Annotations", "lastModified"),
            elicitation: self.definition("ElicitRequest").is_some(),
            elicitation_url: self.definition("ElicitRequestURLParams").is_some(),
            elicitation_ids: self.has("ElicitRequestURLParams", "elicitationId"),
            elicitation_choices: self.definition("TitledMultiSelectEnumSchema").is_some(),
            sampling_tools: self.has("CreateMessageRequestParams", "tools"),
            sampling_content_array: self.has_list("SamplingMessage", "content"),
            core_tasks: self.definition("CreateTaskResult").is_some(),
            extensions: self.has("ServerCapabilities", "extensions"),
        }
    }
}

#[test]
fn every_method_is_in_the_revisions_whose_schema_asks_for_it() {
    #[expect(clippy::disallowed_methods, reason = "tests find the schemas by the environment")]
    let Ok(folder) = std::env::var("MCP_SCHEMA_DIR") else { return };
    for revision in Revision::ALL {
        let schema = Schema::of(&folder, revision);
        let asked = schema.requests_of_clients();
        for method in Method::ALL {
            // Tasks of the newest revision stand in an extension with a schema of its own.
            let is_extension = revision.is_modern() && method.as_str().starts_with("tasks/");
            let expected = asked.iter().any(|asked| asked == method.as_str());
            assert_eq!(
                method.is_in(revision),
                expected
                    || is_extension && {
                        [Method::TasksGet, Method::TasksUpdate, Method::TasksCancel]
                            .contains(&method)
                    },
                "{revision} {method:?}"
            );
        }
        for asked in asked {
            assert!(Method::parse(&asked).is_some(), "{revision} {asked}");
        }
    }
}

#[test]
fn every_row_says_what_the_schema_of_its_revision_says() {
    #[expect(clippy::disallowed_methods, reason = "tests find the schemas by the environment")]
    let Ok(folder) = std::env::var("MCP_SCHEMA_DIR") else { return };
    for revision in Revision::ALL {
        let schema = Schema::of(&folder, revision);
        assert_eq!(schema.row(revision.dialect()), *revision.dialect());
    }
}
