package tests

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// The shell scripts of docs/guarding.md do what it says of them. A token that is smaller than one
// that was seen writes nothing, and ends with 3.

func TestShellGuardOfAFile(t *testing.T) {
	script, dir := documentedScript(t, "put-file"), t.TempDir()
	put := func(token, content string) error {
		cmd := exec.Command(script, "report.txt")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(content)
		cmd.Env = append(os.Environ(), "FENLOCK_TOKEN="+token)
		return cmd.Run()
	}
	has := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(dir, "report.txt")); err != nil || string(got) != want {
			t.Fatalf("the file has %q (%v), want %q", got, err, want)
		}
	}
	mustPut := func(token, content string) {
		t.Helper()
		if err := put(token, content); err != nil {
			t.Fatalf("token %s: %v", token, err)
		}
		has(content)
	}
	mustPut("1795458158402218", "first")
	mustPut("1795458158402218", "the same holder again")
	mustPut("1795458158402219", "the next holder")
	if err := put("1795458158402218", "too late"); status(err) != 3 {
		t.Fatalf("a token that is smaller: %v, want status 3", err)
	}
	has("the next holder")

	// A token that cannot be written, or read, must not let the content in without it.
	block := filepath.Join(dir, "report.txt.token.new")
	if err := os.Mkdir(block, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := put("1795458158402220", "without its token"); status(err) <= 0 {
		t.Fatalf("a token that cannot be written: %v, want a failure", err)
	}
	has("the next holder")
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "report.txt.token"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := put("1795458158402220", "beside a token that is no number"); status(err) != 3 {
		t.Fatalf("a token that is no number: %v, want status 3", err)
	}
	has("the next holder")
}

func TestShellGuardOfARow(t *testing.T) {
	server := testserver.StartPostgres(t)
	db := database(t, "pgx", server.DSN())
	if _, err := db.Exec(`CREATE TABLE orders (id INT PRIMARY KEY, state TEXT, token BIGINT NOT NULL DEFAULT 0);
		INSERT INTO orders VALUES (42, 'open')`); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	script := documentedScript(t, "settle")
	settle := func(token string) error {
		cmd := exec.Command(script)
		cmd.Env = append(os.Environ(), "FENLOCK_TOKEN="+token, "PGHOST="+at.Hostname(), "PGPORT="+at.Port(),
			"PGUSER="+at.User.Username(), "PGDATABASE="+strings.TrimPrefix(at.Path, "/"))
		return cmd.Run()
	}
	if err := settle("34"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`UPDATE orders SET state = 'reopened' WHERE id = 42`); err != nil {
		t.Fatal(err)
	}
	if err := settle("33"); status(err) != 3 {
		t.Fatalf("a token that is smaller: %v, want status 3", err)
	}
	var state string
	if err := db.QueryRow(`SELECT state FROM orders WHERE id = 42`).Scan(&state); err != nil || state != "reopened" {
		t.Fatalf("the order is %q (%v)", state, err)
	}
	if err := settle("34"); err != nil {
		t.Fatalf("the same holder again: %v", err)
	}
	server.Stop()
	if err := settle("35"); status(err) != 1 {
		t.Fatalf("without a server: %v, want status 1", err)
	}
}

// documentedScript makes a program of the block of docs/guarding.md that is named so.
func documentedScript(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/guarding.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(#!/bin/sh\n# " + regexp.QuoteMeta(name) + ",.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("docs/guarding.md has no script %q any more", name)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, block[1], 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// status is the exit status of a command that ended with err, 0 for none.
func status(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}
