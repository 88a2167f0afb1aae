package pgnode

import (
	"cmp"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgservicefile"
	"github.com/jackc/pgx/v5"

	"github.com/fenlock/fenlock/node/engine"
)

// target is where a URL leads.
type target struct {
	config       *pgx.ConnConfig
	several      bool                   // hosts, of one cluster
	password     func() (string, error) // nil: the URL's own, or the environment's
	schema       string
	name, member string
}

var form = engine.Form{Engine: "pgnode", Example: "postgres://user:password@host:5432/database",
	Schemes: []string{"postgres", "postgresql"}, Several: true, Open: true}

func parse(rawURL string) (t target, err error) {
	u, err := form.Parse(rawURL)
	if err != nil {
		return t, err
	}
	settings, err := settingsOf(u)
	if err != nil {
		return t, err
	}
	if u.Get("passwordfile") != "" {
		t.password = u.Password
	}
	// Without the password: pgx repeats the text in its errors.
	if t.config, err = pgx.ParseConfig(textFor(settings)); err != nil {
		_, why, _ := strings.Cut(err.Error(), "`: ")
		return t, u.Invalidf("it is not accepted, with what the environment and the service add: %s",
			cmp.Or(why, "it cannot be parsed"))
	}
	if password, err := u.Password(); err != nil {
		return t, err
	} else if password != "" {
		t.config.Password = password
	}
	given := t.config.RuntimeParams
	for key := range given {
		if !slices.Contains([]string{"application_name", "options", "timezone"}, key) {
			return t, u.Invalidf("the service %.60q has the setting %.60q, which is not known", settings["service"], key)
		}
	}
	if strings.Contains(strings.ToLower(given["options"]), "bytea") { // pgx reads no other format
		given["options"] += " -c bytea_output=hex"
	}
	given["application_name"] = cmp.Or(given["application_name"], "fenlock")
	names := hostsOf(t.config)
	if t.several = len(names) > 1; t.several && t.config.ConnectTimeout == 0 {
		t.config.ConnectTimeout = connectTimeout / time.Duration(len(names)) // so that each has a turn
	}
	if len(u.Hosts) > 0 {
		names = u.Hosts
	}
	t.schema = cmp.Or(u.Get("schema"), DefaultSchema)
	t.name = strings.Join(names, ",") + "/" + cmp.Or(t.config.Database, t.config.User)
	if t.schema != DefaultSchema {
		t.name += "/" + t.schema
	}
	t.member = cmp.Or(u.Name, t.name)
	return t, nil
}

// settingsOf returns what pgx is given, by libpq's names. What is missing there, it takes from the
// service and the environment. They must not lead a URL that has a host to another server, or to a
// standby.
func settingsOf(u *engine.URL) (settings map[string]string, err error) {
	settings = map[string]string{"user": u.User, "database": strings.TrimPrefix(u.Path, "/")}
	for _, key := range []string{"service", "application_name", "connect_timeout", "options", "sslmode"} {
		settings[key] = u.Get(key)
	}
	for _, key := range []string{"sslrootcert", "sslcert", "sslkey"} {
		if settings[key] = u.Get(key); settings[key] == "" {
			continue
		}
		if _, err := os.Stat(settings[key]); err != nil {
			return nil, u.Invalidf("%s: %v", key, err)
		}
	}
	if seconds := settings["connect_timeout"]; seconds != "" {
		if n, err := strconv.Atoi(seconds); err != nil || n < 1 || n > 3600 {
			return nil, u.Invalidf("connect_timeout is 1 to 3600 seconds, a whole number, and here it is something else")
		}
	}
	service, err := serviceOf(u)
	if err != nil {
		return nil, err
	}
	left := func(key, variable string) string { return cmp.Or(service[key], os.Getenv(variable)) }
	if err := addressOf(u, settings, left); err != nil {
		return nil, err
	}
	several := false
	secure := "prefer"
	for i, host := range strings.Split(settings["host"], ",") {
		several = several || i > 0
		if host != "" && !engine.IsLocal(host) {
			secure = "verify-full"
		}
	}
	settings["sslmode"] = cmp.Or(settings["sslmode"], left("sslmode", "PGSSLMODE"), secure)
	switch attributes := u.Get("target_session_attrs"); {
	case several && attributes == "any":
		return nil, u.Invalidf("target_session_attrs is any, and there are several hosts: only their primary may grant locks (read-write, primary)")
	case several, attributes == "primary":
		// For a primary, pgx calls a function, which the search_path may have in another schema. And a
		// primary that is read only grants nothing.
		settings["target_session_attrs"] = "read-write"
	default:
		settings["target_session_attrs"] = cmp.Or(attributes, "any")
	}
	return settings, nil
}

