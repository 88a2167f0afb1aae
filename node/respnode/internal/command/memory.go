package command

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// ErrRestarted is what a server says that is not what it was when it was looked at.
var ErrRestarted = errors.New("it was restarted or flushed meanwhile")

// Gather asks for all Facts. The candidate is random.
func (k *Keys) Gather(candidate string) []resp.Command {
	shas := make([]string, len(Operations))
	for i, s := range Operations {
		shas[i] = s.SHA()
	}
	return []resp.Command{
		// First of all: should the data be flushed at any time from here on, this
		// candidate is gone, and admit.lua notices.
		resp.Command{"HSETNX", k.registers, "candidate", candidate},
		resp.Command{"HMGET", k.registers, "candidate", "admitted", "maxttl", "durable", "empty", formatField, "members"},
		resp.Command{"INFO"},
		resp.Command{"INFO", "commandstats"},
		append(resp.Command{"SCRIPT", "EXISTS"}, shas...),
		resp.Command{"CONFIG", "GET", "appendfsync", "no-appendfsync-on-rewrite", "aof-load-truncated"},
	}
}

// ParseFacts reads the replies to Gather.
func ParseFacts(replies []resp.Reply, err error) (Facts, error) {
	if err != nil {
		return Facts{}, err
	}
	info, err := replies[2].ToString()
	stats, statsErr := replies[3].ToString()
	if err = cmp.Or(err, statsErr); err != nil {
		return Facts{}, err
	}
	f, err := ParseInfo(info + stats)
	// That Gather's first command failed is less telling than what ParseInfo finds.
	if err = cmp.Or(err, replies[0].Err()); err != nil {
		return Facts{}, err
	}
	fields, err := replies[1].AsStrSlice()
	if err == nil && len(fields) != 7 {
		err = fmt.Errorf("unexpected reply of %d values", len(fields))
	}
	if err == nil {
		err = checkFormat(fields[5])
	}
	if err != nil {
		return Facts{}, err
	}
	f.Candidate, f.Marked = fields[0], fields[1]
	f.Terms = Terms{parseMilliseconds(fields[2]), fields[6]}
	f.WasDurable = fields[3] == "1"
	f.Empty = strings.Fields(fields[4])
	loaded, err := replies[4].AsIntSlice()
	if err != nil {
		return Facts{}, err
	}
	f.ScriptsLoaded = slices.Contains(loaded, 1)
	// Managed servers deny CONFIG. Then nobody can know, and the safe answer is no.
	if config, err := replies[5].AsStrMap(); err == nil {
		f.FsyncAlways = config["appendfsync"] == "always" && config["no-appendfsync-on-rewrite"] == "no" && config["aof-load-truncated"] == "no"
	}
	return f, nil
}

// Notice records, or reads, when it was first noticed that the server lost its
// memory.
func (k *Keys) Notice(replID string) resp.Command {
	return resp.Command{"EVAL", textOf("notice"), "1", k.registers, replID}
}

// ParseNotice reads how long ago that was.
func ParseNotice(reply resp.Reply, err error) (since time.Duration, _ error) {
	var ms int64
	if err == nil {
		ms, err = reply.AsInt64()
	}
	if err == nil && ms < 0 {
		err = ErrRestarted
	}
	return time.Duration(ms) * time.Millisecond, err
}

// Admit raises the registers, and marks the server as admitted, as it was found, with the
// client's own terms.
func (k *Keys) Admit(found Facts, own Terms, empty []string, tokens map[int]fence.Token) resp.Command {
	durable := "0"
	if found.Durable() {
		durable = "1"
	}
	args := []string{found.ReplID, found.Candidate, strconv.FormatInt(own.MaxTTL.Milliseconds(), 10), durable, strings.Join(empty, " "), cmp.Or(found.Members, own.Members)}
	for _, stripe := range slices.Sorted(maps.Keys(tokens)) {
		args = append(args, strconv.Itoa(stripe), tokens[stripe].String())
	}
	return append(resp.Command{"EVAL", textOf("admit"), "1", k.registers}, args...)
}

// ParseAdmit returns nil if the server is marked.
func ParseAdmit(reply resp.Reply, err error) error {
	if err != nil {
		return err
	}
	text, err := reply.ToString()
	if found, ok := strings.CutPrefix(text, "format "); ok && checkFormat(found) != nil {
		return checkFormat(found)
	}
	if err != nil || text != "admitted" {
		return errors.Join(ErrRestarted, err)
	}
	return nil
}

// Load loads the script.
func (s *Script) Load() resp.Command {
	return resp.Command{"SCRIPT", "LOAD", s.Text()}
}

// ParseLoad returns nil if the server names the script as EVALSHA will.
func (s *Script) ParseLoad(reply resp.Reply, err error) error {
	if err != nil {
		return err
	}
	if sha, _ := reply.ToString(); sha != s.SHA() {
		return quoteValue(fmt.Errorf("the server does not name the script %s by its SHA-1", s.Name), sha)
	}
	return nil
}

// Registers reads all registers in one transaction, so that they and what tells
// whether they count belong together.
func (k *Keys) Registers() []resp.Command {
	return []resp.Command{
		resp.Command{"MULTI"},
		resp.Command{"INFO"},
		resp.Command{"HGETALL", k.registers},
		resp.Command{"EXEC"},
	}
}

// ParseRegisters reads the replies to Registers. Of the facts, those are there that
// INFO and the registers' fields tell.
func (k *Keys) ParseRegisters(replies []resp.Reply, err error) (f Facts, tokens map[int]fence.Token, _ error) {
	if err != nil {
		return f, nil, err
	}
	results, err := exec(replies)
	if err != nil {
		return f, nil, err
	}
	info, err := results[0].ToString()
	if err != nil {
		return f, nil, err
	}
	if f, err = ParseInfo(info); err != nil {
		return f, nil, err
	}
	fields, err := results[1].AsStrMap()
	if err != nil {
		return f, nil, err
	}
	f.Marked, f.Empty = fields["admitted"], strings.Fields(fields["empty"])
	f.Terms = Terms{parseMilliseconds(fields["maxttl"]), fields["members"]}
	if err := checkFormat(fields[formatField]); err != nil {
		return f, nil, err
	}
	tokens = make(map[int]fence.Token)
	for field, value := range fields {
		stripe, err := strconv.Atoi(field)
		if err != nil {
			continue // one of the named fields
		}
		token, err := fence.Parse(value)
		if err != nil || stripe < 0 || stripe >= node.Stripes {
			return f, nil, quoteValue(fmt.Errorf("the registers' key %q holds a field that is not a register", k.registers), field)
		}
		tokens[stripe] = token
	}
	return f, tokens, nil
}
