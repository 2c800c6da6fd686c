"""Decodes a request of OTLP from standard input and prints its spans as JSON."""

import json
import sys

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def value_of(attribute):
    return getattr(attribute.value, attribute.value.WhichOneof("value"))


def main():
    request = ExportTraceServiceRequest.FromString(sys.stdin.buffer.read())
    spans = [
        {
            "service": {it.key: value_of(it) for it in resource.resource.attributes},
            "scope": scope.scope.name,
            "traceId": span.trace_id.hex(),
            "spanId": span.span_id.hex(),
            "parentSpanId": span.parent_span_id.hex(),
            "name": span.name,
            "kind": span.SpanKind.Name(span.kind),
            "begun": span.start_time_unix_nano,
            "ended": span.end_time_unix_nano,
            "attributes": {it.key: value_of(it) for it in span.attributes},
            "status": span.status.StatusCode.Name(span.status.code),
        }
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    print(json.dumps(spans))


main()
