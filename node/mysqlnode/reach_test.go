package mysqlnode_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
)

// The row of a client that was killed goes as soon as another client looks. Where it is not known
// whether it is there, the row goes when it has been silent for too long. A client that is there
// keeps its row.
func TestListenersThatAreGone(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t)
	alive, n := ready(t, s), ready(t, s)
	id := func(i int) string { return fmt.Sprintf("%032d", i) }
	nothing := func(string) {}
	if err := alive.Listen(t.Context(), id(1), nothing); err != nil {
		t.Fatal(err)
	}
	// Its stamp is as old as if it could say nothing; its connection is there.
	run(t, s, `UPDATE fenlock_listeners SET seen = 1`)
	const hours = 2 * 60 * 60 * 1_000_000
	for i, change := range []string{
		`connection = 999999999`, // of a process that was killed
		`started = started - 1`,  // of an earlier run of the server
		fmt.Sprintf(`account = 'another', seen = seen - %d`, hours), // of another user
		fmt.Sprintf(`server = 'another', seen = seen + %d`, hours),  // of another member, before the clock was set back
		`server = 'another'`, // and one that was there lately
	} {
		run(t, s, fmt.Sprintf(`INSERT INTO fenlock_listeners SELECT '%s', connection, server, started, account,
			TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM fenlock_listeners WHERE client = '%s'`, id(10+i), id(1)),
			fmt.Sprintf(`UPDATE fenlock_listeners SET %s WHERE client = '%s'`, change, id(10+i)))
	}
	n.Rewrite(time.Second)
	if err := n.Listen(t.Context(), id(2), nothing); err != nil {
		t.Fatal(err)
	}
	there := func(i int) bool {
		var rows int
		query(t, s, fmt.Sprintf(`SELECT COUNT(*) FROM fenlock_listeners WHERE client = '%s'`, id(i)), &rows)
		return rows == 1
	}
	for i := range 4 {
		if there(10 + i) {
			t.Errorf("row %d is there", i)
		}
	}
	// The last one is silent for longer than it may, as n says in time that it is there.
	for deadline := time.Now().Add(time.Minute); there(14); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a listener that has said nothing is there")
		}
	}
	if got := []bool{there(1), there(2)}; slices.Contains(got, false) {
		t.Errorf("the two that listen are there: %v", got)
	}
}
