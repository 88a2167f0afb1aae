package engines

import (
	"errors"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/fenlock/fenlock/internal/testserver"
)

// On every engine a lock stays for as long as --at-least says, though the command and its fenlock
// have ended.
func TestAtLeast(t *testing.T) {
	fenlock := testserver.Fenlock(t)
	for _, e := range all {
		if e.name == "Valkey and PostgreSQL" {
			continue // the nodes of two others
		}
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			var urls []string
			switch e.name {
			case "Valkey": // with another longest lease than the other scene
				for _, s := range testserver.Group(t, testserver.Kinds(t)[0], 3) {
					urls = append(urls, s.URL())
				}
			case "S3": // of the other scene's, the first start takes two minutes to build
				urls = []string{inMemory(t)}
			default:
				urls = e.start(t, fenlock).urls
			}
			run := func(flags ...string) (status int, output string) {
				arguments := []string{"run", "--ttl", "5s", "--new-servers", "--wait", "1m"}
				for _, url := range urls {
					arguments = append(arguments, "--node", url)
				}
				said, err := exec.Command(fenlock, append(append(arguments, flags...), "kept", "--", "true")...).CombinedOutput()
				var exit *exec.ExitError
				if errors.As(err, &exit) {
					return exit.ExitCode(), string(said)
				} else if err != nil {
					t.Fatal(err)
				}
				return 0, string(said)
			}
			if status, said := run("--at-least", "15s"); status != 0 {
				t.Fatalf("status %d\n%s", status, said)
			}
			if status, said := run("--wait", "1s"); status != 75 {
				t.Errorf("status %d, want 75: it is kept\n%s", status, said)
			}
			if status, said := run("--wait", "2m"); status != 0 { // it is free in the end
				t.Errorf("status %d\n%s", status, said)
			}
		})
	}
}

// inMemory starts an object store, and returns the URL of a node in it.
func inMemory(t *testing.T) string {
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return "s3://user:password@" + strings.TrimPrefix(server.URL, "http://") + "/bucket/locks"
}
