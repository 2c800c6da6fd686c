//! The ladder as a table: every check of a request in its order, and what its failure is answered
//! with.
//!
//! What it keeps true: status and error of a refusal stand here and nowhere else; whoever checks
//! takes them from the rung. The order is the one in which a request climbs: what costs least comes
//! first, and nothing of a body is read before its head is admitted.
//!
//! Source: 2026-07-28 and 2025-11-25 `basic/transports`. Where they are silent, the rung says what
//! the official SDKs do.

use std::borrow::Cow;

use crate::protocol::error::{Error, Kind};
use crate::transport::http::status::Status;

/// Who looks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Looker {
    /// The reader of requests, while their bytes arrive.
    Reader,
    /// The guard, which knows whom the server listens to.
    Guard,
    /// [`super::admit_head`], before a byte of the body is parsed.
    Head,
    /// [`handshake`](crate::transport::websocket::handshake), which makes a request a WebSocket.
    Handshake,
    /// [`super::era()`], once the body is JSON.
    Era,
    /// [`mirror`](crate::transport::http::mirror), which holds headers against the body.
    Mirror,
    /// The road that every message takes, whatever carried it.
    Road,
}

/// Whose requests are held to a rung.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Among {
    /// Everybody's.
    All,
    /// Those of clients up to 2025-11-25.
    Legacy,
    /// Those of clients since 2026-07-28.
    Modern,
    /// Those to a server in the strict profile.
    Strict,
    /// Those to a server that is not in the strict profile.
    Usual,
}

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct Rung {
    /// Its name, and by its order its place.
    pub step: Step,
    /// What a request has to keep, in words.
    pub asks: &'static str,
    /// Who looks.
    pub by: Looker,
    /// Whose requests are held to it.
    pub among: Among,
    /// The status that a failure is answered with.
    pub status: Status,
    /// The error in the body of that answer.
    pub kind: Kind,
}

