package admission

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

func seen(inStep, recorded int) Seen {
	return Seen{Replicas: command.Replicas{None: inStep == 0, InStep: inStep}, Recorded: recorded, Marked: true}
}

// What is decided before anything is sent.
func TestWitnessBefore(t *testing.T) {
	for _, c := range []struct {
		witness          Witness
		inStep, recorded int
		want             Verdict
		needs            int
	}{
		{AllReplicas, 0, 0, Witnessed, 0},
		{AllReplicas, 1, 0, Unrecorded, 0},
		{AllReplicas, 1, 1, Witnessed, 1},
		{AllReplicas, 0, 1, Missing, 1},
		{AllReplicas, 1, 2, Missing, 2},
		{AllReplicas, 3, 2, Unrecorded, 2},
		{NoReplica, 0, 0, Witnessed, 0},
		{NoReplica, 0, 2, Witnessed, 0},
		{NoReplica, 2, 0, Witnessed, 0},
		{1, 0, 0, Missing, 1},
		{1, 1, 2, Witnessed, 1},
		{1, 2, 0, Witnessed, 1},
		{2, 1, 1, Missing, 2},
	} {
		s := seen(c.inStep, c.recorded)
		if got, needs := c.witness.Judge(s), c.witness.Needs(s); got != c.want || needs != c.needs {
			t.Errorf("%+v: %v, needs %d", c, got, needs)
		}
	}
	// A server that is not admitted says nothing: its scripts refuse.
	if v := AllReplicas.Judge(Seen{Replicas: command.Replicas{InStep: 2}}); v != Witnessed {
		t.Errorf("not admitted: %v", v)
	}
}

// What is decided by the replies behind a batch.
func TestWitnessAfter(t *testing.T) {
	refused := resp.Error("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")
	for _, c := range []struct {
		witness          Witness
		inStep, recorded int
		confirmed        int64
		err              error
		counts           bool
	}{
		{AllReplicas, 0, 0, 0, nil, true},
		{AllReplicas, 1, 1, 1, nil, true},
		{AllReplicas, 1, 1, 0, nil, false},
		{AllReplicas, 2, 2, 1, nil, false}, // fewer than recorded
		{AllReplicas, 1, 2, 2, nil, true},  // it has left after it confirmed
		{AllReplicas, 1, 1, 1, refused, false},
		{AllReplicas, 0, 1, 0, refused, false},
		{AllReplicas, 1, 0, 0, nil, false}, // it came meanwhile
		{AllReplicas, 2, 1, 2, nil, false}, // which of them has confirmed is not known
		{AllReplicas, 2, 1, 1, nil, false},
		{NoReplica, 2, 2, 0, nil, true},
		{1, 2, 0, 1, nil, true},
		{1, 2, 2, 1, nil, true},
		{2, 2, 2, 1, nil, false},
	} {
		if err := c.witness.Counts(seen(c.inStep, c.recorded), c.confirmed, c.err); (err == nil) != c.counts ||
			c.err != nil && err != nil && !errors.Is(err, c.err) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// FuzzWitness compares it with the rule as the proof has it (witness.model): an acceptance counts
// only if every recorded replica has seen it. Some of the recorded ones follow, and strangers
// follow too. Whichever of them have confirmed, none of the recorded ones is left out.
func FuzzWitness(f *testing.F) {
	f.Add(uint8(2), uint8(2), uint8(0), uint8(2))
	f.Add(uint8(1), uint8(0), uint8(1), uint8(1))
	f.Add(uint8(2), uint8(1), uint8(1), uint8(2))
	f.Fuzz(func(t *testing.T, recorded, following, strangers, confirmed uint8) {
		recorded, strangers = recorded%8, strangers%8
		following = min(following, recorded)
		confirmed = min(confirmed, following+strangers)
		s := seen(int(following+strangers), int(recorded))
		counts := AllReplicas.Judge(s) == Witnessed && AllReplicas.Counts(s, int64(confirmed), nil) == nil
		// The worst case: strangers have confirmed first.
		all := confirmed >= recorded+strangers || strangers == 0 && confirmed >= recorded
		if counts && !all && strangers == 0 {
			t.Errorf("%d recorded, %d of them follow, %d confirmed: it counts", recorded, following, confirmed)
		}
		if counts && strangers > 0 && following+strangers > recorded {
			t.Errorf("%d recorded, and %d strangers: it counts", recorded, strangers)
		}
	})
}

func TestWhatIsAnAcceptance(t *testing.T) {
	for _, op := range []node.Op{node.Acquire, node.Confirm, node.Extend, node.ForceRelease} {
		for status := node.Unknown; status <= node.Rejoining; status++ {
			if got := accepts(op, node.Answer{Status: status}); got != (status == node.Granted) {
				t.Errorf("%v, %v: %v", op, status, got)
			}
		}
	}
	if accepts(node.Release, node.Answer{Status: node.Granted}) {
		t.Error("a release promises nothing")
	}
	if !accepts(node.Acquire, node.Answer{Status: node.Held, Given: 7}) {
		t.Error("a waiter holds what it was given")
	}
}

// One WAIT for all requests, behind them and before the question whether the server is what it was.
func TestOrderOfAProof(t *testing.T) {
	v := New(nil, up{}, &command.Keys{}, command.Errors{}, AllReplicas)
	for _, c := range []struct {
		s        *Server
		promises int
		want     string
	}{
		{&Server{replID: "a", mark: "a", seen: seen(0, 0)}, 1, "[[request]]"},
		{&Server{replID: "a", mark: "a", seen: seen(0, 0)}, 9, "[[request] [INFO replication]]"},
		{&Server{replID: "a", mark: "a/2", seen: seen(2, 2)}, 1, "[[request] [WAIT 2 1000] [INFO replication]]"},
		{&Server{replID: "a", mark: "a/2", seen: seen(2, 2)}, 9, "[[request] [WAIT 2 1000] [INFO replication]]"},
		{&Server{replID: "a", mark: "a/2", seen: seen(2, 2)}, 0, "[[request]]"},
	} {
		c.s.voting = v
		p := c.s.Prove(c.promises)
		if got := fmt.Sprint(p.Append([]resp.Command{{"request"}}, 1<<40)); got != c.want {
			t.Errorf("%d promises, mark %s: %s; want %s", c.promises, c.s.mark, got, c.want)
		}
		if p.Mark != "" && p.Mark != c.s.mark {
			t.Errorf("the scripts compare %q with %q", p.Mark, c.s.mark)
		}
	}
}
