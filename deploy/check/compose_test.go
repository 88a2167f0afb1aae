package check

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// compose reads a file as "docker compose" does.
func compose(t *testing.T, text string) (*types.Project, error) {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join(deploy, "compose"))
	must(t, err)
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  folder,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(folder, "compose.yaml"), Content: []byte(text)}},
		Environment: types.Mapping{},
	})
}

func TestCompose(t *testing.T) {
	text := read(t, "compose/compose.yaml")
	project, err := compose(t, text)
	must(t, err)
	if len(project.Services) != 5 {
		t.Errorf("%d servers", len(project.Services))
	}
	ports, volumes := map[string]bool{}, map[string]bool{}
	for name, s := range project.Services {
		if s.Image != "docker.io/valkey/valkey:8.1.8" || s.Restart == "" || s.MemLimit == 0 || !s.ReadOnly || s.Privileged ||
			!slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s: %s, restart %q, %d bytes, read-only %v, privileged %v, without %v", name, s.Image, s.Restart,
				s.MemLimit, s.ReadOnly, s.Privileged, s.CapDrop)
		}
		if s.HealthCheck == nil || !slices.Equal([]string(s.HealthCheck.Test), []string{"CMD-SHELL", healthCheck}) {
			t.Errorf("%s is asked %v", name, s.HealthCheck)
		}
		for _, p := range s.Ports {
			if ip := net.ParseIP(p.HostIP); ip == nil || !ip.IsLoopback() || ports[p.Published] {
				t.Errorf("%s is published on %s:%s", name, p.HostIP, p.Published)
			}
			ports[p.Published] = true
		}
		targets := map[string]string{}
		for _, v := range s.Volumes {
			targets[v.Target] = v.Source
			if v.Type == types.VolumeTypeVolume && volumes[v.Source] {
				t.Errorf("%s has the data of another server: %s", name, v.Source)
			}
			volumes[v.Source] = true
		}
		if targets["/etc/fenlock/fenlock.conf"] != absolute(t, "valkey/fenlock.conf") ||
			targets["/etc/fenlock/users.acl"] == "" || targets["/data"] == "" {
			t.Errorf("%s has the files %v", name, targets)
		}
		if !strings.HasPrefix(strings.Join(s.Command, " "), "valkey-server /etc/fenlock/fenlock.conf --dir /data ") {
			t.Errorf("%s runs %q", name, s.Command)
		}
	}
	if len(ports) != 5 {
		t.Errorf("the ports %v are published", ports)
	}
	for _, broken := range [][2]string{
		{"healthcheck:", "healthchek:"},
		{"interval: 10s", "interval: soon"},
		{"mem_limit: 320m", "mem_limit: much"},
		{"  data-5:\n", ""},
		{`"127.0.0.1:7001:6379"`, `"127.0.0.1:7001:valkey"`},
		{"<<: *server", "<<: *node"},
	} {
		if _, err := compose(t, with(t, text, broken[0], broken[1])); err == nil {
			t.Errorf("%q is not noticed", broken[1])
		}
	}
}
