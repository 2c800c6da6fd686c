//! Errors of PostgreSQL as sentences.

use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::declared::call::Failure;

/// The sentence for a failed call with this time limit.
pub(crate) fn describe(error: &Error, timeout: Duration) -> Failure {
    let Some(database) = error.as_db_error() else {
        return Failure::failed(describe_connection(error));
    };
    let (code, message) = (database.code(), database.message());
    match code.code() {
        _ if *code == SqlState::QUERY_CANCELED => Failure::failed(format!(
            "the statement was stopped at its time limit of {timeout:?}: make it read fewer rows"
        )),
        _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => {
            Failure::failed("the statement may not change the database")
        }
        _ if *code == SqlState::LOCK_NOT_AVAILABLE => {
            Failure::failed("the database is locked by another program: try again later")
        }
        // Data exceptions: a value does not fit the type of its parameter.
        code if code.starts_with("22") => Failure::invalid_argument(message),
        "40001" | "40P01" => Failure::failed(format!("{message}: try again")),
        code if is_unavailable(code) => Failure::failed(describe_connection(error)),
        _ => Failure::failed(message),
    }
}

/// Why the server is not reachable, without its address.
pub(crate) fn describe_connection(error: &Error) -> String {
    match error.as_db_error() {
        Some(database) if database.code().code().starts_with("28") => {
            "the database refuses the user or its password".to_owned()
        }
        Some(database) => format!("the database is not available: {}", database.message()),
        None if error.is_closed() => "the connection to the database was closed".to_owned(),
        None => {
            let source = std::error::Error::source(error);
            let io = source.and_then(|it| it.downcast_ref::<std::io::Error>());
            let inner = io.and_then(|io| io.get_ref()?.downcast_ref::<rustls::Error>());
            if let Some(rustls) = inner {
                let hint = "set sslrootcert in its URL, or another sslmode";
                return format!("the database is not trusted: {rustls}; {hint}");
            }
            let kind = io.map_or_else(|| error.to_string(), |it| it.kind().to_string());
            format!("the database cannot be reached: {kind}")
        }
    }
}

/// Whether the server cannot serve statements now, rather than this one.
pub(crate) fn is_unreachable(error: &Error) -> bool {
    error.as_db_error().is_none_or(|it| is_unavailable(it.code().code()))
}

/// Classes: connection exception, insufficient resources, operator intervention but a cancelled
/// statement, system error.
fn is_unavailable(code: &str) -> bool {
    let classes = ["08", "53", "57", "58"];
    code != "57014" && classes.iter().any(|class| code.starts_with(class))
}
