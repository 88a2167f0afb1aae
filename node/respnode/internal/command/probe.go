package command

import (
	"slices"
	"strings"

	"github.com/fenlock/fenlock/node/respnode/resp"
)

// Probe is a command that a client needs to be allowed, in the words of an access control
// list.
type Probe struct {
	Needs string // "+hset"
	On    string // the keys or the channel that it is about; empty if none
	ask   []string
}

// probes are the commands of Permissions, as they would be sent about keys that are not used. They
// would change nothing even if they were carried out: their arguments contradict each other, or
// there is nothing to change. They never are: see Probe.
//
// SCRIPT LOAD is not among them. A server counts a command that it refused, and that it
// ever counted this one is how admission tells a server that was flushed
// (Facts.ScriptsEverLoaded). INFO, MULTI and EXEC have answered by then.
func (k *Keys) probes(unused string) []Probe {
	lease, queue := k.prefix+unused, queuePrefix+k.prefix+unused
	patterns := k.patterns("~")
	onLease, onRegisters, onQueue := patterns[0], patterns[0], patterns[0]
	if len(patterns) == 3 {
		onRegisters, onQueue = patterns[1], patterns[2]
	}
	return []Probe{
		{"+evalsha", onLease, []string{"EVALSHA", strings.Repeat("0", 40), "1", lease}},
		{"+eval", onRegisters, []string{"EVAL", "return 0", "1", k.registers}},
		{"+get", onLease, []string{"GET", lease}},
		{"+getrange", onLease, []string{"GETRANGE", lease, "0", "0"}},
		{"+set", onLease, []string{"SET", lease, "", "NX", "XX"}},
		{"+del", onLease, []string{"DEL", lease}},
		{"+pttl", onLease, []string{"PTTL", lease}},
		{"+pexpire", onLease, []string{"PEXPIRE", lease, "never"}},
		{"+hget", onRegisters, []string{"HGET", k.registers, unused}},
		{"+hmget", onRegisters, []string{"HMGET", k.registers, unused}},
		{"+hgetall", onRegisters, []string{"HGETALL", k.registers}},
		{"+hset", onRegisters, []string{"HSET", k.registers, unused, "", "odd"}},
		{"+hsetnx", onRegisters, []string{"HSETNX", k.registers, "candidate", unused}},
		{"+hdel", onRegisters, []string{"HDEL", k.registers, unused}},
		{"+zadd", onQueue, []string{"ZADD", queue, "NX", "XX", "0", unused}},
		{"+zcard", onQueue, []string{"ZCARD", queue}},
		{"+zrange", onQueue, []string{"ZRANGE", queue, "0", "0"}},
		{"+zrank", onQueue, []string{"ZRANK", queue, unused}},
		{"+zrem", onQueue, []string{"ZREM", queue, unused}},
		{"+zpopmin", onQueue, []string{"ZPOPMIN", queue, "-1"}},
		{"+publish", "&" + NotifyPrefix + "*", []string{"PUBLISH", NotifyPrefix + unused, ""}},
		{"+pubsub|numsub", "", []string{"PUBSUB", "NUMSUB", NotifyPrefix + unused}},
		{"+script|exists", "", []string{"SCRIPT", "EXISTS", strings.Repeat("0", 40)}},
		{"+config|get", "", []string{"CONFIG", "GET", "appendfsync"}},
		{"+wait", "", []string{"WAIT", "0", "never"}},
		{"+scan", "", []string{"SCAN", "0", "COUNT", "1"}},
		{"+time", "", []string{"TIME"}},
	}
}

// Transactions asks whether the server knows transactions and lets this user have them.
// That has to be known before a Probe is sent.
func Transactions() []resp.Command {
	return []resp.Command{resp.Command{"MULTI"}, resp.Command{"EXEC"}}
}

// Probe asks a server what it would say to each command that a node needs, without having any of
// them executed. They are put into a transaction that the server must discard, because one of its
// commands is malformed. When a command is put into a transaction, a server looks at the user's
// permissions, at the command's name, at its memory and its disk. It refuses the command there.
// Unused is part of names that are not used.
func (k *Keys) Probe(unused string) (commands []resp.Command, all []Probe) {
	all = k.probes(unused)
	commands = append(commands, resp.Command{"MULTI"})
	// First of all the malformed one: what follows is in a transaction that is lost.
	commands = append(commands, resp.Command{"GET"})
	for _, p := range all {
		commands = append(commands, p.ask)
	}
	return append(commands, resp.Command{"EXEC"}), all
}

// Allowed is what a server said to a Probe.
type Allowed struct {
	Missing  []string // words of the ACL, each once
	Disabled []string // commands that the server does not have
	// OnlyLooks: the user is one that takes no locks (ReadPermissions), so that nothing is
	// missing.
	OnlyLooks bool
	// Refuses is why the server refuses all writes at present, nil if it does not.
	Refuses error
}

// ParseProbe reads the replies to a Probe.
func ParseProbe(all []Probe, replies []resp.Reply, err error) (a Allowed, _ error) {
	if err != nil {
		return a, err
	}
	add := func(list *[]string, word string) {
		if !slices.Contains(*list, word) {
			*list = append(*list, word)
		}
	}
	for i, p := range all {
		reply, refused := resp.IsError(replies[i+2].Err())
		switch {
		case !refused:
		case unknownCommand().MatchString(reply.Error()):
			add(&a.Disabled, strings.ToUpper(p.ask[0]))
		case IsDenied(reply):
			// "... to access a key", "... to access one of the keys used as arguments"
			word := p.Needs
			if strings.Contains(reply.Error(), "access") && p.On != "" {
				word = p.On
			}
			add(&a.Missing, word)
		case a.Refuses == nil:
			a.Refuses = describe(reply)
		}
	}
	a.OnlyLooks = len(a.Missing) > 0
	for _, p := range all {
		// A user that may not do one of all that only locks need, needs none.
		if slices.Contains(locks, p.Needs) != slices.Contains(a.Missing, p.Needs) {
			a.OnlyLooks = false
		}
	}
	if a.OnlyLooks {
		a.Missing = nil
	}
	// Without this one everything works; what it would tell is not believed.
	a.Missing = slices.DeleteFunc(a.Missing, func(word string) bool { return word == "+config|get" })
	return a, nil
}

// WithoutWait forgives that the client cannot wait for replicas, where there are none.
func (a *Allowed) WithoutWait() {
	a.Missing = slices.DeleteFunc(a.Missing, func(word string) bool { return word == "+wait" })
	a.Disabled = slices.DeleteFunc(a.Disabled, func(word string) bool { return word == "WAIT" })
}

// User asks what a user may do. Most users may not ask.
func User(name string) resp.Command {
	return resp.Command{"ACL", "GETUSER", name}
}

// Account is what a user may do.
type Account struct {
	NoPassword bool   // a client is this user by saying so
	Commands   string // in the server's words
	Keys       string
}

// ParseUser reads the reply to User. The hashes of passwords in it are not kept.
func ParseUser(reply resp.Reply, err error) (a Account, _ error) {
	if err != nil {
		return a, err
	}
	fields, err := reply.AsMap()
	if err != nil {
		return a, err
	}
	flags := fields["flags"]
	words, err := flags.AsStrSlice()
	for _, word := range words {
		a.NoPassword = a.NoPassword || word == "nopass"
	}
	commands, keys := fields["commands"], fields["keys"]
	a.Commands, _ = commands.ToString()
	a.Keys, _ = keys.ToString()
	return a, err
}
