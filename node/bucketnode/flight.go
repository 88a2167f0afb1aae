package bucketnode

import (
	"context"
	"time"

	"github.com/fenlock/fenlock/node/engine"
)

// lane carries out requests about the one object, one at a time. Each is for all callers that came
// before it began: the locks of a process cost as much as one of them.
type lane struct{ engine.Lanes[*call] }

// call is what one caller wants, and gets.
type call struct {
	change change // nil: to read
	over   *snapshot
	snap   *snapshot
	err    error
}

// flightTimeout bounds a request, whatever its callers have patience for.
const flightTimeout = 20 * time.Second

func newLane(life *engine.Lifetime, do func(ctx context.Context, calls []*call), keep bool) *lane {
	return &lane{engine.Lanes[*call]{Life: life, Do: do, Most: 1, Timeout: flightTimeout, Keep: keep}}
}

// join waits for a request that has not begun yet. What has an error that matches node.ErrNotSent
// was not begun, or is the store's.
func (l *lane) join(ctx context.Context, c *call) (*snapshot, error) {
	if err := l.Join(ctx, c); err != nil {
		return nil, err
	}
	return c.snap, c.err
}
