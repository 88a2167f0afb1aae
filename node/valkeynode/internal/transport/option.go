package transport

import (
	"context"
	"crypto/tls"
	"net"
	"reflect"
	"strings"

	"github.com/valkey-io/valkey-go"

	"github.com/fenlock/fenlock/node/engine"
)

// theirs are the fields of an option that a caller may set as it likes.
var theirs = map[string]bool{
	"InitAddress": true, "SelectDB": true, "TLSConfig": true, "DialCtxFn": true, "Dialer": true, "DisableTCPNoDelay": true,
	"Username": true, "Password": true, "AuthCredentialsFn": true, "ClientName": true, "ClientSetInfo": true,
	"ClientNoEvict": true, "ClientNoTouch": true,
}

// reasons say why other fields must be left alone, or have the node's own value. A field
// that is in neither table, since the library has got it later, must be left alone too.
var reasons = map[string]string{
	"DisableRetry":          "a command must not be sent twice",
	"RetryDelay":            "a command must not be sent twice, so that nothing is retried",
	"ForceSingleClient":     "a node is one server",
	"ShuffleInit":           "a node is one server",
	"ClusterOption":         "a node is one server",
	"Standalone":            "a node is one server, and asks no replica",
	"Sentinel":              "a node is one server: name it, or the address that leads to whichever is the primary",
	"SendToReplicas":        "a replica lacks the newest locks",
	"ReplicaOnly":           "a replica lacks the newest locks",
	"ReplicaSelector":       "a replica lacks the newest locks",
	"ReadNodeSelector":      "a replica lacks the newest locks",
	"EnableReplicaAZInfo":   "a replica lacks the newest locks",
	"AlwaysPipelining":      "contexts are ignored without it",
	"DisableAutoPipelining": "contexts are ignored with it",
	"PipelineMultiplex":     "with several connections a release could overtake its acquire",
	"AlwaysRESP2":           "notifications need RESP3",
	"DialFn":                "it has no context: set DialCtxFn",
	"ConnWriteTimeout":      "a node decides itself when a server is silent",
	"ConnLifetime":          "a node decides itself when it connects again",
	"DisableCache":          "what a node reads must not be old",
}

// FromOption returns the server of an option of the library, which must name one address
// and nothing that a node decides itself. The name is what its group calls it, "" for the
// address.
func FromOption(opt valkey.ClientOption, name string) (*Server, error) {
	own, given := reflect.ValueOf(pipelined(valkey.ClientOption{})), reflect.ValueOf(opt)
	for i := range given.NumField() {
		field, value := given.Type().Field(i).Name, given.Field(i)
		if value.IsZero() || theirs[field] || value.Comparable() && own.Field(i).Comparable() && value.Equal(own.Field(i)) {
			continue
		}
		why := reasons[field]
		if why == "" {
			why = "a node sets it itself, or has no use for it"
		}
		return nil, engine.Invalidf("valkey.ClientOption: leave %s alone: %s", field, why)
	}
	if len(opt.InitAddress) != 1 {
		return nil, engine.Invalidf(
			"valkey.ClientOption: InitAddress has %d addresses: a node is one server, and the others are nodes of their own",
			len(opt.InitAddress))
	}
	s, scheme := &Server{Option: opt}, "valkey"
	if opt.TLSConfig != nil {
		scheme = "valkeys"
		s.TLS = func() (*tls.Config, error) { return opt.TLSConfig, nil }
	}
	address := opt.InitAddress[0]
	if strings.HasPrefix(address, "/") {
		scheme = "unix"
	} else if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return nil, engine.Invalidf("valkey.ClientOption: the InitAddress %.60q is not host:port", address)
	}
	if opt.SelectDB < 0 {
		return nil, engine.Invalidf("valkey.ClientOption: there is no database %d", opt.SelectDB)
	}
	s.call(scheme, name)
	if opt.AuthCredentialsFn != nil && opt.Password != "" {
		return nil, engine.Invalidf("valkey.ClientOption: a Password and an AuthCredentialsFn: one is enough")
	}
	if dial := opt.DialCtxFn; dial != nil {
		s.dial = func(ctx context.Context, address string, dialer *net.Dialer) (net.Conn, error) {
			return dial(ctx, address, dialer, opt.TLSConfig)
		}
	}
	return s, nil
}
