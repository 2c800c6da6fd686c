//! What a client hears over HTTP, held against what it asked.
//!
//! What it checks: answers come in the order of their requests, each is one that its request may
//! have; a stream ends with its answer, or its client knows why not; a connection ends only where
//! it may.

use corelane::base::time::Moment;
use corelane::protocol::revision::Revision;
use serde_json::Value;

use super::guest::{Facts, Guest};
use super::line::{Asked, Kind, Line};
use super::pairs;
use super::speech;
use crate::web::checks::book::{self, Book, GENERAL};
use crate::web::checks::reading::{Event, Head, Piece};

impl Guest {
    /// Hears what has come on every connection, and gives up those that have ended.
    ///
    /// # Errors
    ///
    /// What does not hold.
    pub(super) fn hear_all(&mut self, now: Moment, facts: Facts) -> Result<(), String> {
        let mut lines = std::mem::take(&mut self.lines);
        for line in &mut lines {
            self.hear_line(line, now, facts).map_err(|what| format!("{what}, on {line}"))?;
        }
        lines.retain(|line| {
            let is_over = line.wire.has_ended() || line.wire.is_reset();
            if is_over {
                line.wire.close();
                self.give_up(line);
            }
            !is_over
        });
        self.lines = lines;
        Ok(())
    }

