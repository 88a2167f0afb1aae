package engine

import "slices"

// Parameter is a query parameter of a node's URL.
type Parameter struct {
	Name    string
	Engines []string // the packages that take it; nil: all that read URLs by a Form
	Values  []string // that it may have; nil: any but the empty one
	Means   string   // for people, in Markdown
}

// certified are the engines that read certificates by URL.TLSConfig.
var certified = []string{"valkeynode", "mysqlnode", "etcdnode", "bucketnode", "natsnode"}

// Parameters are all query parameters of all engines. docs/engines.md has the same table.
var Parameters = []Parameter{
	{"name", nil, nil, "what all clients of the group call the node, where they reach it by different addresses ([operations.md](operations.md))"},
	{"passwordfile", nil, nil, "a file with the password in its only line"},
	{"ca", certified, nil, "a PEM file with the certificate of your own authority, instead of the system's"},
	{"cert", certified, nil, "a PEM file with the client's certificate; goes with `key`"},
	{"key", certified, nil, "a PEM file with the key of `cert`"},
	{"servername", certified, nil, "the name in the server's certificate, if not the host"},
	{"tls", []string{"mysqlnode", "bucketnode", "natsnode"}, []string{"on", "off"},
		"On is the default, but for a loopback address"},
	{"region", []string{"bucketnode"}, nil, "the region of the bucket, where the host does not say it"},
	{"creds", []string{"natsnode"}, nil, "a file of NATS credentials (a JWT and its seed)"},
	{"replicas", []string{"natsnode"}, []string{"1", "3", "5"},
		"How many servers have the bucket, 1 if absent; another number is refused"},
	{"sync_interval", []string{"natsnode"}, []string{"always"},
		"The servers are configured so. `fenlock migrate` wants it"},
	{"db", []string{"valkeynode"}, nil, "the number of the database, of a `unix://` URL only"},
	{"witness", []string{"valkeynode"}, nil, "how many replicas must have what is promised before it counts, or `off`; all, if absent ([valkey.md](valkey.md#replicas))"},
	{"sentineluser", []string{"valkeynode"}, nil, "the user at the sentinels"},
	{"sentinelpasswordfile", []string{"valkeynode"}, nil, "a file with the sentinels' password in its only line"},
	{"sslmode", []string{"pgnode"}, []string{"disable", "prefer", "require", "verify-ca", "verify-full"},
		"As in libpq. The default is `verify-full`, and `prefer` if the host is this machine. Only `verify-ca` and `verify-full` prove who the server is"},
	{"sslrootcert", []string{"pgnode"}, nil, "a file, as in libpq"},
	{"sslcert", []string{"pgnode"}, nil, "a file, as in libpq"},
	{"sslkey", []string{"pgnode"}, nil, "a file, as in libpq"},
	{"host", []string{"pgnode"}, nil, "the folder of the Unix socket, or hosts, if the URL has none"},
	{"port", []string{"pgnode"}, nil, "goes with `host` or `PGHOST`"},
	{"service", []string{"pgnode"}, nil, "as in libpq"},
	{"target_session_attrs", []string{"pgnode"}, []string{"any", "read-write", "primary"},
		"As in libpq; `read-write` for several hosts"},
	{"connect_timeout", []string{"pgnode"}, nil, "seconds for each host"},
	{"application_name", []string{"pgnode"}, nil, "as in libpq, `fenlock` if absent"},
	{"options", []string{"pgnode"}, nil, "as in libpq, with `%20` for a space"},
	{"schema", []string{"pgnode"}, nil, "where the tables are, `fenlock` if absent"},
}

// parametersOf returns those that an engine takes.
func parametersOf(engine string) (all []Parameter) {
	for _, p := range Parameters {
		if p.Engines == nil || slices.Contains(p.Engines, engine) {
			all = append(all, p)
		}
	}
	return all
}
