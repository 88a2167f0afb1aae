package fenlockotel

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The attributes, of metrics and spans.
const (
	outcomeKey   = attribute.Key("fenlock.outcome")
	causeKey     = attribute.Key("fenlock.cause")
	nodeKey      = attribute.Key("fenlock.node.name")
	operationKey = attribute.Key("fenlock.operation")
	nameKey      = attribute.Key("fenlock.lock.name")
	tokenKey     = attribute.Key("fenlock.lock.token")
	waitedKey    = attribute.Key("fenlock.waited")
	resourceKey  = attribute.Key("fenlock.guard.resource")
	newestKey    = attribute.Key("fenlock.guard.newest_token")
)

// labels are attributes as instruments take them. The zero labels are none.
type labels struct {
	record []metric.RecordOption
	add    []metric.AddOption
}

func label(all ...attribute.KeyValue) labels {
	o := metric.WithAttributeSet(attribute.NewSet(all...))
	return labels{[]metric.RecordOption{o}, []metric.AddOption{o}}
}

// known are labels that are made once, by what they say: to make them takes longer than to
// measure. There must be few of them.
type known[K comparable] struct {
	mu  sync.RWMutex
	all map[K]labels
}

// of returns the labels for a key, and reports whether they were made now.
func (k *known[K]) of(key K, make func(K) labels) (l labels, isNew bool) {
	k.mu.RLock()
	l, found := k.all[key]
	k.mu.RUnlock()
	if found {
		return l, false
	}
	l = make(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[K]labels{}
	}
	k.all[key] = l
	return l, true
}
