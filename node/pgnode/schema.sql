-- What fenlock needs in a PostgreSQL database (15 or newer). All of it is in one schema.
--
-- Two tables are logged, so that they survive a crash of the server and reach its
-- replicas; the others are not, so that a lock costs no wait for the disk. A server that
-- crashed, or a replica that was promoted, finds those empty: it has no row in
-- fenlock.memory then, and grants nothing before the leases that it forgot have ended.

CREATE SCHEMA fenlock;
COMMENT ON SCHEMA fenlock IS 'fenlock: distributed locks; format 1';

-- What the group is, and whether it was ever used.
CREATE TABLE fenlock.meta (key text PRIMARY KEY, value text NOT NULL);
INSERT INTO fenlock.meta VALUES ('format', '1');

-- The registers, written ahead: no number above "reserved" has been promised. A crash
-- makes it the register. Rows are never deleted.
CREATE TABLE fenlock.registers (stripe integer PRIMARY KEY, reserved bigint NOT NULL);

-- Which server this is, empty if the user must not know.
CREATE FUNCTION fenlock.server() RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF has_function_privilege('pg_control_system()'::text, 'execute'::text) THEN
		RETURN (SELECT s.system_identifier::text FROM pg_control_system() AS s);
	END IF;
	RETURN '';
END $$;

-- The same for a column that is computed where a row is written: it is immutable there.
CREATE FUNCTION fenlock.here() RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN fenlock.server(); END $$;

-- One row, if the server has its memory since the row was made: who is counted since
-- when, in microseconds, and whether it votes. "made" is the transaction that wrote the
-- row, and "server" where: a row that came out of a dump has others. Transactions of two young
-- servers may have one number. What is computed, "here", is not in a dump.
CREATE UNLOGGED TABLE fenlock.memory (
	one      boolean PRIMARY KEY CHECK (one),
	id       text NOT NULL,
	since    bigint NOT NULL,
	admitted boolean NOT NULL,
	terms    text NOT NULL,
	empty    text NOT NULL,
	made     bigint NOT NULL,
	server   text NOT NULL,
	here     text GENERATED ALWAYS AS (fenlock.here()) STORED
);

-- The registers as they are, at most "reserved". A missing row is as fenlock.registers has it.
CREATE UNLOGGED TABLE fenlock.current (
	stripe   integer PRIMARY KEY,
	register bigint NOT NULL,
	reserved bigint NOT NULL
) WITH (fillfactor = 30);

-- Leases: expires in milliseconds of the server's clock. No holder: released. The holder
-- "shared:" stands for those in fenlock.readers. Such a lease ends with the last of them, and
-- its origin is the number that was promised to one of them last, 0 if none was.
CREATE UNLOGGED TABLE fenlock.leases (
	name    bytea PRIMARY KEY,
	holder  bytea,
	expires bigint NOT NULL,
	origin  bigint NOT NULL,
	token   bigint NOT NULL
) WITH (fillfactor = 30);

-- Those who share a name, and the reservations ("next:" and the waiter) of those who are to.
-- They mean nothing unless the name's lease is "shared:".
CREATE UNLOGGED TABLE fenlock.readers (
	name    bytea NOT NULL,
	holder  bytea NOT NULL,
	expires bigint NOT NULL,
	origin  bigint NOT NULL,
	token   bigint NOT NULL,
	PRIMARY KEY (name, holder)
) WITH (fillfactor = 50);

-- Waiter queues: one row for each name that somebody waits for, with its end in
-- milliseconds, and one for each waiter.
CREATE UNLOGGED TABLE fenlock.queues (name bytea PRIMARY KEY, expires bigint NOT NULL) WITH (fillfactor = 50);
CREATE UNLOGGED TABLE fenlock.waiters (
	name   bytea NOT NULL,
	stamp  bigint NOT NULL,
	waiter bytea NOT NULL,
	PRIMARY KEY (name, stamp, waiter),
	UNIQUE (name, waiter)
);

