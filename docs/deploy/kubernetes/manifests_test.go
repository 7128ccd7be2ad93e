// Package kubernetes checks the manifests beside it against the types of the
// API.
package kubernetes

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestManifests decodes each file strictly: an unknown field, or a value of the
// wrong type, is an error. What a server also requires is checked by hand.
func TestManifests(t *testing.T) {
	var job batch.CronJob
	var daemon apps.Deployment
	var claim core.PersistentVolumeClaim
	files := map[string][]any{"cronjob.yaml": {&job}, "deployment.yaml": {&daemon}, "state.yaml": {&claim}}
	found, err := filepath.Glob("*.yaml")
	if err != nil || len(found) != len(files) {
		t.Fatalf("the manifests are %v, %v", found, err)
	}
	for _, name := range found {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		documents := bytes.Split(text, []byte("\n---\n"))
		if len(documents) != len(files[name]) {
			t.Fatalf("%s has %d documents", name, len(documents))
		}
		for i, document := range documents {
			if err := yaml.UnmarshalStrict(document, files[name][i]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if job.APIVersion != "batch/v1" || job.Kind != "CronJob" || daemon.APIVersion != "apps/v1" ||
		daemon.Kind != "Deployment" {
		t.Errorf("the kinds are %v, %v", job.TypeMeta, daemon.TypeMeta)
	}
	if claim.APIVersion != "v1" || claim.Kind != "PersistentVolumeClaim" {
		t.Errorf("the kind of the claim is %v", claim.TypeMeta)
	}
	if job.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy != core.RestartPolicyNever {
		t.Error("a Job needs a restart policy of its own")
	}
	if labels := daemon.Spec.Template.Labels; labels["app"] == "" ||
		labels["app"] != daemon.Spec.Selector.MatchLabels["app"] {
		t.Errorf("the selector does not match the labels %v", labels)
	}
	for name, pod := range map[string]core.PodSpec{"cronjob.yaml": job.Spec.JobTemplate.Spec.Template.Spec,
		"deployment.yaml": daemon.Spec.Template.Spec} {
		checkPod(t, name, pod, claim.Name)
	}
}

func checkPod(t *testing.T, name string, pod core.PodSpec, claim string) {
	t.Helper()
	if pod.Hostname == "" {
		t.Errorf("%s names each pod otherwise, so that the limit of an earlier one holds against a raised one", name)
	}
	volumes := map[string]core.Volume{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		if _, ok := volumes[mount.Name]; !ok {
			t.Errorf("%s mounts %q, which is no volume", name, mount.Name)
		}
		// kubelet makes these folders 0777, where ration opens no file.
		if mount.Name != "state" && (mount.SubPath == "" || path.Base(mount.MountPath) != mount.SubPath) {
			t.Errorf("%s mounts the folder of %q at %s; want its files one by one", name, mount.Name, mount.MountPath)
		}
	}
	if of := volumes["state"].PersistentVolumeClaim; of == nil || of.ClaimName != claim {
		t.Errorf("%s does not keep its state in %s", name, claim)
	}
	if mode := volumes["secrets"].Secret.DefaultMode; mode == nil || *mode != 0o400 {
		t.Errorf("%s: others can read its secrets", name)
	}
	if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || *s.FSGroup == 0 {
		t.Errorf("%s runs as root", name)
	}
}
