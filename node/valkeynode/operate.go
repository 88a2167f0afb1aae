package valkeynode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/internal/core"
	"github.com/fenlock/fenlock/internal/rule"
	"github.com/valkey-io/valkey-go"
)

// Acquire implements fenlock.Node.
func (n *Node) Acquire(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	args, err := acquireArgs(&r)
	if err != nil {
		return n.invalid(err)
	}
	return n.operate(ctx, acquireScript, r.Name, args...)
}

func acquireArgs(r *fenlock.Request) ([]string, error) {
	ttl, err := rule.CheckTTL(r.TTL)
	if err = errors.Join(err, rule.CheckProposal(r.Token), rule.CheckHolder(string(r.Holder)), rule.CheckPlace(rule.Place(r.Place))); err != nil {
		return nil, err
	}
	args := append(make([]string, 0, 6), string(r.Holder), milliseconds(ttl), stripe(r.Name), r.Token.String())
	return appendPlace(args, r.Place), nil
}

// Confirm implements fenlock.Node.
func (n *Node) Confirm(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	if err := rule.CheckToken(r.Token); err != nil {
		return n.invalid(err)
	}
	return n.operate(ctx, confirmScript, r.Name, string(r.Holder), stripe(r.Name), r.Token.String())
}

// Extend implements fenlock.Node.
func (n *Node) Extend(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	ttl, err := rule.CheckTTL(r.TTL)
	if err = errors.Join(err, rule.CheckToken(r.Token), rule.CheckHolder(string(r.Holder))); err != nil {
		return n.invalid(err)
	}
	return n.operate(ctx, extendScript, r.Name, string(r.Holder), milliseconds(ttl), stripe(r.Name), r.Token.String())
}

// Release implements fenlock.Node.
func (n *Node) Release(ctx context.Context, r fenlock.Request) (fenlock.Answer, error) {
	if err := rule.CheckPlace(rule.Place(r.Place)); err != nil {
		return n.invalid(err)
	}
	args := append(make([]string, 0, 3), string(r.Holder))
	return n.operate(ctx, releaseScript, r.Name, appendPlace(args, r.Place)...)
}

// ForceRelease implements fenlock.Node.
func (n *Node) ForceRelease(ctx context.Context, name string, floor fence.Token) (fenlock.Answer, error) {
	if err := rule.CheckToken(floor); err != nil {
		return n.invalid(err)
	}
	return n.operate(ctx, forceScript, name, stripe(name), floor.String())
}

// invalid is the answer to a request that is not sent.
func (n *Node) invalid(err error) (fenlock.Answer, error) {
	return fenlock.Answer{}, n.fail(fmt.Errorf("%w: %w", fenlock.ErrInvalid, err))
}

func milliseconds(ttl time.Duration) string { return strconv.FormatInt(ttl.Milliseconds(), 10) }

func stripe(name string) string { return strconv.Itoa(fenlock.Stripe(name)) }

// appendPlace appends a place as arguments of a script, none for nobody's.
func appendPlace(args []string, p fenlock.Place) []string {
	if p.Waiter == "" {
		return args
	}
	return append(args, p.Waiter, strconv.FormatInt(p.Stamp, 10))
}

// operate runs one of the operations' scripts on a verified and admitted server.
//
// It runs on a new goroutine for each request. What it does not need while it
// waits is in other functions: a stack that outgrows 4 KiB is copied each time.
func (n *Node) operate(ctx context.Context, s *script, name string, args ...string) (fenlock.Answer, error) {
	key, err := n.key(name)
	if err != nil {
		return fenlock.Answer{}, n.fail(err)
	}
	for admitted := false; ; admitted = true {
		srv, err := n.look(ctx)
		if err != nil {
			return fenlock.Answer{}, n.fail(err)
		}
		reply, err := n.do(ctx, n.command(s, key, args))
		answer, again, err := n.read(ctx, s, srv, reply, err)
		if err != nil || !again {
			return answer, err
		}
		// Not executed, so sending it once more is the first time.
		detail, err := n.rejoin(ctx, srv)
		if err != nil {
			return fenlock.Answer{}, n.fail(err)
		}
		if detail == "" && admitted {
			detail = "it was restarted again"
		}
		if detail != "" {
			return fenlock.Answer{Status: fenlock.Rejoining, Detail: detail}, nil
		}
	}
}

