package natsnode

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/cas"
)

// hush is the password of tests, which nothing may show.
const hush = "hush-hush"

func TestURLs(t *testing.T) {
	for raw, want := range map[string]string{
		"nats://h/B": "nats://h:4222/B", "nats://u:" + hush + "@H2:1,h1/b_-9?tls=off": "nats://h1:4222,h2:1/b_-9",
		"nats://:" + hush + "@h/B?name=n":                "nats://h:4222/B",
		"nats://[::1]/B?replicas=3&sync_interval=always": "nats://[::1]:4222/B",
	} {
		n, err := Open(raw)
		if err != nil || n.String() != want || !strings.Contains(raw, "name=") && n.Member() != want {
			t.Errorf("%s: %v, %v", raw, n, err)
			continue
		}
		if n.Close(); strings.Contains(fmt.Sprint(n.String(), n.Member(), n.Location(), n.Schema()), hush) {
			t.Errorf("%v shows the password", n)
		}
	}
	creds := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(creds, []byte(hush), 0o644); err != nil {
		t.Fatal(err)
	}
	for raw, says := range map[string]string{
		"natss://h/B": "scheme", "nats://h": "no bucket", "nats://h/a.b": "no bucket", "nats://h/a/b": "no bucket",
		"nats://h/a%20b": "no bucket", "nats://" + hush + "@h/B": "a token is written nats://:token@host",
		"nats://u:" + hush + "@h/B?creds=/x": "one is enough", "nats://h/B?creds=/no/such": "creds: /no/such",
		"nats://h/B?creds=" + creds: "chmod", "nats://h/B?tls=off&ca=/x": "tls=off", "nats://h/B?ca=/no/such": "ca",
		"nats://u:" + hush + "@h/B?replicas=2": "1, 3, 5", "nats://h/B?sync_interval=2m": "always",
		"nats://u:" + hush + "@h/B?token=" + hush: "known are", "nats://u:" + hush + "/@h/B": "cannot be parsed",
		"nats://u:" + hush + "@h,h/B": "twice",
	} {
		if n, err := Open(raw); !errors.Is(err, node.ErrInvalid) || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), hush) {
			t.Errorf("%s: %v, %v; want %q", raw, n, err, says)
		}
	}
}

// A server that is not there, is none of this kind, or does not let this client in.
func TestConnectionsLeadToTheMend(t *testing.T) {
	closed, greets := testserver.WrongAddrs(t)
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	cert, key := testserver.Certificate(t)
	other, _ := testserver.Certificate(t)
	plain := testserver.StartNATS(t, "authorization { user: u, password: right }")
	none := testserver.StartNATS(t, "jetstream: disabled")
	secure := testserver.StartNATS(t, fmt.Sprintf("tls { cert_file: %q, key_file: %q }", cert, key))
	mutual := testserver.StartNATS(t, fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }", cert,
		key, cert))
	for _, c := range []struct {
		url, says string
		permanent bool
	}{
		{"u:" + hush + "@" + closed + "/B", "nothing listens there", false},
		{"u:" + hush + "@nowhere.invalid/B?tls=off", "no such host", false},
		{"u:" + hush + "@" + page.Listener.Addr().String() + "/B", "does not begin as NATS does", false},
		{"u:" + hush + "@" + greets + "/B", "another kind of server", true},
		{"u:" + hush + "@" + plain.Addr() + "/B", "refuses the user, the password", true},
		{":" + hush + "@" + plain.Addr() + "/B", "refuses the user, the password", true},
		{plain.Addr() + "/B", "refuses the user, the password", true},
		{"u:right@" + plain.Addr() + "/B?tls=on", "say tls=off", true},
		{"u:right@" + plain.Addr() + "/B", "fenlock migrate", true},
		{none.Addr() + "/B", "nats-server -js", false},
		{secure.Addr() + "/B", "parameter ca", true},
		{secure.Addr() + "/B?tls=on", "parameter ca", true},
		{secure.Addr() + "/B?ca=" + other, "parameter ca", true},
		{secure.Addr() + "/B?servername=x&ca=" + cert, "parameter servername", true},
		{secure.Addr() + "/B?ca=" + cert, "fenlock migrate", true},
		{mutual.Addr() + "/B?ca=" + cert, "cert and key", false},
		{mutual.Addr() + "/B?ca=" + cert + "&cert=" + cert + "&key=" + key, "fenlock migrate", true},
	} {
		n := open(t, "nats://"+c.url)
		a, err := n.Do(t.Context(), as(node.Acquire, request("a", "", 0)))
		said := fmt.Sprintf("%+v, %v", a, err)
		if !errors.Is(err, node.ErrNotSent) || errors.Is(err, node.ErrMisconfigured) != c.permanent ||
			!strings.Contains(said, c.says) || strings.Contains(said, hush) {
			t.Errorf("%s: %s; want %q, permanent: %v", c.url, said, c.says, c.permanent)
		}
	}
}

