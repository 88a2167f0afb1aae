package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/internal/replytest"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// A server's words are shown unless the password is in them; ours are shown as they are,
// whatever the password is.
func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		secret, said, want string
		permanent          bool
	}{
		{"hunter22", "WRONGPASS of ann", "the user or the password is wrong (WRONGPASS of ann)", true},
		{"the", "WRONGPASS of ann", "the user or the password is wrong (WRONGPASS of ann)", true},
		{"a", "WRONGPASS of ann", "the user or the password is wrong", true},
		{"hunter22", "REFUSED AUTH ann hunter22", "the server refused a command; what it says has the password in it", false},
		{"hunter22", "ERR unknown command `X`, with args beginning with: `hunter22`",
			"the server does not have a command that a node needs", true},
		{"hunter22", "REFUSED", "REFUSED", false},
		// Servers cut what they repeat, and a token is long.
		{"hunter22-and-more", "ERR unknown command `X`, with args beginning with: `hunter22-a",
			"the server does not have a command that a node needs", true},
		{"hunter22-and-more", "REFUSED hunter2", "REFUSED hunter2", false},
		{"", "REFUSED", "REFUSED", false},
	} {
		m, _ := replytest.Message([]byte("-" + c.said + "\r\n"))
		err := Errors{Name: "n", Secrets: resp.NewSecrets(c.secret)}.Fail(m.Err())
		want := "n: " + c.want
		if c.permanent {
			want = "n: misconfigured: " + c.want
		}
		if err.Error() != want || errors.Is(err, node.ErrMisconfigured) != c.permanent {
			t.Errorf("the password %q, %q said: %q, want %q", c.secret, c.said, err, want)
		}
	}
	err := Errors{Name: "n", Secrets: resp.NewSecrets("the")}.Fail(engine.Invalidf("the prefix"))
	if !errors.Is(err, node.ErrInvalid) || err.Error() != "n: fenlock: invalid argument: the prefix" {
		t.Errorf("%v", err)
	}
}

// A proxy can hide that there is a cluster behind it: then it is told by what that refuses,
// also within a script.
func TestDescribeACluster(t *testing.T) {
	for _, said := range []string{
		"CROSSSLOT Keys in request don't hash to the same slot", "MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381",
		"TRYAGAIN Multiple keys request during rehashing of slot", "CLUSTERDOWN Hash slot not served",
	} {
		err := Errors{Name: "n"}.Fail(resp.Error(said))
		if !errors.Is(err, node.ErrMisconfigured) || !strings.Contains(err.Error(), "part of a cluster") {
			t.Errorf("%s: %v", said, err)
		}
	}
}
