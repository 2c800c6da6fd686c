//! The table of revisions, compared with the official schemas in the folder `MCP_SCHEMA_DIR`;
//! skipped if the variable is not set.

use corelane_protocol::eras::Method;
use corelane_protocol::revision::{Dialect, Revision};
use serde_json::Value;
use std::path::Path;

/// Derives columns of the table from one `schema.json`.
struct Schema(Value);

impl Schema {
    fn load(folder: &str, revision: Revision) -> Self {
        let path = Path::new(folder).join(revision.as_str()).join("schema.json");
        let text = std::fs::read_to_string(&path).expect("schema.json of every revision");
        Self(serde_json::from_str(&text).expect("schema.json is JSON"))
    }

    /// Returns the methods of the members of `ClientRequest`.
    fn client_request_methods(&self) -> Vec<String> {
        let requests = self.definition("ClientRequest").expect("ClientRequest");
        let members = requests["anyOf"].as_array().expect("ClientRequest.anyOf");
        let method = |member: &Value| {
            let name = member["$ref"].as_str()?.rsplit('/').next()?;
            let method = self.definition(name)?.pointer("/properties/method/const")?;
            Some(method.as_str()?.to_owned())
        };
        members.iter().map(|member| method(member).expect("a constant method")).collect()
    }

    fn definition(&self, name: &str) -> Option<&Value> {
        self.0.get("$defs").or_else(|| self.0.get("definitions"))?.get(name)
    }

    fn property(&self, definition: &str, property: &str) -> Option<&Value> {
        let definition = self.definition(definition)?;
        // Up to 2025-06-18 the params of a notification are inline.
        let inside = definition.pointer("/properties/params").unwrap_or(definition);
        inside.get("properties").or_else(|| definition.get("properties"))?.get(property)
    }

    fn has(&self, definition: &str, property: &str) -> bool {
        self.property(definition, property).is_some()
    }

    /// Returns whether a property may be an array.
    fn has_array_type(&self, definition: &str, property: &str) -> bool {
        let types = self.property(definition, property).and_then(|types| types["anyOf"].as_array());
        types.is_some_and(|types| types.iter().any(|one| one["type"] == "array"))
    }

    /// Returns the row derived from the schema; columns that it lacks are copied from `ours`.
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
            structured_content_any: structured.is_some_and(|content| content.get("type").is_none()),
            resource_link: self.definition("ResourceLink").is_some(),
            meta_on_types: self.has("Tool", "_meta"),
            icons: self.has("Tool", "icons") && self.has("Implementation", "icons"),
            implementation_details: self.has("Implementation", "websiteUrl"),
            // In prose only: basic/index and server/tools of 2025-11-25.
            argument_errors_in_result: ours.argument_errors_in_result,
            error_id_null: self.definition("JSONRPCErrorResponse").is_none(),
            // In prose only: basic/transports of 2025-11-25, "Sending Messages to the Server".
            priming_events: ours.priming_events,
            result_type: self.has("Result", "resultType"),
            cache_hints: self.has("ListToolsResult", "ttlMs"),
            // In prose only: server/resources, "Error Handling", of each revision.
            resource_not_found_code: ours.resource_not_found_code,
            completions_capability: self.has("ServerCapabilities", "completions"),
            annotations_last_modified: self.has("Annotations", "lastModified"),
            elicitation: self.definition("ElicitRequest").is_some(),
            elicitation_url: self.definition("ElicitRequestURLParams").is_some(),
            elicitation_ids: self.has("ElicitRequestURLParams", "elicitationId"),
            elicitation_enums: self.definition("TitledMultiSelectEnumSchema").is_some(),
            sampling_tools: self.has("CreateMessageRequestParams", "tools"),
            sampling_content_array: self.has_array_type("SamplingMessage", "content"),
            core_tasks: self.definition("CreateTaskResult").is_some(),
            extensions: self.has("ServerCapabilities", "extensions"),
        }
    }
}

/// Methods of extensions of 2026-07-28.
const EXTENSION_METHODS: [Method; 6] = [
    Method::TasksGet,
    Method::TasksUpdate,
    Method::TasksCancel,
    Method::SkillsList,
    Method::SkillsGet,
    Method::ResourcesDirectoryRead,
];

#[test]
fn methods_match_schema_of_their_revision() {
    #[expect(clippy::disallowed_methods, reason = "the schema folder is set by the environment")]
    let Ok(folder) = std::env::var("MCP_SCHEMA_DIR") else { return };
    for revision in Revision::ALL {
        let schema = Schema::load(&folder, revision);
        let methods = schema.client_request_methods();
        for method in Method::ALL {
            // Tasks and skills of 2026-07-28 are extensions with schemas of their own.
            let is_extension = revision.is_modern() && EXTENSION_METHODS.contains(&method);
            let expected = methods.iter().any(|name| name == method.as_str());
            assert_eq!(
                method.is_defined_in(revision),
                expected || is_extension,
                "{revision} {method:?}"
            );
        }
        for name in methods {
            assert!(Method::parse(&name).is_some(), "{revision} {name}");
        }
    }
}

#[test]
fn dialect_matches_schema_of_its_revision() {
    #[expect(clippy::disallowed_methods, reason = "the schema folder is set by the environment")]
    let Ok(folder) = std::env::var("MCP_SCHEMA_DIR") else { return };
    for revision in Revision::ALL {
        let schema = Schema::load(&folder, revision);
        assert_eq!(schema.row(revision.dialect()), *revision.dialect());
    }
}
