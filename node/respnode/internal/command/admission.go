package command

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/admit"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Format asks for the format of the registers.
func (k *Keys) Format() resp.Command { return resp.Command{"HGET", k.registers, formatField} }

// CheckFormat reads the reply to Format. The error is that nothing must be written.
func CheckFormat(reply resp.Reply, err error) error {
	text, unread := reply.ToString()
	if err = cmp.Or(err, unread); err != nil && err != resp.ErrNil {
		return err
	}
	return checkFormat(text)
}

// Candidate gives a server a candidate, which is random, unless it has one.
func (k *Keys) Candidate(candidate string) resp.Command {
	return resp.Command{"HSETNX", k.registers, "candidate", candidate}
}

// Gather asks for all Facts. The candidate is random.
func (k *Keys) Gather(candidate string) []resp.Command {
	return []resp.Command{
		// First of all: should the data be flushed at any time from here on, this
		// candidate is gone, and admit.lua notices.
		k.Candidate(candidate),
		// The mark before the scripts: see admission.FactsOf.
		k.recorded(),
		resp.Command{"INFO"},
		resp.Command{"INFO", "commandstats"},
		askScripts(),
		resp.Command{"CONFIG", "GET", "appendfsync", "no-appendfsync-on-rewrite", "aof-load-truncated"},
		Clock(),
	}
}

// ParseFacts reads the replies to Gather.
func (k *Keys) ParseFacts(replies []resp.Reply, err error) (Facts, error) {
	if err != nil {
		return Facts{}, err
	}
	info, err := replies[2].ToString()
	stats, statsErr := replies[3].ToString()
	if err = cmp.Or(err, statsErr); err != nil {
		return Facts{}, err
	}
	f, err := k.ParseInfo(info + stats)
	if err != nil {
		return Facts{}, err
	}
	values, err := replies[1].AsStrSlice()
	if err == nil && len(values) != len(recorded) {
		err = fmt.Errorf("unexpected reply of %d values", len(values))
	}
	// A full server refuses Gather's first command also where a candidate is there.
	if err == nil && values[0] == "" {
		err = replies[0].Err()
	}
	if err == nil {
		err = f.record(values)
	}
	if err != nil {
		return Facts{}, err
	}
	loaded, err := replies[4].AsIntSlice()
	if err != nil {
		return Facts{}, err
	}
	f.ScriptsLoaded, f.ScriptsReady = slices.Contains(loaded, 1), !slices.Contains(loaded, 0)
	// Managed servers deny CONFIG. Then it cannot be known, and the safe answer is no.
	if config, err := replies[5].AsStrMap(); err == nil {
		f.FsyncAlways = fsyncAlways(config)
	}
	f.Now, err = ParseClock(replies[6], nil)
	return f, err
}

// Notice removes the mark of a server that is out with this replication id, and records since when,
// unless that is recorded.
func (k *Keys) Notice(replID string) resp.Command {
	return resp.Command{"EVAL", textOf("notice"), "1", k.registers, replID}
}

// Admit raises the registers, and marks the server as admitted, as it was found, with the
// client's own terms.
func (k *Keys) Admit(found Facts, own admit.Terms, empty []string, tokens map[int]fence.Token) resp.Command {
	durable := "0"
	if found.Durable() {
		durable = "1"
	}
	args := []string{found.ReplID, found.Candidate, strconv.FormatInt(own.MaxTTL.Milliseconds(), 10), durable,
		admit.TextOfMemories(empty), cmp.Or(found.Terms.Members, own.Members), found.mark,
		markOf(found.ReplID, found.witnesses())}
	for _, stripe := range slices.Sorted(maps.Keys(tokens)) {
		args = append(args, strconv.Itoa(stripe), tokens[stripe].String())
	}
	return append(resp.Command{"EVAL", textOf("admit"), "1", k.registers}, args...)
}

// ParseStep reads the reply to Notice, Admit or Witness. It reports whether it is done: not if the
// server has changed.
func ParseStep(reply resp.Reply, err error) (done bool, _ error) {
	if err != nil {
		return false, err
	}
	text, err := reply.ToString()
	if found, ok := strings.CutPrefix(text, "format "); ok {
		err = checkFormat(found)
	}
	if err == nil && text != "admitted" && text != "noticed" && text != "changed" {
		err = quoteValue(errors.New("unexpected reply"), text)
	}
	return err == nil && text != "changed", err
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
	if f, err = k.ParseInfo(info); err != nil {
		return f, nil, err
	}
	fields, err := results[1].AsStrMap()
	if err != nil {
		return f, nil, err
	}
	values := make([]string, len(recorded))
	for i, field := range recorded {
		values[i] = fields[field]
	}
	if err := f.record(values); err != nil {
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
			return f, nil, quoteValue(fmt.Errorf("the registers' key %q holds a field that is not a register", k.registers),
				field)
		}
		tokens[stripe] = token
	}
	return f, tokens, nil
}

// Touch writes, so that a Wait behind it says of the moment that the replicas follow. What
// was only read before may have been read long after a promotion.
func (k *Keys) Touch(replID string) resp.Command {
	return resp.Command{"HSET", k.registers, "read", replID}
}

// Witness records in the mark of a server with this id that it has so many replicas.
func (k *Keys) Witness(replID, mark string, replicas int) resp.Command {
	return resp.Command{"EVAL", textOf("witness"), "1", k.registers, replID, mark, markOf(replID, replicas)}
}