// A password that has changed serves for the next connection.
func TestFilesAreReadAnew(t *testing.T) {
	s := testserver.StartNATS(t, "authorization { token: one }")
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	n := open(t, unused(s)+"&passwordfile="+file)
	if err := n.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	write("two")
	s.Kill()
	s.Restart("authorization { token: two }")
	want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, request("a", "", 0))))
}

// readme returns the lines of README.md that are to be copied, from one on that has a text in it.
func readme(t *testing.T, from string) string {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	const indent = "\n       "
	_, after, found := strings.Cut(string(text), indent+from)
	if !found {
		t.Fatalf("README.md has no %q", from)
	}
	block, _, _ := strings.Cut(after, indent+"}\n")
	return from + block + "\n}"
}

// The permissions of README.md are enough. Without one of them, the error says so.
func TestPermissions(t *testing.T) {
	whole := readme(t, "authorization {")
	const create = `"$JS.API.STREAM.CREATE.KV_LOCKS"`
	try := func(t *testing.T, config string) (*Node, error) {
		s := testserver.StartNATS(t, config)
		at := func(user string) *Node {
			return open(t, "nats://"+user+":change-me@"+s.Addr()+"/LOCKS?sync_interval=always")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := at("owner").Migrate(ctx); err != nil {
			return nil, err
		}
		n := at("fenlock")
		r := request("a", "me", 0)
		_, err := n.Do(ctx, as(node.Acquire, r))
		if err == nil {
			_, err = n.Examine(ctx, node.Look{})
		}
		if err == nil {
			_, err = n.Registers(ctx)
		}
		if err == nil {
			err = n.Listen(ctx, strings.Repeat("1", node.IDLength), func(string) {})
		}
		return n, err
	}
	if n, err := try(t, whole); err != nil {
		t.Fatal(err)
	} else if err := n.Migrate(t.Context()); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("a client may change the bucket: %v", err)
	}
	for _, right := range []string{create, `"$JS.API.STREAM.INFO.KV_LOCKS"`, `"$JS.API.STREAM.MSG.GET.KV_LOCKS"`,
		`"$KV.LOCKS.>"`, `"$JS.API.CONSUMER.CREATE.KV_LOCKS.>"`, `"$JS.API.CONSUMER.MSG.NEXT.KV_LOCKS.>"`,
		`subscribe: ["fenlock.LOCKS.>"]`} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(whole, right) {
				t.Fatalf("README.md does not have it")
			}
			without := `"nothing"`
			if strings.HasPrefix(right, "sub") {
				without = `subscribe: ["fenlock.LOCKS.inbox.>"]`
			}
			_, err := try(t, strings.ReplaceAll(whole, right, without))
			if !errors.Is(err, node.ErrMisconfigured) || !words(err.Error(), "ermissions node/natsnode/README.md") {
				t.Errorf("%v", err)
			}
		})
	}
}

// What a bucket without faults answers. The server is one without JetStream, and a client answers
// in its place.
const goodInfo = `{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"KV_B","subjects":["$KV.B.>"],
	"retention":"limits","max_msgs":-1,"max_bytes":-1,"max_msg_size":-1,"max_msgs_per_subject":1,"discard":"new","storage":"file",
	"num_replicas":1,"deny_delete":true,"deny_purge":true,"first_seq":8589934592,"metadata":{"fenlock_sync_interval":"always"}},
	"created":"2026-01-01T00:00:00Z","ts":"2026-01-02T00:00:00Z","state":{"last_seq":8589934600}}`
const notFound = `{"error":{"code":404,"err_code":10037,"description":"no message found"}}`

