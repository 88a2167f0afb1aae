package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// prepare writes the version into every file that names it: go.mod, go.work, the
// CHANGELOG.md of each released module, and go.sum.
//
// The sums of siblings are for who builds a clone of the tag with GOWORK=off, such as
// a distribution: nobody else looks at them, as the go command reads no go.sum but the
// main module's. They can be written before the tags are there, since a module's files
// do not depend on those of the modules that require it.
//
// Strict means that each CHANGELOG.md needs an entry for what has changed.
func (t *tree) prepare(version string, today time.Time, strict bool) error {
	names := regexp.MustCompile(`(?m)^((?:\s|require |replace )*` + regexp.QuoteMeta(t.modules[0].path()) + `(?:/\S+)? )v[^\s/]+`)
	edit := func(name string) error {
		text, err := os.ReadFile(filepath.Join(t.root, name))
		if err != nil {
			return err
		}
		changed := names.ReplaceAll(text, []byte("${1}"+version))
		if string(changed) == string(text) {
			return nil
		}
		return os.WriteFile(filepath.Join(t.root, name), changed, 0o644)
	}
	if err := edit("go.work"); err != nil {
		return err
	}
	last, err := t.lastTag(version)
	if err != nil {
		return err
	}
	for _, m := range t.modules {
		if err := edit(m.dir + "/go.mod"); err != nil {
			return err
		}
		if !m.released() {
			continue
		}
		if err := t.date(m, version, last, today, strict); err != nil {
			return err
		}
	}
	sums := map[string]string{}
	for _, m := range t.modules { // those that a module requires come before it
		var siblings strings.Builder
		for _, other := range t.modules {
			for _, r := range m.file.Require {
				if r.Mod.Path == other.path() {
					siblings.WriteString(sums[other.path()])
				}
			}
		}
		if siblings.Len() > 0 {
			if err := t.setSum(m, strings.Join(slices.Sorted(strings.Lines(siblings.String())), "")); err != nil {
				return err
			}
		}
		if sums[m.path()], err = t.sum(m, version); err != nil {
			return err
		}
	}
	return nil
}

// date gives a CHANGELOG.md's section "Unreleased" the version's name. A module in which
// nothing has changed since the last release gets a section that says so, since all have
// the same version.
func (t *tree) date(m module, version, last string, today time.Time, strict bool) error {
	name := filepath.Join(t.root, m.log())
	raw, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("%s/go.mod is of a module that is released, and it has no %s: begin one like another module's: %w", m.dir, m.log(), err)
	}
	text := string(raw)
	heading := fmt.Sprintf("## %s (%s)\n", version, today.Format(time.DateOnly))
	unreleased, ofVersion := section(text, "Unreleased"), section(text, version)
	switch {
	case unreleased != "" && ofVersion != "":
		return fmt.Errorf("%s has both a section Unreleased and one for %s: make it one", m.log(), version)
	case ofVersion != "":
		return nil
	case unreleased != "":
		text = strings.Replace(text, "## Unreleased\n", heading, 1)
	default:
		changed, err := t.changed(m, last)
		if err != nil {
			return err
		}
		if changed && strict {
			return fmt.Errorf("%s says nothing about %s, and the module has changed since the last release: write it under \"## Unreleased\"", m.log(), version)
		}
		first := min(strings.Index(text+"\n## ", "\n## ")+1, len(text))
		text = strings.TrimRight(text[:first], "\n") + "\n\n" + heading + "\n- Nothing has changed but the version.\n\n" + text[first:]
		text = strings.TrimRight(text, "\n") + "\n"
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// section returns what a changelog has under "## title" or "## title (date)".
func section(text, title string) string {
	_, rest, ok := strings.Cut("\n"+text, "\n## "+title+"\n")
	if !ok {
		if _, rest, ok = strings.Cut("\n"+text, "\n## "+title+" ("); !ok {
			return ""
		}
		_, rest, _ = strings.Cut(rest, "\n")
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return strings.TrimSpace(rest) + "\n"
}
