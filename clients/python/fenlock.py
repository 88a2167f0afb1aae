"""A distributed lock for Python, held by the fenlock command (docs/hold.md). It needs nothing but that command.

    import fenlock

    with fenlock.hold("orders/42") as lock:
        fenlock.guard(cursor, "orders/42", lock.token)   # in the transaction that writes
        lock.check()                                     # raises Lost; before each other write

Times are in seconds. A Lock is safe for use by several threads. A forked process does not hold it.
"""

import json
import os
import subprocess
import sys
import threading
import time
import weakref

_CLOCK = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
_PATIENCE = 10
_locks = weakref.WeakSet()
os.register_at_fork(after_in_child=lambda: [lock._forked() for lock in list(_locks)])


class Error(Exception):
    """The lock was not taken, and str() says why. status is the exit status of the command."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


class Held(Error): """Another client has the lock, or had it until the wait ran out."""
class Lost(Error): """The lock is not held any more: another client may have it."""
class Stale(Error): """A later holder has written: this holder must not."""


class Lock:
    """A lock that is or was held. hold makes it."""

    def __init__(self, process):
        self._process, self._news = process, threading.Condition()
        self._deadline_ms, self._reason, self._released, self._ended = 0, None, False, False
        self.name = self.token = self.slot = None
        _locks.add(self)
        threading.Thread(target=self._read, daemon=True).start()
        with self._news:
            self._news.wait_for(lambda: self.token or self._ended)

    def _read(self):
        with self._process.stdout as lines:
            for line in lines:
                try:
                    told = json.loads(line)
                except ValueError:  # cut off: the command was killed
                    break
                with self._news:
                    if told["event"] == "held":
                        self.name, self.token, self.slot = told["name"], told["token"], told.get("slot")
                    self._deadline_ms = told.get("deadline_ms", self._deadline_ms)
                    if told["event"] in ("lost", "released"):
                        self._released = told["event"] == "released"
                        self._reason = self._reason or told.get("reason", "it was released")
                    self._news.notify_all()
        with self._news:
            self._ended, self._reason = True, self._reason or "the fenlock command has ended"
            self._news.notify_all()

    def _forked(self):
        self._news = threading.Condition()  # another thread may have had it
        self._ended, self._reason = True, "this process was forked from the one that holds it"
        self._process.stdin.close()

    def remaining(self):
        """How long the lock is held even if the command is killed now. 0: it is not held."""
        with self._news:
            return 0.0 if self._reason else max(0.0, self._deadline_ms / 1e3 - time.clock_gettime(_CLOCK))

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
            self._news.notify_all()
        if not self._ended:
            _end(self._process)
        with self._news:
            self._news.wait_for(lambda: self._ended, _PATIENCE)
            if not self._released:
                raise Lost(f"the lock on {self.name!r} was lost before its release")

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
    """Takes the lock, or raises Held or Error. flags are those of fenlock hold: "--no-wait", "--node=valkey://..."."""
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
        raise (Held if status == 75 else Error)(f"the lock on {name!r} was not taken (exit status {status})", status)
    return lock


def guard(cursor, resource, token, table="fenlock_fence", mark="?"):
    """Refuses the writes of this transaction if a later holder has written: raises Stale.
    Call it first in each transaction that writes. The cursor is of sqlite3, or with mark="%s" of a PostgreSQL driver.
    The table is that of Go's package fencesql: resource TEXT PRIMARY KEY, token BIGINT NOT NULL.
    """
    # PostgreSQL's own operator, whatever the search_path has in front of it.
    least = "<=" if mark == "?" else "OPERATOR(pg_catalog.<=)"
    cursor.execute(f"INSERT INTO {table} AS f (resource, token) VALUES ({mark}, {mark}) ON CONFLICT (resource) "
                   f"DO UPDATE SET token = excluded.token WHERE f.token {least} excluded.token", (resource, token))
    if cursor.rowcount != 1:
        raise Stale(f"token {token} of {resource!r} is stale: a later holder has written")
