package check

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// containerfile reads a file as "docker build" does, its warnings included.
func containerfile(text string) ([]instructions.Stage, error) {
	parsed, err := parser.Parse(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	var warnings []error
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, message string, _ []parser.Range) {
		warnings = append(warnings, errors.New(rule+": "+message))
	}})
	stages, _, err := instructions.Parse(parsed.AST, lint)
	for _, w := range parsed.Warnings {
		warnings = append(warnings, errors.New(w.Short))
	}
	return stages, errors.Join(append(warnings, err)...)
}

// The image has one static file, no root, and nothing that says where it was built.
func TestImage(t *testing.T) {
	text := read(t, "image/Containerfile")
	stages, err := containerfile(text)
	if err != nil || len(stages) != 2 {
		t.Fatalf("%d stages: %v", len(stages), err)
	}
	build, image := stages[0], stages[1]
	if image.BaseName != "scratch" {
		t.Errorf("it begins with %s", image.BaseName)
	}
	version := regexp.MustCompile(`golang:(\d+\.\d+)\.\d+$`).FindStringSubmatch(build.BaseName)
	if wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.work")); version == nil ||
		wanted == nil || version[1] < wanted[1] {
		t.Errorf("it is built by %s, and go.work wants %v", build.BaseName, wanted)
	}
	said := map[string]string{}
	for _, c := range append(build.Commands, image.Commands...) {
		said[c.Name()] += " " + c.(interface{ String() string }).String()
	}
	for _, must := range []string{"CGO_ENABLED=0", "GOTOOLCHAIN=local", "-trimpath"} {
		if !strings.Contains(said["ENV"]+said["env"], must) {
			t.Errorf("the build is without %s: %v", must, said)
		}
	}
	if !slices.ContainsFunc(image.Commands, func(c instructions.Command) bool {
		u, ok := c.(*instructions.UserCommand)
		return ok && u.User == "65532:65532"
	}) {
		t.Error("it runs as root")
	}
	for _, broken := range [][2]string{
		{"FROM scratch", "FORM scratch"},
		{"COPY --from=build /out/fenlock /out/fenlock-all /", "COPY --form=build /out/fenlock /out/fenlock-all /"},
		{"WORKDIR /src", "WORKDIR"},
		{" AS build", " as build"},
	} {
		if _, err := containerfile(with(t, text, broken[0], broken[1])); err == nil {
			t.Errorf("%q is not noticed", broken[1])
		}
	}
	if _, err := containerfile(read(t, "image/app.Containerfile")); err != nil {
		t.Error(err)
	}
}
