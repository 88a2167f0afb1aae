"""A distributed lock for Python, held by the fenlock command (docs/hold.md). It needs nothing but that command.

    import fenlock

    with fenlock.hold("orders/42") as lock:
        fenlock.guard(cursor, "orders/42", lock.token)   # in the transaction that writes
        lock.check()                                     # raises Lost; before each other write

Times are in seconds. A Lock is safe for use by several threads.
"""

import json
import subprocess
import threading
import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
_EXIT_HELD = 75
_PATIENCE = 10


class Error(Exception):
    """The lock was not taken, and str() says why. status is the exit status of the command."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


class Held(Error):
    """Another client has the lock, or had it until the wait ran out."""


class Lost(Error):
    """The lock is not held any more: another client may have it."""


class Stale(Error):
    """A later holder has written: this holder must not."""


class Lock:
    """A lock that is or was held. hold makes it."""

    def __init__(self, process):
        self._process = process
        self._deadline_ms = 0
        self._reason = None
        self._news = threading.Condition()
        self.name = self.token = self.slot = None
        threading.Thread(target=self._read, daemon=True).start()
        with self._news:
            while self.token is None and self._reason is None:
                self._news.wait()

    def _read(self):
        try:
            for line in self._process.stdout:
                try:
                    told = json.loads(line)
                except ValueError:  # cut off: the command was killed
                    return
                with self._news:
                    if told["event"] == "held":
                        self.name, self.token, self.slot = told["name"], told["token"], told.get("slot")
                    if told["event"] in ("held", "extended"):
                        self._deadline_ms = told["deadline_ms"]
                    else:
                        self._reason = told.get("reason", "it was released")
                    self._news.notify_all()
        finally:
            with self._news:
                self._reason = self._reason or "the fenlock command has ended"
                self._news.notify_all()

    def remaining(self):
        """How long the lock is held even if the command is killed now. 0: it is not held."""
        with self._news:
            left = self._deadline_ms / 1e3 - time.clock_gettime(_CLOCK)
            return 0.0 if self._reason else max(0.0, left)

    def check(self):
        """Raises Lost unless the lock is held at this moment."""
        if self.remaining() == 0:
            raise Lost(f"the lock on {self.name!r} is lost: {self._reason or 'its time is up'}")

    def wait_lost(self, timeout=float("inf")):
        """Waits until the lock is not held any more, at most for timeout. Returns whether it is not."""
        end = time.monotonic() + timeout
        with self._news:
            while (left := min(self.remaining(), end - time.monotonic())) > 0:
                self._news.wait(left)
        return self.remaining() == 0

    def release(self):
        """Releases the lock. It may be called again. Raises Lost if the lock was lost before."""
        with self._news:
            self._reason = self._reason or "it was released"
        if (status := _end(self._process)) != 0:
            raise Lost(f"the lock on {self.name!r} was lost before its release", status)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.release()
        except Lost:
            if kind is None:  # otherwise the error of the body tells more
                raise


def _end(process):
    process.stdin.close()
    try:
        return process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:  # it was stopped; the lease ends by itself
        process.kill()
        return process.wait()


def hold(name, *flags, program="fenlock"):
    """Takes the lock, and returns it. flags are those of fenlock hold: "--no-wait", "--ttl=30s", "--node=valkey://...".

    Raises Held or Error. Which servers have the lock is said by flags or by FENLOCK_NODES.
    """
    # A session of its own: Ctrl-C at the terminal is for this program, which then releases the lock.
    process = subprocess.Popen([program, "hold", *flags, "--", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               start_new_session=True)
    try:
        lock = Lock(process)
    except BaseException:  # KeyboardInterrupt, for one
        _end(process)
        raise
    if lock.token is None:
        status = _end(process)
        raise (Held if status == _EXIT_HELD else Error)(f"the lock on {name!r} was not taken (exit status {status}): see standard error", status)
    return lock


def guard(cursor, resource, token, table="fenlock_fence", mark="?"):
    """Refuses the writes of this transaction if a later holder has written: raises Stale.

    Call it first in each transaction that writes. The cursor is of sqlite3, or with mark="%s" of a PostgreSQL driver.
    The table is that of Go's package fencesql: resource TEXT PRIMARY KEY, token BIGINT NOT NULL.
    """
    cursor.execute(f"INSERT INTO {table} AS f (resource, token) VALUES ({mark}, {mark}) ON CONFLICT (resource) "
                   "DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token", (resource, token))
    if cursor.rowcount != 1:
        raise Stale(f"token {token} of {resource!r} is stale: a later holder has written")