// addressOf adds host and port.
func addressOf(u *engine.URL, settings map[string]string, left func(key, variable string) string) error {
	host, port := u.Get("host"), u.Get("port")
	switch {
	case len(u.Hosts) > 0 && (host != "" || port != ""):
		return u.Invalidf("there is a host, and the parameter host or port too: one is enough")
	case len(u.Hosts) > 0:
		var hosts, ports []string
		for _, h := range u.Hosts {
			name, number, err := net.SplitHostPort(h)
			if err != nil {
				name, number = strings.Trim(h, "[]"), ""
			}
			hosts, ports = append(hosts, name), append(ports, cmp.Or(number, defaultPort))
		}
		host, port = strings.Join(hosts, ","), strings.Join(ports, ",")
	case host != "":
		port = cmp.Or(port, defaultPort)
	case os.Getenv("PGHOSTADDR") != "" || left("hostaddr", "") != "":
		return u.Invalidf("there is no host, and PGHOSTADDR or hostaddr is not known: PGHOST or host is")
	default:
		host, port = left("host", "PGHOST"), cmp.Or(port, left("port", "PGPORT"))
	}
	settings["host"], settings["port"] = host, port
	return nil
}

const defaultPort = "5432"

// serviceOf returns the settings of the service that the URL or PGSERVICE names, if any. The file
// is that which pgx reads.
func serviceOf(u *engine.URL) (map[string]string, error) {
	name, file := cmp.Or(u.Get("service"), os.Getenv("PGSERVICE")), os.Getenv("PGSERVICEFILE")
	if name == "" {
		return nil, nil
	}
	if home, err := os.UserHomeDir(); file == "" && err == nil {
		file = filepath.Join(home, ".pg_service.conf")
	}
	all, err := pgservicefile.ReadServicefile(file)
	if err != nil {
		return nil, u.Invalidf("service: the file %q (PGSERVICEFILE) cannot be read: %v", file, err)
	}
	service, err := all.GetService(name)
	if err != nil {
		return nil, u.Invalidf("service: there is no %.60q in %s (PGSERVICEFILE)", name, file)
	}
	return service.Settings, nil
}

// textFor returns settings as keywords and values. Empty ones are left out.
func textFor(settings map[string]string) string {
	var text strings.Builder
	escape := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if value := settings[key]; value != "" {
			text.WriteString(key + "='" + escape.Replace(value) + "' ")
		}
	}
	return text.String()
}

// hostsOf returns the hosts of a configuration, as texts, each once: pgx has them with TLS and
// without.
func hostsOf(config *pgx.ConnConfig) []string {
	all := []string{hostText(config.Host, config.Port)}
	for _, way := range config.Fallbacks {
		if host := hostText(way.Host, way.Port); !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return all
}

// hostText returns a host, with its port unless that is the default one.
func hostText(host string, port uint16) string {
	number := strconv.Itoa(int(port))
	switch {
	case number == defaultPort:
		return host
	case strings.HasPrefix(host, "/"):
		return host + ":" + number
	}
	return net.JoinHostPort(host, number)
}
