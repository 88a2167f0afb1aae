package check

import (
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/yaml"
)

//go:generate go run ./schemas

// manifest is a Kubernetes object, as far as the tests look at it.
type manifest struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Data map[string]string // of a ConfigMap
	Spec struct {
		Replicas       int
		ServiceName    string
		UpdateStrategy struct{ Type string }
		// A map in a Service, a selector elsewhere.
		Selector    map[string]any
		PodSelector struct{ MatchLabels map[string]string }
		Template    template
		JobTemplate struct{ Spec struct{ Template template } }
		Ports       []struct{ TargetPort string }
		Ingress     []struct {
			From []struct {
				PodSelector struct{ MatchLabels map[string]string }
			}
		}
		MaxUnavailable       int
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } }
	}
}

type template struct {
	Metadata struct{ Labels map[string]string }
	Spec     struct {
		TerminationGracePeriodSeconds int
		Containers                    []container
		Volumes                       []struct {
			Name      string
			ConfigMap struct{ Name string }
		}
	}
}

type container struct {
	Image         string
	Command, Args []string
	Ports         []struct{ Name string }
	VolumeMounts  []struct{ Name, MountPath string }
	EnvFrom       []struct{ SecretRef struct{ Name string } }

	LivenessProbe, ReadinessProbe struct{ Exec struct{ Command []string } }
}

// manifests returns the objects of the files that match.
func manifests(t *testing.T, pattern string) []manifest {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(deploy, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %v", pattern, files, err)
	}
	var all []manifest
	for _, file := range files {
		for document := range strings.SplitSeq(read(t, strings.TrimPrefix(file, deploy)), "\n---\n") {
			var m manifest
			if err := yaml.Unmarshal([]byte(document), &m); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all = append(all, m)
		}
	}
	return all
}

// conforms returns what Kubernetes would say of a file: unknown fields, wrong types, what
// is missing.
func conforms(t *testing.T, text string) (problems []string) {
	t.Helper()
	folder, err := filepath.Abs("testdata/schemas")
	must(t, err)
	v, err := validator.New([]string{folder + "/{{.ResourceKind}}{{.KindSuffix}}.json"}, validator.Opts{Strict: true})
	must(t, err)
	for _, r := range v.Validate("manifest", io.NopCloser(strings.NewReader(text))) {
		if r.Status != validator.Valid {
			problems = append(problems, r.Err.Error())
		}
	}
	return problems
}

func TestManifestsConform(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(deploy, "kubernetes", "*.yaml"))
	examples, _ := filepath.Glob(filepath.Join(deploy, "kubernetes", "examples", "*.yaml"))
	if files = append(files, examples...); err != nil || len(files) != 8 {
		t.Fatalf("%v, %v; want 8 files", files, err)
	}
	for _, file := range files {
		if problems := conforms(t, read(t, strings.TrimPrefix(file, deploy))); problems != nil {
			t.Errorf("%s: %s", file, strings.Join(problems, "\n"))
		}
	}
	for _, broken := range []struct{ file, old, changed string }{
		{"server-1.yaml", "serviceName:", "servicename:"},
		{"server-1.yaml", "replicas: 1", `replicas: "one"`},
		{"server-1.yaml", "          livenessProbe:\n            exec:", "          livenessProbe:\n            run:"},
		{"server-1.yaml", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: nein"},
		{"server-1.yaml", "apiVersion: apps/v1", "apiVersion: apps/v7"},
		{"fenlock.yaml", "maxUnavailable: 1", "maxUnavailable: [1]"},
		{"fenlock.yaml", "podSelector:", "podselector:"},
		{"examples/cronjob.yaml", "  schedule:", "  when:"},
		{"examples/deployment.yaml", "      containers:", "      container:"},
	} {
		if conforms(t, with(t, read(t, "kubernetes/"+broken.file), broken.old, broken.changed)) == nil {
			t.Errorf("%s with %q is not noticed", broken.file, broken.changed)
		}
	}
}

// The five are one file with five numbers.
func TestServersAreAlike(t *testing.T) {
	for _, n := range []string{"2", "3", "4", "5"} {
		if want := strings.ReplaceAll(read(t, "kubernetes/server-1.yaml"), "fenlock-1", "fenlock-"+n); read(t,
			"kubernetes/server-"+n+".yaml") != want {
			t.Errorf("server-%s.yaml is not server-1.yaml with its number: sed s/fenlock-1/fenlock-%s/g", n, n)
		}
	}
}

