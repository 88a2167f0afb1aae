//go:build linux || darwin || freebsd

package command

const runHelp = `Run a command while holding the lock NAME, and stop it if the lock is lost.

fenlock acquires the lock, runs the command, extends the lock while the command runs,
and releases it when the command has ended. If the lock is held, fenlock waits in a FIFO
queue of all machines, and reports the wait once. --verbose also reports the holder, the
number of waiters ahead and the nodes that fail; --quiet reports errors only.

Where the lock is
  --node URL, once for each node, or FENLOCK_NODES, their URLs separated by commas:
    valkey://10.0.0.1:6379   redis://  the same; valkeys:// and rediss:// with TLS
    unix:///run/valkey.sock  file:///var/lib/app/locks
    valkey-cluster://h1,h2/locks   a cluster, by some of its servers and a hash tag
    postgres://app@db/app    mysql://app@db/app    after "fenlock migrate"
    etcd://h1,h2,h3          zk://h1,h2,h3         one node each, however many hosts
    nats://h1,h2,h3/BUCKET   after "fenlock migrate"
    s3://host/bucket/prefix  an object store, with the keys of the SDKs
  Three or five servers that do not communicate are usual: the lock works while a
  majority of them answers. All clients must name the same servers. Put a URL with a
  password into a file that only you may read, one URL on a line: --nodes-file FILE or
  FENLOCK_NODES_FILE. Every user can read the list of processes.
  Without nodes, and with --local, the lock is a file of yours, for your processes on this
  machine: $XDG_STATE_HOME/fenlock/locks, or in ~/.local/state/fenlock. Without --local
  (or FENLOCK_NODES=local) fenlock prints a warning, with --quiet too unless stderr is a
  terminal: cron passes no FENLOCK_NODES on, and each machine would have a lock of its
  own. The flag overrides the variables. A FENLOCK_NODES that is set but empty is an error.
  A user without a writable home must set XDG_STATE_HOME.

What the command gets
  FENLOCK_NAME, FENLOCK_TOKEN and the environment of fenlock, without a FENLOCK_NODES
  that has a password in it (--pass-nodes passes it on). The token grows with each
  holder. Send it with every write, and let the resource refuse a smaller token than it
  has seen: that stops even a holder that was paused.
  fenlock finds and runs the command as flock, env and nohup do: a script needs no first
  line, and without PATH fenlock looks in /bin and /usr/bin. If HUP, INT, TSTP, TTIN or
  TTOU was ignored when fenlock started, the command ignores it (elsewhere than on Linux:
  HUP and INT).
  Signals to fenlock (HUP, INT, QUIT, TERM, USR1, USR2) go to the command and its
  children, all in one process group. CONT follows the first four, so that a stopped job
  ends as well. What the command leaves running in the background goes on, without the
  lock.

If the lock cannot be extended
  When a third of the TTL is left, and likewise before --max-hold is over, fenlock sends
  SIGTERM and SIGCONT to the process group; when a tenth is left, SIGKILL. The command has
  ended before another client can hold the lock. A small process, fenlock-watchdog, does
  the same if fenlock is killed or stopped (SIGSTOP), or if its output is not read. On
  Linux it also ends processes that have left the group (daemons, jobs of an interactive
  shell). Three cases are left. Only a fenlock that runs as root can end a command that
  becomes another user (sudo fenlock run, not fenlock run sudo). If fenlock and the
  watchdog are killed at the same moment, the command itself ends on Linux, and its
  children go on. If both are stopped (SIGSTOP) and the command is not, it goes on beside
  the next holder until one of them is continued. On Linux "pkill fenlock" kills fenlock
  only, because the watchdog is called lock-watchdog; "pkill -f fenlock" kills both.
  Ctrl-Z does not stop the command, because a stopped fenlock could not extend the lock.

A lock in a file, on Linux
  It lasts exactly as long as fenlock and the command, whatever ends them: it has no TTL
  and no watchdog. A stopped process keeps it, after Ctrl-Z too. If fenlock is killed, the
  command goes on with the lock, as with flock, unless it has closed the descriptor that
  it inherited (sudo and daemons do). If the lock is broken (fenlock release --force) or
  its file is deleted, the command is ended as above, within a third of the TTL. With
  --at-least or --max-hold a lock in a file works like one on servers.
  fenlock refuses (64) to wait, without a limit, for the lock that it runs under.

Once, on whichever machine comes first
  With --at-least 25s the lock stays taken for 25 seconds from its acquisition, even if the
  command has ended or fenlock was killed. A short job that five machines start at about
  the same time runs once, although their clocks differ by a few seconds:
  fenlock run --no-wait -E 0 --at-least 25s NAME -- COMMAND. It is at most --max-ttl. On
  ZooKeeper it ends with the session, some seconds after that time.

Readers and writers
  Commands with --shared run at the same time. Without --shared the lock is exclusive. All
  wait in one FIFO queue, so a waiting exclusive command holds up the shared ones behind
  it. A file, Valkey, Redis, PostgreSQL, MySQL and MariaDB support it; with other servers
  fenlock refuses it (64).

Slots
  With --slots 5 at most five commands run at a time. Each has a slot, which is a lock of
  its own, NAME#0 to NAME#4: FENLOCK_NAME and FENLOCK_TOKEN are the slot's, and
  FENLOCK_SLOT is its number, by which work can be shared out. All wait in one FIFO queue.
  All must use the same number: another number is refused while slots are held (78). A
  command that locks NAME itself waits until all slots are free. --slots is supported
  where --shared is.

A leader
  With --lead the command runs while this process leads. If the lock is lost, fenlock stops
  the command as above, re-enters the election, and starts the command again with a new
  FENLOCK_TOKEN, the term. It logs when it becomes the leader and when it re-enters the
  election. If the command ends by itself, fenlock ends with its status. A signal ends
  fenlock too: while it waits, any of the above but USR1 and USR2; after a loss, INT, QUIT
  or TERM, if the command got it. --wait, --no-wait, --max-hold, --at-least, --shared and
  --slots exclude --lead.

Metrics
  --metrics 127.0.0.1:5626 serves Prometheus there at /metrics, from before the
  acquisition until after the release. An address that other machines reach needs a
  --metrics-token-file. Scrapes never block the command.

Flags and variables
  Each flag has an environment variable, which the flag overrides: --max-hold has
  FENLOCK_MAX_HOLD. flock's flags work too: -n, -w SECONDS, -E STATUS, -s, and -c 'COMMAND'
  after NAME, which $SHELL runs. -x and -o are accepted and ignored.

Exit status
  that of the command; 128 plus the number of the signal that ended it
  64   wrong usage; nothing was sent to any node
  69   too few nodes answer, or the file cannot be used; or fenlock-all is missing, which
       has PostgreSQL, MySQL, etcd, ZooKeeper and --metrics
  75   the lock is held, or the wait ran out (-E changes it)
  76   the lock was lost or held for --max-hold, and the command was stopped (not by --lead)
  78   other commands use another number of slots
  126  the command cannot be executed      127  there is no such command`

const runExamples = `  fenlock run nightly-report -- ./report.sh
  fenlock run --local -q -n -E 0 backup -- backup /srv # cron on one machine: else skip
  fenlock run --shared catalog -- ./report.sh          # beside others, not beside a rebuild
  fenlock run --slots 5 encode -- ./encode.sh          # five at a time
  fenlock run --lead scheduler -- ./scheduler          # on one machine, again and again
  fenlock run --wait 1m --ttl 30s deploy/web -- sh -c './deploy --token $FENLOCK_TOKEN'
  FENLOCK_NODES=valkey://10.0.0.1,valkey://10.0.0.2,valkey://10.0.0.3 \
      fenlock run --verbose orders/42 -- ./settle 42`
