//! POST: one message, answered by the road at once, later, or by a legacy session.
//!
//! What it keeps true: an answer that is ready at once is written behind its head where it stands,
//! and copied nowhere.

use super::Incoming;
use crate::link::Connection;
use crate::protocol::era::{Meta, Method};
use crate::protocol::error::Error;
use crate::protocol::json::Value;
use crate::protocol::message;
use crate::protocol::params::CallParams;
use crate::protocol::revision::Revision;
use crate::protocol::rpc::{Envelope, Id};
use crate::server::driver::ShardDriver;
use crate::server::http::{Bearer, Http, Manner};
use crate::server::party::{Outlet, Party, Said};
use crate::server::pipeline::{Asked, Passage, Road};
use crate::server::session::{Member, Peer, Session};
use crate::transport::http::date::Date;
use crate::transport::http::ladder::{self, Era, Refusal, Step};
use crate::transport::http::mirror::{self, Mirrored};
use crate::transport::http::response::{self, Body, Mark};
use crate::transport::http::status::Status;

/// What has become of a message.
enum Posted {
    /// It was answered.
    Answered,
    /// It wants no answer.
    Accepted,
    /// Its answer comes later; what was said meanwhile, where something was.
    Awaited(Option<Vec<u8>>),
    /// It is refused.
    Refused(Refusal),
}

impl ShardDriver {
    /// A message to the endpoint.
    #[inline]
    pub(super) fn post(
        &mut self,
        incoming: &Incoming<'_>,
        (session, version): (Option<&[u8]>, Option<&[u8]>),
        (text, length): (&mut [u8], usize),
    ) {
        if let Some(session) = session {
            return match ladder::era(version, false, &self.http.profile) {
                Ok(_) => self.post_to_session(incoming, session, (text, length)),
                Err(refusal) => self.refuse(incoming, &refusal),
            };
        }
        match self.post_alone(incoming, version, (text, length)) {
            Posted::Answered => self.close_after(incoming),
            Posted::Accepted => {
                let fields = incoming.fields();
                self.answer(incoming, (Status::ACCEPTED, Body::Nothing, fields), &[]);
            }
            Posted::Awaited(said) => {
                self.open_exchange(incoming, incoming.manner, Bearer::Connection);
                if let Some(text) = said {
                    self.say_over(incoming.key, (Said::Word, None), |out| {
                        out.extend_from_slice(&text);
                    });
                }
            }
            Posted::Refused(refusal) => self.refuse(incoming, &refusal),
        }
    }

    /// A message that belongs to no session.
    fn post_alone(
        &mut self,
        incoming: &Incoming<'_>,
        version: Option<&[u8]>,
        (text, length): (&mut [u8], usize),
    ) -> Posted {
        let Self { parser, link, road, http, .. } = self;
        let Some(connection) = link.connections.get_mut(incoming.key) else {
            return Posted::Answered;
        };
        let document = match parser.parse(text, length) {
            Ok(document) => document,
            Err(error) => return Posted::Refused(Step::Parse.refuse_with(error.into())),
        };
        let root = document.root();
        if root.as_array().is_some() {
            let message = "an array of messages belongs to a session of 2025-03-26";
            return Posted::Refused(Step::Message.refuse(message));
        }
        road.counters.traffic.messages_in += 1;
        match Envelope::read(root) {
            Ok(Envelope::Request { id, method, params }) => {
                let members = &CallParams::read(params);
                let meta = &members.meta();
                let asked = Asked { id, method, params, members, meta };
                Alone { incoming, connection, road, http }.request(version, &asked)
            }
            Ok(Envelope::Notification { .. }) => {
                road.counters.requests.notifications += 1;
                match ladder::era(version, false, &http.profile) {
                    Ok(Era::Modern) => Posted::Accepted,
                    Ok(Era::Legacy) => Posted::Refused(session_unnamed()),
                    Err(refusal) => Posted::Refused(refusal),
                }
            }
            Ok(Envelope::Response { .. }) => match ladder::era(version, false, &http.profile) {
                Ok(Era::Legacy) => Posted::Refused(session_unnamed()),
                Ok(Era::Modern) | Err(_) => {
                    let message = "a response answers nothing: no request was sent";
                    Posted::Refused(Step::Message.refuse(message))
                }
            },
            Err(refused) => {
                let error = (Status::BAD_REQUEST, &refused.error);
                Alone { incoming, connection, road, http }.refuse(refused.id, error)
            }
        }
    }
}

/// One request that belongs to no session, with all that it needs.
struct Alone<'a> {
    incoming: &'a Incoming<'a>,
    connection: &'a mut Connection<Session>,
    road: &'a mut Road,
    http: &'a mut Http<Member>,
}

