package tests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/fence/fencesql"
)

// Operators and types of a schema in front of pg_catalog, with which each token would pass, are not
// those of the guard.
func fenceSQLShadowed(t *testing.T, db *fenceDB) {
	guard := fencesql.Guard{Dialect: fencesql.PostgreSQL, Table: "public.shadowed"}
	schema, err := guard.Schema()
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1) // the session that has the path
	for _, statement := range []string{
		`CREATE SCHEMA theirs`,
		`CREATE TYPE theirs.text AS (trap integer)`,
		`CREATE FUNCTION theirs.yes(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
		`CREATE FUNCTION theirs.yes(bigint, integer) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
		`CREATE FUNCTION theirs.no(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false'`,
		`CREATE OPERATOR theirs.<= (FUNCTION = theirs.yes, LEFTARG = bigint, RIGHTARG = bigint)`,
		`CREATE OPERATOR theirs.>= (FUNCTION = theirs.yes, LEFTARG = bigint, RIGHTARG = integer)`,
		`CREATE OPERATOR theirs.= (FUNCTION = theirs.no, LEFTARG = text, RIGHTARG = text)`,
		`SET search_path = theirs, public, pg_catalog`,
		schema,
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	for _, token := range []fence.Token{33, 34} {
		if err := db.write(t.Context(), guard.Check, token); err != nil {
			t.Errorf("token %d: %v", token, err)
		}
	}
	stale := &fence.StaleError{}
	if err := db.write(t.Context(), guard.Check, 33); !errors.As(err, &stale) || stale.Newest != 34 {
		t.Errorf("token 33 after 34: %v", err)
	}
	var leads bool
	if err := db.QueryRow(`SELECT 34::bigint <= 33::bigint`).Scan(&leads); err != nil || !leads {
		t.Errorf("the test shows nothing: %v, %v", leads, err)
	}
	for client, statement := range statementsOfClients(t) {
		for i, token := range []int{33, 34, 33} {
			done, err := db.Exec(statement, client, token)
			if err != nil {
				t.Fatalf("%s: %s: %v", client, statement, err)
			}
			if rows, err := done.RowsAffected(); err != nil || (rows == 1) != (i < 2) {
				t.Errorf("%s: %d rows by token %d, %v", client, rows, token, err)
			}
		}
	}
	for _, token := range []int{0, int(fence.MaxToken) + 1} {
		if _, err := db.Exec(fmt.Sprintf("INSERT INTO public.shadowed VALUES ('x', %d)", token)); err == nil {
			t.Errorf("the table takes the token %d", token)
		}
	}
}

// statementsOfClients are what the guards of the clients in other languages send to PostgreSQL.
func statementsOfClients(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for client, command := range map[string]*exec.Cmd{
		"Python": exec.Command("python3", "-c", `import fenlock
class Cursor:
    rowcount = 1
    def execute(self, statement, values): print(statement.replace("%s", "$1", 1).replace("%s", "$2", 1))
fenlock.guard(Cursor(), "r", 1, "public.shadowed", "%s")`),
		"Node.js": exec.Command("node", "--input-type=module", "-e", `import { guard } from '../clients/node/fenlock.mjs'
await guard(async statement => { console.log(statement); return { rowCount: 1 } }, 'r', 1, 'public.shadowed')`),
	} {
		command.Env = append(os.Environ(), "PYTHONPATH=../clients/python", "PYTHONDONTWRITEBYTECODE=1")
		text, err := command.Output()
		if err != nil {
			t.Fatalf("%s: %v", client, err)
		}
		all[client] = strings.TrimSpace(string(text))
	}
	return all
}
