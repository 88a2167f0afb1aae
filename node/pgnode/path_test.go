package pgnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// asRole returns a URL for another user.
func asRole(rawURL, role string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		panic(err)
	}
	u.User = url.User(role)
	return u.String()
}

const grants = `GRANT USAGE ON SCHEMA fenlock TO %[1]s;
	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fenlock TO %[1]s`

// Objects of a schema in front of pg_catalog do not have a held lock granted, whatever put that
// schema into the path.
func TestShadowed(t *testing.T) {
	t.Parallel()
	server := shared()
	u := newSchema(t, server)
	admin := alone(t, u)
	for i, shadow := range []string{
		`CREATE FUNCTION %[1]s.clock_timestamp() RETURNS timestamptz LANGUAGE sql
			AS 'SELECT pg_catalog.clock_timestamp() + interval ''1 year'''`,
		`CREATE FUNCTION %[1]s.yes(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
			CREATE OPERATOR %[1]s.<= (FUNCTION = %[1]s.yes, LEFTARG = bigint, RIGHTARG = bigint)`,
	} {
		theirs, role := fmt.Sprint("theirs_", i, admin.schema), fmt.Sprint("app_", i, admin.schema)
		for _, s := range []string{`CREATE SCHEMA ` + theirs, `CREATE ROLE ` + role + ` LOGIN`,
			`GRANT USAGE ON SCHEMA ` + theirs + ` TO ` + role, fmt.Sprintf(grants, role), fmt.Sprintf(shadow, theirs),
			`ALTER ROLE ` + role + ` SET search_path = ` + theirs + `, pg_catalog`} {
			exec1(t, admin, s)
		}
		n := alone(t, asRole(u, role))
		name := fmt.Sprint(i)
		r := request(name, 0)
		want(t, node.Granted)(n.Do(t.Context(), asAcquire(r)))
		want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
		want(t, node.Granted)(admin.Do(t.Context(), asAcquire(request(name, 0))))
		if !n.usual(asAcquire(r)) {
			t.Fatal("the test shows nothing")
		}
		if a, err := n.Do(t.Context(), asAcquire(request(name, 0))); err != nil || a.Status != node.Held {
			t.Errorf("%s: %+v, %v", shadow, a, err)
		}
	}
}

// traps is a schema with objects of all names of pg_catalog: functions, operators, types and
// relations. The role trapped must not use them, or they cannot be read. To mention one is an
// error, whether or not it is evaluated.
var traps = sync.OnceValue(func() error {
	const sql = `CREATE SCHEMA traps;
CREATE ROLE trapped LOGIN;
GRANT USAGE ON SCHEMA traps TO trapped;
ALTER ROLE trapped SET search_path = traps, pg_temp, pg_catalog;
SET search_path = pg_catalog;
DO $do$
DECLARE x record;
BEGIN
	FOR x IN SELECT p.proname AS name, oidvectortypes(p.proargtypes) AS args, format_type(p.prorettype, NULL) AS gives, p.proretset
			FROM pg_proc AS p WHERE p.pronamespace = 'pg_catalog'::regnamespace LOOP
		BEGIN
			EXECUTE format('CREATE FUNCTION traps.%I(%s) RETURNS %s %s LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION $$trap$$; END''',
				x.name, x.args, CASE WHEN x.proretset THEN 'SETOF' END, x.gives);
		EXCEPTION WHEN OTHERS THEN NULL; -- of a pseudo-type
		END;
	END LOOP;
	-- The same for two that take any number of values of any type.
	CREATE FUNCTION traps.concat_ws(text, text, text, text) RETURNS text LANGUAGE sql AS 'SELECT $1';
	CREATE FUNCTION traps.concat(text, bigint, text, bigint, text, bigint, text) RETURNS text LANGUAGE sql AS 'SELECT $1';
	FOR x IN SELECT o.oid, o.oprname AS name, nullif(o.oprleft, 0)::regtype::text AS lhs, o.oprright::regtype::text AS rhs, o.oprresult::regtype::text AS gives
			FROM pg_operator AS o LOOP
		BEGIN
			EXECUTE format('CREATE FUNCTION traps.trap_%s(%s) RETURNS %s LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION $$trap$$; END''',
				x.oid, concat_ws(', ', x.lhs, x.rhs), x.gives);
			EXECUTE format('CREATE OPERATOR traps.%s (FUNCTION = traps.trap_%s, %s RIGHTARG = %s)',
				x.name, x.oid, 'LEFTARG = ' || x.lhs || ',', x.rhs);
		EXCEPTION WHEN OTHERS THEN NULL;
		END;
	END LOOP;
	FOR x IN SELECT c.relname AS name FROM pg_class AS c WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.relkind IN ('r', 'v')
			UNION SELECT t.typname FROM pg_type AS t WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype IN ('b', 'd') AND t.typname NOT LIKE '\_%' LOOP
		EXECUTE format('CREATE TYPE traps.%I AS (trap integer)', x.name);
	END LOOP;
	EXECUTE 'REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA traps FROM PUBLIC';
END $do$`
	conn, err := pgx.Connect(context.Background(), shared().DSN())
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	if _, err = conn.Exec(context.Background(), sql); err != nil {
		return err
	}
	var functions, operators int
	err = conn.QueryRow(context.Background(), `SELECT (SELECT count(*) FROM pg_proc WHERE pronamespace = 'traps'::regnamespace),
		(SELECT count(*) FROM pg_operator WHERE oprnamespace = 'traps'::regnamespace)`).Scan(&functions, &operators)
	if err == nil && (functions < 3000 || operators < 700) {
		err = fmt.Errorf("%d functions and %d operators", functions, operators)
	}
	return err
})

