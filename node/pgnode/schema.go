package pgnode

import (
	_ "embed"
	"fmt"
	"strconv"

	"github.com/fenlock/fenlock/node"
)

//go:embed schema.sql
var schema string

// format is the version of the tables and functions that this program knows.
const format = "4"

// DefaultSchema is the schema where a URL or a call names none.
const DefaultSchema = "fenlock"

// Schema returns the statements that make what a node needs, in a schema; empty is
// DefaultSchema. They fail where it is there already.
func Schema(in string) string {
	if in == "" {
		in = DefaultSchema
	}
	return inSchema(schema, in)
}

// A statement names what it uses: "fenlock." is the schema, and {=} is the operator = of
// pg_catalog. So it means the same whatever is in front of pg_catalog in the search_path of its
// session. Otherwise a user that may create objects there could end leases by an operator or a
// clock of its own. To set the path instead takes a round trip, and does not last behind pgbouncer,
// which refuses it at the start of a connection. The functions of the schema set it for a call.
// That takes time, so the usual operations call none of these.
//
// Operators that are named have one precedence, so that parentheses say what is computed first. IN,
// BETWEEN, IS DISTINCT FROM, NULLIF, USING and LIKE look for an operator in the path.
var (
	qualified  = lazily(`\bfenlock\.`)
	schemaName = lazily(`\bSCHEMA fenlock\b`)
	operator   = lazily(`\{([-+*/<>=|]+)\}`)
)

func inSchema(text, name string) string {
	text = schemaName().ReplaceAllString(text, `SCHEMA "`+name+`"`)
	text = operator().ReplaceAllString(text, `OPERATOR(pg_catalog.$1)`)
	return qualified().ReplaceAllString(text, `"`+name+`".`)
}

// facts is what the database says of itself: a row, in one snapshot.
const facts = `SELECT fenlock.clock(), coalesce((SELECT t.value FROM fenlock.meta AS t WHERE t.key {=} 'format'), ''),
	NOT EXISTS (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid {=} 'fenlock.memory'::pg_catalog.regclass AND c.relpersistence {<>} 'u'
		OR c.oid {=} ANY (ARRAY['fenlock.meta'::pg_catalog.regclass, 'fenlock.registers'::pg_catalog.regclass]) AND c.relpersistence {<>} 'p'),
	fenlock.store(CASE WHEN m.server {=} m.here THEN m.server ELSE fenlock.server() END),
	coalesce((SELECT t.value FROM fenlock.meta AS t WHERE t.key {=} 'terms'), ''), EXISTS (SELECT FROM fenlock.registers),
	EXISTS (SELECT FROM fenlock.meta AS t WHERE t.key {=} 'home' AND t.value {<>} pg_catalog.concat_ws(' ', fenlock.server(), fenlock.timeline(), fenlock.home())),
	coalesce(m.id, ''), coalesce(m.xmin::pg_catalog.text::bigint, 0),
	coalesce(m.xmin::pg_catalog.text::bigint {=} m.made AND m.home {=} fenlock.home() AND m.server {=} m.here, false) AS valid,
	coalesce(m.fresh, false), coalesce(m.admitted, false) AS admitted, coalesce(m.since, 0), coalesce(m.terms, ''), coalesce(m.empty, '')
	FROM (VALUES (true)) AS k (one) LEFT JOIN fenlock.memory AS m ON true`

// shownHolder is the holder of a lease l as package rule has it. Those who share it are lines,
// with their times in nanoseconds. (fenlock.sharers has the same for an answer, with one
// label.)
const shownHolder = `CASE WHEN l.holder {=} 'shared:'::pg_catalog.bytea THEN 'shared:0'::pg_catalog.bytea {||} coalesce((SELECT
			pg_catalog.string_agg(pg_catalog.convert_to(pg_catalog.concat(pg_catalog.chr(10), x.expires {*} 1000000, ' ', x.origin, ' ', x.token, ' '), 'UTF8') {||} x.holder,
				''::pg_catalog.bytea ORDER BY x.holder)
			FROM fenlock.readers AS x WHERE x.name {=} l.name AND x.expires {>} (fenlock.clock() {/} 1000)), ''::pg_catalog.bytea) ELSE l.holder END`

