//! The tools of a server of the parity dialect, read by runs of the generator with one request
//! each.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use corelane_client::ToolInfo;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::server::check_address;
use super::{DiscoveryError, RequestError};
use crate::generator::{self, ConnectionRoles, LoadMode, RunConfig, RunError};
use crate::mcp::{RequestTemplate, ResultCheck};

/// Pages that are read.
const PAGES_MAX: usize = 100;

/// A result of `tools/list`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolsPage {
    tools: Vec<ToolInfo>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// Reads all pages of `tools/list` from the server of a run.
pub(super) fn list_tools(config: &RunConfig) -> Result<Vec<ToolInfo>, DiscoveryError> {
    check_address(config)
        .map_err(|error| DiscoveryError::Unreachable(RequestError::unopened(&error)))?;
    let (mut tools, mut params) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = read_page(config, params.as_ref())?;
        tools.extend(page.tools);
        let Some(cursor) = page.next_cursor else { break };
        params = Some(Map::from_iter([("cursor".to_owned(), Value::from(cursor))]));
    }
    Ok(tools)
}

fn read_page(
    config: &RunConfig,
    params: Option<&Map<String, Value>>,
) -> Result<ToolsPage, DiscoveryError> {
    let record = Arc::<OnceLock<String>>::default();
    let call = RequestTemplate::new(&config.request_settings, "tools/list", params, None)
        .with_check(ResultCheck::recording(Arc::clone(&record)));
    let config = RunConfig {
        calls: vec![(call, 1)],
        connections: 1,
        depth: 1,
        mode: LoadMode::Closed { span: config.limits.response_timeout, requests: Some(1) },
        warm_up: Duration::ZERO,
        roles: ConnectionRoles::default(),
        ..config.clone()
    };
    let finding = generator::run(&config, 1, &[], None, |_, _| {});
    let finding = finding.map_err(|error| match error {
        RunError::ProgramFailed(why) => DiscoveryError::Program(why),
        RunError::Unreachable(why) if why.starts_with("error.auth.") => {
            DiscoveryError::Unauthorized(RequestError::of_run(&why))
        }
        RunError::Unreachable(why) => DiscoveryError::Handshake(RequestError::of_run(&why)),
        error => DiscoveryError::Tools(RequestError::of_run(&error.to_string())),
    })?;
    let page = record.get().map_or_else(
        || {
            let (kind, text) = finding.total.errors.iter().next().unwrap_or(("", "no answer"));
            Err(format!("{kind}: {text}"))
        },
        |text| serde_json::from_str(text).map_err(|error| format!("invalid result: {error}")),
    );
    page.map_err(|why| DiscoveryError::Tools(RequestError::of_run(&why)))
}
