package valkeynode_test

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node"
)

// What a lock costs in commands is known exactly. It is one request to each node for an acquisition
// and one for its release, and within the scripts no command more than is needed. A change that
// adds one has to say why.
func TestCommandsOfALock(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		const names, rounds = 50, 4
		const locks, extensions = names * rounds, names
		wantCommands(t, kind, func(locker *fenlock.Locker) {
			for round := range rounds {
				for i := range names {
					lock(t, locker, fmt.Sprint("name ", i), round == 0)
				}
			}
		}, map[string]int{
			"evalsha": 2*locks + extensions,
			// acquire
			"hmget": locks + extensions, "info": locks + extensions, "set": locks + extensions, "hset": locks,
			// acquire and release: is the queue empty?
			"zcard": 2 * locks,
			// release; extend, the first of a lock, which tells its token
			"get": locks + extensions, "del": locks,
		})
	})
}

// A client that shares a name alone costs as much, and the time of its lease's end.
func TestCommandsOfALockThatIsShared(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		const locks = 200
		wantCommands(t, kind, func(locker *fenlock.Locker) {
			for i := range locks {
				k, err := locker.AcquireShared(bounded(t), fmt.Sprint("name ", i%50))
				if err == nil {
					err = k.Release(bounded(t))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}, map[string]int{
			"evalsha": 2 * locks,
			// acquire
			"hmget": locks, "info": locks, "time": locks, "set": locks, "hset": locks,
			// acquire and release
			"zcard": 2 * locks, "get": 2 * locks,
			"del": locks,
		})
	})
}

// wantCommands fails the test unless each of three servers carries so many commands out for
// what a Locker is used for.
func wantCommands(t *testing.T, kind testserver.Kind, use func(*fenlock.Locker), want map[string]int) {
	t.Helper()
	servers := testserver.Group(t, kind, 3)
	// What a busy machine does not answer in time is asked once more, which would be counted.
	config := fenlock.Config{TTL: time.Minute, MaxTTL: time.Minute, NodeTimeout: 10 * time.Second}
	for _, s := range servers {
		s.MarkAdmitted("fenlock:", time.Minute)
		config.Nodes = append(config.Nodes, open(t, s.URL()))
	}
	locker, err := fenlock.New(config)
	if err != nil {
		t.Fatal(err)
	}
	lock(t, locker, "warm up", false) // connections, admission
	// Every server has to be past that, not only a majority.
	eventually(t, func() error {
		for _, s := range servers {
			if n := commandsOf(t, s)["evalsha"]; n < 2 {
				return fmt.Errorf("%s has carried out %d requests", s.Addr(), n)
			}
		}
		return nil
	})
	var before []map[string]int
	for _, s := range servers {
		before = append(before, commandsOf(t, s))
	}
	use(locker)
	locker.Close() // waits for the answers that no majority needed
	for i, s := range servers {
		got := commandsOf(t, s)
		for command, n := range before[i] {
			if got[command] -= n; got[command] == 0 {
				delete(got, command)
			}
		}
		got["info"]-- // the one that asked for these figures
		delete(got, "auth")
		delete(got, "ping")
		// Others where a server was late, so that three or more were sent together.
		if got["evalsha"] < want["evalsha"] || got["info"] < want["info"] {
			for command, n := range want {
				if got[command] > 0 {
					got[command] = n
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("server %d carried out %v; want %v", i, got, want)
		}
	}
}

// And in bytes, by the formula that the documents give. Lengths of numbers differ by
// a few digits.
func TestBytesOfALock(t *testing.T) {
	each(t, func(t *testing.T, kind testserver.Kind) {
		server := testserver.Start(t, kind)
		server.MarkAdmitted("fenlock:", time.Minute)
		const rounds = 100
		for _, length := range []int{5, 50} {
			name, label := strings.Repeat("n", length), strings.Repeat("l", 10)
			locker, err := fenlock.New(fenlock.Config{Nodes: []node.Node{open(t, server.URL())}, TTL: time.Minute,
				MaxTTL: time.Minute, Label: label})
			if err != nil {
				t.Fatal(err)
			}
			lock(t, locker, name, false) // connections
			received := func() (n int) {
				n, _ = strconv.Atoi(infoField(t, server, "total_net_input_bytes"))
				return n
			}
			first := received()
			before := received() // what it costs to ask is in it, too
			for range rounds {
				lock(t, locker, name, false)
			}
			got := (received() - before - (before - first)) / rounds
			if want := 500 + 4*length + 2*len(label); got < want-8 || got > want+8 {
				t.Errorf("a name of %d bytes: %d bytes for acquire and release, by the formula %d", length, got, want)
			}
			locker.Close()
		}
	})
}

// lock acquires a name and releases it.
func lock(t testing.TB, locker *fenlock.Locker, name string, extend bool) {
	t.Helper()
	k, err := locker.Acquire(bounded(t), name)
	if err == nil && extend {
		err = k.Extend(bounded(t))
	}
	if err == nil {
		err = k.Release(bounded(t))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// commandsOf returns how often each command was carried out.
func commandsOf(t testing.TB, s *testserver.Server) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for _, m := range regexp.MustCompile(`cmdstat_([a-z|]+):calls=([0-9]+)`).FindAllStringSubmatch(s.Do("INFO",
		"commandstats"), -1) {
		counts[m[1]], _ = strconv.Atoi(m[2])
	}
	return counts
}

// What is looked at before each request, and what is written, makes no garbage, in a group whose
// servers have all recorded the others. It did once: ten times this.
func TestAllocationsOfALock(t *testing.T) {
	servers := testserver.Group(t, testserver.Kinds(t)[0], 3)
	var members []string
	for _, s := range servers {
		members = append(members, s.Addr())
	}
	config := fenlock.Config{TTL: time.Minute, MaxTTL: time.Minute}
	for _, s := range servers {
		s.MarkAdmitted("fenlock:", time.Minute)
		s.Do("HSET", registersKey, "members", strings.Join(members, " "))
		config.Nodes = append(config.Nodes, open(t, s.URL()))
	}
	locker, err := fenlock.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close()
	for range 20 { // connections, admission
		lock(t, locker, "warm up", false)
	}
	// The least of many: on a busy machine a server answers late, and what is then done for it
	// is counted too.
	const most = 32
	least := testing.AllocsPerRun(50, func() { lock(t, locker, "name", false) })
	for tries := 0; least > most && tries < 500; tries++ {
		time.Sleep(10 * time.Millisecond) // the busy moment passes
		least = min(least, testing.AllocsPerRun(10, func() { lock(t, locker, "name", false) }))
	}
	if least > most {
		t.Errorf("%v allocations for a lock and its release", least)
	}
}