/// Makes the steps and their table from one row each: what is asked, the name, who looks, whose
/// requests, the status, the error.
macro_rules! rungs {
    ($(
        $(#[doc = $asks:literal])+
        $step:ident $by:ident $among:ident $status:ident $kind:ident,
    )+) => {
        /// The steps of the ladder, lowest first.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Step {
            $($(#[doc = $asks])+ $step,)+
        }

        /// Every rung, lowest first.
        pub static RUNGS: [Rung; [$(Step::$step),+].len()] = [$(Rung {
            step: Step::$step,
            asks: concat!($($asks),+),
            by: Looker::$by,
            among: Among::$among,
            status: Status::$status,
            kind: Kind::$kind,
        }),+];
    };
}

rungs! {
    /// The head is HTTP/1.0 or 1.1 and leaves no doubt where its body ends. (What the reader finds
    /// too long, too new or unknown has a status of its own.)
    Frame               Reader  All     BAD_REQUEST             InvalidRequest,
    /// The body is as long as a message may be: known from the head, or when it has grown.
    Size                Reader  All     CONTENT_TOO_LARGE       TooLarge,
    /// `Host` is a name that this server is known under, which a DNS rebinding cannot fake.
    /// (Of the SDKs some answer 421.)
    Host                Guard   All     FORBIDDEN               InvalidRequest,
    /// `Origin`, where a browser sends one, is one whose pages may use this server.
    Origin              Guard   All     FORBIDDEN               InvalidRequest,
    /// Something stands at the path.
    Path                Head    All     NOT_FOUND               InvalidRequest,
    /// The path knows the verb. GET and DELETE of the MCP endpoint are a legacy session's: without
    /// its id, or in a modern revision, there are none. In the strict profile there is no GET.
    Verb                Head    All     METHOD_NOT_ALLOWED      InvalidRequest,
    /// A message says its `Content-Type`. (In the usual profile saying none is saying a wrong one,
    /// as it is to the SDKs.)
    ContentTypeNamed    Head    Strict  BAD_REQUEST             InvalidRequest,
    /// The `Content-Type` of a message is `application/json`.
    ContentType         Head    All     UNSUPPORTED_MEDIA_TYPE  InvalidRequest,
    /// Nothing was done to the body of a message: none is decompressed, so that no small one can
    /// become a large one. (RFC 9110, section 15.5.16; the answer says `Accept-Encoding: identity`,
    /// by which it differs from that of the rung below: section 12.5.3.)
    ContentCoding       Head    All     UNSUPPORTED_MEDIA_TYPE  InvalidRequest,
    /// `Accept` takes both `application/json` and `text/event-stream`, by name or by a range such
    /// as `*/*`: which of them an answer becomes is decided when it is given. Every revision has
    /// clients list both, and the official SDKs answer 406 to those that do not, or that send no
    /// `Accept` at all; so does this server, lest a client that works with it fails with others.
    AcceptBoth          Head    Usual   NOT_ACCEPTABLE          InvalidRequest,
    /// `Accept`, where it is there, takes `application/json`: there is no other answer.
    AcceptJson          Head    Strict  NOT_ACCEPTABLE          InvalidRequest,
    /// `Accept` of a GET takes `text/event-stream`: there is no other answer.
    AcceptStream        Head    Legacy  NOT_ACCEPTABLE          InvalidRequest,
    /// `MCP-Protocol-Version` is the one that the server is pinned to.
    VersionPinned       Head    Strict  BAD_REQUEST             InvalidRequest,
    /// `MCP-Protocol-Version` of a GET or DELETE, where it is there, is a revision of ours.
    VersionOfStream     Head    Legacy  BAD_REQUEST             UnsupportedVersion,
    /// A message to the endpoint of 2024-11-05 names its session in the query.
    SessionInQuery      Head    Legacy  BAD_REQUEST             InvalidRequest,
    /// A request to the path of the WebSocket asks for one: `Upgrade` lists `websocket`,
    /// `Connection` lists `upgrade`, in HTTP/1.1. (The answer says what to upgrade to.)
    UpgradeAsked        Handshake All   UPGRADE_REQUIRED        InvalidRequest,
    /// It has no body: what follows its head is a frame.
    UpgradeAlone        Handshake All   BAD_REQUEST             InvalidRequest,
    /// `Sec-WebSocket-Version` is 13, once. (The answer says so.)
    UpgradeVersion      Handshake All   UPGRADE_REQUIRED        InvalidRequest,
    /// `Sec-WebSocket-Key` is 16 bytes in base64, once.
    UpgradeKey          Handshake All   BAD_REQUEST             InvalidRequest,
    /// `Sec-WebSocket-Protocol`, where it is there, offers a subprotocol of ours.
    UpgradeProtocol     Handshake All   BAD_REQUEST             InvalidRequest,
    /// The body is JSON.
    Parse               Road    All     BAD_REQUEST             Parse,
    /// It is one message of JSON-RPC; an array of them only in a session of 2025-03-26.
    Message             Road    All     BAD_REQUEST             InvalidRequest,
    /// A request that is not modern by its `_meta` names its revision, where the server speaks no
    /// legacy one. (Where it does, no `MCP-Protocol-Version` means 2025-03-26.)
    VersionNamed        Era     Modern  BAD_REQUEST             HeaderMismatch,
    /// The revision that such a request names is one that the server speaks.
    VersionKnown        Era     All     BAD_REQUEST             UnsupportedVersion,
    /// A legacy request other than `initialize` names its session.
    SessionNamed        Road    Legacy  BAD_REQUEST             InvalidRequest,
    /// That session is open. (404 is how a client learns to begin another one.)
    SessionOpen         Road    Legacy  NOT_FOUND               InvalidRequest,
    /// Nobody else carries the stream of the session that a GET asks for. (TypeScript and Python
    /// answer 409 as well.)
    StreamFree          Road    Legacy  CONFLICT                InvalidRequest,
    /// `Last-Event-ID` is an event of a stream of that session that can still be resumed. (Not 404,
    /// by which the client would give up the session.)
    EventKnown          Road    Legacy  BAD_REQUEST             InvalidRequest,
    /// A modern request says in `_meta` which revision it is of and what its client can do.
    Meta                Road    Modern  BAD_REQUEST             InvalidParams,
    /// `MCP-Protocol-Version` says the same. Looked at before the revision is known to be ours: who
    /// contradicts itself is told that.
    VersionMirrored     Mirror  Modern  BAD_REQUEST             HeaderMismatch,
    /// `Mcp-Method` is the method.
    MethodMirrored      Mirror  Modern  BAD_REQUEST             HeaderMismatch,
    /// `Mcp-Name` is the name, the URI or the id of the task that the method is about.
    NameMirrored        Mirror  Modern  BAD_REQUEST             HeaderMismatch,
    /// The revision is a modern one of ours.
    Version             Road    Modern  BAD_REQUEST             UnsupportedVersion,
    /// The server has the method in this revision. (To a legacy request 200, as the SDKs do.)
    Method              Road    Modern  NOT_FOUND               MethodNotFound,
    /// `Mcp-Param-…` are the arguments that they repeat.
    ParametersMirrored  Mirror  Modern  BAD_REQUEST             HeaderMismatch,
    /// The params are right. (To a legacy request 200.)
    Params              Road    Modern  BAD_REQUEST             InvalidParams,
    /// The client can do what the answer needs.
    Capability          Road    Modern  BAD_REQUEST             MissingCapability,
}

impl Step {
    /// Its row of the table.
    pub const fn rung(self) -> &'static Rung {
        &RUNGS[self as usize]
    }

    /// A refusal at this step, with the error of its rung.
    #[cold]
    pub fn refuse(self, message: impl Into<Cow<'static, str>>) -> Refusal {
        self.refuse_with(Error::new(self.rung().kind, message))
    }

    /// A refusal at this step with an error that says more.
    #[cold]
    pub const fn refuse_with(self, error: Error) -> Refusal {
        Refusal { step: self, status: self.rung().status, allow: None, error }
    }
}

/// A request that failed at a rung. The connection is kept: where the request ends is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Where it failed.
    pub step: Step,
    /// What it is answered with.
    pub status: Status,
    /// The `Allow` field of that answer (RFC 9110, section 15.5.6).
    pub allow: Option<&'static str>,
    /// The body: an error response without an id, because nothing of the message was read.
    pub error: Error,
}