// command is the request that runs a script on the keys of a lock.
func (n *Node) command(s *script, key string, args []string) valkey.Completed {
	keys := append(make([]string, 0, 3), key)
	if s != releaseScript {
		keys = append(keys, n.registersKey())
	}
	if s == acquireScript || s == releaseScript || s == forceScript {
		keys = append(keys, linePrefix+key)
	}
	return n.client.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// read makes an answer of a reply. Again is as in parse.
func (n *Node) read(ctx context.Context, s *script, srv *server, reply valkey.ValkeyMessage, err error) (answer fenlock.Answer, again bool, _ error) {
	answer, again, err = parse(reply, err)
	if err == nil && n.dials.Load() != srv.dial {
		// The answer may have come over a connection that was made meanwhile,
		// and that leads elsewhere. It counts if the server there may vote.
		_, err = n.look(ctx)
	}
	if err != nil {
		return fenlock.Answer{}, false, n.fail(err)
	}
	if s == releaseScript {
		answer.Register = 0 // its 1 is no register
	}
	return answer, again, nil
}

// parse reads the reply of an operation's script. Again means that the server
// is not admitted and executed nothing.
func parse(message valkey.ValkeyMessage, err error) (answer fenlock.Answer, again bool, _ error) {
	if isNoScript(err) {
		return answer, true, nil
	}
	if err != nil {
		return answer, false, err
	}
	switch {
	case message.IsInt64():
		answer.Status = fenlock.Granted
		answer.Register, err = register(message)
		return answer, false, err
	case message.IsArray():
		return parseRefusal(message)
	}
	text, err := message.ToString()
	if err != nil {
		return answer, false, err
	}
	if limit, ok := strings.CutPrefix(text, "maxttl "); ok {
		return answer, false, misconfigured("the group's longest lease is recorded as %s ms, and a longer one was asked for: all clients must agree on MaxTTL", limit)
	}
	switch text {
	case "rejoining":
		return answer, true, nil
	case "lost":
		return fenlock.Answer{Status: fenlock.Lost}, false, nil
	}
	return answer, false, fmt.Errorf("unexpected reply %.40q", text)
}

func parseRefusal(message valkey.ValkeyMessage) (answer fenlock.Answer, again bool, err error) {
	values, err := message.ToArray()
	if err != nil {
		return answer, false, err
	}
	if len(values) == 1 { // confirm: {register}
		answer.Status = fenlock.Outrun
		answer.Register, err = register(values[0])
		return answer, false, err
	}
	if len(values) != 4 { // acquire: {holder, remaining ms, ahead, clock in µs}
		return answer, false, fmt.Errorf("unexpected reply of %d values", len(values))
	}
	holder, _ := values[0].ToString()
	var numbers [3]int64
	for i := range numbers {
		if numbers[i], err = values[i+1].AsInt64(); err != nil {
			return answer, false, err
		}
	}
	return fenlock.Answer{
		Status:    fenlock.Held,
		HeldBy:    fenlock.Holder(holder).Label(),
		Remaining: time.Duration(bound(numbers[0], mostRemaining.Milliseconds())) * time.Millisecond,
		Ahead:     int(bound(numbers[1], core.MaxLine)),
		Clock:     time.Duration(bound(numbers[2], mostClock)) * time.Microsecond,
	}, false, nil
}

// register reads a register. One that is no token would be remembered as the
// largest seen, and no proposal would be valid from then on.
func register(message valkey.ValkeyMessage) (fence.Token, error) {
	n, err := message.AsInt64()
	if err == nil && (n < 0 || n > int64(fence.MaxToken)) {
		return 0, fmt.Errorf("the register %d is no token: the hash of registers was changed by hand", n)
	}
	return fence.Token(n), err
}

// What a server is believed: a lease of another program may end in millions of
// years, and no number may be one that cannot be computed with.
const (
	mostRemaining = 365 * 24 * time.Hour
	mostClock     = 1 << 52 // in microseconds, the year 2112
)

func bound(n, most int64) int64 { return min(max(n, 0), most) }
