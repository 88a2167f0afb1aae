package goredisnode

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fenlock/fenlock/node/engine"
	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/redis/go-redis/v9"
)

// patience is how long a server may take to answer. Then the client closes the connection.
const patience = 2 * time.Second

// link carries commands by the client's pipelines, of which each uses one connection of its
// pool, whichever is free.
type link struct {
	// lead returns the server's client, and what ends when the link leads to another server.
	lead func(ctx context.Context) (*redis.Client, context.Context, error)
	// explain puts an error of the client in words for people.
	explain  func(error) error
	database *database // nil: of a cluster, which has one
	*engine.Lifetime
	// losses counts what failed for another reason than the server's word: what was known
	// of the server is to be looked at again then.
	losses atomic.Uint64
}

var _ resp.Link = (*link)(nil)

func newLink(client *redis.Client) *link {
	return &link{lead: only(client), explain: errorOf, database: databaseOf(client), Lifetime: engine.NewLifetime()}
}

// only leads to one client.
func only(client *redis.Client) func(context.Context) (*redis.Client, context.Context, error) {
	return func(context.Context) (*redis.Client, context.Context, error) {
		return client, context.Background(), nil
	}
}

// Dial implements resp.Link.
func (l *link) Dial() uint64 { return l.losses.Load() + 1 }

// Up implements resp.Link.
func (l *link) Up(dial uint64) bool { return dial == l.Dial() }

// Renew implements resp.Link. The client decides which of its connections it keeps.
func (l *link) Renew(uint64) {}

// Pooled implements resp.Link: each answer proves whose it is.
func (l *link) Pooled() bool { return true }

// Remote implements resp.Link. It is the host as the client has it, an address or a name.
func (l *link) Remote() string {
	client, _, err := l.lead(l.Life())
	if err != nil {
		return ""
	}
	return remote(client.Options())
}

// Identify implements resp.Link.
func (l *link) Identify(ctx context.Context, and resp.Command,
	accept func(info string, other resp.Reply, dial uint64) error) error {
	dial := l.Dial()
	replies, err := l.DoMulti(ctx, resp.Command{"INFO"}, and)
	if err != nil {
		return err
	}
	info, err := replies[0].ToString()
	if err != nil {
		return err
	}
	return accept(info, replies[1], dial)
}

// Do implements resp.Link.
func (l *link) Do(ctx context.Context, command resp.Command) (resp.Reply, error) {
	replies, err := l.DoMulti(ctx, command)
	if err != nil {
		return resp.Reply{}, err
	}
	return replies[0], replies[0].Err()
}

// DoMulti implements resp.Link.
func (l *link) DoMulti(ctx context.Context, commands ...resp.Command) ([]resp.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.Life().Err() != nil {
		return nil, engine.ErrClosed
	}
	return l.send(ctx, commands), nil
}

// Exchange implements resp.Link.
func (l *link) Exchange(commands []resp.Command, replies []resp.Reply) []resp.Reply {
	return append(replies, l.send(l.Life(), commands)...)
}

// send sends commands, on a goroutine of its own. The client keeps to the deadline of a context,
// but does not notice that it is cancelled. Then the commands are left to themselves, for as long
// as a server may take.
func (l *link) send(ctx context.Context, commands []resp.Command) []resp.Reply {
	bounded, cancel := context.WithTimeout(ctx, patience)
	// What comes late is not read: it has a place of its own.
	answered := make(chan []resp.Reply, 1)
	// The caller may use its memory again.
	all := make([]sent, len(commands))
	together := &batch{}
	for i, command := range commands {
		all[i].reader = reader{batch: together, last: i == len(commands)-1, long: long[command[0]]}
		all[i].command = redis.NewRawWriteToCmd(bounded, &all[i].reader, words(command)...)
	}
	go func() {
		defer cancel()
		answered <- l.exec(bounded, all)
	}()
	select {
	case replies := <-answered:
		return replies
	case <-bounded.Done():
	}
	select { // a caller that was answered at the last moment is told
	case replies := <-answered:
		return replies
	default:
	}
	l.losses.Add(1)
	return failed(len(commands), context.Cause(bounded))
}

// words are a command as the client takes it, in a copy. Its arguments are pointers: they
// cost less, and hooks that write commands into traces do not write the identities of
// holders there.
func words(command resp.Command) []any {
	text := make([]string, len(command))
	copy(text, command)
	all := make([]any, len(command))
	for i := range text {
		all[i] = &text[i]
	}
	all[0] = text[0]
	return all
}

// sent is a command, and what reads its reply. The client never repeats such a command,
// nor what is sent with it, whatever its options.
type sent struct {
	command *redis.RawWriteToCmd
	reader  reader
}

// exec sends a batch over one connection and reads the replies.
func (l *link) exec(ctx context.Context, all []sent) (replies []resp.Reply) {
	defer func() {
		// The replies to what sets a connection up are the client's own to read.
		if r := recover(); r != nil {
			l.losses.Add(1)
			replies = failed(len(all), broken("%v", r))
		}
	}()
	client, _, err := l.lead(ctx)
	if err != nil {
		l.losses.Add(1)
		return failed(len(all), l.explain(err))
	}
	pipeline := client.Pipeline()
	moved := l.database.away()
	if moved { // what it is answered does not matter: who may not, has not
		back := &reader{batch: &batch{}}
		pipeline.Process(ctx, redis.NewRawWriteToCmd(ctx, back, words(resp.Command{"SELECT", l.database.number})...))
	}
	for i := range all {
		pipeline.Process(ctx, all[i].command)
	}
	_, whole := pipeline.Exec(context.WithValue(ctx, own{}, true))
	if !moved && l.database.away() {
		l.losses.Add(1)
		return failed(len(all), errMoved)
	}
	lost := false
	for i := range all {
		reply := all[i].reader.reply
		if !all[i].reader.done {
			err := all[i].command.Err()
			if err == nil { // no connection could be set up
				err = whole
			}
			if err == nil {
				err = errors.New("the client has no reply to a command")
			}
			reply = resp.Failure(l.explain(err))
		}
		lost = lost || !reply.Said()
		replies = append(replies, reply)
	}
	if lost {
		l.losses.Add(1)
	}
	return replies
}

var errMoved = errors.New("another user of the go-redis client has sent SELECT or RESET meanwhile, so that this may have come to another database")

func failed(n int, err error) []resp.Reply {
	replies := make([]resp.Reply, n)
	for i := range replies {
		replies[i] = resp.Failure(err)
	}
	return replies
}

// Close implements resp.Link. The client is its owner's.
func (l *link) Close() {
	if l.End() {
		l.Wait()
	}
}
