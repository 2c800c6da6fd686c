//! Streams: order of chunks, the last ones, and that a connection has many.

use serde_json::{Value, json};

use crate::peer::{Message, Peer, expect_error};
use crate::steps::{
    call, chunks, ensure, expect_end, expect_ready, long_call, next_chunk, open_long_stream,
    open_short_stream, open_stream,
};
use crate::suite::Level::{Must, Should, Transition};
use crate::suite::{Check, CheckError, CheckResult, Context, Need};

const NEEDS: &[Need] = &[Need::Flag("streaming")];

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "streams.opened",
        level: Transition,
        needs: NEEDS,
        rule: "Ready --(startStream)--> Ready: `stream` is answered by a streamId before chunks",
        run: opened,
    },
    Check {
        name: "streams.chunk_schema",
        level: Must,
        needs: NEEDS,
        rule: "`stream.chunk` matches its schema",
        run: |context| short_stream(context).map(drop),
    },
    Check {
        name: "streams.seq_from_one",
        level: Must,
        needs: NEEDS,
        rule: "seq begins at 1",
        run: seq_from_one,
    },
    Check {
        name: "streams.seq_increases",
        level: Must,
        needs: NEEDS,
        rule: "seq increases by 1 with each chunk",
        run: |context| short_stream(context).map(drop),
    },
    Check {
        name: "streams.result_chunk",
        level: Must,
        needs: NEEDS,
        rule: "the last chunk before eos is `result` or `error`",
        run: result_chunk,
    },
    Check {
        name: "streams.eos",
        level: Must,
        needs: NEEDS,
        rule: "a stream ends by eos with the reason `completed`",
        run: eos,
    },
    Check {
        name: "streams.nothing_after_eos",
        level: Must,
        needs: NEEDS,
        rule: "nothing follows eos",
        run: nothing_after_eos,
    },
    Check {
        name: "streams.same_result",
        level: Must,
        needs: &[Need::Flag("streaming"), Need::Flag("tools")],
        rule: "the result of a stream is that of the same request without one",
        run: same_result,
    },
    Check {
        name: "streams.error",
        level: Must,
        needs: NEEDS,
        rule: "a request that fails ends its stream by an `error` chunk and eos `error`, or opens \
               none",
        run: failing_stream,
    },
    Check {
        name: "streams.distinct",
        level: Must,
        needs: NEEDS,
        rule: "streams have different ids, and the order of each is kept",
        run: distinct,
    },
    Check {
        name: "streams.unread",
        level: Must,
        needs: NEEDS,
        rule: "a client that reads late gets all chunks in order",
        run: unread,
    },
    Check {
        name: "streams.ready_after",
        level: Transition,
        needs: NEEDS,
        rule: "Ready --(recvEos)--> Ready",
        run: |context| expect_ready(&mut short_stream(context)?.0),
    },
    Check {
        name: "streams.requests_beside",
        level: Must,
        needs: &[Need::Flag("streaming"), Need::LongTool],
        rule: "requests are served while a stream is open",
        run: requests_beside,
    },
    Check {
        name: "streams.progress",
        level: Should,
        needs: &[Need::Flag("streaming"), Need::LongTool],
        rule: "progress of a running tool arrives as chunks before its result",
        run: progress,
    },
];

/// Streams that are open at once.
const STREAMS: usize = 8;

fn opened(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let id = peer.request(json!({"method": "ping", "stream": true}))?;
    let answer = peer.answer(&id)?;
    ensure(answer.value["result"]["streamId"].is_string(), || {
        format!("no streamId: {}", answer.text)
    })
}

/// Opens a stream and reads it to its end.
fn short_stream<'a>(context: &'a Context<'a>) -> Result<(Peer<'a>, Vec<Message>), CheckError> {
    let mut peer = Peer::ready(context)?;
    let stream = open_short_stream(&mut peer)?;
    let chunks = chunks(&mut peer, context, &stream);
    ensure(!chunks.is_empty(), || format!("no chunk of the stream '{stream}'"))?;
    Ok((peer, chunks))
}

fn seq_from_one(context: &Context<'_>) -> CheckResult {
    let (_, chunks) = short_stream(context)?;
    let first = &chunks[0];
    ensure(first.seq() == 1, || format!("the first chunk is {}", first.text))
}

fn result_chunk(context: &Context<'_>) -> CheckResult {
    let (_, chunks) = short_stream(context)?;
    let data = chunks.iter().rfind(|chunk| !chunk.is_chunk("eos"));
    ensure(
        data.is_some_and(|chunk| chunk.is_chunk("result") && !chunk.value["data"].is_null()),
        || format!("the last chunk before eos is {}", text_of(data)),
    )
}

