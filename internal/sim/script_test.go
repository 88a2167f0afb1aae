package sim

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what happens into the scripts of testdata")

const separator = "----\n"

// Every script is about one thing that the shell does around the core. What happened when it was
// written, and was read by a person, happens still.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 18 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s, steps, happens := readScript(t, file)
			for _, ordered := range s.ordered {
				got := s.play(ordered, shipped())
				if *update {
					happens = strings.Join(got, "\n") + "\n"
					if err := os.WriteFile(file, []byte(steps+separator+happens), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want := strings.Split(strings.TrimSpace(happens), "\n")
				want[0] = strings.TrimSpace(want[0])
				got[0] = strings.TrimSpace(got[0])
				if len(got) < 2 {
					t.Fatal("nothing happens")
				}
				if !slices.Equal(got, want) {
					t.Errorf("ordered: %t\n%s", ordered, strings.Join(unlike(want, got), "\n"))
				}
			}
		})
	}
}

// readScript returns a script, its text, and what happens in it.
func readScript(t *testing.T, file string) (s script, steps, happens string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	steps, happens, _ = strings.Cut(string(text), separator)
	if s, err = parseScript(steps); err != nil {
		t.Fatal(err)
	}
	return s, steps, happens
}

// unlike returns the lines that should be there and are not, with "-", and the others
// way round, with "+".
func unlike(want, got []string) (lines []string) {
	for _, l := range want {
		if !slices.Contains(got, l) {
			lines = append(lines, "- "+l)
		}
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			lines = append(lines, "+ "+l)
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	return lines
}

// A script in which the shell does something else is noticed.
func TestScriptsNotice(t *testing.T) {
	s, _, _ := readScript(t, "testdata/one-waits.txt")
	r := shipped()
	silent(&r)
	if slices.Equal(s.play(true, shipped()), s.play(true, r)) {
		t.Error("nothing changes without notifications")
	}
}