-- Who can be notified: the process that listens on a connection of its own (pid), or one
-- that asks again and again (seen, in milliseconds), and what it has not asked for yet.
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
DECLARE first bytea;
BEGIN
	PERFORM FROM fenlock.queues AS q WHERE q.name = key AND q.expires > now;
	IF FOUND THEN
		SELECT w.waiter INTO first FROM fenlock.waiters AS w WHERE w.name = key ORDER BY w.stamp, w.waiter LIMIT 1;
	END IF;
	RETURN first;
END $$;

-- How many are before a waiter, and all of them of one that is not in the queue.
CREATE FUNCTION fenlock.ahead(key bytea, who bytea, now bigint, OUT ahead integer, OUT inside boolean) LANGUAGE plpgsql AS $$
DECLARE at bigint;
BEGIN
	ahead := 0;
	inside := false;
	PERFORM FROM fenlock.queues AS q WHERE q.name = key AND q.expires > now;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	SELECT w.stamp INTO at FROM fenlock.waiters AS w WHERE w.name = key AND w.waiter = who;
	inside := FOUND;
	IF inside THEN
		SELECT count(*) INTO ahead FROM fenlock.waiters AS w WHERE w.name = key AND (w.stamp, w.waiter) < (at, who);
	ELSE
		SELECT count(*) INTO ahead FROM fenlock.waiters AS w WHERE w.name = key;
	END IF;
END $$;

