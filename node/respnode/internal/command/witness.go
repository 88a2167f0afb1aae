package command

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/node/respnode/resp"
)

// markOf returns the mark of admission of a server with a replication id, and with so many replicas
// that may be promoted in its place. The scripts compare the mark as a whole. So a client that does
// not know of the replicas has nothing carried out that promises something.
func markOf(replID string, replicas int) string {
	if replicas == 0 {
		return replID
	}
	return replID + "/" + strconv.Itoa(replicas)
}

// SplitMark returns what a mark of admission says. What is no number of replicas is part of the id,
// which no server has then.
func SplitMark(mark string) (replID string, replicas int) {
	id, number, _ := strings.Cut(mark, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > mostReplicas || markOf(id, n) != mark {
		return mark, 0
	}
	return id, n
}

// mostReplicas bounds what is computed with.
const mostReplicas = 1000

// Replicas are those that a primary says to have.
type Replicas struct {
	// None: it says that there are none. Otherwise, scripts that look at the server themselves
	// carry nothing out that promises something.
	None bool
	// InStep are those that could be promoted: they have all data, and have been heard of lately. A
	// replica that has connected twice counts once.
	InStep int
}

// latest is how many seconds ago a replica that counts was heard of. It tells the server
// how far it is each second.
const latest = 10

// ReplicasOf reads the replicas of an INFO.
func ReplicasOf(info string) (r Replicas) {
	r.None = strings.Contains(info, "connected_slaves:0\r\n")
	if r.None {
		return r
	}
	var seen []string
	for line := range strings.Lines(info) {
		// slave0:ip=10.0.0.2,port=6379,state=online,offset=98,lag=0
		name, text, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		number, isReplica := strings.CutPrefix(name, "slave")
		if _, err := strconv.ParseUint(number, 10, 16); !isReplica || err != nil {
			continue
		}
		address, rest, _ := strings.Cut(text, ",state=")
		_, lag, _ := strings.Cut(rest, ",lag=")
		lag, _, _ = strings.Cut(lag, ",")
		late, _ := strconv.Atoi(lag)
		reads := strings.HasSuffix(address, ",port=0") // a tool for backups, perhaps, that confirms nothing
		inStep := strings.HasPrefix(rest, "online,") && late <= latest && !reads
		if inStep && !slices.Contains(seen, address) && len(seen) < mostReplicas {
			seen = append(seen, address)
		}
	}
	r.InStep = len(seen)
	return r
}

// Wait waits until so many replicas have all that was executed before it, for at most a
// time. It has to follow the requests on their connection.
func Wait(replicas int, most time.Duration) resp.Command {
	return resp.Command{"WAIT", strconv.Itoa(replicas), strconv.FormatInt(max(most.Milliseconds(), 1), 10)}
}
