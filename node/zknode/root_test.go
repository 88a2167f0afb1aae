package zknode

import (
	"testing"

	"github.com/fenlock/fenlock/node/zknode/internal/wire"
)

// Another user may have made the root: a user that may do everything below it needs no right to
// create it.
func TestRootIsThere(t *testing.T) {
	server := shared()
	admin := voting(t, "zk://admin:x@"+server.Addr()+"/admin")
	link := linkOf(t, admin)
	anyone := wire.ACL{{Perms: wire.All, Scheme: "world", ID: "anyone"}}
	replies, err := link.Do(t.Context(), wire.Create{Path: "/locks", ACL: admin.acl},
		wire.Create{Path: "/locks/team", ACL: anyone})
	if err != nil || replies[1].Err != wire.OK {
		t.Fatalf("%+v, %v", replies, err)
	}
	ready(t, open(t, "zk://u:p@"+server.Addr()+"/locks/team"))
	refuses(t, open(t, "zk://u:p@"+server.Addr()+"/locks/other"), true, "no permission")
	refuses(t, open(t, "zk://u:p@"+server.Addr()+"/locks/other/team"), true, "no permission")
}
