//go:build campaign

package pgnode

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// 40,000 new names a minute, which expire after a second, leave those since the last sweep, and a
// table that stops growing.
func TestCampaignNewNames(t *testing.T) {
	const each, turns, part = 30 * time.Second, 7, 20000
	n := alone(t, newSchema(t, testserver.StartPostgres(t)))
	begun := time.Now()
	for turn := range turns {
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for i := range part / 8 {
					due := begun.Add(time.Duration(turn)*each + time.Duration(i)*each/(part/8))
					time.Sleep(time.Until(due))
					r := request(fmt.Sprint("name ", turn, " ", worker, " ", i), 0)
					r.TTL = time.Second
					if a, err := n.Do(t.Context(), asAcquire(r)); err != nil || a.Status != node.Granted {
						t.Errorf("%+v, %v", a, err)
						return
					}
				}
			})
		}
		all.Wait()
		var rows, bytes, index, dead int
		if err := n.db.QueryRow(inSchema(`SELECT (SELECT count(*) FROM fenlock.leases), pg_table_size('fenlock.leases'), pg_indexes_size('fenlock.leases'),
			(SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'fenlock.leases'::regclass)`, n.schema)).Scan(&rows, &bytes, &index, &dead); err != nil {
			t.Fatal(err)
		}
		t.Logf("after %v, %d names: %d rows, %d kB of table, %d kB of index, %d dead", time.Since(begun).Round(time.Second),
			(turn+1)*part, rows, bytes>>10, index>>10, dead)
		if rows > 3*part {
			t.Errorf("%d rows are left, more than of a minute", rows)
		}
	}
}
