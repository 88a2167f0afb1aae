// Package replytest makes the replies of servers, for tests.
package replytest

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Info returns the reply to INFO of a healthy server, with fields changed. A value
// of "-" leaves the field out.
func Info(change ...string) string {
	fields := map[string]string{
		"redis_version": "7.2.4", "server_mode": "standalone", "run_id": "0123abc", "master_replid": "4567def",
		"uptime_in_seconds": "90",
		"maxmemory":         "0", "maxmemory_policy": "noeviction", "aof_enabled": "0",
		"role": "master", "connected_slaves": "0", "second_repl_offset": "-1", "cluster_enabled": "0",
	}
	for i := 0; i < len(change); i += 2 {
		fields[change[i]] = change[i+1]
	}
	text := "# Server\r\n"
	for name, value := range fields {
		if value != "-" {
			text += name + ":" + value + "\r\n"
		}
	}
	return text
}

// Message reads a reply in RESP2 or RESP3, as far as it can be read. It returns it and the rest, as
// the engines' links do.
func Message(input []byte) (m resp.Reply, rest []byte) { return read(input, 4) }

func read(input []byte, depth int) (m resp.Reply, rest []byte) {
	if len(input) == 0 {
		return resp.Null(), nil
	}
	end, next := bytes.IndexByte(input, '\n'), 0
	if next = end + 1; end < 0 {
		end, next = len(input), len(input)
	}
	kind, line := input[0], strings.TrimRight(string(input[1:max(end, 1)]), "\r")
	rest = input[next:]
	number, _ := strconv.ParseInt(line, 10, 64)
	switch {
	case (kind == '$' || kind == '*') && number < 0, kind == '_':
		return resp.Null(), rest
	case kind == ':':
		return resp.Number(number), rest
	case kind == '#':
		return resp.Other(), rest
	case kind == '*', kind == '%', kind == '~':
		count := min(max(number, 0), 20)
		if depth == 0 {
			count = 0
		}
		if kind == '%' {
			count *= 2
		}
		all := make([]resp.Reply, count)
		for i := range all {
			all[i], rest = read(rest, depth-1)
		}
		return resp.List(all), rest
	case kind == '$', kind == '!', kind == '=':
		size := int(min(max(number, 0), int64(len(rest))))
		line, rest = string(rest[:size]), bytes.TrimPrefix(rest[size:], []byte("\r\n"))
	}
	if kind == '-' || kind == '!' {
		return resp.Failure(resp.Error(strings.TrimPrefix(line, "ERR "))), rest
	}
	return resp.Text(line), rest
}

// CheckAnswer checks that the Locker can compute with an answer, whatever a server said.
func CheckAnswer(t testing.TB, input []byte, a node.Answer, notAdmitted bool, err error) {
	t.Helper()
	if (err != nil || notAdmitted) && a.Status != 0 && err == nil {
		t.Errorf("%q: %+v, and not admitted", input, a)
	}
	if err != nil || notAdmitted {
		return
	}
	if a.Status != node.Granted && a.Status != node.Held && a.Status != node.Outrun && a.Status != node.Lost &&
		a.Status != node.Rejoining {
		t.Errorf("%q: %+v has no status", input, a)
	}
	if a.Register > fence.MaxToken || a.Register != 0 && a.Status != node.Granted && a.Status != node.Outrun {
		t.Errorf("%q: %+v has no register that could be", input, a)
	}
	if a.Remaining < 0 || a.Remaining > 365*24*time.Hour || a.Ahead < 0 || a.Ahead > 10_000 || a.Clock < 0 ||
		a.Clock > 1<<52*time.Microsecond {
		t.Errorf("%q: %+v cannot be computed with", input, a)
	}
	if strings.Contains(a.HeldBy, "0123456789abcdef") {
		t.Errorf("%q: the holder's identity is in %+v", input, a)
	}
}
