package check

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// What the documents and files call a file of this folder is there.
func TestFilesThatAreNamed(t *testing.T) {
	named := regexp.MustCompile(`deploy/(?:valkey|compose|systemd|kubernetes|image|check)/[\w./@-]*\w`)
	found := 0
	texts := []string{"../docs/deploy.md", "../docs/operations.md", "../docs/valkey.md"}
	for _, pattern := range []string{"*/*", "*/*/*"} {
		files, err := filepath.Glob(filepath.Join(deploy, pattern))
		must(t, err)
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && filepath.Ext(file) != ".json" {
				texts = append(texts, file[len(deploy):])
			}
		}
	}
	for _, text := range texts {
		for _, name := range named.FindAllString(read(t, text), -1) {
			found++
			if _, err := os.Stat(filepath.Join(deploy, "..", name)); err != nil {
				t.Errorf("%s names %s: %v", text, name, err)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d names were found: the test does not see them", found)
	}
}
