package zknode

import (
	"time"

	"github.com/fenlock/fenlock/node"
	"github.com/fenlock/fenlock/nodetest"
)

var (
	request = nodetest.Request
	as      = nodetest.As
	want    = nodetest.Want
)

func lasting(r node.Request, ttl time.Duration) node.Request {
	r.TTL = ttl
	return r
}
