package respnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/command"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// FuzzServer lets a node do everything that it can do, on a connection on which
// anything is replied. Nothing panics, and no error has the password, though a
// server may repeat it.
func FuzzServer(f *testing.F) {
	const one, two, three = "$1\r\n1\r\n", "$1\r\n2\r\n", "$1\r\n3\r\n"
	info := fmt.Sprintf("$%d\r\n%s\r\n", len(replytest.Info()), replytest.Info())
	// A server with the mark of what it is now, and its replies to the scripts.
	const clock = "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"
	marked, loaded := one+":1\r\n*9\r\n"+one+"$7\r\n4567def\r\n$4\r\n1000\r\n"+one+"$3\r\na b\r\n"+
		one+"$-1\r\n$-1\r\n$-1\r\n"+
		info+"$0\r\n\r\n*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n*0\r\n"+clock, ""
	for _, s := range command.Operations {
		loaded += "+" + s.SHA() + "\r\n"
	}
	for _, s := range []string{
		":7\r\n", "-NOSCRIPT x\r\n", "-ERR swordfish\r\n", "-NOPERM swordfish\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$1\r\nh\r\n:250\r\n*2\r\n$1\r\n7\r\n" + one,
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$1\r\nh\r\n:250\r\n*2\r\n$1\r\n7\r\n" + two, // a newer format
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n$-1\r\n:-2\r\n*2\r\n$-1\r\n$-1\r\n",
		// fewer results than commands
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*0\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*0\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*1\r\n" + info, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\nh\r\n:250\r\n",
		"+OK\r\n-NOPERM swordfish\r\n+QUEUED\r\n+QUEUED\r\n-EXECABORT x\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + info + "*4\r\n" + one + two + "$8\r\nadmitted\r\n" + "$7\r\n4567def\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + info + "%1\r\n" + one + "$3\r\n-12\r\n",
		"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + info + "%1\r\n$4\r\n4096\r\n" + one, // no stripe
		"*2\r\n$1\r\n0\r\n*2\r\n$9\r\nfenlock:a\r\n$9\r\nfenlock:b\r\n" + one + ":1\r\n*2\r\n" + two +
			"$-1\r\n$-1\r\n:-2\r\n*2\r\n" + three + one,
		marked + "+admitted\r\n" + loaded, marked + "+format 2\r\n", marked + "+restarted\r\n" + loaded,
		marked + "+admitted\r\n",
		one + ":1\r\n*9\r\n" + one + "$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n" + info +
			"$0\r\n\r\n*5\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n*0\r\n" + clock + ":0\r\n",
		info, "_\r\n", "*0\r\n", "",
	} {
		for what := range byte(9) {
			f.Add(what, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, what byte, input []byte) {
		const secret = "swordfish"
		replies := &replier{Lifetime: engine.NewLifetime(),
			rest: slices.Concat([]byte(info+"*3\r\n$4\r\n1000\r\n$-1\r\n$-1\r\n"), input)} // it is looked at first
		n, err := New(replies, Server{Name: "valkey://host", Prefix: DefaultPrefix, Secrets: resp.NewSecrets(secret)})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		n.Join(node.Group{Nodes: []node.Node{n}, MaxTTL: time.Second, Warn: func(_ node.Node, message string) {
			if strings.Contains(message, secret) {
				t.Errorf("the password is in the warning %q", message)
			}
		}})
		ctx, r := context.Background(), node.Request{Name: "a", Holder: "h", TTL: time.Second, Token: 1}
		var answer node.Answer
		switch what % 9 {
		default:
			r.Op = node.Acquire + node.Op(what%9)
			answer, err = n.Do(ctx, r)
			if r.Op == node.Release && answer.Register != 0 {
				t.Errorf("%q: a release with a register: %+v", input, answer)
			}
		case 5:
			var l node.Lease
			if l, err = n.Inspect(ctx, "a"); err == nil {
				checkLease(t, input, l)
			}
		case 6:
			err = n.List(ctx, "", func(l node.Lease) bool { checkLease(t, input, l); return true })
		case 7:
			var r node.Registers
			if r, err = n.Registers(ctx); err == nil {
				checkRegisters(t, input, r)
			}
		case 8:
			if _, err := n.voting.Look(ctx); err != nil {
				t.Fatal(err)
			}
			out, err := n.voting.Admit(ctx)
			present := out.Cause == node.Present
			if strings.Contains(out.String()+fmt.Sprint(err), secret) || !present && err != nil ||
				err != nil && !errors.Is(err, fenlock.ErrMisconfigured) {
				t.Errorf("%q: the admission said %q, %v", input, out, err)
			}
			if present && err == nil && replies.admitted && replies.loaded != len(command.Operations) {
				t.Errorf("%q: admitted without the scripts", input)
			}
			if strings.HasPrefix(string(input), marked+"+admitted\r\n"+loaded) && (!present || err != nil || !replies.admitted) {
				t.Errorf("%q: %s, %v", input, out, err)
			}
		}
		if strings.Contains(answer.Absence.String()+answer.Detail, secret) {
			t.Errorf("%q: the password is in %+v", input, answer)
		}
		if what%9 < 5 {
			replytest.CheckAnswer(t, input, answer, false, err)
		}
		if err != nil && (strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), n.String())) {
			t.Errorf("%q: the error %v", input, err)
		}
	})
}

