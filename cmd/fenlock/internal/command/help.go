//go:build linux || darwin || freebsd

package command

const runHelp = `Run a command while holding the lock NAME, and stop it if the lock is lost.

fenlock takes the lock, runs the command, extends the lock for as long as the
command runs, and releases it when the command has ended. If somebody else has the
lock, fenlock waits in a queue for it: first come, first served, among all machines.
It says so once; with --verbose it says who has the lock, how many are ahead, and which
nodes do not work, with --quiet nothing but errors.

Where the lock is
  --node URL, once for each node, or FENLOCK_NODES, their URLs separated by commas:
    valkey://10.0.0.1:6379   redis://  the same; valkeys:// and rediss:// with TLS
    unix:///run/valkey.sock  file:///var/lib/app/locks
    postgres://app@db/app    mysql://app@db/app    after "fenlock migrate"
    etcd://h1,h2,h3          zk://h1,h2,h3         one node each, however many hosts
  Three or five servers that know nothing of each other are usual: the lock works
  while a majority of them answers. All clients must name the same ones. A URL with
  a password belongs in a file that only you may read, one URL on a line: --nodes-file
  FILE or FENLOCK_NODES_FILE. Everybody can read the list of processes.
  With neither, and with --local, the lock is a file of yours, for your processes on this
  machine: $XDG_STATE_HOME/fenlock/locks, or in ~/.local/state/fenlock. --local (and
  FENLOCK_NODES=local) says that this is meant; as a flag it is stronger than the variables.
  Otherwise fenlock tells of it, with --quiet too where stderr is no terminal: cron passes no
  FENLOCK_NODES on, and each machine would have a lock of its own. A FENLOCK_NODES that is set
  but empty is an error. A user without a home that can be written to (nobody,
  _apt) sets XDG_STATE_HOME.

What the command gets
  FENLOCK_NAME, FENLOCK_TOKEN and the environment of fenlock, but no FENLOCK_NODES that
  has a password in it (--pass-nodes hands it on). The token grows with
  each holder: pass it along with every write, and let the other side refuse a token
  that is smaller than one it has seen. It stops even a holder that was paused.
  It is found and run as by flock, env and nohup: a script needs no first line, and
  without PATH it is looked for in /bin and /usr/bin. HUP, INT, TSTP, TTIN and TTOU stay
  ignored if they were when fenlock was started (elsewhere than on Linux: HUP and INT).
  Signals to fenlock (HUP, INT, QUIT, TERM, USR1, USR2) go to the command and what
  it started, all in one process group. The first four have CONT after them, so that a
  job that is stopped ends as well. What it leaves running in the background
  when it ends goes on, without the lock.

If the lock cannot be extended
  When a third of the TTL is left, and likewise before --max-hold is over, the
  process group has SIGTERM and SIGCONT; when a tenth is left, SIGKILL. So it is gone before
  anybody else can get the lock. A small process, fenlock-watchdog, sees to that: also
  if fenlock is killed, then at once, or stopped (SIGSTOP), or nobody reads what it
  prints. On Linux it also ends what has left the process group (daemons, jobs of an
  interactive shell); elsewhere that is out of reach. Three cases are left. A command
  that becomes another user can only be ended by a fenlock that runs as root (sudo
  fenlock run, not fenlock run sudo). If fenlock and the watchdog are killed at the
  same moment, the command itself ends on Linux, and what it started goes on. If both
  are stopped (SIGSTOP), and the command is not, it goes on beside the next holder
  until one of them is continued. On Linux "pkill fenlock" reaches fenlock only, whose
  watchdog is lock-watchdog there; "pkill -f fenlock" reaches both.
  Ctrl-Z does not stop the command: nobody would extend the lock.

A lock in a file, on Linux
  It ends with fenlock and the command, at once and whatever ends them, and not before: no
  TTL, no watchdog. Whoever is stopped, by Ctrl-Z too, keeps it. If fenlock is killed, the
  command goes on, as with flock, and keeps the lock, unless it has closed what it inherited
  (sudo and daemons do). A lock that is broken (fenlock release --force), or whose file is
  deleted, ends the command as above, within a third of the TTL. With --at-least or
  --max-hold a lock in a file is as one on servers.
  A command that waits, without a limit, for the lock that it runs under is refused (64).

Once, on whichever machine comes first
  With --at-least 25s the lock stays for 25 seconds from when it was taken, though the
  command may have ended before, or fenlock may have been killed. A short job that five
  machines start at about the same time, whose clocks differ by a few seconds, runs once:
  fenlock run --no-wait -E 0 --at-least 25s NAME -- COMMAND. It is at most --max-ttl. On
  ZooKeeper it ends with the session, some seconds after that time.

Readers and writers
  Those who say --shared run at the same time; who does not has the lock alone. All wait in
  one line: who wants it alone stops those who come later to share it. A file, Valkey,
  Redis, PostgreSQL, MySQL and MariaDB can; with other servers it is refused (64).

Slots
  With --slots 5 five commands run at a time, and no more. Each has a slot of its own, a lock
  NAME#0 to NAME#4, with its own token: FENLOCK_NAME and FENLOCK_TOKEN are those, and
  FENLOCK_SLOT is the slot's number, by which work can be shared out. All wait in one line. All
  have to say the same number: who says another one while others have slots is refused (78).
  Who runs with NAME alone waits until nobody has a slot. Not on ZooKeeper and etcd, as --shared.

A leader
  With --lead the command runs while this process leads. If the lock is lost, the command is
  stopped as below; then fenlock waits for its turn again, and starts the command again with a
  new FENLOCK_TOKEN, the term. It says when it begins to lead, and when it stands again. A
  command that ends by itself is not started again: that is the end, and its status the
  exit status. So is a signal: while it waits any of those above but USR1 and USR2, and
  in case of a loss INT, QUIT or TERM, if the command had it. --wait, --no-wait,
  --max-hold, --at-least, --shared and --slots exclude --lead.

Metrics
  --metrics 127.0.0.1:5626 answers Prometheus there at /metrics, from before the lock is
  asked for until it is released. An address that other machines reach needs a
  --metrics-token-file. The command is never waited for, or held up, by who asks.

Flags and variables
  Each flag has a variable of the environment, which it is stronger than: --max-hold has
  FENLOCK_MAX_HOLD. As with flock(1): -n, -w SECONDS, -E STATUS, and -c 'COMMAND' after
  NAME, which $SHELL runs, and -s. -x and -o say what is so anyway.

Exit status
  that of the command; 128 plus the number of the signal that ended it
  64   wrong usage; nothing was sent to any node
  69   too few nodes answer, or the file cannot be used; or fenlock-all is missing, which
       has PostgreSQL, MySQL, etcd, ZooKeeper and --metrics
  75   somebody else has the lock, or the wait ran out (-E changes it)
  76   the lock was lost or held for --max-hold, and the command was stopped (not by --lead)
  78   others have another number of slots than --slots says
  126  the command cannot be executed      127  there is no such command`

const runExamples = `  fenlock run nightly-report -- ./report.sh
  fenlock run --local -q -n -E 0 backup -- backup /srv # cron on one machine: else skip
  fenlock run --shared catalog -- ./report.sh          # beside others, not beside a rebuild
  fenlock run --slots 5 encode -- ./encode.sh          # five at a time
  fenlock run --lead scheduler -- ./scheduler          # on one machine, again and again
  fenlock run --wait 1m --ttl 30s deploy/web -- sh -c './deploy --token $FENLOCK_TOKEN'
  FENLOCK_NODES=valkey://10.0.0.1,valkey://10.0.0.2,valkey://10.0.0.3 \
      fenlock run --verbose orders/42 -- ./settle 42`