fn text_of(message: Option<&Message>) -> &str {
    message.map_or("missing", |message| &message.text)
}

fn eos(context: &Context<'_>) -> CheckResult {
    let (_, chunks) = short_stream(context)?;
    let last = chunks.last();
    ensure(
        last.is_some_and(|last| last.is_chunk("eos") && last.value["reason"] == "completed"),
        || format!("the stream ends with {}", text_of(last)),
    )
}

fn nothing_after_eos(context: &Context<'_>) -> CheckResult {
    let (mut peer, _) = short_stream(context)?;
    let late = peer.drain();
    let chunk = late.iter().find(|message| message.is("stream.chunk"));
    ensure(chunk.is_none(), || format!("after the end: {}", text_of(chunk)))
}

fn same_result(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let wanted = call(&mut peer, "tools/list", &json!({}))?;
    let (_, stream) = open_stream(&mut peer, "tools/list", &json!({}))?;
    let chunks = chunks(&mut peer, context, &stream);
    let Some(result) = chunks.iter().find(|chunk| chunk.is_chunk("result")) else {
        return Err(CheckError::Blocked("the stream has no result".to_owned()));
    };
    ensure(result.value["data"] == wanted.value["result"], || {
        format!("the result of the stream differs: {}", result.text)
    })
}

fn failing_stream(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let id = peer.request(json!({"method": "no/such/method", "stream": true}))?;
    let answer = peer.answer(&id)?;
    let Some(stream) = answer.value["result"]["streamId"].as_str() else {
        return expect_error(&answer, "error.feature_not_available", None);
    };
    let chunks = chunks(&mut peer, context, stream);
    let (error, eos) = (chunks.iter().rev().nth(1), chunks.last());
    ensure(eos.is_some_and(|eos| eos.is_chunk("eos") && eos.value["reason"] == "error"), || {
        format!("the stream ends with {}", text_of(eos))
    })?;
    match error {
        Some(error) if error.is_chunk("error") => {
            expect_error(error, "error.feature_not_available", None)
        }
        other => Err(CheckError::failed(format!("no `error` chunk: {}", text_of(other)))),
    }
}

fn open_several(peer: &mut Peer<'_>) -> Result<Vec<String>, CheckError> {
    (0..STREAMS).map(|_| open_short_stream(peer)).collect()
}

fn distinct(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let streams = open_several(&mut peer)?;
    let mut unique = streams.clone();
    unique.sort();
    unique.dedup();
    ensure(unique.len() == STREAMS, || format!("streams share an id: {streams:?}"))?;
    for stream in streams {
        let chunks = chunks(&mut peer, context, &stream);
        ensure(!chunks.is_empty(), || format!("no chunk of the stream '{stream}'"))?;
        expect_end(&stream, &chunks)?;
    }
    Ok(())
}

/// Sends the requests, and reads nothing before all are sent.
fn unread(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let mut ids: Vec<Value> = Vec::new();
    for _ in 0..STREAMS {
        ids.push(peer.request(json!({"method": "ping", "stream": true}))?);
    }
    let mut streams = Vec::new();
    for id in ids {
        let answer = peer.answer(&id)?;
        let stream = answer.value["result"]["streamId"].as_str();
        let stream =
            stream.ok_or_else(|| CheckError::Blocked(format!("no stream: {}", answer.text)))?;
        streams.push(stream.to_owned());
    }
    for stream in streams {
        let chunks = chunks(&mut peer, context, &stream);
        let seqs: Vec<u64> = chunks.iter().map(Message::seq).collect();
        ensure(seqs.is_sorted() && !seqs.is_empty(), || {
            format!("the chunks of '{stream}' came as {seqs:?}")
        })?;
        expect_end(&stream, &chunks)?;
    }
    Ok(())
}

fn requests_beside(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    open_stream(&mut peer, "tools/call", &long_call(context))?;
    expect_ready(&mut peer)
}

fn progress(context: &Context<'_>) -> CheckResult {
    let mut peer = Peer::ready(context)?;
    let (_, stream) = open_long_stream(&mut peer, context)?;
    let first = next_chunk(&mut peer, &stream)?;
    ensure(["progress", "log", "partial"].iter().any(|kind| first.is_chunk(kind)), || {
        format!("the first chunk is {}", first.text)
    })
}
