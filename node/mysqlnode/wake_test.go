package mysqlnode_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// parked waits until a connection is in a state, and returns its number.
func parked(t testing.TB, s *testserver.MariaDB, state string) (id int64) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		query(t, s, `SELECT COALESCE(MAX(ID), 0) FROM information_schema.PROCESSLIST WHERE STATE = '`+state+`'`, &id)
		if id > 0 {
			return id
		}
	}
	t.Fatalf("no connection is in the state %q", state)
	return 0
}

// waiting has a client wait for a name, which listens and does not look of its own accord.
func waiting(t testing.TB, s *testserver.MariaDB, name string) (told <-chan string, client string) {
	t.Helper()
	n := open(t, s.URL())
	n.Rests(time.Hour)
	join(t, n, maxTTL, true)
	client = fmt.Sprintf("%032d", 7)
	told = listen(t, n, client)
	waiter := request(node.Acquire, name)
	waiter.Place = node.Place{Waiter: client + ":9", Stamp: 1}
	want(t, node.Held)(n.Do(t.Context(), waiter))
	return told, client
}

// A release wakes the waiter, which would look an hour later otherwise.
func TestReleaseWakes(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := ready(t, s)
	lock := take(t, n, "a")
	told, client := waiting(t, s, "a")
	parked(t, s, "User lock")
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, lock)))
	tells(t, told, client+":9")
}

// A wake that meets the client while it looks has it look again.
func TestWakeWhileLooking(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	n := ready(t, s)
	lock := take(t, n, "a")
	told, client := waiting(t, s, "a")
	id := parked(t, s, "User lock")
	_, db := pooled(t, s, "locks", "")
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	execute := func(statement string) {
		t.Helper()
		if _, err := conn.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	execute(`UPDATE fenlock_listeners SET connection = CONNECTION_ID()`) // the wake goes astray
	want(t, node.Granted)(n.Do(t.Context(), as(node.Release, lock)))
	execute(`LOCK TABLES fenlock_stripes WRITE`)
	for range 3 {
		execute(fmt.Sprintf(`KILL QUERY %d`, id))
		if id != parked(t, s, "Waiting for table metadata lock") {
			t.Fatal("another connection waits for the table")
		}
	}
	execute(`UNLOCK TABLES`)
	tells(t, told, client+":9")
}

// A lock of the application's whose name is the product's is not in the way, nor the other way
// round.
func TestUserLockOfTheApplication(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	take(t, ready(t, s), "a")
	waiting(t, s, "a")
	parked(t, s, "User lock")
	var got int
	if query(t, s, `SELECT GET_LOCK('fenlock', 0)`, &got); got != 1 {
		t.Error("the application does not get its own lock")
	}
}