func checkLease(t *testing.T, input []byte, l node.Lease) {
	t.Helper()
	if l.Remaining < 0 || l.Register > fence.MaxToken {
		t.Errorf("%q: the lease %+v", input, l)
	}
}

func checkRegisters(t *testing.T, input []byte, r node.Registers) {
	t.Helper()
	if r.Server == "" || r.Memory == "" || r.MaxTTL < 0 {
		t.Errorf("%q: the registers %+v", input, r)
	}
	for stripe, token := range r.Tokens {
		if stripe < 0 || stripe >= node.Stripes || !token.Valid() {
			t.Errorf("%q: the register %d is %d", input, stripe, token)
		}
	}
}

// replier is a link on which anything may come.
type replier struct {
	*engine.Lifetime
	rest     []byte
	count    int
	admitted bool // the script that marks a server said that it did
	loaded   int  // so many scripts
}

func (r *replier) Close() {
	r.End()
	r.Wait()
}

func (*replier) Dial() uint64   { return 1 }
func (*replier) Up(uint64) bool { return true }
func (*replier) Pooled() bool   { return false }
func (*replier) Renew(uint64)   {}
func (*replier) Remote() string { return "" }

func (r *replier) Subscribe(context.Context, string, func(), func(string)) error {
	reply := r.next()
	return reply.Err()
}

func (r *replier) Identify(_ context.Context, _ resp.Command, accept func(string, resp.Reply, uint64) error) error {
	reply := r.next()
	info, err := reply.ToString()
	if err != nil {
		return err
	}
	return accept(info, r.next(), 1)
}

func (r *replier) Do(_ context.Context, words resp.Command) (resp.Reply, error) {
	said := r.next()
	text, err := said.ToString()
	switch {
	case err == nil && words[0] == "EVAL" && strings.HasPrefix(words[1], "-- admit:") && text == "admitted":
		r.admitted = true
	case err == nil && words[0] == "SCRIPT" &&
		slices.ContainsFunc(command.Operations, func(s *command.Script) bool { return s.SHA() == text }):
		r.loaded++
	}
	return said, said.Err()
}

func (r *replier) DoMulti(_ context.Context, commands ...resp.Command) ([]resp.Reply, error) {
	return r.Exchange(commands, nil), nil
}

func (r *replier) Exchange(commands []resp.Command, all []resp.Reply) []resp.Reply {
	for range commands {
		all = append(all, r.next())
	}
	return all
}

// next replies. A server that never ends is cut off.
func (r *replier) next() (m resp.Reply) {
	if r.count++; len(r.rest) == 0 || r.count > 100 {
		return resp.Failure(errors.New("the connection is closed"))
	}
	m, r.rest = replytest.Message(r.rest)
	return m
}