-- Puts a waiter into the queue, unless it is nobody, is in it, or the queue is full.
CREATE FUNCTION fenlock.enqueue(key bytea, who bytea, at bigint, now bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
	place record;
	alive bigint;
BEGIN
	SELECT * INTO place FROM fenlock.ahead(key, who, now);
	IF who = '' THEN
		RETURN place.ahead;
	END IF;
	SELECT q.expires INTO alive FROM fenlock.queues AS q WHERE q.name = key;
	-- Renewed a second early at the latest, so that not each question is written. The row of
	-- the queue is written before its waiters', as in sweep.
	IF alive IS NULL OR alive < now + 14000 THEN
		INSERT INTO fenlock.queues VALUES (key, now + 15000) ON CONFLICT (name) DO UPDATE SET expires = excluded.expires;
	END IF;
	IF NOT place.inside AND place.ahead < 10000 THEN
		IF alive IS NULL OR alive <= now THEN -- who is left of an old one has not asked for long
			DELETE FROM fenlock.waiters AS w WHERE w.name = key;
		END IF;
		INSERT INTO fenlock.waiters VALUES (key, at, who);
		SELECT count(*) INTO place.ahead FROM fenlock.waiters AS w WHERE w.name = key AND (w.stamp, w.waiter) < (at, who);
	END IF;
	RETURN place.ahead;
END $$;

CREATE FUNCTION fenlock.dequeue(key bytea, who bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM fenlock.waiters AS w WHERE w.name = key AND w.waiter = who;
	IF FOUND THEN
		DELETE FROM fenlock.queues AS q WHERE q.name = key AND NOT EXISTS (SELECT FROM fenlock.waiters AS w WHERE w.name = key);
	END IF;
END $$;

-- Whether a waiter can be told something now.
CREATE FUNCTION fenlock.reachable(who bytea, now bigint) RETURNS boolean LANGUAGE sql AS $$
	SELECT EXISTS (
		SELECT FROM fenlock.listeners AS l WHERE l.client = substr(who, 1, 32) AND
			CASE WHEN l.pid IS NULL THEN l.seen > now - 3000 ELSE EXISTS (SELECT FROM pg_stat_get_activity(l.pid)) END)
$$;

-- Tells a waiter that the name is reserved for it. Nobody is told before the commit.
CREATE FUNCTION fenlock.tell(who bytea, now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM FROM fenlock.listeners AS l WHERE l.client = substr(who, 1, 32) AND l.pid IS NOT NULL;
	IF FOUND THEN
		-- The client, then a colon and the number; never the label, which may be any text, and
		-- none in the encoding of this database.
		PERFORM pg_notify('fenlock_' || encode(substr(who, 1, 32), 'escape'), split_part(encode(who, 'escape'), ':', 2));
	ELSE
		INSERT INTO fenlock.notices VALUES (substr(who, 1, 32), who, now);
	END IF;
END $$;

-- When the last of those who share a name ends, NULL if there is none.
CREATE FUNCTION fenlock.last(key bytea) RETURNS bigint LANGUAGE sql AS $$
	SELECT max(x.expires) FROM fenlock.readers AS x WHERE x.name = key
$$;

-- Makes the lease of a name one that several share: nobody yet.
CREATE FUNCTION fenlock.share(key bytea, OUT owner bytea, OUT ends bigint, OUT epoch bigint) LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM fenlock.readers AS x WHERE x.name = key; -- who is left of an earlier one
	owner := 'shared:'::bytea;
	ends := 0;
	epoch := 0;
END $$;

-- Those who share a name as one holder, for people: the first of them, and a line for each other
-- one. Who is to share it, and has not come yet, is not among them.
CREATE FUNCTION fenlock.sharers(key bytea, now bigint) RETURNS bytea LANGUAGE sql AS $$
	SELECT 'shared:0'::bytea || coalesce(string_agg(decode('0a302030203020', 'hex') || CASE WHEN s.n = 1 THEN s.holder ELSE ''::bytea END, ''::bytea ORDER BY s.n), ''::bytea)
		FROM (SELECT x.holder, row_number() OVER (ORDER BY x.holder) AS n FROM fenlock.readers AS x
			WHERE x.name = key AND x.expires > now AND substr(x.holder, 1, 5) <> 'next:'::bytea) AS s
$$;

-- Of how many slots a holder has one, NULL of none: package node's Holder.Slots.
CREATE FUNCTION fenlock.slots(holder bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $$
	SELECT substring(encode(substr(holder, 33, 64), 'escape') FROM '^@[0-9]+/([1-9][0-9]{0,4}):')
$$;

-- Whether a holder may share a name with those who do: all have one of the same number of slots.
CREATE FUNCTION fenlock.agree(key bytea, who bytea) RETURNS boolean LANGUAGE sql AS $$
	SELECT NOT EXISTS (SELECT FROM fenlock.readers AS x WHERE x.name = key AND substr(x.holder, 1, 5) <> 'next:'::bytea
		AND fenlock.slots(x.holder) IS DISTINCT FROM fenlock.slots(who))
$$;

-- Takes the first who can be told out of the queue, reserves the name for that one, and tells it;
-- of those who want to share it, all that come one after the other. It stops at self, who asks by
-- itself. The lease is what serve knows of it: epoch is the origin of one that is shared.
CREATE FUNCTION fenlock.next(key bytea, self bytea, now bigint, INOUT owner bytea, INOUT ends bigint, INOUT epoch bigint) LANGUAGE plpgsql AS $$
DECLARE
	first bytea;
	reads boolean;
	many  integer := 0;
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
		IF fenlock.reachable(first, now) THEN
			IF NOT reads AND many > 0 THEN
				RETURN; -- it has to wait for those who share the name, and who comes has to wait for it
			END IF;
			PERFORM fenlock.dequeue(key, first);
			PERFORM fenlock.tell(first, now);
			IF NOT reads THEN
				owner := 'next:'::bytea || first;
				ends := now + 1000;
				RETURN;
			END IF;
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

-- serve carries out an operation on a name: package node/rule, line by line. The number of
-- the operation and that of the status are package node's. Times: ttl and remaining in
-- milliseconds, clock in microseconds. "mine" is what the client takes the group's terms to
-- be; a client with others gets no answer but "rejoining". "shares" is Request.Shared.
--
-- The row of the stripe is locked first, and everything is read after that, by statements
-- of their own: in READ COMMITTED each sees what was committed before it.
CREATE FUNCTION fenlock.serve(op integer, key bytea, place integer, who bytea, ttl bigint, num bigint, own bigint, asker bytea, at bigint, mine text, shares boolean,
	OUT status integer, OUT register bigint, OUT heldby bytea, OUT remaining bigint, OUT ahead integer, OUT clock bigint) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	votes   boolean;
	r       bigint;
	cap     bigint;
	now     bigint;
	had     boolean;
	queued  boolean; -- it has a queue, maybe one that has expired
	owner   bytea; -- of the lease, NULL: nobody's
	ends    bigint;
	born    bigint; -- its origin, or the epoch of those who share it
	told    bigint; -- the token that the owner has told
	before  bytea;
	until   bigint;
	was     bigint;
	saw     bigint;
	since   bigint;
	freed   boolean := false;
	mate    record; -- one of those who share the name
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION 'fenlock: the transaction is % and must be read committed: a lock that is decided upon by an old snapshot is held twice', current_setting('transaction_isolation')
			USING ERRCODE = 'FL001';
	END IF;
	register := 0;
	remaining := 0;
	ahead := 0;
	clock := 0;

	SELECT m.admitted AND (m.terms = mine OR op = 5) AND m.xmin::text::bigint = m.made AND m.server = m.here, c.register, c.reserved INTO votes, r, cap
		FROM fenlock.current AS c LEFT JOIN fenlock.memory AS m ON true WHERE c.stripe = place FOR UPDATE OF c;
	IF NOT FOUND THEN
		INSERT INTO fenlock.current SELECT place, coalesce(max(g.reserved), 0), coalesce(max(g.reserved), 0)
			FROM fenlock.registers AS g WHERE g.stripe = place ON CONFLICT DO NOTHING;
		SELECT m.admitted AND (m.terms = mine OR op = 5) AND m.xmin::text::bigint = m.made AND m.server = m.here, c.register, c.reserved INTO STRICT votes, r, cap
			FROM fenlock.current AS c LEFT JOIN fenlock.memory AS m ON true WHERE c.stripe = place FOR UPDATE OF c;
	END IF;
	votes := votes IS TRUE;
	was := r;
	SELECT l.name IS NOT NULL, l.holder, l.expires, l.origin, l.token, q.name IS NOT NULL INTO had, owner, ends, born, told, queued
		FROM (VALUES (key)) AS k (name) LEFT JOIN fenlock.leases AS l ON l.name = k.name LEFT JOIN fenlock.queues AS q ON q.name = k.name;
	before := owner;
	until := ends;
	saw := told;
	since := born;
	clock := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
	now := clock / 1000;
	IF ends <= now THEN
		owner := NULL;
	ELSIF owner = 'shared:'::bytea THEN
		DELETE FROM fenlock.readers AS x WHERE x.name = key AND x.expires <= now;
	END IF;

	-- Who comes first goes first: giveWay and giveUp.
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
			freed := true; -- there is room for those who want to share it
		ELSIF owner = who THEN
			owner := NULL;
			status := 1;
			freed := true;
		END IF;
		IF asker <> '' THEN
			IF owner = 'next:'::bytea || asker THEN
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
			SELECT n.owner, n.ends, n.epoch INTO owner, ends, born FROM fenlock.next(key, asker, now, owner, ends, born) AS n;
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
				born := num;
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
				freed := true; -- those who want to share it can come
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
				owner := NULL; -- reserved for who is to share it, and for nobody else
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

	IF r <> was THEN
		IF r > cap THEN
			-- On the disk, and on the replicas that the server waits for, before anybody is answered.
			cap := least(r + 600000000, 9007199254740991);
			IF current_setting('synchronous_commit') IN ('off', 'local') THEN
				PERFORM set_config('synchronous_commit', 'on', true);
			END IF;
			INSERT INTO fenlock.registers VALUES (place, cap) ON CONFLICT (stripe) DO UPDATE SET reserved = greatest(excluded.reserved, fenlock.registers.reserved);
		END IF;
		UPDATE fenlock.current AS c SET register = r, reserved = cap WHERE c.stripe = place;
	END IF;
	IF owner IS DISTINCT FROM before OR (owner IS NOT NULL AND (ends <> until OR told <> saw OR born <> since)) THEN
		IF owner = 'shared:'::bytea THEN
			told := 0; -- each has its own
		END IF;
		IF had THEN
			UPDATE fenlock.leases AS l SET holder = owner, expires = coalesce(ends, 0), origin = coalesce(born, 0), token = coalesce(told, 0) WHERE l.name = key;
			had := FOUND; -- or it was swept meanwhile
		END IF;
		IF NOT had AND owner IS NOT NULL THEN
			INSERT INTO fenlock.leases VALUES (key, owner, ends, coalesce(born, 0), coalesce(told, 0));
		END IF;
		IF before = 'shared:'::bytea AND owner IS DISTINCT FROM before THEN
			DELETE FROM fenlock.readers AS x WHERE x.name = key;
		END IF;
	END IF;
END $$;

-- Who the transaction is, as xmin shows it.
CREATE FUNCTION fenlock.me() RETURNS bigint LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS
$$ SELECT pg_current_xact_id()::text::bigint & 4294967295 $$;

-- enter says what the server remembers, and makes the row of a memory that is new. "mine"
-- is recorded as the group's terms if there are none. A schema that was never used votes
-- at once if the client says that it may (trust). That nothing says that it was used is not
-- enough: so it is on a replica that was promoted too early, and in a backup from before the
-- first use. There has to be the row that the schema came with, in this server's memory.
CREATE FUNCTION fenlock.enter(mine text, trust boolean, fresh text,
	OUT recorded text, OUT id text, OUT admitted boolean, OUT waited bigint, OUT used boolean) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE untouched boolean;
BEGIN
	IF EXISTS (SELECT FROM pg_class AS c WHERE c.oid = 'fenlock.memory'::regclass AND c.relpersistence <> 'u'
			OR c.oid IN ('fenlock.meta'::regclass, 'fenlock.registers'::regclass) AND c.relpersistence <> 'p') THEN
		RAISE EXCEPTION 'fenlock: the table memory has to be unlogged, and meta and registers logged: after a crash it would not be known what was forgotten'
			USING ERRCODE = 'FL003';
	END IF;
	PERFORM set_config('synchronous_commit', 'on', true); -- that it was used must not be forgotten
	PERFORM FROM fenlock.meta AS m WHERE m.key = 'format' FOR UPDATE; -- one after the other
	SELECT m.value INTO recorded FROM fenlock.meta AS m WHERE m.key = 'terms';
	IF NOT FOUND THEN
		INSERT INTO fenlock.meta VALUES ('terms', mine);
		recorded := mine;
	ELSIF recorded <> mine THEN
		RETURN;
	END IF;
	used := EXISTS (SELECT FROM fenlock.meta AS m WHERE m.key = 'used');
	untouched := EXISTS (SELECT FROM fenlock.memory AS m WHERE m.id = '' AND m.xmin::text::bigint = m.made AND m.server = m.here);
	-- A wait that has not begun yet, because the clock was set back, is begun anew: it would last until then.
	DELETE FROM fenlock.memory AS m WHERE m.xmin::text::bigint <> m.made OR m.server <> m.here OR m.terms <> mine OR NOT m.admitted AND m.since > fenlock.clock();
	SELECT m.id, m.admitted, fenlock.clock() - m.since INTO id, admitted, waited FROM fenlock.memory AS m;
	IF FOUND THEN
		RETURN;
	END IF;
	id := fresh;
	admitted := trust AND untouched AND NOT used;
	waited := 0;
	IF admitted THEN
		INSERT INTO fenlock.meta VALUES ('used', 'yes');
	END IF;
	INSERT INTO fenlock.memory VALUES (true, id, fenlock.clock(), admitted, mine, '', fenlock.me(), fenlock.server());
END $$;

-- admit lets the server vote with this memory, with registers that are at least these.
CREATE FUNCTION fenlock.admit(of text, stripes integer[], tokens bigint[], found_empty text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM set_config('synchronous_commit', 'on', true);
	PERFORM FROM fenlock.meta AS m WHERE m.key = 'format' FOR UPDATE;
	LOCK TABLE fenlock.current IN EXCLUSIVE MODE; -- nothing is served meanwhile
	PERFORM FROM fenlock.memory AS m WHERE m.id = of AND NOT m.admitted AND m.xmin::text::bigint = m.made AND m.server = m.here;
	IF NOT FOUND THEN
		RETURN false; -- somebody else has done it, or it is lost again
	END IF;
	INSERT INTO fenlock.registers SELECT t.stripe, t.token FROM unnest(stripes, tokens) AS t (stripe, token)
		ON CONFLICT (stripe) DO UPDATE SET reserved = greatest(excluded.reserved, fenlock.registers.reserved);
	DELETE FROM fenlock.current; -- they begin where the others end
	INSERT INTO fenlock.meta VALUES ('used', 'yes') ON CONFLICT DO NOTHING;
	UPDATE fenlock.memory SET admitted = true, empty = found_empty, made = fenlock.me();
	RETURN true;
END $$;

-- listen makes the waiters of a client reachable, by the connection that calls it or, with
-- poll, by asking.
CREATE FUNCTION fenlock.listen(who bytea, poll boolean) RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	INSERT INTO fenlock.listeners VALUES (who, CASE WHEN poll THEN NULL ELSE pg_backend_pid() END, fenlock.clock() / 1000)
		ON CONFLICT (client) DO UPDATE SET pid = excluded.pid, seen = excluded.seen
$$;

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

-- sweep removes what has expired, in parts that are transactions of their own; the first
-- reports whether a minute has passed since somebody did it.
CREATE FUNCTION fenlock.sweep(part integer) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	now bigint := fenlock.clock() / 1000;
	names bytea[];
BEGIN
	IF part = 1 THEN
		INSERT INTO fenlock.sweeps VALUES (true, 0) ON CONFLICT DO NOTHING;
		PERFORM FROM fenlock.sweeps AS s WHERE abs(now - s.at) > 60000 FOR UPDATE SKIP LOCKED;
		IF NOT FOUND THEN
			RETURN false;
		END IF;
		UPDATE fenlock.sweeps SET at = now;
	ELSIF part = 2 THEN
		DELETE FROM fenlock.leases WHERE ctid = ANY (ARRAY(SELECT l.ctid FROM fenlock.leases AS l
			WHERE l.expires <= now OR l.holder IS NULL LIMIT 10000 FOR UPDATE SKIP LOCKED));
		DELETE FROM fenlock.readers WHERE ctid = ANY (ARRAY(SELECT x.ctid FROM fenlock.readers AS x
			WHERE x.expires <= now LIMIT 10000 FOR UPDATE SKIP LOCKED));
	ELSIF part = 3 THEN
		-- It waits for nobody: serve may have the row of a waiter and want that of the queue.
		names := ARRAY(SELECT q.name FROM fenlock.queues AS q WHERE q.expires <= now LIMIT 1000 FOR UPDATE SKIP LOCKED);
		DELETE FROM fenlock.waiters WHERE ctid = ANY (ARRAY(SELECT w.ctid FROM fenlock.waiters AS w
			WHERE w.name = ANY (names) FOR UPDATE SKIP LOCKED));
		DELETE FROM fenlock.queues WHERE ctid = ANY (ARRAY(SELECT q.ctid FROM fenlock.queues AS q
			WHERE q.expires <= now AND NOT EXISTS (SELECT FROM fenlock.waiters AS w WHERE w.name = q.name) FOR UPDATE SKIP LOCKED));
	ELSE
		DELETE FROM fenlock.listeners AS l WHERE l.seen < now - 60000 AND (l.pid IS NULL OR NOT EXISTS (SELECT FROM pg_stat_get_activity(l.pid)));
		DELETE FROM fenlock.notices AS n WHERE n.made < now - 60000;
	END IF;
	RETURN true;
END $$;

-- Nobody has used it yet, and this server remembers that.
INSERT INTO fenlock.memory VALUES (true, '', fenlock.clock(), false, '', '', fenlock.me(), fenlock.server());