// trapped makes a node's schema, and returns a URL of it for a user in whose path the schema traps
// is in front.
func trapped(t *testing.T) (own, theirs string) {
	t.Helper()
	if err := traps(); err != nil {
		t.Fatal(err)
	}
	own = newSchema(t, shared())
	exec1(t, open(t, own), fmt.Sprintf(grants, "trapped"))
	return own, asRole(own, "trapped")
}

// No statement mentions a trap, in whatever part of it: the server notices that when it begins a
// plan.
// It is noticed of each name that is not said to be of pg_catalog.
func TestStatementsAmongTraps(t *testing.T) {
	t.Parallel()
	own, theirs := trapped(t)
	conn, err := pgx.ConnectConfig(t.Context(), open(t, theirs).own)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tell := func(text string) error { return conn.PgConn().Exec(t.Context(), text).Close() }
	if err := tell(`SET plan_cache_mode = force_generic_plan`); err != nil {
		t.Fatal(err)
	}
	begun := func(name, text string) error {
		nulls := ""
		for i := 1; strings.Contains(text, fmt.Sprint("$", i)); i++ {
			nulls += ", NULL"
		}
		if nulls != "" {
			nulls = "(" + nulls[2:] + ")"
		}
		return errors.Join(tell(`PREPARE `+name+` AS `+text), tell(`EXPLAIN EXECUTE `+name+nulls))
	}
	mentions := 0
	all := reflect.ValueOf(open(t, own).sql)
	for i := range all.NumField() {
		text := all.Field(i).String()
		if err := begun(fmt.Sprint("whole", i), text); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		for j, at := range regexp.MustCompile(`OPERATOR\(pg_catalog\..+?\)|pg_catalog\.`).FindAllStringIndex(text, -1) {
			name := strings.TrimSuffix(strings.TrimPrefix(text[at[0]:at[1]], "OPERATOR(pg_catalog."), ")")
			less := text[:at[0]] + strings.TrimPrefix(name, "pg_catalog.") + text[at[1]:]
			if err := begun(fmt.Sprint("less", i, "_", j), less); err == nil {
				t.Errorf("the test does not notice what a statement lacks: %s", less)
			}
			mentions++
		}
	}
	if mentions < 100 {
		t.Errorf("%d names in the statements", mentions)
	}
	if p, err := ask(t.Context(), conn.PgConn()); err != nil || p == nil || p.system == "" || p.timeline == "" {
		t.Errorf("%+v, %v", p, err)
	}
}