impl Alone<'_> {
    #[inline]
    fn request(self, version: Option<&[u8]>, asked: &Asked<'_>) -> Posted {
        let names_version = asked.meta.as_ref().is_ok_and(Meta::is_modern);
        match ladder::era(version, names_version, &self.http.profile) {
            Ok(Era::Modern) => self.modern(asked),
            Ok(Era::Legacy) if asked.method == Method::Initialize.as_str() => self.begin(asked),
            Ok(Era::Legacy) => self.refuse_at(asked.id, &session_unnamed()),
            Err(refusal) => self.refuse_at(asked.id, &refusal),
        }
    }

    /// A modern request: its headers are held against it, then it is carried.
    #[inline]
    fn modern(self, asked: &Asked<'_>) -> Posted {
        if let Err(error) = self.mirrored(asked) {
            return self.refuse(Some(asked.id), (Status::BAD_REQUEST, &error));
        }
        if asked.method == Method::SubscriptionsListen.as_str() && !self.incoming.manner.may_stream
        {
            let refusal = Step::AcceptStream.refuse("the answer is an event stream");
            return self.refuse_at(asked.id, &refusal);
        }
        let Incoming { key, manner, now, .. } = *self.incoming;
        let (outlet, date) = (Outlet::general(Party::Connection(key)), *self.http.date());
        let passage = Passage { outlet, now, in_batch: false, is_modern: true };
        let Connection { session, standing, outgoing, .. } = self.connection;
        let origin = self.incoming.origin();
        let mark = manner.begin(outgoing, (Status::OK, Body::Json), origin, &date);
        let said = self.road.request(passage, &mut Peer { session, standing, outgoing }, asked);
        self.road.count_said(said);
        finish(outgoing, mark, said, (manner, origin), &date)
    }

    /// Holds the headers of a request against what it says. Where it does not say what it must, the
    /// road will tell.
    #[inline]
    fn mirrored(&self, asked: &Asked<'_>) -> Result<(), Error> {
        let Incoming { head, bytes, .. } = *self.incoming;
        let Some(Ok(version)) = asked.meta.as_ref().ok().map(Meta::version) else { return Ok(()) };
        let method = Method::parse(asked.method);
        let named = match method {
            Some(Method::ToolsCall) => asked.members.call().ok().and_then(|[name, _]| name),
            Some(method) => mirror::name_key(method).and_then(|key| {
                asked.params.and_then(Value::as_object).and_then(|params| params.find(key))
            }),
            None => None,
        };
        let name = named.and_then(Value::as_str);
        mirror::check(head, bytes, &Mirrored { method: asked.method, name, version })?;
        if method != Some(Method::ToolsCall) || Revision::parse(version).is_none() {
            return Ok(());
        }
        let Some(tool) = name.and_then(|name| self.road.catalog.tool(name)) else { return Ok(()) };
        let declared = tool.parameter_headers();
        if declared.is_empty() {
            return Ok(());
        }
        let declared = declared.iter().map(|header| (&*header.name, &*header.path));
        let arguments = asked.members.call().ok().and_then(|[_, arguments]| arguments);
        mirror::check_params(head, bytes, declared, arguments)
    }

    /// `initialize`: a legacy session begins with its answer.
    fn begin(self, asked: &Asked<'_>) -> Posted {
        let Incoming { manner, now, .. } = *self.incoming;
        let Ok(begun) = self.http.sessions.begin(Member::new(), now) else {
            let error = Error::connection_limit();
            return self.refuse(Some(asked.id), (Status::UNAVAILABLE, &error));
        };
        let date = *self.http.date();
        let Some(member) = self.http.sessions.session(begun.key) else { return Posted::Answered };
        let Member { session, standing, .. } = member;
        let outgoing = &mut self.connection.outgoing;
        let manner = Manner { is_modern: false, session: Some(begun.id), ..manner };
        let origin = self.incoming.origin();
        let mark = manner.begin(outgoing, (Status::OK, Body::Json), origin, &date);
        let outlet = Outlet::general(Party::Session(begun.key));
        let passage = Passage { outlet, now, in_batch: false, is_modern: false };
        let said = self.road.request(passage, &mut Peer { session, standing, outgoing }, asked);
        self.road.count_said(said);
        if said == Said::Answer {
            response::end(outgoing, mark);
            self.http.sessions.touch(begun.key, now);
            // A handshake that fails costs nobody a session.
            let evicted = self.http.sessions.make_room(begun.key);
            let counts = &mut self.road.counters.sessions;
            counts.begun += 1;
            counts.evicted += u64::from(evicted.is_some());
            self.http.evicted.extend(evicted);
            return Posted::Answered;
        }
        // There is no session where nothing was agreed.
        self.http.sessions.remove(begun.key);
        finish(outgoing, mark, said, (Manner { session: None, ..manner }, origin), &date)
    }

    fn refuse_at(self, id: Id<'_>, refusal: &Refusal) -> Posted {
        self.refuse(Some(id), (refusal.status, &refusal.error))
    }

    /// Answers with an error that names the request.
    #[cold]
    fn refuse(self, id: Option<Id<'_>>, (status, error): (Status, &Error)) -> Posted {
        let manner = self.incoming.manner;
        let out = &mut self.connection.outgoing;
        self.road.count_error(error);
        let date = *self.http.date();
        let mark = manner.begin(out, (status, Body::Json), self.incoming.origin(), &date);
        message::error(out, id, error, Some(Revision::LATEST));
        response::end(out, mark);
        self.road.count_said(Said::Refusal(error.kind));
        Posted::Answered
    }
}

/// Ends the answer that was begun at `mark`, or takes it back where there is none yet.
#[inline]
fn finish(
    out: &mut Vec<u8>,
    mark: Mark,
    said: Said,
    (manner, origin): (Manner, Option<&[u8]>),
    date: &Date,
) -> Posted {
    match said {
        Said::Answer => response::end(out, mark),
        Said::Refusal(kind) => {
            let mark = manner.amend(out, (mark, kind), origin, date);
            response::end(out, mark);
        }
        Said::Nothing => {
            out.truncate(mark.head());
            return Posted::Awaited(None);
        }
        Said::Word => {
            let text = out.split_off(mark.body());
            out.truncate(mark.head());
            return Posted::Awaited(Some(text));
        }
    }
    Posted::Answered
}

#[cold]
fn session_unnamed() -> Refusal {
    Step::SessionNamed.refuse("Mcp-Session-Id is missing: a session begins with initialize")
}
