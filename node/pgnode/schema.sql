-- What fenlock needs in a PostgreSQL database (15 or newer). All of it is in one schema.
--
-- Two tables are logged, so that they survive a crash of the server and reach its
-- replicas; the others are not, so that a lock costs no wait for the disk. A server that
-- crashed, or a replica that was promoted, finds those empty: it has no row in
-- fenlock.memory then, and grants nothing before the leases that it forgot have ended.
-- Whether the database may vote is for package node/admit to say; note and mark are its steps.

-- The types, functions and operators below have to be those of pg_catalog.
DO $$ BEGIN
	IF (pg_catalog.current_schemas(true))[1] OPERATOR(pg_catalog.<>) 'pg_catalog' THEN
		RAISE EXCEPTION 'fenlock: another schema is in front of pg_catalog: SET search_path = pg_catalog, pg_temp before';
	END IF;
END $$;

CREATE SCHEMA fenlock;
COMMENT ON SCHEMA fenlock IS 'fenlock: distributed locks; format 4';

-- The format of the schema, the terms of the group, and which database was admitted last ("home").
CREATE TABLE fenlock.meta (key text PRIMARY KEY, value text NOT NULL);
INSERT INTO fenlock.meta VALUES ('format', '4');

-- The registers, written ahead: no number above "reserved" has been promised. A crash
-- makes it the register. Rows are never deleted.
CREATE TABLE fenlock.registers (stripe integer PRIMARY KEY, reserved bigint NOT NULL);

-- Which server this is, empty if the schema's owner must not know. All users get the same answer.
CREATE FUNCTION fenlock.server() RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF has_function_privilege('pg_control_system()'::text, 'execute'::text) THEN
		RETURN (SELECT s.system_identifier::text FROM pg_control_system() AS s);
	END IF;
	RETURN '';
END $$;

-- The same for a column that is computed where a row is written: it is immutable there.
CREATE FUNCTION fenlock.here() RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN fenlock.server(); END $$;

-- How often a replica of the cluster was promoted, empty where the server does not say. For people.
CREATE FUNCTION fenlock.timeline() RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RETURN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
EXCEPTION WHEN OTHERS THEN
	RETURN '';
END $$;

-- One row, if the database has its memory since the row was made: since when, in microseconds,
-- whether it votes, and under which terms. It is believed only if "made" is the transaction that
-- wrote it, "server" the server where it was written, and "home" the database where it is read. So a
-- row that came out of a dump is not, nor one in a copy of the database. Transactions of two young
-- servers may have one number. What is computed, "here", is not in a dump.
-- "fresh": the row came with the schema, so that nothing was ever admitted here.
CREATE UNLOGGED TABLE fenlock.memory (
	one      boolean PRIMARY KEY CHECK (one),
	id       text NOT NULL,
	since    bigint NOT NULL,
	fresh    boolean NOT NULL,
	admitted boolean NOT NULL,
	terms    text NOT NULL,
	empty    text NOT NULL,
	made     bigint NOT NULL,
	home     text NOT NULL,
	server   text NOT NULL,
	here     text GENERATED ALWAYS AS (fenlock.here()) STORED
);

-- Which database this is: its number, which no copy has, out of the path of a table, and its name,
-- which leads clients to it. Neither changes while a session lasts. So the function is called
-- immutable: a plan has its result as a constant, and no operation pays for it.
CREATE FUNCTION fenlock.home() RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT pg_catalog.concat(pg_catalog.split_part(pg_catalog.pg_relation_filepath('fenlock.memory'::pg_catalog.regclass), '/', -2), ' ', pg_catalog.current_database()) $$;

