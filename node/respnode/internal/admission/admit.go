package admission

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/rebuild"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

const (
	// admissionTimeout bounds one try to admit a server.
	admissionTimeout = 5 * time.Second
	// retryAdmission is how long an admission that failed for want of other nodes
	// is not tried again.
	retryAdmission = 200 * time.Millisecond
)

// admitter lets a server vote again, when that is safe.
type admitter struct {
	link resp.Link
	keys *command.Keys
	group
	errors command.Errors

	trying task
	out    atomic.Pointer[absence] // the last refusal

	patience context.Context // ended by Finish
	// Finish lets nobody wait any more for a server to be connected to or admitted.
	// Whoever does is told context.Canceled, and nothing was executed.
	Finish context.CancelFunc
}

// waiting returns a context for a wait that Finish ends too. End frees it.
func (a *admitter) waiting(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(a.patience, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// absence is why and until when a run of a server is out.
type absence struct {
	runID string
	until time.Time // not worth asking before
	why   string
	waits bool // and admitted then
}

// detail is why it is out, and when it is not any more.
func (a *absence) detail() string {
	if !a.waits {
		return a.why
	}
	return fmt.Sprintf("%s; voting starts in %d s", a.why, int(math.Ceil(max(time.Until(a.until).Seconds(), 0))))
}

// Admit tries to admit a run of a server that said that it is not. It returns "" if it
// is now, or why it is not; the error is for what waiting does not mend.
func (a *admitter) Admit(ctx context.Context, runID string) (detail string, err error) {
	to := a.joined.Load()
	if to == nil {
		return "it is not admitted, or its scripts are gone, and only who takes locks admits it (fenlock.New, fenlock run)", nil
	}
	if out := a.out.Load(); out != nil && out.runID == runID && time.Now().Before(out.until) {
		return out.detail(), nil
	}
	ctx, end := a.waiting(ctx)
	defer end()
	detail, ended, err := a.trying.do(ctx, a.link, admissionTimeout, func(ctx context.Context) (string, error) {
		detail, err := a.try(ctx, *to)
		if err == nil {
			return detail, nil
		}
		// It is out for now, unless waiting does not help.
		err = a.errors.Describe(err)
		if errors.Is(err, node.ErrMisconfigured) {
			return "", err
		}
		return err.Error(), nil
	})
	if !ended {
		return fmt.Sprintf("its admission is under way (%v)", err), nil
	}
	return detail, err
}

func (a *admitter) try(ctx context.Context, to membership) (string, error) {
	f, err := command.ParseFacts(a.link.DoMulti(ctx, a.keys.Gather(rand.Text())...))
	if err != nil {
		return "", err
	}
	if err := f.Terms.Check(to.terms); err != nil {
		return "", err
	}
	verdict, left, err := a.decide(ctx, f, to.MaxTTL)
	if err != nil {
		return "", err
	}
	merged, isNew := rebuild.Result{Empty: f.Empty}, false // stays, unless the registers are rebuilt
	founds := to.New && (verdict == waitRun || verdict == waitNow) && f.Marked == "" && f.Terms == command.Terms{}
	if verdict == rebuildFirst || founds {
		self := rebuild.Self{Server: f.RunID, Memory: f.ReplID, Untouched: untouched(f)}
		// Two servers that wait for each other's answer must not use up the time of the
		// admission itself.
		ask, cancel := context.WithTimeout(ctx, admissionTimeout/2)
		others := rebuild.Ask(ask, to.Group, a.self)
		cancel()
		// Who is in another group must not make this one from what is left.
		for _, r := range others {
			if r == nil {
				continue
			}
			recorded := command.Terms{MaxTTL: r.MaxTTL, Members: r.Members}
			if err := recorded.Check(to.terms); err != nil {
				return "", fmt.Errorf("another node cannot be used: %w", err)
			}
		}
		if isNew = allNew(self, others); founds && !isNew {
			return a.wait(f, left), nil
		}
		merged, err = rebuild.Merge(len(to.Nodes), self, others)
		if err != nil {
			return a.absent(absence{runID: f.RunID, until: time.Now().Add(retryAdmission), why: err.Error()}), nil
		}
	}
	if !founds && (verdict == waitRun || verdict == waitNow) {
		return a.wait(f, left), nil
	}
	if err := a.admit(ctx, f, to.terms, merged); err != nil {
		return "", err
	}
	switch {
	case merged.Weak && isNew:
		a.Warn("the servers are new, or all of them have lost their memory at once: tokens begin at the clients' clocks")
	case merged.Weak:
		a.Warn("node admitted without the registers of a majority: this is a new group, or a majority lost its memory at once; new tokens are larger than old ones only as far as the clients' clocks agree")
	}
	return "", nil
}

// decide is the function decide, with the verdict waitNow followed up.
func (a *admitter) decide(ctx context.Context, f command.Facts, maxTTL time.Duration) (verdict, time.Duration, error) {
	v, left := decide(f, maxTTL)
	if v != waitNow {
		return v, left, nil
	}
	since, err := command.ParseNotice(a.link.Do(ctx, a.keys.Notice(f.ReplID)))
	if err != nil {
		return v, 0, err
	}
	if left = quarantine(maxTTL) - since; left > 0 {
		return waitNow, left, nil
	}
	return rebuildFirst, 0, nil
}

// admit raises the registers, marks the server as admitted, and loads the scripts.
func (a *admitter) admit(ctx context.Context, f command.Facts, own command.Terms, r rebuild.Result) error {
	mark := a.keys.Admit(f, own, r.Empty, r.Tokens)
	if err := command.ParseAdmit(a.link.Do(ctx, mark)); err != nil {
		return err
	}
	// Should the server restart in between, the scripts are loaded beside no mark
	// or an old one, and refuse.
	for _, s := range command.Operations {
		if err := s.ParseLoad(a.link.Do(ctx, s.Load())); err != nil {
			return err
		}
	}
	return nil
}

// allNew reports whether all others of a group are as new as a server with this self:
// they answer and have nothing recorded, or were admitted as such, when this one was as
// well.
func allNew(self rebuild.Self, others []*node.Registers) bool {
	return !slices.ContainsFunc(others, func(r *node.Registers) bool {
		return r == nil || r.Admitted && !slices.Contains(r.Empty, self.Memory) || !r.Admitted && (r.MaxTTL != 0 || r.Members != "" || len(r.Tokens) > 0)
	})
}

// wait keeps the server out for as long.
func (a *admitter) wait(f command.Facts, left time.Duration) (detail string) {
	return a.absent(absence{runID: f.RunID, until: time.Now().Add(left), why: because(f), waits: true})
}

// absent remembers why the server is out, so that not every request asks again.
func (a *admitter) absent(out absence) (detail string) {
	a.out.Store(&out)
	return out.detail()
}
