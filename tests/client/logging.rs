//! Log messages of the server.

use std::sync::mpsc;

use corelane::client::{ClientErrorKind, EraPreference, LogMessage};
use corelane::model::{Implementation, LoggingLevel, Revision};
use corelane::testing::block_on;
use corelane::{CallToolResult, Catalog, Features, NoArguments, RequestContext, Tool};
use corelane_test_support::{TIMEOUT, TestServer, http_options, tcp_options};
use serde_json::json;

use super::{ERAS, client_of, http};

/// A tool that sends a message of each of three levels.
fn catalog() -> Catalog {
    let tool = Tool::new("say").local(|_: NoArguments, ctx: RequestContext| async move {
        ctx.log(LoggingLevel::Debug, None, "little");
        ctx.log(LoggingLevel::Info, Some("here"), "more");
        ctx.log(LoggingLevel::Error, None, "much");
        Ok(CallToolResult::text("said"))
    });
    let catalog = Catalog::builder(Implementation::new("logging", "1.0.0")).tool(tool);
    catalog.build().expect("valid catalog")
}

#[test]
fn log_messages_from_level_on_are_received() {
    for (options, is_http) in [(tcp_options(), false), (http_options(), true)] {
        let server = TestServer::with_catalog(options, catalog());
        for era in ERAS {
            let client = if is_http { http::client_of(&server) } else { client_of(&server) };
            let (log_tx, log_rx) = mpsc::channel();
            let client = client.era(era).on_log(LoggingLevel::Info, move |message: LogMessage| {
                log_tx.send((message.level, message.logger, message.data)).unwrap();
            });
            let client = client.connect_blocking().unwrap();
            let next = || log_rx.recv_timeout(TIMEOUT).expect("a log message");
            client.call_tool("say", &json!({})).wait().unwrap();
            let info = (LoggingLevel::Info, Some("here".to_owned()), json!("more"));
            assert_eq!(next(), info, "{era:?}");
            assert_eq!(next(), (LoggingLevel::Error, None, json!("much")), "{era:?}");
            block_on(client.set_log_level(LoggingLevel::Error)).unwrap();
            client.call_tool("say", &json!({})).wait().unwrap();
            assert_eq!(next(), (LoggingLevel::Error, None, json!("much")), "{era:?}");
            assert!(log_rx.try_recv().is_err(), "{era:?}");
        }
    }
}

#[test]
fn log_level_of_server_without_logging_is_unsupported() {
    let tool = Tool::new("a").local(|_: NoArguments, _| async { Ok(CallToolResult::text("a")) });
    let catalog = Catalog::builder(Implementation::new("quiet", "1.0.0")).tool(tool);
    let catalog = catalog.disable_features(Features::LOGGING).build().expect("valid catalog");
    let server = TestServer::with_catalog(tcp_options(), catalog);
    let client = client_of(&server).era(EraPreference::Legacy(Revision::V2025_11_25));
    let client = client.on_log(LoggingLevel::Info, |_| {}).connect_blocking().unwrap();
    let error = block_on(client.set_log_level(LoggingLevel::Debug)).unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Unsupported);
}
