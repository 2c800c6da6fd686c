//! Sampling, the places of spans in their traces, and the bounds of the queue.

use std::iter;

use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Nanoseconds since 1970.
fn clock() -> u64 {
    1_700_000_000_000_000_000
}

fn tracer(spans_max: usize, sampler: Sampler) -> (Tracer, Arc<SpanQueue>, QueuedSpans) {
    let (queue, queued) = SpanQueue::new(spans_max, spans_max, clock);
    let queue = Arc::new(queue);
    (Tracer::new(Arc::clone(&queue), sampler, 7), queue, queued)
}

fn child_of(traceparent: &str) -> RemoteContext<'_> {
    let parent = TraceParent::parse(traceparent);
    RemoteContext { parent, state: "vendor=1", ..RemoteContext::default() }
}

#[test]
fn traceparent_is_read_as_specified() {
    let parent = TraceParent::parse(PARENT).unwrap();
    assert_eq!((parent.trace_id[0], parent.span_id[7], parent.is_sampled), (0x0a, 0x31, true));
    let later = format!("{}-more", PARENT.replacen("00", "01", 1));
    assert!(TraceParent::parse(&later).is_some());
    assert!(!TraceParent::parse(&PARENT.replace("-01", "-fe")).unwrap().is_sampled);
    let (zero_trace, zero_span) = ("0".repeat(32), "0".repeat(16));
    for text in [
        "",
        "00",
        &format!("{PARENT}-more"),
        &PARENT.replacen("00", "ff", 1),
        &PARENT.replace("0af7651916cd43dd8448eb211c80319c", &zero_trace),
        &PARENT.replace("b7ad6b7169203331", &zero_span),
        &PARENT.replace("b7ad", "+7ad"),
        &PARENT.replace("b7ad", "ü7a"),
        &PARENT[..54],
    ] {
        assert_eq!(TraceParent::parse(text), None, "{text}");
    }
}

#[test]
fn span_has_place_of_its_parent() {
    let (mut tracer, queue, queued) = tracer(4, Sampler::new(true, 0));
    let context = child_of(PARENT);
    let mut span = tracer.begin("a", SpanKind::Server, &context).unwrap();
    span.begin_child("b").end();
    span.name_target(&"é".repeat(200));
    span.set_text("key", "value");
    span.end();
    let [child, span] = [(); 2].map(|()| queued.spans.try_recv().unwrap());
    let parent = context.parent.unwrap();
    assert_eq!((span.ids.trace_id, span.parent_id), (parent.trace_id, Some(parent.span_id)));
    assert_eq!((span.begun, &*span.state), (clock(), "vendor=1"));
    assert_eq!((child.ids.trace_id, child.parent_id), (parent.trace_id, Some(span.ids.span_id)));
    assert_ne!(child.ids.span_id, span.ids.span_id);
    assert_eq!(span.name.chars().count(), "a ".len() + 64);
    assert_eq!(queue.totals(), TraceTotals::default());
    // Without a parent the ratio decides, here of none.
    assert!(tracer.begin("a", SpanKind::Server, &RemoteContext::default()).is_none());
    let unsampled = PARENT.replace("-01", "-00");
    assert!(tracer.begin("a", SpanKind::Server, &child_of(&unsampled)).is_none());
    assert!(Tracer::default().begin_parity("a", Some(PARENT)).is_none());
}

#[test]
fn ratio_is_part_of_all_traces() {
    for (millionths, least, most) in
        [(0, 0, 0), (250_000, 2_200, 2_800), (1_000_000, 10_000, 10_000)]
    {
        let (mut tracer, ..) = tracer(1, Sampler::new(true, millionths));
        let begun = iter::repeat_with(|| {
            tracer.begin("a", SpanKind::Server, &RemoteContext::default()).is_some()
        });
        let sampled = begun.take(10_000).filter(|it| *it).count();
        assert!((least..=most).contains(&sampled), "{millionths}: {sampled}");
    }
    let (mut tracer, ..) = tracer(1, Sampler::new(false, 0));
    assert!(tracer.begin("a", SpanKind::Server, &child_of(PARENT)).is_none());
}

#[test]
fn full_queue_drops_and_counts() {
    let (mut tracer, queue, queued) = tracer(2, Sampler::new(true, 1_000_000));
    for _ in 0..5 {
        tracer.begin_parity("a", None).unwrap().end();
    }
    assert_eq!(queue.totals().dropped_full, 3);
    assert_eq!((queued.spans.len(), queued.woken.len()), (2, 1));
    // One that does not end is not exported.
    drop(queued.spans.recv());
    drop(tracer.begin_parity("a", None));
    assert_eq!(queued.spans.len(), 1);
}