    fn hear_line(&mut self, line: &mut Line, now: Moment, facts: Facts) -> Result<(), String> {
        let heard = line.wire.heard();
        let heard = self.relay.borrow_mut().pass(line.wire.address(), &mut line.frames, heard);
        let is_over = line.wire.has_ended();
        if heard.is_empty() && !is_over && !line.wire.is_reset() {
            return self.must_have_heard(line, now, facts);
        }
        if !heard.is_empty() {
            for byte in now.nanoseconds().to_le_bytes().iter().chain(&heard) {
                self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
        line.reader.hear(&heard);
        loop {
            let is_bare = matches!(line.asked.front().map(|it| it.kind), Some(Kind::Bare(_)));
            // A session whose client reads too slowly is cut off in the middle of anything.
            let may_be_cut = facts.is_narrow && line.asked.iter().any(|it| it.session.is_some());
            let Some(piece) = line.reader.next(is_bare, is_over && !may_be_cut)? else { break };
            let Some(mut asked) = line.asked.pop_front() else {
                return hear_unasked(&piece, facts);
            };
            if piece.is_word() {
                line.since = now;
            }
            let is_done = self.hear_piece(&mut asked, piece, now, facts)?;
            if let Some(edition) = self.seen.take() {
                line.see(edition)?;
            }
            let closes = asked.head.as_ref().is_some_and(|head| head.closes);
            line.is_ending |= closes;
            if !is_done {
                line.asked.push_front(asked);
                continue;
            }
            line.since = now;
            if closes {
                // What was asked behind it is not read.
                line.asked.clear();
            }
        }
        let is_broken = line.wire.is_reset();
        if is_over && !is_broken && !line.reader.is_between() && !facts.may_break {
            let is_narrow = facts.is_narrow && line.asked.iter().any(|it| it.session.is_some());
            if !is_narrow && !line.is_finished && !facts.drains {
                return Err("the connection ends in the middle of an answer".into());
            }
        }
        if !(is_over || is_broken) || line.asked.is_empty() {
            return Ok(());
        }
        self.tally.resets += u64::from(is_broken);
        let may_end = facts.may_break || facts.drains || line.is_ending || line.is_finished;
        let is_full = facts.is_narrow || self.is_slow || line.is_deaf;
        if may_end || is_full {
            return Ok(());
        }
        Err("the connection ends before the answer".into())
    }

    /// Whoever listens and reads has been told of the editions that were made since.
    fn must_have_heard(&self, line: &Line, now: Moment, facts: Facts) -> Result<(), String> {
        let is_slow = self.is_slow || self.was_deaf || facts.is_narrow || line.is_finished;
        let open = line.asked.front().filter(|asked| asked.is_endless() && !is_slow);
        // A session of 2024-11-05 is told only when its handshake is over.
        let open = open.filter(|asked| asked.kind != Kind::Pair);
        let Some((asked, since)) = open.and_then(|asked| Some((asked, asked.opened?))) else {
            return Ok(());
        };
        self.chronicle.borrow().must_have_told(since, asked.told, now)
    }

    /// Whether the answer is complete with that.
    fn hear_piece(
        &mut self,
        asked: &mut Asked,
        piece: Piece,
        now: Moment,
        facts: Facts,
    ) -> Result<bool, String> {
        // What is refused keeps no session alive.
        let is_refused = |head: &Head| head.status >= 400;
        let session = asked.session.map(|session| &mut self.books[session]);
        if let Some(book) = session
            && asked.head.as_ref().is_some_and(|head| !is_refused(head))
        {
            book.busy = now;
        }
        match piece {
            Piece::Head(head) => {
                self.hear_head(asked, &head, now, facts)?;
                asked.opened = Some(now);
                asked.head = Some(head);
                Ok(false)
            }
            Piece::Event(event) => self.hear_event(asked, &event, now).map(|()| false),
            Piece::Body(body) => self.hear_body(asked, &body, now, facts).map(|()| true),
            Piece::End => self.hear_end(asked, facts).map(|()| true),
        }
    }

    fn hear_event(&mut self, asked: &mut Asked, event: &Event, now: Moment) -> Result<(), String> {
        if event.is_endpoint {
            return self.begin_to_post(asked, event.data.as_deref().unwrap_or_default(), now);
        }
        asked.is_put_off |= event.retry.is_some() && event.id.is_none();
        let message = match asked.session {
            Some(session) => self.books[session].hear_event(&mut asked.carried, event, asked.id)?,
            None if event.id.is_some() => {
                return Err(format!("{event:?} can be asked for by no one"));
            }
            None => event.data.as_deref().map(book::read).transpose()?,
        };
        // What was said once is said again to whoever asks for it.
        let is_answer = |data: &String| data.contains("\"result\"") || data.contains("\"error\"");
        let was_answered = event.data.as_ref().is_some_and(is_answer);
        let is_part = |book: &Book| asked.id.is_some_and(|id| book.is_part(id));
        let waits = asked.session.is_some_and(|session| is_part(&self.books[session]));
        asked.is_answered |= was_answered && asked.id.is_some() && !waits;
        match message {
            Some(Value::Array(messages)) if asked.session.is_some() => {
                messages.iter().try_for_each(|message| self.hear_message(asked, message, now))
            }
            Some(message) => self.hear_message(asked, &message, now),
            None => Ok(()),
        }
    }

    fn hear_message(
        &mut self,
        asked: &mut Asked,
        message: &Value,
        now: Moment,
    ) -> Result<(), String> {
        if let Some(session) = asked.session {
            if message["method"] == "elicitation/create" {
                self.tally.asked += 1;
                self.questions.push((session, message.clone()));
            }
            if self.books[session].gone.is_some_and(|gone| gone <= asked.said) {
                return Err(format!("{message} is said in a session that has gone"));
            }
            let book = &mut self.books[session];
            let about = if book.is_pair() { pairs::request_of(message) } else { asked.id };
            let is_answer = book.hear(message, about)?;
            if is_answer && message["result"]["protocolVersion"] == "2024-11-05" {
                self.unconfirmed = Some(session);
            }
            self.tally.answers += u64::from(is_answer);
            self.tally.frames += u64::from(!is_answer);
            if is_answer {
                return self.conclude(message, Some(session), now);
            }
            return self.notice(asked, message, now);
        }
        if !speech::is_for(message, self.number) {
            return Err(format!("{message} is not for {}", self.number));
        }
        let id = asked.id.map(Value::from);
        if message.get("method").is_none() {
            self.tally.answers += 1;
            if message.get("id") != id.as_ref() {
                return Err(format!("{message} answers {asked:?}"));
            }
            return self.conclude(message, None, now);
        }
        self.tally.frames += 1;
        self.notice(asked, message, now)?;
        if message["method"] == "notifications/progress" {
            let progress = message["params"]["progress"].as_u64();
            let progress =
                progress.or_else(|| Some(message["params"]["progress"].as_f64()? as u64));
            // Who does not read along misses some of it.
            let is_next = match progress {
                Some(progress) if self.is_narrow => progress > asked.progress,
                progress => progress == Some(asked.progress + 1),
            };
            asked.progress = progress.unwrap_or_default();
            if message["params"].get("progressToken") != id.as_ref() || !is_next {
                return Err(format!("{message} is said of {asked:?}"));
            }
        }
        Ok(())
    }

    fn hear_body(
        &mut self,
        asked: &mut Asked,
        body: &[u8],
        now: Moment,
        facts: Facts,
    ) -> Result<(), String> {
        let status = asked.head.as_ref().map_or(0, |head| head.status);
        let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
        let is_call = matches!(asked.kind, Kind::Begin | Kind::Request | Kind::Modern);
        if status != 200 || !is_call && asked.kind != Kind::Subscribe {
            return Ok(());
        }
        let message = book::read(text)?;
        if asked.kind == Kind::Subscribe && !facts.drains {
            return Err(format!("{message} is no stream"));
        }
        asked.is_answered = true;
        if let (Value::Array(messages), Some(session)) = (&message, asked.session) {
            messages.iter().try_for_each(|message| self.hear_message(asked, message, now))?;
            let is_whole = asked.id.is_some_and(|id| self.books[session].is_settled(id));
            return if is_whole { Ok(()) } else { Err(format!("{message} is not all")) };
        }
        if asked.kind != Kind::Begin {
            return self.hear_message(asked, &message, now);
        }
        self.tally.answers += 1;
        let agreed = message["result"]["protocolVersion"].as_str().and_then(Revision::parse);
        match (agreed, self.books.last_mut()) {
            (Some(agreed), Some(book)) if message["id"].as_u64() == asked.id => {
                book.revision = agreed;
                self.unconfirmed = Some(self.books.len() - 1);
                Ok(())
            }
            _ => Err(format!("no session begins with {message}")),
        }
    }

    /// The stream ends: with its answer, or for a reason.
    fn hear_end(&mut self, asked: &mut Asked, facts: Facts) -> Result<(), String> {
        self.tally.streams += 1;
        // Without chunks nobody can tell an end from a break.
        let is_plain = asked.head.as_ref().is_some_and(Head::ends_with_connection);
        if is_plain {
            return Ok(());
        }
        if asked.is_answered || asked.is_put_off || facts.drains {
            return Ok(());
        }
        let Some(session) = asked.session else {
            return Err(format!("the stream of {asked:?} ends"));
        };
        let book = &mut self.books[session];
        let is_cancelled = asked.id.is_some_and(|id| book.is_settled(id));
        let general = (asked.kind == Kind::Listen).then_some(GENERAL);
        let stream = asked.carried.stream.or(general);
        let stream = stream.and_then(|stream| book.streams.get(&stream));
        let was_resumed = stream.is_some_and(|stream| stream.resumes > 0);
        if was_resumed
            && book.forgets
            && let Some(stream) = asked.carried.stream
        {
            // Its answer was among the events that were forgotten: nothing more will come of it.
            book.streams.entry(stream).or_default().is_lost = true;
        }
        if book.gone.is_some() || book.is_deleted || is_cancelled || was_resumed {
            return Ok(());
        }
        Err(format!("the stream of {asked:?} ends"))
    }
}

/// A word before anything was asked: there is no room.
fn hear_unasked(piece: &Piece, facts: Facts) -> Result<(), String> {
    match piece {
        Piece::Head(head) if head.status == 503 && facts.drains => Ok(()),
        Piece::Body(_) if facts.drains => Ok(()),
        piece => Err(format!("nobody asked for {piece:?}")),
    }
}