// The usual operations on a name that no client waits for and none shares: to take it, to extend
// its lease, to release it. Each is a statement instead of a call of fenlock.serve, which takes
// twice as long, and answers like it. If it returns no row, it has done nothing, and serve is
// called.
//
// A statement writes the row of the stripe, and depends on no other. So PostgreSQL looks at that
// row again after a wait for another transaction, and no deadlock is possible. The mark: see
// fenlock.serve.
const (
	// voting has the format in its name, as serve has: a schema of another format refuses the
	// statements, which know what these tables mean.
	voting       = `fenlock.voting` + format
	milliseconds = `((extract(epoch FROM pg_catalog.clock_timestamp()) {*} 1000000.0)::bigint {/} 1000)`
	committed    = `pg_catalog.current_setting('transaction_isolation') {=} 'read committed'`

	// free is of a stripe c: its lease has ended.
	free = `(c.holder IS NULL OR c.expires {<=} ` + milliseconds + `)`

	usualTake = `UPDATE fenlock.current AS c SET register = greatest(c.register {+} 1, $5), origin = greatest(c.register {+} 1, $5),
			name = $1, holder = $3, expires = ` + milliseconds + ` {+} $4, token = 0 FROM ` + voting + ` AS v
		WHERE c.stripe {=} $2 AND c.quiet AND ` + free + ` AND (c.name {=} $1 OR NOT c.others)
			AND greatest(c.register {+} 1, $5) {<=} c.reserved AND v.terms {=} $6 AND ` + committed + `
		RETURNING c.register, v.store`
	usualExtend = `UPDATE fenlock.current AS c SET expires = ` + milliseconds + ` {+} $4,
			token = CASE WHEN $7::bigint {>} 0 THEN $7 ELSE c.token END FROM ` + voting + ` AS v
		WHERE c.stripe {=} $2 AND c.name {=} $1 AND c.holder {=} $3 AND c.expires {>} ` + milliseconds + `
			AND c.register {>=} $5 AND v.terms {=} $6 AND ` + committed + `
		RETURNING c.origin, v.store`
	usualRelease = `UPDATE fenlock.current AS c SET holder = NULL
		WHERE c.stripe {=} $3 AND c.name {=} $1 AND c.quiet AND c.holder {=} $2 AND c.expires {>} ` + milliseconds + `
			AND ` + committed + ` AND '` + voting + `'::pg_catalog.regclass IS NOT NULL
		RETURNING 0::bigint, NULL`
)

// statements are what the node asks, for its schema.
type statements struct {
	take, extend, release                                                                 string
	serve, facts, note, raise, mark, registers, listen, poll, leave, sweep, clock         string
	inspect, page, registersOf, waiting, standbys, examined, has, found, formatOf, notify string
}

