//go:build linux || darwin || freebsd

package command

import (
	"net"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/cmd/fenlock/internal/listen"
	"github.com/fenlock/fenlock/node/secretfile"
	"github.com/spf13/pflag"
)

// metricsVariable is handed to no command: its address is in use as long as that runs.
const metricsVariable = variablePrefix + "METRICS"

// metricsOptions are the flags about metrics.
type metricsOptions struct {
	address   string
	names     bool
	tokenFile string
	flags     *pflag.FlagSet
}

func (o *metricsOptions) register(f *pflag.FlagSet) {
	o.flags = f
	f.StringVar(&o.address, "metrics", "",
		"`address`, HOST:PORT, that Prometheus is answered at while this runs: /metrics")
	f.BoolVar(&o.names, "metrics-names", false, "let metrics have the lock's name, as a label")
	f.StringVar(&o.tokenFile, "metrics-token-file", "", "`file` with the token that Prometheus has to know, which only its owner may read; for an address that other machines reach")
}

// serve listens, before anything else is begun, until end is called, which does not wait.
func (o *metricsOptions) serve(name string) (observer fenlock.Observer, end func(), err error) {
	if o.address == "" {
		return observer, func() {}, nil
	}
	token := ""
	p := listen.Purpose{Example: "127.0.0.1:5626", Others: "fenlock run"}
	// A name that is empty, as that of a variable that is not set, is no leave to do without.
	if !o.flags.Changed("metrics-token-file") {
		p.Refusal = "read how the lock does: say --metrics-token-file"
	} else if token, err = readToken("--metrics-token-file", o.tokenFile); err != nil {
		return observer, nil, err
	}
	listener, err := listen.TCP(o.address, p)
	if err != nil {
		return observer, nil, exitf(exitUsage, "--metrics: %v", err)
	}
	if !o.names {
		name = ""
	}
	observer, end = extras.Metrics(listener, token, name, func(err error) { say("the metrics have ended: %v", err) })
	if _, port, _ := net.SplitHostPort(o.address); port == "0" || port == "" { // no other program knows it
		say("metrics are at http://%s/metrics", listener.Addr())
	}
	return observer, end, nil
}

// readToken reads the file that a flag names.
func readToken(flag, path string) (string, error) {
	token, err := secretfile.ReadPassword(path)
	if err != nil {
		return "", exitf(exitUsage, "%s: %v", flag, err)
	}
	if len(token) < listen.MinToken {
		return "", exitf(exitUsage, "%s: the token has %d bytes, at least %d are needed: nothing else keeps others out", flag,
			len(token), listen.MinToken)
	}
	return token, nil
}
