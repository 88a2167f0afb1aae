// Command schemas writes what kubernetes_test.go validates manifests with, into the
// folder testdata/schemas: the JSON schemas of the kinds that are used in deploy/kubernetes.
//
// They come from the OpenAPI document of Kubernetes itself, which is in its
// module, so that tests need no network. "go generate" runs it; a new version of
// Kubernetes is a new version of the module below.
package main

import (
	"encoding/json"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is the module. It is not required by this one: nothing of it is compiled.
const source = "k8s.io/kubernetes@v1.37.2"

// kinds are the definitions to be written, and in kubeconform's words what they are of.
var kinds = map[string]string{
	"io.k8s.api.core.v1.Namespace":             "namespace-v1",
	"io.k8s.api.core.v1.Service":               "service-v1",
	"io.k8s.api.core.v1.ConfigMap":             "configmap-v1",
	"io.k8s.api.apps.v1.StatefulSet":           "statefulset-apps-v1",
	"io.k8s.api.apps.v1.Deployment":            "deployment-apps-v1",
	"io.k8s.api.batch.v1.CronJob":              "cronjob-batch-v1",
	"io.k8s.api.policy.v1.PodDisruptionBudget": "poddisruptionbudget-policy-v1",
	"io.k8s.api.networking.v1.NetworkPolicy":   "networkpolicy-networking-v1",
}

const definitionsFile = "definitions.json"

func main() {
	log.SetFlags(0)
	log.SetPrefix("schemas: ")
	folder := filepath.Join("testdata", "schemas")
	check(os.MkdirAll(folder, 0o755))
	all, needed := definitions(), map[string]any{}
	for name, file := range kinds {
		if all[name] == nil {
			log.Fatalf("%s has no %s", source, name)
		}
		need(all, needed, name)
		writeJSON(filepath.Join(folder, file+".json"), map[string]any{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"$ref":    definitionsFile + "#/definitions/" + name,
			// The kind has been matched already; of the version only the group's part.
			"required": []string{"apiVersion", "kind", "metadata"},
		})
	}
	writeJSON(filepath.Join(folder, definitionsFile), map[string]any{
		"$comment":    "from " + source + ", Apache-2.0; written by go generate",
		"definitions": needed,
	})
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// definitions returns those of the document.
func definitions() map[string]any {
	said, err := exec.Command("go", "mod", "download", "-json", source).Output()
	if err != nil {
		log.Fatalf("go mod download %s: %v: %s", source, err, said)
	}
	var module struct{ Dir string }
	check(json.Unmarshal(said, &module))
	text, err := os.ReadFile(filepath.Join(module.Dir, "api", "openapi-spec", "swagger.json"))
	check(err)
	var document struct{ Definitions map[string]any }
	check(json.Unmarshal(text, &document))
	return document.Definitions
}

// need adds a definition and all that it refers to.
func need(all, needed map[string]any, name string) {
	if needed[name] != nil {
		return
	}
	needed[name] = true // a definition may refer to itself
	needed[name] = strict(all, needed, name, all[name])
}

// strict returns a piece of the document as a JSON schema that allows no unknown field, as the
// server does on request (fieldValidation=Strict).
func strict(all, needed map[string]any, name string, piece any) any {
	// Both are strings in the document, and numbers in most manifests.
	switch name {
	case "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
		return map[string]any{"type": []string{"string", "integer"}}
	case "io.k8s.apimachinery.pkg.api.resource.Quantity":
		return map[string]any{"type": []string{"string", "number"}}
	}
	switch p := piece.(type) {
	case []any:
		for i := range p {
			p[i] = strict(all, needed, "", p[i])
		}
	case map[string]any:
		properties, named := p["properties"].(map[string]any)
		out := map[string]any{}
		if named {
			fields := map[string]any{}
			for field, schema := range properties {
				fields[field] = strict(all, needed, "", schema)
			}
			out["properties"], out["additionalProperties"] = fields, false
		}
		for key, value := range p {
			switch {
			case key == "$ref":
				to := strings.TrimPrefix(value.(string), "#/definitions/")
				need(all, needed, to)
				out[key] = value
			case key == "type" || key == "required" || key == "enum" || key == "format" && value != "int-or-string":
				out[key] = value
			case key == "items" || key == "additionalProperties":
				out[key] = strict(all, needed, "", value)
			}
		}
		return out
	}
	return piece
}

func writeJSON(path string, value any) {
	text, err := json.MarshalIndent(value, "", " ")
	check(err)
	check(os.WriteFile(path, append(text, '\n'), 0o644))
}
