package check

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/internal/testserver"
)

// examples are the command lines under fenlock in the files, without the program.
func examples(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, file := range []string{"systemd/example-job.service", "systemd/example-leader.service"} {
		for _, m := range regexp.MustCompile(`(?m)^ExecStart=/usr/bin/fenlock (.*)$`).FindAllStringSubmatch(read(t, file),
			-1) {
			all[file] = strings.Fields(m[1])
		}
	}
	for _, m := range manifests(t, "kubernetes/examples/*.yaml") {
		for _, pod := range []template{m.Spec.Template, m.Spec.JobTemplate.Spec.Template} {
			for _, c := range pod.Spec.Containers {
				all[m.Kind] = append(slices.Clone(c.Command[1:]), c.Args...)
			}
		}
	}
	if m := regexp.MustCompile(`(?m)^ENTRYPOINT (.*)$`).FindStringSubmatch(read(t, "image/app.Containerfile")); m != nil {
		var words []string
		must(t, json.Unmarshal([]byte(m[1]), &words))
		all["app.Containerfile"] = words[1:]
	}
	if len(all) != 5 {
		t.Fatalf("%v: want 5 examples", all)
	}
	return all
}

// Each of them runs, with a program that is there, on servers as configured; so their
// flags exist and are where they belong.
func TestExamples(t *testing.T) {
	fenlock := testserver.Fenlock(t)
	c := newCluster(t, testserver.Kinds(t)[0], 3)
	takes(t, c.client(t, newServers), "another")
	for of, words := range examples(t) {
		program := slices.Index(words, "--") + 1
		if program == 0 || program == len(words) {
			t.Errorf("%s: no program in %q", of, words)
			continue
		}
		cmd := exec.Command(fenlock, append(words[:program:program], "sh", "-c", "exit $((${FENLOCK_TOKEN:-0} < 1))")...)
		cmd.Env = append(os.Environ(), "FENLOCK_NODES="+c.nodes)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %q: %v: %s", of, cmd.Args, err, said)
		}
	}
}