// The suite passes where every name of pg_catalog is a trap (TestConformance). So does the rest,
// also where there are traps among the temporary tables and types of a session.
func TestAmongTraps(t *testing.T) {
	t.Parallel()
	own, theirs := trapped(t)
	temporary := func(ctx context.Context, conn *pgx.Conn) error {
		var all []string
		for _, name := range strings.Fields("text bytea regclass int4 int8 oid bool name timestamptz numeric") {
			all = append(all, `CREATE TYPE pg_temp.`+name+` AS (trap pg_catalog.int4)`)
		}
		for _, name := range strings.Fields("pg_class pg_namespace pg_stat_replication pg_replication_slots pg_control_system") {
			all = append(all, `CREATE TEMP TABLE `+name+` (trap pg_catalog.int4)`)
		}
		_, err := conn.Exec(ctx, strings.Join(all, ";"))
		return err
	}
	user, _, _ := strings.Cut(theirs, "?")
	db := stdlib.OpenDB(*configured(t, user), stdlib.OptionAfterConnect(temporary))
	defer db.Close()
	_, port, _ := net.SplitHostPort(shared().Addr())
	for what, n := range map[string]*Node{
		"a URL":    alone(t, theirs+"&target_session_attrs=primary"),
		"hosts":    alone(t, between(theirs, "127.0.0.1:"+port, "localhost:"+port)),
		"sessions": on(t, db, open(t, own).schema),
	} {
		for _, whole := range []bool{false, true} {
			t.Run(fmt.Sprint(what, whole), func(t *testing.T) {
				n.unnamed.Store(whole)
				client := ids(1)[0]
				told := listen(t, n, client)
				for i := range 3 {
					name := fmt.Sprint(what, whole, i)
					r := request(name, 0)
					for range 2 {
						want(t, node.Granted)(n.Do(t.Context(), asAcquire(r)))
						want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
					}
					want(t, node.Granted)(n.Do(t.Context(), asAcquire(r)))
					want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
					want(t, node.Held)(n.Do(t.Context(), as(node.Acquire, asks(name, fmt.Sprint(client, ":", 1+i, ":läbel"), 1))))
					if first, all, err := n.Waiting(t.Context(), name, 1); err != nil || len(first) != 1 || all != 1 {
						t.Errorf("%v, %d, %v", first, all, err)
					}
					if l, err := n.Inspect(t.Context(), name); err != nil || !l.Leased || l.Out {
						t.Errorf("%+v, %v", l, err)
					}
					want(t, node.Granted)(n.Do(t.Context(), as(node.Release, r)))
					for told.next(t) == "" {
					}
				}
				seen := 0
				err := n.List(t.Context(), "", func(node.Lease) bool { seen++; return true })
				if err != nil {
					t.Error(err)
				}
				if r, err := n.Registers(t.Context()); err != nil || !r.Admitted || len(r.Tokens) == 0 {
					t.Errorf("%+v, %v", r, err)
				}
				if e, err := n.Examine(t.Context(), node.Look{}); err != nil || !e.Admitted || e.Clock.Store.IsZero() {
					t.Errorf("%+v, %v", e, err)
				}
				for part := 1; part <= 4; part++ {
					var again bool
					if err := n.query(t.Context(), n.sql.sweep, []any{part}, &again); err != nil {
						t.Error(err)
					}
				}
				if err := n.Migrate(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A schema that is made by a user with such a path is a good one.
func TestMigrateAmongTraps(t *testing.T) {
	t.Parallel()
	own, theirs := trapped(t)
	admin := open(t, own)
	exec1(t, admin, `DROP SCHEMA fenlock CASCADE`)
	exec1(t, admin, `CREATE SCHEMA fenlock AUTHORIZATION trapped`)
	if _, err := open(t, theirs).db.Exec(createSchema().ReplaceAllString(Schema(admin.schema), "")); err == nil ||
		!strings.Contains(err.Error(), "SET search_path") {
		t.Errorf("the statements are executed as they are: %v", err)
	}
	n := open(t, theirs)
	if err := n.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	join(t, n, maxTTL, true)
	var leads string
	if err := n.db.QueryRow(`SHOW search_path`).Scan(&leads); err != nil || !strings.HasPrefix(leads, "traps") {
		t.Errorf("the path of a session was changed: %s, %v", leads, err)
	}
	r := request("a", 0)
	want(t, node.Granted)(n.Do(t.Context(), asAcquire(r)))
	want(t, node.Held)(alone(t, own).Do(t.Context(), asAcquire(request("a", 0))))
}

// A pooler refuses options, and the error says so. It takes the other parameters, and may give a
// client the session of another one, with its path.
func TestParametersThroughPooler(t *testing.T) {
	server := shared()
	own, _ := trapped(t)
	_, parameters, _ := strings.Cut(own, "?")
	pooled, _, _ := strings.Cut(testserver.StartPgBouncer(t, server, 1).DSN(), "?")
	through := func(more string) string { return pooled + "?" + parameters + more }
	t.Setenv("PGTZ", "Asia/Tokyo")
	n := alone(t, through("&application_name=a%20b&connect_timeout=9&target_session_attrs=primary"))
	r := request("a", 0)
	want(t, node.Granted)(n.Do(t.Context(), asAcquire(r)))
	exec1(t, open(t, through("")), `SET search_path = traps, pg_temp, pg_catalog`)
	want(t, node.Granted)(n.Do(t.Context(), as(node.Extend, r)))
	want(t, node.Held)(n.Do(t.Context(), asAcquire(request("a", 0))))
	if l, err := n.Inspect(t.Context(), "a"); err != nil || !l.Leased {
		t.Errorf("%+v, %v", l, err)
	}
	var path string
	if err := n.query(t.Context(), `SHOW search_path`, nil, &path); err != nil || !strings.HasPrefix(path, "traps") {
		t.Errorf("the test shows nothing: %s, %v", path, err)
	}
	refused := func(what string, n *Node) {
		_, err := n.Do(t.Context(), asAcquire(request("b", 0)))
		if !errors.Is(err, node.ErrMisconfigured) || !errors.Is(err, node.ErrNotSent) ||
			!strings.Contains(err.Error(), "pgbouncer takes no such parameter") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("of the URL", alone(t, through("&options=-c%20jit=off")))
	t.Setenv("PGOPTIONS", "-c jit=off")
	refused("of the environment", alone(t, through("")))
}
