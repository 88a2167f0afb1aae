package command

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fenlock/fenlock/fence"
	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Entries looks at all that has the group's prefix, and not only at what has the type of a lease.
// The rest is what other programs put there.

// pageOfKeys is how many keys a server looks at for one page. It is what bounds the
// time that this takes there, not how many have the prefix: about a millisecond where
// there are a million.
const pageOfKeys = 100

// EntriesPage asks for a page of the keys with the prefix.
func (k *Keys) EntriesPage(cursor uint64) resp.Command {
	return resp.Command{"SCAN", strconv.FormatUint(cursor, 10), "MATCH", escapeGlob(k.prefix) + "*", "COUNT",
		strconv.Itoa(pageOfKeys)}
}

// ParseEntriesPage reads the reply to EntriesPage. It returns the keys that could be leases, where
// to go on, 0 at the end, and how many the server has looked at.
func ParseEntriesPage(reply resp.Reply, err error) (keys []string, next uint64, looked int, _ error) {
	if err != nil {
		return nil, 0, 0, err
	}
	next, keys, err = reply.AsScan()
	keys = slices.DeleteFunc(keys, func(key string) bool { return reserved(key) != "" })
	return keys, next, pageOfKeys, err
}

// Entry is a key with the group's prefix.
type Entry struct {
	Key     string
	Name    string // of the lock, if it is one
	Other   bool   // it is no string, or not one that fenlock writes
	Endless bool   // it has no time to live
}

// AskEntry asks what is at a key.
func (k *Keys) AskEntry(key string) []resp.Command {
	return []resp.Command{
		resp.Command{"GETRANGE", key, "0", lastOfHolder},
		resp.Command{"PTTL", key},
	}
}

// endless is the lifetime of a key that has none.
const endless = -1

// ParseEntry reads the replies to AskEntry; ok is false if nothing is there any more.
func (k *Keys) ParseEntry(key string, replies []resp.Reply) (e Entry, ok bool, _ error) {
	e.Key, e.Name = key, strings.TrimPrefix(key, k.prefix)
	value, err := replies[0].ToString()
	if reply, said := resp.IsError(err); said && strings.HasPrefix(reply.Error(), "WRONGTYPE") {
		e.Other, err = true, nil
	}
	left, leftErr := replies[1].AsInt64()
	if err == nil {
		err = leftErr
	}
	if err != nil || left == missing {
		return e, false, err
	}
	e.Other = e.Other || !ours(value)
	e.Endless = left == endless
	return e, true, nil
}

// ours reports whether fenlock wrote a lease's value, of whatever format.
func ours(value string) bool {
	if epoch, _, several := strings.Cut(value, "\n"); node.Holder(value).Reserves() ||
		several && node.Holder(epoch).Shared() {
		return true
	}
	return len(value) > node.IDLength && strings.IndexByte(":@", value[node.IDLength]) >= 0 &&
		strings.Trim(value[:node.IDLength], "0123456789abcdef") == ""
}

// Prefix is what the keys of locks begin with.
func (k *Keys) Prefix() string { return k.prefix }

// RegistersAtOnce is how many registers are read in one command: all of them keep a server
// busy for milliseconds.
const RegistersAtOnce = 256

// SomeRegisters asks for the registers of RegistersAtOnce stripes from one on. It is a
// transaction because the reply to one may be long.
func (k *Keys) SomeRegisters(from int) []resp.Command {
	fields := make([]string, RegistersAtOnce)
	for i := range fields {
		fields[i] = strconv.Itoa(from + i)
	}
	return []resp.Command{resp.Command{"MULTI"}, append(resp.Command{"HMGET", k.registers}, fields...),
		resp.Command{"EXEC"}}
}

// Damage is what is wrong with a hash of registers.
type Damage struct {
	Bad   []int // stripes whose registers are no numbers
	Large []int // or so large that no client believes them
}

// Add reads the replies to SomeRegisters.
func (d *Damage) Add(from int, replies []resp.Reply, err error) error {
	if err != nil {
		return err
	}
	results, err := exec(replies)
	if err != nil {
		return err
	}
	values, err := results[0].AsStrSlice()
	for i, value := range values {
		switch token, err := fence.Parse(value); {
		case value == "" || value == "0":
		case err != nil:
			d.Bad = append(d.Bad, from+i)
		case token > node.MaxRegister:
			d.Large = append(d.Large, from+i)
		}
	}
	return err
}
