package fenlockotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/fenlock/fenlock/fence"
)

// Refused goes into the field Refused of a guard: of fence.Guard, and of those of the
// packages fencesql and valkeynode. It counts, and adds the event "fenlock guard refused" to
// the span in ctx.
func (t *Telemetry) Refused(ctx context.Context, e *fence.StaleError) {
	if t.meters != nil {
		var l labels
		if t.meters.names {
			l = label(resourceKey.String(e.Resource))
		}
		t.meters.refused.Add(ctx, 1, l.add...)
	}
	if t.tracer == nil {
		return
	}
	attributes := []attribute.KeyValue{tokenKey.Int64(int64(e.Token)), newestKey.Int64(int64(e.Newest))}
	if t.namesInSpans {
		attributes = append(attributes, resourceKey.String(e.Resource))
	}
	trace.SpanFromContext(ctx).AddEvent("fenlock guard refused", trace.WithAttributes(attributes...))
}