-- Which database and schema this is among those of all servers: one that is reached by two URLs has one vote.
CREATE FUNCTION fenlock.store(server text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT server OPERATOR(pg_catalog.||) (' ' OPERATOR(pg_catalog.||) pg_catalog.split_part(fenlock.home(), ' ', 1) OPERATOR(pg_catalog.||) ' ' OPERATOR(pg_catalog.||) 'fenlock.memory'::pg_catalog.regclass::pg_catalog.oid::pg_catalog.text) $$;

-- The mark of admission: one row if the database votes, with the terms under which it does. As to
-- its name, see serve.
CREATE VIEW fenlock.voting4 AS SELECT m.terms, fenlock.store(m.server) AS store FROM fenlock.memory AS m
	WHERE m.admitted AND m.xmin::text::bigint = m.made AND m.home = fenlock.home() AND m.server = m.here;

-- The stripes: a register as it is, at most "reserved", and the lease of one name of the stripe. A
-- missing row is as fenlock.registers has it.
--
-- Leases: expires in milliseconds of the server's clock. No holder: released. The holder
-- "shared:" stands for those in fenlock.readers. Such a lease ends with the last of them, and
-- its origin is the number that was promised to one of them last, 0 if none was.
-- "quiet": the name has no row in fenlock.queues, and none in fenlock.readers that counts. A name
-- without a lease has none either. So all that the usual operation depends on is in this row, which
-- an UPDATE reads anew where another transaction has just written it.
-- "others": fenlock.leases may have other names of the stripe. Without it, a name that is not here
-- has no lease, and takes the place of one that is quiet and free.
CREATE UNLOGGED TABLE fenlock.current (
	stripe   integer PRIMARY KEY,
	register bigint NOT NULL,
	reserved bigint NOT NULL,
	name     bytea,
	holder   bytea,
	expires  bigint NOT NULL DEFAULT 0,
	origin   bigint NOT NULL DEFAULT 0,
	token    bigint NOT NULL DEFAULT 0,
	quiet    boolean NOT NULL DEFAULT true,
	others   boolean NOT NULL DEFAULT false
) WITH (fillfactor = 30);

-- The leases of names that came while the row of their stripe had another one. A name has one lease,
-- here or there. Only fenlock.serve writes it, while it holds the row of the stripe.
CREATE UNLOGGED TABLE fenlock.leases (
	name    bytea PRIMARY KEY,
	stripe  integer NOT NULL,
	holder  bytea,
	expires bigint NOT NULL,
	origin  bigint NOT NULL,
	token   bigint NOT NULL,
	quiet   boolean NOT NULL
) WITH (fillfactor = 30);
CREATE INDEX ON fenlock.leases (stripe);

-- All leases, for people.
CREATE VIEW fenlock.held AS SELECT l.name, l.holder, l.expires, l.origin, l.token FROM fenlock.leases AS l
	UNION ALL SELECT c.name, c.holder, c.expires, c.origin, c.token FROM fenlock.current AS c WHERE c.name IS NOT NULL;

-- The holders that share a name, and reservations ("next:" and the waiter) to share it.
-- They mean nothing unless the name's lease is "shared:".
CREATE UNLOGGED TABLE fenlock.readers (
	name    bytea NOT NULL,
	holder  bytea NOT NULL,
	expires bigint NOT NULL,
	origin  bigint NOT NULL,
	token   bigint NOT NULL,
	PRIMARY KEY (name, holder)
) WITH (fillfactor = 50);

-- Waiter queues: one row for each name that has waiters, with its end in
-- milliseconds, and one for each waiter.
CREATE UNLOGGED TABLE fenlock.queues (name bytea PRIMARY KEY, expires bigint NOT NULL) WITH (fillfactor = 50);
CREATE UNLOGGED TABLE fenlock.waiters (
	name   bytea NOT NULL,
	stamp  bigint NOT NULL,
	waiter bytea NOT NULL,
	PRIMARY KEY (name, stamp, waiter),
	UNIQUE (name, waiter)
);

-- Clients that can be notified: the process that listens on a connection of its own (pid), or
-- one that asks again and again (seen, in milliseconds), and what it has not asked for yet.
CREATE UNLOGGED TABLE fenlock.listeners (client bytea PRIMARY KEY, pid integer, seen bigint NOT NULL);
CREATE UNLOGGED TABLE fenlock.notices (client bytea NOT NULL, waiter bytea NOT NULL, made bigint NOT NULL);
CREATE INDEX ON fenlock.notices (client);

-- When expired rows were removed last, in milliseconds.
CREATE UNLOGGED TABLE fenlock.sweeps (one boolean PRIMARY KEY CHECK (one), at bigint NOT NULL);

-- The server's clock in microseconds.
CREATE FUNCTION fenlock.clock() RETURNS bigint LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- The waiter that is first in the queue of a name, NULL if there is none.
CREATE FUNCTION fenlock.head(key bytea, now bigint) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT w.waiter FROM fenlock.waiters AS w WHERE w.name = key
		AND EXISTS (SELECT FROM fenlock.queues AS q WHERE q.name = key AND q.expires > now) ORDER BY w.stamp, w.waiter LIMIT 1);
END $$;

