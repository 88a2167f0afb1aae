package pgnode

import (
	"cmp"
	"errors"
	"net/url"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fenlock/fenlock/node/engine"
)

// target is where a URL leads.
type target struct {
	config       *pgx.ConnConfig
	password     func() (string, error) // nil: the URL's own, or the environment's
	schema       string
	name, member string
}

var form = engine.Form{Engine: "pgnode", Example: "postgres://user:password@host:5432/database",
	Schemes: []string{"postgres", "postgresql"}, Several: true}

func parse(rawURL string) (t target, err error) {
	u, err := form.Parse(rawURL)
	if err != nil {
		return t, err
	}
	secure := "verify-full"
	if u.Local() {
		secure = "prefer"
	}
	forPgx := url.Values{"sslmode": {cmp.Or(u.Get("sslmode"), secure)}}
	if attributes := u.Get("target_session_attrs"); attributes != "" {
		forPgx.Set("target_session_attrs", attributes)
	}
	for _, key := range []string{"sslrootcert", "sslcert", "sslkey"} {
		if file := u.Get(key); file != "" {
			if _, err := os.Stat(file); err != nil {
				return t, u.Invalidf("%s: %v", key, err)
			}
			forPgx.Set(key, file)
		}
	}
	there := url.URL{Scheme: u.Scheme, Host: strings.Join(u.Hosts, ","), Path: u.Path, RawQuery: forPgx.Encode()}
	if u.User != "" {
		there.User = url.User(u.User)
	}
	if u.Get("passwordfile") != "" {
		t.password = u.Password
	} else if u.HasPassword() {
		password, err := u.Password()
		if err != nil {
			return t, err
		}
		there.User = url.UserPassword(u.User, password)
	}
	if t.config, err = pgx.ParseConfig(there.String()); err != nil {
		// pgx repeats the string; the password in it is hidden, a part of it may not be.
		return t, u.Invalidf("it is not accepted: %v", innermost(err))
	}
	t.config.RuntimeParams["application_name"] = "fenlock"
	t.schema = cmp.Or(u.Get("schema"), DefaultSchema)
	if t.name = there.Host + "/" + t.config.Database; t.schema != DefaultSchema {
		t.name += "/" + t.schema
	}
	t.member = cmp.Or(u.Name, t.name)
	return t, nil
}

// innermost is what an error wraps, which repeats no connection string.
func innermost(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err
}
