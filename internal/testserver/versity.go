//go:build unix

package testserver

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

var versityProgram = sync.OnceValues(func() (string, error) {
	return tool("versitygw", "github.com/versity/versitygw/cmd/versitygw")
})

// Versity is an object store: Versity's S3 gateway on a folder, bound to the test that started it.
type Versity struct{ process }

// The keys of its only user.
const (
	versityKey    = "user"
	versitySecret = "password"
)

// StartVersity starts a gateway with an empty bucket on a free loopback port. The test's end kills
// it and deletes its data.
func StartVersity(t testing.TB) *Versity {
	t.Helper()
	path, err := versityProgram()
	if err != nil {
		t.Fatalf("Versity's gateway cannot be built: %v", err)
	}
	folder := t.TempDir()
	v := &Versity{process{t: t, path: path, dir: folder, logPath: filepath.Join(folder, "log"),
		killSignal: syscall.SIGKILL}}
	if err := os.MkdirAll(v.Bucket("bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Kill)
	v.startAnywhere(v.startOnPort)
	return v
}

// URL returns the URL of a node under a prefix of a bucket, with the keys.
func (v *Versity) URL(bucket, prefix string) string { return VersityURL(v.Addr(), bucket, prefix) }

// VersityURL is the same by another address, of a proxy.
func VersityURL(address, bucket, prefix string) string {
	return "s3://" + versityKey + ":" + versitySecret + "@" + address + "/" + bucket + "/" + prefix
}

// Bucket returns the folder with the objects of a bucket, for tests that change them.
func (v *Versity) Bucket(bucket string) string { return filepath.Join(v.Data(), bucket) }

// Restart starts a server that is down again, with its data.
func (v *Versity) Restart() {
	v.t.Helper()
	if err := v.startOnPort(); err != nil {
		v.t.Fatalf("restart: %v; its log:\n%s", err, v.Log())
	}
}

func (v *Versity) startOnPort() error {
	return v.start([]string{"--port", v.Addr(), "--access", versityKey, "--secret", versitySecret, "--quiet", "posix",
		v.Data()}, func() error {
		conn, err := v.connect(callTimeout)
		if err == nil {
			conn.Close()
		}
		return err
	})
}