func statementsIn(name string) statements {
	in := func(text string) string { return inSchema(text, name) }
	return statements{
		take: in(usualTake), extend: in(usualExtend), release: in(usualRelease),
		serve: in(`SELECT * FROM fenlock.serve` + format + `($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`),
		facts: in(facts),
		note:  in(`SELECT fenlock.note($1, $2, $3)`),
		raise: in(`SELECT fenlock.raise($1, $2::pg_catalog.text::integer[], $3::pg_catalog.text::bigint[])`),
		mark:  in(`SELECT fenlock.mark($1, $2, $3, $4)`),
		registers: in(`SELECT f.*, coalesce(c.stripe, r.stripe, -1), CASE WHEN f.valid AND f.admitted THEN coalesce(c.register, r.reserved, 0) ELSE coalesce(r.reserved, c.register, 0) END
			FROM (` + facts + `) AS f LEFT JOIN (fenlock.current AS c FULL JOIN fenlock.registers AS r ON c.stripe {=} r.stripe) ON true`),
		listen: in(`SELECT fenlock.listen($1, $2)`),
		poll:   in(`SELECT * FROM fenlock.poll($1)`),
		leave:  in(`SELECT fenlock.leave($1)`),
		sweep:  in(`SELECT fenlock.sweep($1)`),
		clock:  in(`SELECT fenlock.clock()`),
		inspect: in(`SELECT fenlock.clock(), ` + shownHolder + `, coalesce(l.expires, 0), coalesce(l.origin, 0), coalesce(l.token, 0),
			coalesce((SELECT c.register FROM fenlock.current AS c WHERE c.stripe {=} $2), (SELECT r.reserved FROM fenlock.registers AS r WHERE r.stripe {=} $2), 0),
			coalesce((SELECT m.value FROM fenlock.meta AS m WHERE m.key {=} 'terms'), ''),
			EXISTS (SELECT FROM ` + voting + `)
			FROM (VALUES ($1::pg_catalog.bytea)) AS k (name) LEFT JOIN fenlock.held AS l ON l.name {=} k.name`),
		page: in(`SELECT l.name, ` + shownHolder + `, l.expires, l.origin, l.token, fenlock.clock()
			FROM fenlock.held AS l WHERE l.name {>=} $1 AND l.name {>} $2 AND pg_catalog.substr(l.name, 1, pg_catalog.length($1::pg_catalog.bytea)) {=} $1
				AND l.holder IS NOT NULL AND l.expires {>} (fenlock.clock() {/} 1000) ORDER BY l.name LIMIT $3`),
		registersOf: in(`SELECT c.stripe, c.register FROM fenlock.current AS c WHERE c.stripe {=} ANY ($1::pg_catalog.text::integer[])`),
		waiting: in(`SELECT fenlock.clock(), w.stamp, w.waiter, pg_catalog.count(*) OVER () FROM fenlock.waiters AS w
			WHERE w.name {=} $1 AND EXISTS (SELECT FROM fenlock.queues AS q WHERE q.name {=} $1 AND q.expires {>} (fenlock.clock() {/} 1000))
			ORDER BY w.stamp, w.waiter LIMIT $2`),
		found:    in(`SELECT pg_catalog.count(*) FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid {=} c.relnamespace WHERE n.nspname {=} $1`),
		has:      in(`SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace AS n WHERE n.nspname {=} $1)`),
		formatOf: in(`SELECT m.value FROM fenlock.meta AS m WHERE m.key {=} 'format'`),
		examined: in(`SELECT pg_catalog.version(), pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('fsync'), pg_catalog.current_setting('full_page_writes'),
			pg_catalog.current_setting('transaction_isolation'), extract(epoch FROM pg_catalog.clock_timestamp() {-} pg_catalog.pg_postmaster_start_time())::bigint,
			(SELECT pg_catalog.count(*) FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid {=} c.relnamespace
				WHERE n.nspname {=} $1 AND c.relkind {=} 'r' AND (c.relpersistence {=} 'u') {<>} (c.relname {<>} ALL (ARRAY['meta', 'registers'])))`),
		// Those who follow the server, without copies under way and subscriptions, those who did,
		// and for whom it waits.
		standbys: in(`SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_replication AS r WHERE coalesce(r.state {<>} 'backup', true) AND NOT EXISTS (
				SELECT FROM pg_catalog.pg_replication_slots AS s WHERE s.active_pid {=} r.pid AND s.slot_type {=} 'logical')),
			(SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots AS s WHERE s.slot_type {=} 'physical' AND NOT s.active),
			pg_catalog.current_setting('synchronous_standby_names')`),
		notify: `SELECT pg_catalog.pg_notify($1, $2)`,
	}
}

// formatError is about a schema that is of another format than this program's.
func formatError(schema, found string) error {
	const anew = "stop all clients, wait for the longest lease, DROP SCHEMA %q CASCADE, and run \"fenlock migrate\""
	what := "a newer fenlock made it: update this program"
	if found == "" {
		return fmt.Errorf("%w: the schema %q was restored without its rows: "+anew, node.ErrMisconfigured, schema, schema)
	}
	own, _ := strconv.Atoi(format)
	if number, err := strconv.Atoi(found); err == nil && number < own {
		what = fmt.Sprintf(anew, schema)
	}
	return fmt.Errorf("%w: the schema %q has the format %.20q, and this program knows %s: %s", node.ErrMisconfigured,
		schema, found, format, what)
}
