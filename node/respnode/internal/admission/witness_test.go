package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
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

// recording is the link of a server whose replica is recorded, unless step or look says why not.
type recording struct {
	up
	step, look error
	mark       string
}

func (*recording) Spawn(f func()) error { go f(); return nil }

func (l *recording) Do(_ context.Context, c resp.Command) (resp.Reply, error) {
	if c[0] == "WAIT" {
		return resp.Number(0), nil
	}
	if l.step == nil {
		l.mark = c[len(c)-1]
	}
	return resp.Text("admitted"), l.step
}

func (l *recording) Identify(_ context.Context, _ resp.Command, accept func(string, resp.Reply, uint64) error) error {
	if l.mark != "" && l.look != nil {
		return l.look
	}
	terms := resp.List([]resp.Reply{resp.Text("1000"), resp.Null(), resp.Text(cmp.Or(l.mark, "4567def"))})
	return accept(replytest.Info("connected_slaves", "1", "slave0", "ip=::1,port=1,state=online,offset=9,lag=0"), terms, 0)
}

// A replica is recorded before the server promises anything. If that fails, or the server cannot be
// looked at again, nothing is sent, and the next request begins with a look.
func TestReplicaIsRecordedFirst(t *testing.T) {
	refused, lost := errors.New("refused"), errors.New("lost")
	for _, c := range []*recording{{}, {step: refused}, {look: lost}} {
		v := New(nil, c, new(command.Keys), command.Errors{}, AllReplicas)
		before, err := v.Look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		after, err := v.Witnessed(t.Context(), before)
		if want := cmp.Or(c.step, c.look); !errors.Is(err, want) || (after == nil) != (want != nil) {
			t.Errorf("%+v: %+v, %v", c, after, err)
		}
		if after != nil && (after.seen.Recorded != 1 || after.mark != "4567def/1") {
			t.Errorf("%+v", after)
		}
		if before.current() {
			t.Errorf("%+v: the server is not looked at again", c)
		}
	}
}

// lacking is the link of a server that has one of the two replicas that are recorded.
type lacking struct {
	recording
	renewed []uint64
}

func (l *lacking) Renew(dial uint64) { l.renewed = append(l.renewed, dial) }

func (l *lacking) Identify(ctx context.Context, and resp.Command, accept func(string, resp.Reply, uint64) error) error {
	return l.recording.Identify(ctx, and, func(info string, recorded resp.Reply, _ uint64) error {
		return accept(info, recorded, 7)
	})
}

// A server that lacks a replica may have been replaced by it. It is looked at again, on another
// connection: the address may lead elsewhere by now.
func TestAConnectionToALackingServerIsRenewed(t *testing.T) {
	l := &lacking{recording: recording{mark: "4567def/2"}}
	v := New(nil, l, new(command.Keys), command.Errors{}, AllReplicas)
	s, err := v.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after, err := v.Witnessed(t.Context(), s); err == nil {
		t.Errorf("%+v may promise something", after)
	}
	if !slices.Equal(l.renewed, []uint64{7}) || s.current() {
		t.Errorf("renewed: %v, looked at again: %v", l.renewed, !s.current())
	}
}
