//go:build linux

// Command picture records three terminals, on three servers that it starts, and makes a moving
// picture of them. A holder is killed, and the next one has a larger token. What the picture shows
// is what the terminals showed, and when.
//
//	go run ./picture -out ../docs/run.svg
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/fenlock/fenlock"
	"github.com/fenlock/fenlock/internal/testserver"
	"github.com/fenlock/fenlock/node/valkeynode"
)

func main() {
	out := flag.String("out", "", "write the picture to this file")
	flag.Parse()
	if flag.NArg() > 0 || *out == "" {
		flag.Usage()
		os.Exit(64)
	}
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	var outside testserver.Outside
	defer outside.Close()
	var made recording
	err := testserver.Try(func() (err error) {
		made, err = record(&outside)
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(out, made.svg(), 0o644)
}

// report is what the lock is for.
const report = `#!/bin/sh
echo "report: started with token $FENLOCK_TOKEN"
for page in 1 2 3 4 5 6 7 8 9; do
	sleep 1
	echo "report: page $page"
done
`

// record plays the scene. Between its steps are pauses, in which one can read.
func record(t *testserver.Outside) (recording, error) {
	folder := t.TempDir()
	if _, err := testserver.BuildFenlock(folder); err != nil {
		return recording{}, err
	}
	if err := os.WriteFile(filepath.Join(folder, "report.sh"), []byte(report), 0o700); err != nil {
		return recording{}, err
	}
	var nodes []string
	for _, s := range testserver.Group(t, testserver.Kinds(t)[0], 3) {
		s.MarkAdmitted(valkeynode.DefaultPrefix, fenlock.DefaultMaxTTL)
		nodes = append(nodes, s.URL())
	}
	environment := append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "FENLOCK_NODES="+strings.Join(nodes, ","),
		"TERM=dumb", "LC_ALL=C.UTF-8")
	var all []*terminal
	for range 3 {
		one, err := open(folder, environment)
		if err != nil {
			return recording{}, err
		}
		t.Cleanup(one.close)
		all = append(all, one)
	}
	first, second, third := all[0], all[1], all[2]
	began := time.Now()
	for _, one := range all {
		one.begin(began)
	}
	const command = "fenlock run --ttl 4s report -- ./report.sh"
	var pid string
	for _, step := range []func() error{
		func() error { return first.enter(command, "page 1") },
		func() error { return second.enter(command, "held by") },
		func() error { return third.enter("fenlock ls", `/[0-9]+ .*\$ $`) },
		func() error {
			holder := regexp.MustCompile(`/([0-9]+) `).FindStringSubmatch(third.text())
			pid = holder[1]
			time.Sleep(2 * time.Second)
			return third.enter("kill -9 "+pid, `\$ $`)
		},
		func() error { return first.wait(`Killed`) },
		func() error { return second.wait("page 1") },
		func() error { return third.enter("fenlock ls", `/[0-9]+ .*/[0-9]+ .*\$ $`) },
		func() error { return second.wait("page 4") },
	} {
		if err := step(); err != nil {
			return recording{}, err
		}
		time.Sleep(700 * time.Millisecond)
	}
	made := recording{lasts: time.Since(began) + 2*time.Second}
	for _, one := range all {
		if strings.Contains(one.text(), "waiting for nodes") {
			return recording{}, errors.New("the machine is too busy for the scene: try again later")
		}
		made.panes = append(made.panes, one.rows())
	}
	return made, nil
}
