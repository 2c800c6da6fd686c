//! Errors of SQLite as sentences.

use rusqlite::ErrorCode;

/// Kinds of errors that callers tell apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ErrorKind {
    /// Another program holds a lock.
    Locked,
    /// The file is missing or cannot be opened.
    Unreachable,
    /// The file is damaged, or no database.
    Damaged,
    /// The statement was interrupted.
    Interrupted,
    /// The statement may not do what it does.
    Refused,
    /// Anything else: the statement or its values.
    Other,
}

/// The kind of `error`.
pub(crate) fn kind_of(error: &rusqlite::Error) -> ErrorKind {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::Locked,
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::SystemIoFailure) => {
            ErrorKind::Unreachable
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => ErrorKind::Damaged,
        Some(ErrorCode::OperationInterrupted) => ErrorKind::Interrupted,
        Some(ErrorCode::AuthorizationForStatementDenied) => ErrorKind::Refused,
        _ => ErrorKind::Other,
    }
}

/// What went wrong, without the statement.
pub(crate) fn describe(error: &rusqlite::Error) -> String {
    let described = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "the database is locked by another program: try again later"
        }
        Some(ErrorCode::CannotOpen) => "the database cannot be opened",
        Some(ErrorCode::PermissionDenied) => "the database may not be opened",
        Some(ErrorCode::SystemIoFailure) => "the database cannot be read: input or output failed",
        Some(ErrorCode::NotADatabase) => "the file is no SQLite database",
        Some(ErrorCode::DatabaseCorrupt) => "the database is damaged",
        Some(ErrorCode::DiskFull) => "the disk of the database is full",
        Some(ErrorCode::OutOfMemory) => "the statement needs too much memory",
        Some(ErrorCode::ReadOnly) => "the database is read-only",
        Some(ErrorCode::TooBig) => "a text or blob of the statement is too long",
        _ => "",
    };
    if !described.is_empty() {
        return described.to_owned();
    }
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::MultipleStatement => "more than one statement".to_owned(),
        error => error.to_string(),
    }
}