-- Puts a waiter into the queue, unless there is none, it is queued, or the queue is full. Returns how
-- many are before it, and all of them if it is not in the queue. Without a row in fenlock.queues, none waits.
CREATE FUNCTION fenlock.enqueue(key bytea, who bytea, at bigint, now bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
	queue record;
	ahead integer := 0;
	many  integer := 0;
BEGIN
	SELECT q.expires, w.stamp INTO queue FROM fenlock.queues AS q LEFT JOIN fenlock.waiters AS w ON w.name = key AND w.waiter = who WHERE q.name = key;
	IF queue.expires > now THEN
		SELECT count(*) FILTER (WHERE (w.stamp, w.waiter) < (coalesce(queue.stamp, at), who)), count(*) INTO ahead, many
			FROM fenlock.waiters AS w WHERE w.name = key;
	END IF;
	IF who = '' THEN
		RETURN many;
	END IF;
	-- Renewed a second early at the latest, so that not each question is written. The row of
	-- the queue is written before its waiters', as in sweep.
	IF queue.expires IS NULL OR queue.expires < now + 14000 THEN
		INSERT INTO fenlock.queues VALUES (key, now + 15000) ON CONFLICT (name) DO UPDATE SET expires = excluded.expires;
	END IF;
	IF queue.expires <= now THEN -- waiters left of an old queue have not asked for long
		DELETE FROM fenlock.waiters AS w WHERE w.name = key;
	ELSIF queue.stamp IS NOT NULL THEN
		RETURN ahead;
	ELSIF many >= 10000 THEN
		RETURN many;
	END IF;
	-- An operation whose commit took longer than its queue lasted has left a waiter without a queue.
	INSERT INTO fenlock.waiters VALUES (key, at, who) ON CONFLICT (name, waiter) DO UPDATE SET stamp = excluded.stamp;
	RETURN ahead;
END $$;

CREATE FUNCTION fenlock.dequeue(key bytea, who bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM fenlock.waiters AS w WHERE w.name = key AND w.waiter = who;
	IF FOUND THEN
		DELETE FROM fenlock.queues AS q WHERE q.name = key AND NOT EXISTS (SELECT FROM fenlock.waiters AS w WHERE w.name = key);
	END IF;
END $$;

-- The key of the lock that a process has while it listens: see listen.
CREATE FUNCTION fenlock.listening() RETURNS integer LANGUAGE sql IMMUTABLE AS
$$ SELECT 'fenlock.listeners'::pg_catalog.regclass::pg_catalog.oid::integer $$;

-- How a waiter can be told something now: 1 by a notification, 2 when it asks, NULL if not at all. A
-- process that has ended holds its lock no longer. This decides nothing about safety: with a wrong
-- answer, a name is reserved for a second for a client that is gone, or a waiter asks by itself.
CREATE FUNCTION fenlock.reachable(who bytea, now bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE client record;
BEGIN
	SELECT l.pid, l.seen INTO client FROM fenlock.listeners AS l WHERE l.client = substr(who, 1, 32);
	RETURN CASE WHEN client.pid IS NULL THEN CASE WHEN client.seen > now - 3000 THEN 2 END
		WHEN NOT pg_try_advisory_xact_lock_shared(fenlock.listening(), client.pid) THEN 1 END;
END $$;

-- Package node's Given: begins the holder of a lease that is given to a waiter. What is used is
-- immutable as well, so that there is no call.
CREATE FUNCTION fenlock.gift(who bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT substr(who, 1, 32) || '#'::bytea || decode(substring(encode(substr(who, 34, 19), 'escape') FROM '^[0-9]+') || '#', 'escape')
$$;
CREATE FUNCTION fenlock.given(who bytea, number bigint) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
	SELECT fenlock.gift(who) || decode(number::text || ':', 'escape') || substr(who, length(fenlock.gift(who)) + 1)
$$;

-- Tells a waiter that the name is reserved for it, or given to it with a number: gift is empty, or what
-- follows in the text of package node's Notice, and via what reachable says. No waiter is told before
-- the commit.
CREATE FUNCTION fenlock.tell(who bytea, via integer, gift text, now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE wait text := split_part(encode(who, 'escape'), ':', 2);
BEGIN
	IF via = 1 THEN
		-- The client, then a colon and the number; never the label, which may be any text, and
		-- none in the encoding of this database.
		PERFORM pg_notify('fenlock_' || encode(substr(who, 1, 32), 'escape'), wait || gift);
	ELSE
		INSERT INTO fenlock.notices VALUES (substr(who, 1, 32), CASE WHEN gift = '' THEN who ELSE substr(who, 1, 33) || convert_to(wait || gift, 'UTF8') END, now);
	END IF;
END $$;

-- When the last shared lease of a name ends, NULL if there is none.
CREATE FUNCTION fenlock.last(key bytea) RETURNS bigint LANGUAGE sql AS $$
	SELECT max(x.expires) FROM fenlock.readers AS x WHERE x.name = key
$$;

-- Makes the lease of a name one that several share: no holder yet.
CREATE FUNCTION fenlock.share(key bytea, OUT owner bytea, OUT ends bigint, OUT epoch bigint) LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM fenlock.readers AS x WHERE x.name = key; -- holders left of an earlier one
	owner := 'shared:'::bytea;
	ends := 0;
	epoch := 0;
END $$;

-- The holders that share a name as one holder, for people: the first, and a line for each other
-- holder. A waiter that is to share it, and has not come yet, is not among them.
CREATE FUNCTION fenlock.sharers(key bytea, now bigint) RETURNS bytea LANGUAGE sql AS $$
	SELECT 'shared:0'::bytea || coalesce(string_agg(decode('0a302030203020', 'hex') || CASE WHEN s.n = 1 THEN s.holder ELSE ''::bytea END, ''::bytea ORDER BY s.n), ''::bytea)
		FROM (SELECT x.holder, row_number() OVER (ORDER BY x.holder) AS n FROM fenlock.readers AS x
			WHERE x.name = key AND x.expires > now AND substr(x.holder, 1, 5) <> 'next:'::bytea) AS s
$$;

-- Of how many slots a holder has one, NULL of none: package node's Holder.Slots.
CREATE FUNCTION fenlock.slots(holder bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT substring(encode(substr(holder, 33, 64), 'escape') FROM '^@[0-9]+/([1-9][0-9]{0,4}):')
$$;

-- Whether a holder may share a name with those that do: all have one of the same number of slots.
CREATE FUNCTION fenlock.agree(key bytea, who bytea) RETURNS boolean LANGUAGE sql AS $$
	SELECT NOT EXISTS (SELECT FROM fenlock.readers AS x WHERE x.name = key AND substr(x.holder, 1, 5) <> 'next:'::bytea
		AND fenlock.slots(x.holder) IS DISTINCT FROM fenlock.slots(who))
$$;

-- Takes the first reachable waiter out of the queue, reserves the name for it, and tells it; of
-- waiters that want to share it, all that come one after the other. It stops at self, which asks by
-- itself. The lease is what serve knows of it: epoch is the origin of one that is shared. With
-- "gives", a number that is proposed for it, a waiter for the name alone is given the name instead:
-- r is the register, and clock the server's in microseconds.
CREATE FUNCTION fenlock.next(key bytea, self bytea, now bigint, INOUT owner bytea, INOUT ends bigint, INOUT epoch bigint, gives bigint DEFAULT 0, clock bigint DEFAULT 0, INOUT r bigint DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE
	first bytea;
	reads boolean;
	many  integer := 0;
	via   integer;
BEGIN
	IF owner = 'shared:'::bytea THEN
		SELECT count(*) INTO many FROM fenlock.readers AS x WHERE x.name = key;
	ELSIF owner IS NOT NULL THEN
		RETURN;
	END IF;
	LOOP
		first := fenlock.head(key, now);
		IF first IS NULL OR first = self THEN
			RETURN;
		END IF;
		reads := substr(first, 34, 1) = '0'::bytea; -- after the client and a colon
		IF reads AND many >= 256 THEN
			RETURN;
		END IF;
		via := fenlock.reachable(first, now);
		IF via IS NOT NULL THEN
			IF NOT reads AND many > 0 THEN
				RETURN; -- it waits for those that share the name, and later clients wait for it
			END IF;
			PERFORM fenlock.dequeue(key, first);
			IF NOT reads THEN
				ends := now + 1000;
				IF gives > 0 THEN
					r := greatest(r + 1, gives);
					owner := fenlock.given(first, r);
					epoch := r;
					PERFORM fenlock.tell(first, via, ' ' || r || ' ' || clock, now);
				ELSE
					owner := 'next:'::bytea || first;
					PERFORM fenlock.tell(first, via, '', now);
				END IF;
				RETURN;
			END IF;
			PERFORM fenlock.tell(first, via, '', now);
			IF many = 0 THEN
				SELECT s.owner, s.ends, s.epoch INTO owner, ends, epoch FROM fenlock.share(key) AS s;
			END IF;
			INSERT INTO fenlock.readers VALUES (key, 'next:'::bytea || first, now + 1000, 0, 0)
				ON CONFLICT (name, holder) DO UPDATE SET expires = excluded.expires;
			ends := greatest(ends, now + 1000);
			many := many + 1;
		ELSE
			PERFORM fenlock.dequeue(key, first);
		END IF;
	END LOOP;
END $$;

-- Refuses a transaction whose statements do not see what was committed before each of them.
CREATE FUNCTION fenlock.committed() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION 'fenlock: the transaction is % and must be read committed: a lock that is decided upon by an old snapshot is held twice', current_setting('transaction_isolation')
			USING ERRCODE = 'FL001';
	END IF;
END $$;

-- serve carries out an operation on a name: package node/rule, line by line. The number of
-- the operation and that of the status are package node's. Times: ttl and remaining in
-- milliseconds, clock in microseconds. "mine" is what the client takes the group's terms to
-- be; a client with others gets no answer but "rejoining". "shares" is Request.Shared, "gives"
-- Request.Next, "given" Answer.Given. "store" is
-- the database and its schema as the statement facts names them, if it votes, else NULL. "quiet" is
-- whether the name is left so that the statements of schema.go can do without this function, the
-- usual operations, and "inside" whether its lease is in the row of the stripe, where they look. The function's name, and the view's, have the format in them: a program of
-- another format finds neither.
--
-- Whether the database votes is compared here, in the transaction that promises something. note
-- and mark wait for all that are under way, by their lock on fenlock.current. An operation has its
-- own lock on that table before it takes the snapshot by which it reads the mark.
--
-- The row of the stripe is locked first, and what else there is about the name is read after that,
-- by statements of their own: in READ COMMITTED each sees what was committed before it.
CREATE FUNCTION fenlock.serve4(op integer, key bytea, place integer, who bytea, ttl bigint, num bigint, own bigint, asker bytea, at bigint, mine text, shares boolean, gives bigint,
	OUT status integer, OUT register bigint, OUT heldby bytea, OUT remaining bigint, OUT ahead integer, OUT clock bigint, OUT store text, OUT quiet boolean, OUT given bigint, OUT inside boolean) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	votes   boolean;
	r       bigint;
	cap     bigint;
	now     bigint;
	queued  boolean := false; -- it has a queue, maybe one that has expired
	owner   bytea; -- of the lease, NULL: none
	ends    bigint := 0;
	born    bigint := 0; -- its origin, or the epoch of those that share it
	told    bigint := 0; -- the token that the owner has told
	slot    record; -- the row of the stripe, as it was
	was     record; -- the lease, as it was: slot, or a row of fenlock.leases
	outside boolean := false; -- the latter
	shared  boolean := false; -- it was shared
	kept    boolean; -- there is something to store
	changed boolean; -- it differs from what is stored
	crowd   boolean; -- the row of the stripe must say that there are others
	freed   boolean := false;
	mate    record; -- one of those that share the name
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		PERFORM fenlock.committed();
	END IF;
	register := 0;
	remaining := 0;
	ahead := 0;
	clock := 0;
	quiet := true;
	given := 0;
	inside := false;

	LOOP
		SELECT c.register, c.reserved, c.name, c.holder, c.expires, c.origin, c.token, c.quiet, c.others, v.store INTO slot
			FROM fenlock.current AS c LEFT JOIN fenlock.voting4 AS v ON v.terms = mine OR op = 5
			WHERE c.stripe = place FOR UPDATE OF c;
		EXIT WHEN FOUND;
		IF op <> 4 AND NOT EXISTS (SELECT FROM fenlock.voting4 AS v WHERE v.terms = mine OR op = 5) THEN
			status := 5;
			RETURN;
		ELSIF op = 4 AND asker = '' THEN
			status := 4;
			RETURN;
		END IF;
		INSERT INTO fenlock.current SELECT place, coalesce(max(g.reserved), 0), coalesce(max(g.reserved), 0)
			FROM fenlock.registers AS g WHERE g.stripe = place ON CONFLICT DO NOTHING;
	END LOOP;
	store := slot.store;
	votes := store IS NOT NULL;
	r := slot.register;
	cap := slot.reserved;
	inside := coalesce(slot.name = key, false);
	IF inside THEN
		was := slot;
	ELSIF slot.others THEN
		-- Locked, since a sweep may be removing it: what changes only its queue does not write it.
		SELECT l.holder, l.expires, l.origin, l.token, l.quiet INTO was FROM fenlock.leases AS l WHERE l.name = key FOR UPDATE;
		outside := FOUND;
	END IF;
	IF inside OR outside THEN
		owner := was.holder;
		ends := was.expires;
		born := was.origin;
		told := was.token;
		queued := NOT was.quiet AND EXISTS (SELECT FROM fenlock.queues AS q WHERE q.name = key);
		shared := coalesce(owner = 'shared:'::bytea, false);
	END IF;
	clock := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
	now := clock / 1000;
	IF ends <= now THEN
		owner := NULL;
	ELSIF owner = 'shared:'::bytea THEN
		DELETE FROM fenlock.readers AS x WHERE x.name = key AND x.expires <= now;
		IF NOT EXISTS (SELECT FROM fenlock.readers AS x WHERE x.name = key AND substr(x.holder, 1, 5) <> 'next:'::bytea) THEN
			born := 0; -- reservations keep no epoch: see package rule
			was.origin := 0;
		END IF;
	END IF;

	-- FIFO: giveWay and giveUp.
	IF op = 1 AND votes AND NOT shares THEN
		IF asker <> '' AND owner = 'next:'::bytea || asker THEN
			owner := NULL;
		ELSIF owner IS NULL AND queued AND fenlock.head(key, now) IS NOT NULL THEN
			PERFORM fenlock.enqueue(key, asker, at, now);
			SELECT n.owner, n.ends, n.epoch INTO owner, ends, born FROM fenlock.next(key, asker, now, owner, ends, born) AS n;
		END IF;
	END IF;

	IF op = 4 THEN
		status := 4;
		IF owner = 'shared:'::bytea THEN
			DELETE FROM fenlock.readers AS x WHERE x.name = key AND x.holder = who;
			IF FOUND THEN
				status := 1;
			END IF;
			IF asker <> '' THEN
				DELETE FROM fenlock.readers AS x WHERE x.name = key AND x.holder = 'next:'::bytea || asker;
			END IF;
			ends := fenlock.last(key);
			IF ends IS NULL THEN
				owner := NULL;
			END IF;
			freed := true; -- there is room for waiters that want to share it
		ELSIF owner = who THEN
			owner := NULL;
			status := 1;
			freed := true;
		END IF;
		IF asker <> '' THEN
			IF owner = 'next:'::bytea || asker
					OR at = 0 AND substr(owner, 1, length(fenlock.gift(asker))) = fenlock.gift(asker) AND who <> fenlock.given(asker, 0) THEN
				owner := NULL;
				freed := true;
			END IF;
			IF at = 0 THEN
				PERFORM fenlock.dequeue(key, asker);
			ELSE
				PERFORM fenlock.enqueue(key, asker, at, now);
			END IF;
		END IF;
		IF freed AND (queued OR asker <> '') THEN
			SELECT n.owner, n.ends, n.epoch, n.r INTO owner, ends, born, r
				FROM fenlock.next(key, asker, now, owner, ends, born, CASE WHEN votes THEN gives ELSE 0 END, clock, r) AS n;
			told := 0; -- if it has an owner, that is another one
		END IF;
	ELSIF NOT votes THEN
		status := 5;
	ELSIF op = 1 AND shares THEN
		-- freed is that it was called, and comes.
		IF owner = 'shared:'::bytea AND asker <> '' THEN
			DELETE FROM fenlock.readers AS x WHERE x.name = key AND x.holder = 'next:'::bytea || asker;
			freed := FOUND;
			IF freed THEN
				ends := fenlock.last(key);
				IF ends IS NULL THEN
					owner := NULL;
				END IF;
			END IF;
		END IF;
		IF NOT freed AND queued AND (owner IS NULL OR owner = 'shared:'::bytea) AND fenlock.head(key, now) IS NOT NULL THEN
			PERFORM fenlock.enqueue(key, asker, at, now);
			SELECT n.owner, n.ends, n.epoch INTO owner, ends, born FROM fenlock.next(key, asker, now, owner, ends, born) AS n;
		END IF;
		IF owner <> 'shared:'::bytea OR (NOT freed AND queued AND coalesce(fenlock.head(key, now), asker) <> asker) THEN
			status := 2;
		ELSIF owner IS NOT NULL THEN
			SELECT count(*) AS many, coalesce(bool_or(x.holder = who), false) AS again INTO mate FROM fenlock.readers AS x WHERE x.name = key;
			IF mate.many >= 256 OR mate.again OR NOT fenlock.agree(key, who) THEN
				status := 2;
			END IF;
		END IF;
		IF status = 2 THEN
			heldby := CASE WHEN owner = 'shared:'::bytea THEN fenlock.sharers(key, now) ELSE owner END;
			remaining := ends - now;
			ahead := fenlock.enqueue(key, asker, at, now);
		ELSE
			IF owner IS NULL THEN
				SELECT s.owner, s.ends, s.epoch INTO owner, ends, born FROM fenlock.share(key) AS s;
			END IF;
			IF born = 0 THEN
				r := greatest(r + 1, num);
				born := r;
			END IF;
			INSERT INTO fenlock.readers VALUES (key, who, now + ttl, born, 0);
			ends := greatest(ends, now + ttl);
			status := 1;
			register := born;
			IF queued THEN
				IF asker <> '' THEN
					PERFORM fenlock.dequeue(key, asker);
				END IF;
				SELECT n.owner, n.ends, n.epoch INTO owner, ends, born FROM fenlock.next(key, ''::bytea, now, owner, ends, born) AS n;
			END IF;
		END IF;
	ELSIF op = 1 THEN
		IF owner IS NOT NULL THEN
			status := 2;
			heldby := owner;
			IF owner = 'shared:'::bytea THEN
				heldby := fenlock.sharers(key, now);
			END IF;
			remaining := ends - now;
			IF asker <> '' AND owner = fenlock.given(asker, born) THEN
				given := born;
			END IF;
			ahead := fenlock.enqueue(key, asker, at, now);
		ELSE
			r := greatest(r + 1, num);
			owner := who;
			ends := now + ttl;
			born := r;
			told := 0;
			status := 1;
			register := r;
			IF asker <> '' AND queued THEN
				PERFORM fenlock.dequeue(key, asker);
			END IF;
		END IF;
	ELSIF op = 2 THEN
		IF owner = 'shared:'::bytea THEN
			PERFORM FROM fenlock.readers AS x WHERE x.name = key AND x.holder = who;
			IF NOT FOUND THEN
				status := 4;
			ELSIF r > num THEN
				status := 3;
				register := r;
			ELSE
				r := num;
				IF born <> 0 THEN
					-- It makes no epoch where there is none: it may be executed again, after its holder, which
					-- had the name alone, lets others share it.
					born := num;
				END IF;
				UPDATE fenlock.readers AS x SET token = num WHERE x.name = key AND x.holder = who;
				status := 1;
				register := num;
			END IF;
		ELSIF owner IS DISTINCT FROM who THEN
			status := 4;
		ELSIF r > num THEN
			status := 3;
			register := r;
		ELSE
			r := num;
			told := num;
			status := 1;
			register := num;
		END IF;
	ELSIF op = 3 AND shares THEN
		IF owner = 'shared:'::bytea THEN
			SELECT x.origin, x.token INTO mate FROM fenlock.readers AS x WHERE x.name = key AND x.holder = who;
			IF NOT FOUND THEN
				SELECT r AS origin, 0::bigint AS token INTO mate;
			END IF;
			IF NOT fenlock.agree(key, who) THEN
				status := 4;
			END IF;
		ELSIF owner IS NULL OR owner = who OR substr(owner, 1, 5) = 'next:'::bytea THEN
			IF owner = who THEN
				freed := true; -- waiters that want to share it can come
				SELECT born AS origin, told AS token INTO mate;
			ELSE
				SELECT r AS origin, 0::bigint AS token INTO mate;
			END IF;
			SELECT s.owner, s.ends, s.epoch INTO owner, ends, born FROM fenlock.share(key) AS s;
		ELSE
			status := 4;
		END IF;
		IF status IS NULL THEN
			INSERT INTO fenlock.readers VALUES (key, who, now + ttl, mate.origin, CASE WHEN own > 0 THEN own ELSE mate.token END)
				ON CONFLICT (name, holder) DO UPDATE SET expires = excluded.expires, token = excluded.token;
			ends := fenlock.last(key);
			r := greatest(r, num);
			IF num > born THEN
				born := 0; -- an acquire of before that comes late gets a number past the floor
			END IF;
			status := 1;
			register := mate.origin;
			IF freed AND queued THEN
				SELECT n.owner, n.ends, n.epoch INTO owner, ends, born FROM fenlock.next(key, ''::bytea, now, owner, ends, born) AS n;
			END IF;
		END IF;
	ELSIF op = 3 THEN
		IF owner = 'shared:'::bytea THEN
			PERFORM FROM fenlock.readers AS x WHERE x.name = key AND substr(x.holder, 1, 5) <> 'next:'::bytea;
			IF NOT FOUND THEN
				owner := NULL; -- reserved only for waiters that are to share it
			END IF;
		END IF;
		IF owner IS NULL OR (owner <> who AND substr(owner, 1, 5) = 'next:'::bytea) THEN
			owner := who;
			born := r;
			told := 0;
		END IF;
		IF owner <> who THEN
			status := 4;
		ELSE
			ends := now + ttl;
			r := greatest(r, num);
			IF own > 0 THEN
				told := own;
			END IF;
			status := 1;
			register := born;
		END IF;
	ELSIF op = 5 THEN
		owner := NULL;
		r := greatest(r + 1, num);
		status := 1;
		register := r;
		IF queued THEN
			SELECT n.owner, n.ends, n.epoch INTO owner, ends, born FROM fenlock.next(key, ''::bytea, now, owner, ends, born) AS n;
		END IF;
	ELSE
		RAISE EXCEPTION 'fenlock: there is no operation %', op USING ERRCODE = 'FL002';
	END IF;

	IF r > cap THEN
		-- On the disk, and on the replicas that the server waits for, before a client is answered.
		cap := least(r + 600000000, 9007199254740991);
		PERFORM fenlock.durable();
		INSERT INTO fenlock.registers VALUES (place, cap) ON CONFLICT (stripe) DO UPDATE SET reserved = greatest(excluded.reserved, fenlock.registers.reserved);
	END IF;
	IF owner = 'shared:'::bytea THEN
		told := 0; -- each has its own
		IF born <> 0 AND NOT EXISTS (SELECT FROM fenlock.readers AS x WHERE x.name = key AND substr(x.holder, 1, 5) <> 'next:'::bytea) THEN
			born := 0;
		END IF;
	ELSIF shared THEN
		DELETE FROM fenlock.readers AS x WHERE x.name = key;
	END IF;
	IF queued OR asker <> '' THEN
		queued := EXISTS (SELECT FROM fenlock.queues AS q WHERE q.name = key);
	END IF;
	quiet := NOT queued AND owner IS DISTINCT FROM 'shared:'::bytea;
	ends := coalesce(ends, 0);
	born := coalesce(born, 0);
	told := coalesce(told, 0);
	kept := NOT quiet OR owner IS NOT NULL;
	changed := kept;
	IF inside OR outside THEN
		changed := quiet <> was.quiet OR owner IS DISTINCT FROM was.holder
			OR owner IS NOT NULL AND (ends <> was.expires OR born <> was.origin OR told <> was.token);
	END IF;
	IF NOT inside AND kept AND slot.quiet AND (slot.holder IS NULL OR slot.expires <= now) THEN
		inside := true; -- it takes the place of another name
		changed := true;
	END IF;
	IF kept AND NOT inside THEN
		IF changed THEN
			INSERT INTO fenlock.leases AS l VALUES (key, place, owner, ends, born, told, quiet)
				ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires = excluded.expires, origin = excluded.origin, token = excluded.token, quiet = excluded.quiet;
		END IF;
		crowd := true;
	ELSE
		IF outside THEN -- it has ended, or has moved
			DELETE FROM fenlock.leases AS l WHERE l.name = key;
		END IF;
		crowd := slot.others AND EXISTS (SELECT FROM fenlock.leases AS l WHERE l.stripe = place);
	END IF;
	IF inside AND changed THEN
		UPDATE fenlock.current AS c SET register = r, reserved = cap, name = key, holder = owner, expires = ends, origin = born, token = told,
			quiet = serve4.quiet, others = crowd WHERE c.stripe = place;
	ELSIF r <> slot.register OR crowd <> slot.others THEN
		UPDATE fenlock.current AS c SET register = r, reserved = cap, others = crowd WHERE c.stripe = place;
	END IF;
END $$;

-- The id of the transaction, as xmin shows it.
CREATE FUNCTION fenlock.me() RETURNS bigint LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS
$$ SELECT pg_current_xact_id()::text::bigint & 4294967295 $$;

-- Has the transaction on the disk, and on the replicas that the server waits for, before its outcome
-- is told.
CREATE FUNCTION fenlock.durable() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF current_setting('synchronous_commit') IN ('off', 'local') THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
END $$;

-- Waits for all operations that are under way, so that what they promised is seen, and holds up
-- those that come until the transaction ends.
CREATE FUNCTION fenlock.quiesce() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM fenlock.committed();
	PERFORM FROM fenlock.meta AS m WHERE m.key = 'format' FOR UPDATE; -- one admission after the other
	LOCK TABLE fenlock.current IN EXCLUSIVE MODE;
END $$;

-- note removes the mark of admission, all leases and their queues, and notes that the database is out from now on, in
-- a memory of another name. It does nothing, and returns false, unless the row of memory is that
-- which the client has seen: its id and its xmin, or none ('').
CREATE FUNCTION fenlock.note(seen text, version bigint, fresh text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE found_id text;
BEGIN
	PERFORM fenlock.quiesce();
	SELECT m.id INTO found_id FROM fenlock.memory AS m WHERE seen = '' OR m.xmin::text::bigint = version;
	IF coalesce(found_id, '') <> seen THEN
		RETURN false;
	END IF;
	DELETE FROM fenlock.memory;
	DELETE FROM fenlock.current;
	DELETE FROM fenlock.leases;
	DELETE FROM fenlock.readers;
	DELETE FROM fenlock.queues;
	DELETE FROM fenlock.waiters;
	INSERT INTO fenlock.memory VALUES (true, fresh, fenlock.clock(), false, false, '', '', fenlock.me(), fenlock.home(), fenlock.server());
	RETURN true;
END $$;

-- raise makes the registers at least these. It does nothing, and returns false, unless the memory is that
-- which the client has seen: mark would admit that one, and the registers of another database would be
-- raised. Only a database that is out is raised to any effect: mark has them read anew.
CREATE FUNCTION fenlock.raise(seen text, stripes integer[], tokens bigint[]) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM fenlock.durable();
	PERFORM fenlock.quiesce();
	PERFORM FROM fenlock.memory AS m WHERE m.id = seen AND m.xmin::text::bigint = m.made AND m.home = fenlock.home() AND m.server = m.here;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	INSERT INTO fenlock.registers SELECT t.stripe, t.token FROM unnest(stripes, tokens) AS t (stripe, token)
		ON CONFLICT (stripe) DO UPDATE SET reserved = greatest(excluded.reserved, fenlock.registers.reserved);
	RETURN true;
END $$;

-- mark lets the database vote with this memory, and records "mine" as the group's terms if none are
-- recorded. It does nothing, and returns false, unless the memory and the terms are those that the client
-- has seen, and the database is out.
CREATE FUNCTION fenlock.mark(seen text, seen_terms text, mine text, found_empty text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE recorded text;
BEGIN
	PERFORM fenlock.durable(); -- that it was used must not be forgotten
	PERFORM fenlock.quiesce();
	SELECT m.value INTO recorded FROM fenlock.meta AS m WHERE m.key = 'terms';
	PERFORM FROM fenlock.memory AS m WHERE m.id = seen AND NOT m.admitted AND m.xmin::text::bigint = m.made AND m.home = fenlock.home() AND m.server = m.here;
	IF NOT FOUND OR coalesce(recorded, '') <> seen_terms THEN
		RETURN false;
	END IF;
	recorded := coalesce(recorded, mine);
	INSERT INTO fenlock.meta VALUES ('terms', recorded), ('home', fenlock.server() || ' ' || fenlock.timeline() || ' ' || fenlock.home())
		ON CONFLICT (key) DO UPDATE SET value = excluded.value;
	UPDATE fenlock.current AS c SET register = g.reserved, reserved = g.reserved FROM fenlock.registers AS g WHERE g.stripe = c.stripe;
	UPDATE fenlock.memory SET fresh = false, admitted = true, terms = recorded, empty = found_empty, made = fenlock.me();
	RETURN true;
END $$;

-- listen makes the waiters of a client reachable, by the connection that calls it or, with
-- poll, by asking. The lock ends with the connection, and shows that it lives. It is had before the
-- row, as sweep has them, and waits for no longer than an operation or a sweep that found no process.
CREATE FUNCTION fenlock.listen(who bytea, poll boolean) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF NOT poll THEN
		PERFORM pg_advisory_lock(fenlock.listening(), pg_backend_pid());
	END IF;
	INSERT INTO fenlock.listeners VALUES (who, CASE WHEN poll THEN NULL ELSE pg_backend_pid() END, fenlock.clock() / 1000)
		ON CONFLICT (client) DO UPDATE SET pid = excluded.pid, seen = excluded.seen;
END $$;

-- poll returns which of a client's waiters were notified since it last asked.
CREATE FUNCTION fenlock.poll(who bytea) RETURNS SETOF bytea LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE now bigint := fenlock.clock() / 1000;
BEGIN
	UPDATE fenlock.listeners AS l SET seen = now WHERE l.client = who AND l.seen < now - 1000;
	IF EXISTS (SELECT FROM fenlock.notices AS n WHERE n.client = who) THEN
		RETURN QUERY DELETE FROM fenlock.notices AS n WHERE n.client = who RETURNING n.waiter;
	END IF;
END $$;

CREATE FUNCTION fenlock.leave(who bytea) RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	DELETE FROM fenlock.listeners AS l WHERE l.client = who;
	DELETE FROM fenlock.notices AS n WHERE n.client = who;
$$;

-- sweep removes what has expired, in parts that are transactions of their own, and short, since
-- serve waits for a row that is being removed. The first part reports whether the last sweep is 50
-- seconds old: each client asks once a minute, and must not come a moment too soon. The others
-- report whether they removed as much as one transaction may: then the caller repeats them.
CREATE FUNCTION fenlock.sweep(part integer) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	now bigint := fenlock.clock() / 1000;
	names bytea[];
	stripes integer[];
	removed bigint;
	more boolean := false;
BEGIN
	IF part = 1 THEN
		INSERT INTO fenlock.sweeps VALUES (true, 0) ON CONFLICT DO NOTHING;
		PERFORM FROM fenlock.sweeps AS s WHERE abs(now - s.at) > 50000 FOR UPDATE SKIP LOCKED;
		IF NOT FOUND THEN
			RETURN false;
		END IF;
		UPDATE fenlock.sweeps SET at = now;
		RETURN true;
	ELSIF part = 2 THEN
		-- It waits for no transaction: serve may have the row of a waiter and want that of the queue.
		names := ARRAY(SELECT q.name FROM fenlock.queues AS q WHERE q.expires <= now LIMIT 1000 FOR UPDATE SKIP LOCKED);
		DELETE FROM fenlock.waiters WHERE ctid = ANY (ARRAY(SELECT w.ctid FROM fenlock.waiters AS w
			WHERE w.name = ANY (names) FOR UPDATE SKIP LOCKED));
		DELETE FROM fenlock.queues WHERE ctid = ANY (ARRAY(SELECT q.ctid FROM fenlock.queues AS q
			WHERE q.name = ANY (names) AND q.expires <= now AND NOT EXISTS (SELECT FROM fenlock.waiters AS w WHERE w.name = q.name) FOR UPDATE SKIP LOCKED));
		GET DIAGNOSTICS removed = ROW_COUNT;
		more := removed > 0 AND cardinality(names) = 1000; -- those that serve has stay, and are not waited for
	ELSIF part = 3 THEN
		-- note has this table first, and wants the rows of the other one.
		LOCK TABLE fenlock.current IN ROW SHARE MODE;
		-- A row stays as long as there is a queue, which is looked for once more when the row is locked.
		names := ARRAY(SELECT l.name FROM fenlock.leases AS l WHERE (l.expires <= now OR l.holder IS NULL)
			AND NOT EXISTS (SELECT FROM fenlock.queues AS q WHERE q.name = l.name) LIMIT 10000 FOR UPDATE OF l SKIP LOCKED);
		DELETE FROM fenlock.leases AS l WHERE l.name = ANY (names) AND NOT EXISTS (SELECT FROM fenlock.queues AS q WHERE q.name = l.name);
		GET DIAGNOSTICS removed = ROW_COUNT;
		more := removed = 10000;
		DELETE FROM fenlock.readers WHERE ctid = ANY (ARRAY(SELECT x.ctid FROM fenlock.readers AS x
			WHERE x.expires <= now LIMIT 10000 FOR UPDATE SKIP LOCKED));
		GET DIAGNOSTICS removed = ROW_COUNT;
		more := more OR removed = 10000;
		stripes := ARRAY(SELECT c.stripe FROM fenlock.current AS c WHERE NOT c.quiet AND (c.expires <= now OR c.holder IS NULL) FOR UPDATE SKIP LOCKED);
		UPDATE fenlock.current AS c SET name = NULL, holder = NULL, quiet = true
			WHERE c.stripe = ANY (stripes) AND NOT EXISTS (SELECT FROM fenlock.queues AS q WHERE q.name = c.name);
	ELSE
		-- Each process that has ended is a lock, of which the server has room for some thousands.
		DELETE FROM fenlock.listeners WHERE ctid = ANY (ARRAY(SELECT l.ctid FROM fenlock.listeners AS l
			WHERE l.seen < now - 60000 AND (l.pid IS NULL OR pg_try_advisory_xact_lock_shared(fenlock.listening(), l.pid))
			LIMIT 1000 FOR UPDATE SKIP LOCKED));
		GET DIAGNOSTICS removed = ROW_COUNT;
		more := removed = 1000;
		DELETE FROM fenlock.notices AS n WHERE n.made < now - 60000;
	END IF;
	RETURN more;
END $$;

-- No client has used it yet, and this database remembers that, and since when.
INSERT INTO fenlock.memory VALUES (true, gen_random_uuid()::text, fenlock.clock(), true, false, '', '', fenlock.me(), fenlock.home(), fenlock.server());
