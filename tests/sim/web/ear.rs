//! What a client hears over HTTP, held against what it asked.
//!
//! What it checks: answers come in the order of their requests, each is one that its request may
//! have; a stream ends with its answer, or its client knows why not; a connection ends only where
//! it may.

use corelane::base::time::Moment;
use corelane::protocol::revision::Revision;
use serde_json::Value;

use super::book::{self, Book};
use super::guest::{Facts, Guest};
use super::line::{Asked, Kind, Line};
use super::pairs;
use super::reading::{Event, Head, Piece};
use super::speech;

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
            let Some(piece) = line.reader.next(is_bare, is_over)? else { break };
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
        let is_missing = |head: &Head| head.status == 404;
        let session = asked.session.map(|session| &mut self.books[session]);
        if let Some(book) = session
            && asked.head.as_ref().is_some_and(|head| !is_missing(head))
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

    fn hear_head(
        &mut self,
        asked: &Asked,
        head: &Head,
        now: Moment,
        facts: Facts,
    ) -> Result<(), String> {
        let status = head.status;
        let must_be_gone = match asked.session {
            Some(session) => {
                let book = &mut self.books[session];
                let was_gone = book.gone.is_some_and(|gone| gone <= asked.said);
                if status == 404 {
                    let ttl = facts.ttl.filter(|_| !self.is_slow && !self.was_deaf);
                    book.miss(now, ttl)?;
                }
                was_gone
            }
            None => false,
        };
        let is_fine = match (asked.kind, status) {
            // The session of nobody may be looked for on another shard, and for long.
            (Kind::Plain(404), 200) => head.is_stream,
            (Kind::Plain(expected) | Kind::Bare(expected), _) => status == expected,
            (_, 503) => facts.drains || facts.ttl.is_none() || facts.is_crowded,
            (Kind::Begin | Kind::Modern | Kind::Pair | Kind::Subscribe, 200) => true,
            // More messages at once than may be in flight.
            (Kind::Request, 400) => facts.is_crowded && self.is_batch(asked),
            (Kind::Request, 202) => facts.strict.is_some() && self.is_taken_back(asked, facts),
            (Kind::Modern, _) => false,
            (_, 404) => asked.session.is_some(),
            // It waited for long on the way to the shard of its session.
            (Kind::Notice | Kind::Confirm | Kind::Delete, 200) => head.is_stream,
            // It is refused in the stream.
            _ if must_be_gone => head.is_stream,
            (Kind::Request | Kind::Listen | Kind::Resume(_), 200) => true,
            (Kind::Notice | Kind::Confirm, 202) | (Kind::Delete, 204) => true,
            (Kind::Listen, 409) => self.listens(asked) > 1,
            (Kind::Listen, 400) => asked.carried.last.is_some() && facts.forgets,
            (Kind::Resume(stream), 400) => self.lose(asked, stream, now),
            _ => false,
        };
        if asked.kind == Kind::Delete
            && status == 204
            && let Some(session) = asked.session
        {
            self.books[session].gone.get_or_insert(now);
        }
        if asked.kind == Kind::Confirm && matches!(status, 200 | 202) {
            self.session = asked.session;
        }
        if asked.kind == Kind::Begin && status == 200 {
            self.begin_session(head, now, facts)?;
        }
        if let Some(strict) = facts.strict {
            self.hear_strict_head(asked, head, strict)?;
        }
        if is_fine { Ok(()) } else { Err(format!("status {status} answers {asked:?}")) }
    }

    /// Every answer of a strict server is whole, and names the revision and the session.
    fn hear_strict_head(&self, asked: &Asked, head: &Head, strict: Revision) -> Result<(), String> {
        let session = asked.session.map(|session| &self.books[session].id);
        let is_named = head.session.as_ref() == session || asked.session.is_none();
        let is_named = is_named || !matches!(head.status, 200..=204);
        if head.is_stream || head.version.as_deref() != Some(strict.as_str()) || !is_named {
            return Err(format!("{head:?} is not strict, to {asked:?}"));
        }
        Ok(())
    }

    fn is_batch(&self, asked: &Asked) -> bool {
        let session = asked.session.map(|session| &self.books[session]);
        session.zip(asked.id).is_some_and(|(book, id)| book.is_part(id))
    }

    /// Whether nothing is to be answered because a client or the server takes its leave.
    fn is_taken_back(&self, asked: &Asked, facts: Facts) -> bool {
        let session = asked.session.map(|session| &self.books[session]);
        let is_over = |(book, id): (&Book, u64)| {
            book.is_settled(id) || book.is_deleted || book.gone.is_some()
        };
        facts.drains || session.zip(asked.id).is_some_and(is_over)
    }

    fn listens(&self, asked: &Asked) -> u32 {
        asked.session.map_or(0, |session| self.books[session].listens)
    }

    /// There is nothing more of a stream: whether that may be.
    fn lose(&mut self, asked: &Asked, stream: u32, now: Moment) -> bool {
        let Some(session) = asked.session else { return false };
        let book = &mut self.books[session];
        if book.must_be_open(stream, now) {
            return false;
        }
        book.streams.entry(stream).or_default().is_lost = true;
        true
    }

    fn begin_session(&mut self, head: &Head, now: Moment, facts: Facts) -> Result<(), String> {
        let id = head.session.clone().ok_or("a session begins without a name")?;
        self.chronicle.borrow_mut().begin(&id)?;
        let revision = Revision::LATEST_LEGACY;
        let mut book = Book::new(self.number, id, revision, now);
        book.forgets = facts.forgets;
        self.books.push(book);
        self.tally.sessions += 1;
        Ok(())
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
            if message.get("id").is_none() && message.get("error").is_some() {
                // It waited for long on the way to the shard of its session, and is refused there.
                asked.is_answered = true;
                return match asked.kind {
                    Kind::Resume(stream) if self.lose(asked, stream, now) => Ok(()),
                    Kind::Listen => Ok(()),
                    Kind::Resume(_) => Err(format!("{message} answers {asked:?}")),
                    _ => {
                        self.books[session].gone.get_or_insert(now);
                        Ok(())
                    }
                };
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
        let wants_none =
            matches!(asked.kind, Kind::Notice | Kind::Confirm | Kind::Delete | Kind::Plain(_));
        if asked.is_answered || asked.is_put_off || facts.drains || wants_none {
            return Ok(());
        }
        let Some(session) = asked.session else {
            return Err(format!("the stream of {asked:?} ends"));
        };
        let book = &mut self.books[session];
        let is_cancelled = asked.id.is_some_and(|id| book.is_settled(id));
        let stream = asked.carried.stream.and_then(|stream| book.streams.get(&stream));
        let was_resumed = stream.is_some_and(|stream| stream.resumes > 0);
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
