package command

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

func inCluster(t *testing.T) *Keys {
	t.Helper()
	keys, err := NewKeys("{tag}fenlock:")
	if err != nil {
		t.Fatal(err)
	}
	return keys.InCluster()
}

// What a member that does not serve the slot says: nothing was executed, and waiting may help.
func TestRedirections(t *testing.T) {
	keys := inCluster(t)
	for _, c := range []struct{ said, means string }{
		{"MOVED 866 127.0.0.1:7001", "another member"},
		{"ASK 866 127.0.0.1:7001", "being moved"},
		{"TRYAGAIN Multiple keys request during rehashing of slot", "being moved"},
		{"CLUSTERDOWN Hash slot not served", "no member has it"},
		// Of a script that had begun, and of others.
		{"ERR Script attempted to access a non local key in a cluster node", ""},
		{"MOVEDABOUT", ""}, {"WRONGTYPE", ""}, {"", ""},
	} {
		err := resp.Error(c.said)
		if got := keys.Redirected(err); got != (c.means != "") {
			t.Errorf("%q: redirected %v", c.said, got)
		}
		described := Errors{Cluster: true}.Describe(err)
		if c.means != "" && (!strings.Contains(described.Error(), c.means) || errors.Is(described, node.ErrMisconfigured)) {
			t.Errorf("%q: %v", c.said, described)
		}
		if new(Keys).Redirected(err) {
			t.Errorf("%q, of a server on its own: redirected", c.said)
		}
	}
	if keys.Redirected(errors.New("MOVED 866 127.0.0.1:7001")) || keys.Redirected(nil) {
		t.Error("what no server has sent is taken for a redirection")
	}
}

// A cluster's node gives no name at a release, alone or in a batch.
func TestClusterGivesNothing(t *testing.T) {
	keys, on := inCluster(t), &node.Request{Op: node.Release, Name: "a", Holder: "h", Next: 7}
	alone, batch := keys.Operation(nil, on, "", new(Last)), keys.Group(nil, []*node.Request{on}, "", new(Last))
	if slices.Contains(alone, "7") || slices.Contains(batch, "7") {
		t.Errorf("it may give: %q, %q", alone, batch)
	}
	keys.clustered = false
	if !slices.Contains(keys.Operation(nil, on, "", new(Last)), "7") {
		t.Error("a server on its own does not give: this tests nothing")
	}
}

func TestClusteredOrNot(t *testing.T) {
	member := "redis_version:7.0.0\r\nrun_id:a\r\nrole:master\r\nmaster_replid:b\r\nuptime_in_seconds:9\r\nredis_mode:cluster\r\n"
	alone := strings.Replace(member, "mode:cluster", "mode:standalone", 1)
	for _, c := range []struct {
		keys *Keys
		info string
		says string
	}{
		{inCluster(t), member, ""}, {new(Keys), alone, ""},
		{inCluster(t), alone, "the URL's scheme is valkey://"}, {new(Keys), member, "valkey-cluster://"},
	} {
		if _, err := c.keys.ParseInfo(c.info); (err == nil) != (c.says == "") || err != nil &&
			(!strings.Contains(err.Error(), c.says) || !errors.Is(err, node.ErrMisconfigured)) {
			t.Errorf("%v; want %q", err, c.says)
		}
	}
	rules := strings.Join(inCluster(t).Permissions(), " ") + " " + strings.Join(inCluster(t).ReadPermissions(), " ")
	if strings.Count(rules, "+cluster|nodes") != 2 ||
		strings.Contains(strings.Join(new(Keys).Permissions(), " "), "cluster") {
		t.Error("the permissions of a cluster's user, or of another one, are wrong")
	}
}

func TestMembers(t *testing.T) {
	const one, two = "07c37dfeb235213a872192d90877d0cd55635b91", "17c37dfeb235213a872192d90877d0cd55635b91"
	replica, primary := two+" 127.0.0.1:7002@17002 slave,fail "+one+" 0 0 1 connected\n",
		one+" 127.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-16383\n"
	for text, serves := range map[string]bool{"txt:" + replica + primary: true, primary + replica: true, replica: false} {
		ids, slots, err := ParseMembers(resp.Text(text), nil)
		want := []string{one, two}
		if !serves {
			want = want[1:]
		}
		if err != nil || !slices.Equal(ids, want) || slots != serves {
			t.Errorf("%q: %v, %v, %v", text, ids, slots, err)
		}
	}
	if _, _, err := ParseMembers(resp.Text("nothing\n"), nil); !errors.Is(err, node.ErrMisconfigured) {
		t.Errorf("of no member: %v", err)
	}
}
