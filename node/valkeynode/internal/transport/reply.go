package transport

import (
	"github.com/fenlock/fenlock/node/respnode/resp"
	"github.com/valkey-io/valkey-go"
)

// replyOf returns what the library made of a reply, or the error in place of one.
func replyOf(result valkey.ValkeyResult) resp.Reply {
	message, err := result.ToMessage()
	switch {
	case err == nil:
		return replyTo(&message)
	case valkey.IsValkeyNil(err):
		return resp.Null()
	}
	return resp.Failure(said(err))
}

// said returns an error, that of a server as such.
func said(err error) error {
	if reply, ok := valkey.IsValkeyErr(err); ok {
		return resp.Error(reply.Error())
	}
	return err
}

func replyTo(message *valkey.ValkeyMessage) resp.Reply {
	switch {
	case message.IsInt64():
		n, _ := message.ToInt64()
		return resp.Number(n)
	case message.IsNil():
		return resp.Null()
	case message.IsArray():
		values, _ := message.ToArray()
		all := make([]resp.Reply, len(values))
		for i := range values {
			all[i] = replyTo(&values[i])
		}
		return resp.List(all)
	case message.IsMap():
		values, err := message.ToMap()
		if err != nil {
			return resp.Other()
		}
		all := make([]resp.Reply, 0, 2*len(values))
		for key, value := range values {
			all = append(all, resp.Text(key), replyTo(&value))
		}
		return resp.List(all)
	}
	if err := message.Error(); err != nil {
		return resp.Failure(said(err))
	}
	if s, err := message.ToString(); err == nil {
		return resp.Text(s)
	}
	return resp.Other()
}
