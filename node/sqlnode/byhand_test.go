package sqlnode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
)

// What another program wrote into the file is an error, and no number that is promised.
func TestNumbersChangedByHand(t *testing.T) {
	n, _ := newNode(t)
	for i, number := range []int64{-1, int64(fence.MaxToken) + 1, 1<<63 - 1, -1 << 63} {
		name := fmt.Sprint("name ", i)
		r := request(name, "", 7)
		want(t, node.Granted)(n.Do(t.Context(), as(node.Acquire, r)))
		for _, statement := range []string{
			fmt.Sprintf("UPDATE fenlock_leases SET origin = %d", number),
			fmt.Sprintf("UPDATE fenlock_registers SET token = %d", number),
		} {
			if _, err := n.db.Exec(statement); err != nil {
				t.Fatal(err)
			}
			for _, op := range []node.Op{node.Extend, node.Confirm} {
				if a, err := n.Do(t.Context(), as(op, r)); err == nil || !strings.Contains(err.Error(), "changed by hand") {
					t.Errorf("%s after %s: %+v, %v", op, statement, a, err)
				}
			}
		}
		if _, err := n.db.Exec("DELETE FROM fenlock_leases"); err != nil {
			t.Fatal(err)
		}
		if a, err := n.Do(t.Context(), as(node.Acquire, r)); err == nil {
			t.Errorf("granted with the register %d: %+v", number, a)
		}
		if _, err := n.db.Exec("DELETE FROM fenlock_registers"); err != nil {
			t.Fatal(err)
		}
	}
}
