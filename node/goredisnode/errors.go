package goredisnode

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/redis/go-redis/v9"
)

// errorOf returns an error of the client in words for people: that of a server as such,
// without its address, which is the node's name.
func errorOf(err error) error {
	var said redis.Error
	var operation *net.OpError
	switch {
	case errors.As(err, &said):
		return resp.Error(withoutArguments(strings.TrimPrefix(said.Error(), "ERR ")))
	case errors.Is(err, redis.ErrClosed):
		return node.NotSent(fmt.Errorf(
			"%w: the go-redis client was closed by the program: it has to stay open until the Locker and the node are closed",
			node.ErrMisconfigured))
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return node.NotSent(fmt.Errorf("no connection of the go-redis client was free: its other commands keep them all, so that Options.PoolSize is to be larger (%w)", err))
	case errors.As(err, &operation):
		if operation.Op == "dial" {
			return node.NotSent(resp.Plain(err))
		}
		return resp.Plain(err)
	}
	return err
}

// unknown begins what a server says of a command that it does not know, before it repeats
// its arguments. Those of AUTH and HELLO are the password, which a provider may have given.
var unknown = regexp.MustCompile(`(?is)^(unknown command .*?),? with args beginning with.*$`)

func withoutArguments(said string) string { return unknown.ReplaceAllString(said, "$1") }
