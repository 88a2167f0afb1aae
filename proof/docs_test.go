package proof_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/fenlock/fenlock/internal/proof/model"
	"github.com/fenlock/fenlock/proof"
)

var (
	names = regexp.MustCompile("\\b[A-Z][0-9](?:-[a-z]+)?\\b|`[A-Za-z]+(?:-[A-Za-z]+)+-?`") // P1-unique, P1, `prom-R`
	where = regexp.MustCompile(`\| ((?:tokens|shared|time|admission|groups|witness|, )+) \|`)
)

// Each promise and lemma that the pages name is in a model, and in those that its row of a table
// gives. docs/proof.md names every promise.
func TestPagesNameWhatTheModelsHave(t *testing.T) {
	has := map[string]bool{} // "tokens P1-unique", "tokens P1", and without the model
	var promises []string
	for _, base := range []string{"tokens", "shared", "time", "admission", "groups", "witness"} {
		text, _ := fs.ReadFile(proof.Files, base+".model") // Parse refuses an empty one
		m, err := model.Parse(base+".model", string(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range m.Invariants {
			has[i.Name], has[base+" "+i.Name] = true, true
			if i.Promise {
				has[i.Name[:2]], has[base+" "+i.Name[:2]] = true, true
				promises = append(promises, i.Name)
			}
		}
	}
	for _, page := range []string{"../docs/proof.md", "README.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, name := range names.FindAllString(line, -1) {
				name = strings.Trim(name, "`")
				ok := has[name]
				for base := range strings.SplitSeq(strings.Trim(where.FindString(line), "| "), ", ") {
					ok = ok && has[strings.TrimSpace(base+" "+name)]
				}
				if !ok {
					t.Errorf("%s: no promise or lemma %s: %s", page, name, line)
				}
			}
		}
		for _, name := range promises {
			if page == "../docs/proof.md" && !strings.Contains(string(text), name) {
				t.Errorf("%s does not name the promise %s", page, name)
			}
		}
	}
}
