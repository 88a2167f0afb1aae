package mysqlnode_test

import (
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// A server that has InnoDB only gets tables of it.
func TestServerWithInnoDBOnly(t *testing.T) {
	t.Parallel()
	s := testserver.StartMariaDB(t, "enforce-storage-engine=InnoDB")
	n := ready(t, s)
	take(t, n, "a")
	var engine string
	query(t, s, `SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_NAME = 'fenlock_stripes'`, &engine)
	if engine != "InnoDB" {
		t.Errorf("the engine is %s", engine)
	}
}
