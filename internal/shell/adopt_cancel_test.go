package shell

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// wallEnv calls a function when it is asked for the wall clock.
type wallEnv struct {
	*bubbleEnv
	hook func()
}

func (e *wallEnv) WallMicros() int64 {
	if e.hook != nil {
		e.hook()
	}
	return e.bubbleEnv.WallMicros()
}

// An adoption that is given up before it has sent anything is not an attempt that has ended. Others
// would be counted as one fewer than are under way, and wait for their turn in vain.
func TestAdoptionsGivenUpAreNoAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHiccups(t, 3, false)
		env := &wallEnv{bubbleEnv: &bubbleEnv{h.began, time.Hour}}
		c := NewClient(Config{Env: env, Peers: h.peers, Terms: Terms{TTL: 10 * time.Second},
			NodeTimeout: 500 * time.Millisecond})
		adopts := newTell()
		env.hook = adopts.a.Cancel
		c.Adopt(&adopts.a, context.Background(), "x", &Exported{Holder: "h", Terms: c.Terms()}, adopts)
		env.hook = nil
		if f := <-adopts.done; !f.Failed() {
			t.Error("it has succeeded")
		}
		h.dead(true, 3)
		o := take(c, "x")
		time.Sleep(3 * time.Second)
		h.dead(false, 3)
		if took := o.held(t); took > time.Second {
			t.Errorf("%v after the outage", took)
		}
		o.a.Lock().Release(false)
		time.Sleep(time.Minute)
		h.end(c)
	})
}