// What one object says of another.
func TestManifestsAgree(t *testing.T) {
	var conf, clients string
	var servers, budgets, policies int
	pods := map[string]template{} // by name
	objects := append(manifests(t, "kubernetes/*.yaml"), manifests(t, "kubernetes/examples/*.yaml")...)
	for _, m := range objects {
		switch m.Kind {
		case "StatefulSet", "Deployment":
			pods[m.Metadata.Name] = m.Spec.Template
		case "CronJob":
			pods[m.Metadata.Name] = m.Spec.JobTemplate.Spec.Template
		case "ConfigMap":
			conf = m.Metadata.Name
			if m.Data["fenlock.conf"] != read(t, "valkey/fenlock.conf") {
				t.Error("the ConfigMap is not deploy/valkey/fenlock.conf")
			}
		case "NetworkPolicy":
			clients = slices.Collect(maps.Keys(m.Spec.Ingress[0].From[0].PodSelector.MatchLabels))[0]
		}
	}
	for _, m := range objects {
		name := m.Kind + " " + m.Metadata.Name
		pod := pods[m.Metadata.Name]
		switch m.Kind {
		case "Service":
			servers++
			if !selects(m.Spec.Selector, pod.Metadata.Labels) {
				t.Errorf("%s selects %v, the pod has %v", name, m.Spec.Selector, pod.Metadata.Labels)
			}
			if m.Spec.Ports[0].TargetPort != pod.Spec.Containers[0].Ports[0].Name {
				t.Errorf("%s leads to port %s of %v", name, m.Spec.Ports[0].TargetPort, pod.Spec.Containers[0].Ports)
			}
		case "StatefulSet":
			if m.Spec.Replicas != 1 || m.Spec.ServiceName != m.Metadata.Name || m.Spec.UpdateStrategy.Type != "OnDelete" {
				t.Errorf("%s: %d pods, service %s, %s", name, m.Spec.Replicas, m.Spec.ServiceName, m.Spec.UpdateStrategy.Type)
			}
			checkServer(t, name, m, conf)
			fallthrough
		case "Deployment":
			if labels, _ := m.Spec.Selector["matchLabels"].(map[string]any); !selects(labels, pod.Metadata.Labels) {
				t.Errorf("%s selects %v, its pod has %v", name, m.Spec.Selector, pod.Metadata.Labels)
			}
		case "PodDisruptionBudget":
			budgets++
			labels, _ := m.Spec.Selector["matchLabels"].(map[string]any)
			for _, n := range []string{"1", "2", "3", "4", "5"} {
				if !selects(labels, pods["fenlock-"+n].Metadata.Labels) {
					t.Errorf("%s does not select server %s", name, n)
				}
			}
		case "NetworkPolicy":
			policies++
			for of, pod := range pods {
				server := strings.HasPrefix(of, "fenlock-")
				if selects(m.Spec.PodSelector.MatchLabels, pod.Metadata.Labels) != server {
					t.Errorf("%s is about %s, or not", name, of)
				}
				if (pod.Metadata.Labels[clients] == "true") == server {
					t.Errorf("%s lets %s in, or not", name, of)
				}
			}
		}
	}
	if servers != 5 || budgets != 1 || policies != 1 {
		t.Errorf("%d servers, %d budgets, %d policies", servers, budgets, policies)
	}
}

// checkServer compares what a server's pod says of itself in several places.
func checkServer(t *testing.T, name string, m manifest, conf string) {
	t.Helper()
	spec := m.Spec.Template.Spec
	c := spec.Containers[0]
	if c.Image != "docker.io/valkey/valkey:8.1.8" {
		t.Errorf("%s: %s; compose has another image", name, c.Image)
	}
	for _, probe := range [][]string{c.LivenessProbe.Exec.Command, c.ReadinessProbe.Exec.Command} {
		if !slices.Equal(probe, []string{"sh", "-c", healthCheck}) {
			t.Errorf("%s asks the server %q", name, probe)
		}
	}
	var volumes []string
	for _, v := range spec.Volumes {
		volumes = append(volumes, v.Name)
		if v.Name == "conf" && v.ConfigMap.Name != conf {
			t.Errorf("%s: the ConfigMap %s is called %s", name, v.ConfigMap.Name, conf)
		}
	}
	for _, claim := range m.Spec.VolumeClaimTemplates {
		volumes = append(volumes, claim.Metadata.Name)
	}
	var folders []string
	for _, mount := range c.VolumeMounts {
		if folders = append(folders, mount.MountPath+"/"); !slices.Contains(volumes, mount.Name) {
			t.Errorf("%s has no volume %s", name, mount.Name)
		}
	}
	for _, argument := range c.Args {
		if strings.HasPrefix(argument, "/") &&
			!slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(argument+"/", folder) }) {
			t.Errorf("%s: %s is in none of %v", name, argument, folders)
		}
	}
}

// selects reports whether a selector takes a pod with these labels.
func selects[V any](selector map[string]V, labels map[string]string) bool {
	for key, value := range selector {
		if text, ok := any(value).(string); !ok || labels[key] != text {
			return false
		}
	}
	return len(selector) > 0
}