// hostile are answers that no server gives.
var hostile = []string{"", "null", "{}", "[]", "hello", `{"error":{}}`, `{"error":{"code":400}}`, `{"config":null}`,
	`{"message":{}}`, `{"message":{"subject":"x","seq":1}}`, `{"message":{"subject":"$KV.B.admission","seq":18446744073709551615,"data":"!"}}`,
	`{"message":{"subject":"$KV.B.admission","seq":7,"data":"ZmVubG9jayBtYXJrIDEKe30=","time":"0001-01-01T00:00:00Z"}}`,
	`{"stream":"KV_B"}`, `{"stream":"KV_B","seq":0}`, `{"stream":"KV_B","seq":1}`, `{"stream":"other","seq":8589934700}`,
	`{"stream":"KV_B","seq":-1}`, strings.Replace(goodInfo, "2026-01-02T00:00:00Z", "0001-01-01T00:00:00Z", 1),
	strings.Replace(goodInfo, `"limits"`, `"x"`, 1), strings.Replace(goodInfo, "8589934592", "-1", 1),
	`{"stream":"KV_B","seq":8589934700,"error":{"code":500}}`,
}

// meets has a node ask a server that answers so, and returns what it was granted.
func meets(t testing.TB, s *testserver.NATS, info, get, ack string) (granted string) {
	t.Helper()
	nc, err := nats.Connect("nats://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for subject, answer := range map[string]string{"$JS.API.STREAM.INFO.KV_B": info, "$JS.API.STREAM.MSG.GET.KV_B": get,
		"$KV.B.>": ack, "$JS.API.CONSUMER.>": ack} {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) { m.Respond([]byte(answer)) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	n := open(t, "nats://"+s.Addr()+"/B")
	defer n.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	a, err := n.Do(ctx, as(node.Acquire, request("a", "", 0)))
	if err == nil && a.Status == node.Granted {
		granted = fmt.Sprintf("%+v", a)
	}
	n.Examine(ctx, node.Look{Thorough: true})
	n.List(ctx, "", func(node.Lease) bool { return true })
	return granted
}

// Whatever a server answers, nothing is granted that it does not acknowledge, and nothing panics.
func TestHostileAnswers(t *testing.T) {
	s := testserver.StartNATS(t, "jetstream: disabled")
	for _, answer := range hostile {
		for what, granted := range map[string]string{"info": meets(t, s, answer, notFound, answer),
			"get": meets(t, s, goodInfo, answer, ""), "ack": meets(t, s, goodInfo, notFound, answer)} {
			if granted != "" {
				t.Errorf("%s %s: granted %s", what, answer, granted)
			}
		}
	}
	mark := `{"message":{"subject":"$KV.B.` // an answer about another key
	if got := meets(t, s, goodInfo, mark+`other","seq":8589934593,"time":"2026-01-01T00:00:00Z"}}`, ""); got != "" {
		t.Errorf("granted %s", got)
	}
}

// An acknowledgement of another write is none.
func TestHostileAcknowledgements(t *testing.T) {
	s := testserver.StartNATS(t, "jetstream: disabled")
	nc, err := nats.Connect("nats://" + s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	answers := make(chan string, 1)
	if _, err := nc.Subscribe("$KV.B.>", func(m *nats.Msg) { m.Respond([]byte(<-answers)) }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	n, at := open(t, "nats://"+s.Addr()+"/B"), cas.Now{State: uint64(8589934600)}
	for _, answer := range hostile {
		answers <- answer
		if version, err := n.store.keys.Put(t.Context(), "1", nil, cas.Value{}, at, 0); err == nil {
			t.Errorf("%s is taken for the acknowledgement of %d", answer, version)
		}
	}
	answers <- `{"stream":"KV_B","seq":8589934601}`
	if _, err := n.store.keys.Put(t.Context(), "1", nil, cas.Value{}, at, 0); err != nil {
		t.Error(err)
	}
}

func FuzzAnswers(f *testing.F) {
	s := testserver.StartNATS(f, "jetstream: disabled")
	for _, answer := range hostile {
		f.Add(answer, answer)
	}
	f.Fuzz(func(t *testing.T, info, get string) {
		if granted := meets(t, s, info, get, ""); granted != "" { // no write is acknowledged
			t.Error(granted)
		}
		if granted := meets(t, s, goodInfo, get, ""); granted != "" {
			t.Error(granted)
		}
	})
}
