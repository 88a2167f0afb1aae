package pgnode

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/fenlock/fenlock/node/secretfile"
)

// target is where a URL leads.
type target struct {
	config       *pgx.ConnConfig
	password     func() (string, error) // nil: the URL's own, or the environment's
	schema       string
	name, member string
}

// parameters are those that a URL may have, and what they may be; empty is anything.
var parameters = map[string][]string{
	"sslmode":              {"disable", "prefer", "require", "verify-ca", "verify-full"},
	"sslrootcert":          nil,
	"sslcert":              nil,
	"sslkey":               nil,
	"passwordfile":         nil,
	"target_session_attrs": {"any", "read-write", "primary"},
	"schema":               nil,
	"name":                 nil,
}

func parse(rawURL string) (t target, err error) {
	// No part of the URL is repeated: it may have a password in it.
	u, err := url.Parse(rawURL)
	if err != nil {
		return t, invalidf("the URL is malformed (not shown: it may have a password); write a special character of a password as %%40 and the like")
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return t, invalidf("a URL begins with postgres://")
	}
	if u.Opaque != "" || u.Fragment != "" || u.Host == "" {
		return t, invalidf("a URL is postgres://user:password@host:5432/database")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return t, invalidf("the parameters of %s are malformed", u.Host)
	}
	given := make(map[string]string)
	for key, values := range q {
		allowed, known := parameters[key]
		switch {
		case !known:
			return t, invalidf("%s: there is no parameter %.40q", u.Host, key)
		case len(values) != 1 || values[0] == "":
			return t, invalidf("%s: the parameter %s is there %d times, or empty", u.Host, key, len(values))
		case allowed != nil && !slices.Contains(allowed, values[0]):
			return t, invalidf("%s: %s is one of %s, not %.40q", u.Host, key, strings.Join(allowed, ", "), values[0])
		}
		given[key] = values[0]
	}
	if given["sslmode"] == "" {
		given["sslmode"] = "verify-full"
		if local(u.Host) {
			given["sslmode"] = "prefer"
		}
	}
	t.schema = DefaultSchema
	if s := given["schema"]; s != "" {
		t.schema = s
	}
	if file := given["passwordfile"]; file != "" {
		if _, both := u.User.Password(); both {
			return t, invalidf("%s: there is a password, and a passwordfile", u.Host)
		}
		if !filepath.IsAbs(file) {
			return t, invalidf("%s: the passwordfile %.100q is not an absolute path", u.Host, file)
		}
		t.password = func() (string, error) { return secretfile.ReadPassword(file) }
	}
	database := strings.TrimPrefix(u.Path, "/")
	name := given["name"]
	forPgx := url.Values{}
	for _, key := range []string{"sslmode", "sslrootcert", "sslcert", "sslkey", "target_session_attrs"} {
		if given[key] != "" {
			forPgx.Set(key, given[key])
		}
	}
	for _, key := range []string{"sslrootcert", "sslcert", "sslkey"} {
		if file := given[key]; file != "" {
			if _, err := os.Stat(file); err != nil {
				return t, invalidf("%s: %s: %v", u.Host, key, err)
			}
		}
	}
	u.RawQuery = forPgx.Encode()
	if t.config, err = pgx.ParseConfig(u.String()); err != nil {
		// pgx repeats the string; the password in it is hidden, a part of it may not be.
		return t, invalidf("%s: it is not accepted: %v", u.Host, innermost(err))
	}
	t.config.RuntimeParams["application_name"] = "fenlock"
	t.config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn(), DeadlineDelay: lateAnswer}
	}
	t.name = fmt.Sprintf("%s/%s", u.Host, t.config.Database)
	if database == "" {
		t.name = fmt.Sprintf("%s/%s", u.Host, t.config.Database)
	}
	if t.schema != DefaultSchema {
		t.name += "/" + t.schema
	}
	t.member = t.name
	if name != "" {
		t.member = name
	}
	return t, nil
}

// lateAnswer is for how long a connection waits for what it has asked once nobody wants to know
// it any more. Without it, each request that is late would cost its connection, and the next one
// a new one, which costs the server as much as twenty operations: one that was slow for a
// moment would stay so.
const lateAnswer = time.Second

// innermost is what an error wraps, which repeats no connection string.
func innermost(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}

// local reports whether all hosts are this machine.
func local(hosts string) bool {
	for _, host := range strings.Split(hosts, ",") {
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		if host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}
