package command

import (
	"strings"

	"github.com/valkey-io/valkey-go"
)

// Permission is a command that a node's user needs, and what the server says to it.
type Permission struct {
	Needs string // the command, as a word of the ACL: "+hset"
	On    string // the keys or the channel that it is about, likewise; empty if none
	ask   []string
}

// permissions are the commands of docs/valkey.md, as they would be sent about keys that
// nobody uses, so that they would change nothing even if they were carried out: their
// arguments contradict each other, or there is nothing to change. They never are:
// see AskPermissions.
//
// SCRIPT LOAD is not among them. A server counts a command that it refused, and that it
// ever counted this one is how admission tells a server that was flushed
// (Facts.ScriptsEverLoaded). INFO, MULTI and EXEC have answered by then.
func (k *Keys) permissions(unused string) []Permission {
	lease, queue := k.prefix+unused, queuePrefix+k.prefix+unused
	onLease, onRegisters, onQueue := "~"+k.prefix+"*", "~"+k.registers+"*", "~"+queuePrefix+k.prefix+"*"
	return []Permission{
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
		{"+scan", "", []string{"SCAN", "0", "COUNT", "1"}},
		{"+time", "", []string{"TIME"}},
	}
}

// Transactions asks whether the server knows transactions and lets this user have them.
// That has to be known before AskPermissions is sent.
func Transactions(build valkey.Builder) []valkey.Completed {
	return []valkey.Completed{build.Multi().Build(), build.Exec().Build()}
}

// AskPermissions asks a server what it would say to each command that a node needs,
// without having any of them executed: they are put into a transaction that the server
// must discard, because one of its commands is malformed. A server looks at a user's
// permissions, at the names of commands, at its memory and at its disk when a command is
// put into a transaction, and refuses it there. Unused is part of names that nobody uses.
func (k *Keys) AskPermissions(build valkey.Builder, unused string) (commands []valkey.Completed, all []Permission) {
	all = k.permissions(unused)
	commands = append(commands, build.Multi().Build())
	// First of all the malformed one: what follows is in a transaction that is lost.
	commands = append(commands, build.Arbitrary("GET").Build())
	for _, p := range all {
		commands = append(commands, build.Arbitrary(p.ask[0]).Args(p.ask[1:]...).Build())
	}
	return append(commands, build.Exec().Build()), all
}

// Permissions is what a server said to AskPermissions.
type Permissions struct {
	Missing  []string // words of the ACL, each once, in the order of docs/valkey.md
	Disabled []string // commands that the server does not have
	// Refuses is why the server refuses all writes at present, nil if it does not.
	Refuses error
}

// ParsePermissions reads the replies to AskPermissions.
func ParsePermissions(all []Permission, replies []valkey.ValkeyResult, err error) (p Permissions, _ error) {
	if err != nil {
		return p, err
	}
	add := func(list *[]string, word string) {
		for _, known := range *list {
			if known == word {
				return
			}
		}
		*list = append(*list, word)
	}
	for i, permission := range all {
		reply, refused := valkey.IsValkeyErr(replies[i+2].Error())
		switch text := ""; {
		case !refused:
		case unknownCommand.MatchString(reply.Error()):
			add(&p.Disabled, strings.ToUpper(permission.ask[0]))
		case IsDenied(replies[i+2].Error()):
			// "... to access a key", "... to access one of the keys used as arguments"
			text = reply.Error()
			word := permission.Needs
			if strings.Contains(text, "access") && permission.On != "" {
				word = permission.On
			}
			add(&p.Missing, word)
		case p.Refuses == nil:
			p.Refuses = describe(reply)
		}
	}
	return p, nil
}

// User asks what a user may do. Most users may not ask.
func User(build valkey.Builder, name string) valkey.Completed {
	return build.AclGetuser().Username(name).Build()
}

// Account is what a user may do.
type Account struct {
	NoPassword bool   // anybody is this user who says so
	Commands   string // in the server's words
	Keys       string
}

// ParseUser reads the reply to User. The hashes of passwords in it are not kept.
func ParseUser(reply valkey.ValkeyMessage, err error) (a Account, _ error) {
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
