package main

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// components are the modules that a binary was linked from, as it says itself.
type components struct{ info *debug.BuildInfo }

// The parts of a CycloneDX document that are used.
type (
	bill struct {
		Format       string       `json:"bomFormat"`
		Specified    string       `json:"specVersion"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type    string `json:"type"`
		Ref     string `json:"bom-ref"`
		Name    string `json:"name"`
		Version string `json:"version"`
		URL     string `json:"purl"`
		Hashes  []hash `json:"hashes,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	dependency struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn"`
	}
)

// bill returns the components as CycloneDX 1.5. A module's hash is the one of
// go.sum, in hexadecimal.
func (c *components) bill(version string) ([]byte, error) {
	main := library(c.info.Main.Path, version)
	main.Type = "application"
	out := bill{Format: "CycloneDX", Specified: "1.5", Version: 1, Metadata: metadata{main}}
	direct := dependency{Ref: main.Ref}
	add := func(part component) {
		out.Components = append(out.Components, part)
		direct.On = append(direct.On, part.Ref)
	}
	add(library("std", strings.TrimPrefix(c.info.GoVersion, "go")))
	for _, m := range c.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		part := library(m.Path, m.Version)
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
			part.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}}
		}
		add(part)
	}
	out.Dependencies = []dependency{direct}
	text, err := json.MarshalIndent(out, "", "  ")
	return append(text, '\n'), err
}

func library(path, version string) component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: "library", Ref: url, Name: path, Version: version, URL: url}
}

// licences returns the licences of Go and of all modules, each under its name.
func (c *components) licences(root string) ([]byte, error) {
	var out bytes.Buffer
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	if err := addLicences(&out, "Go "+c.info.GoVersion, strings.TrimSpace(string(goroot))); err != nil {
		return nil, err
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Dir}}{{end}}", "./cmd/ration")
	list.Dir = root
	list.Env = os.Environ()
	for _, setting := range c.info.Settings {
		if setting.Key == "GOOS" || setting.Key == "GOARCH" {
			list.Env = append(list.Env, setting.Key+"="+setting.Value)
		}
	}
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("the folders of the modules: %w", err)
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if path, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			dirs[path] = dir
		}
	}
	for _, m := range c.info.Deps {
		if err := addLicences(&out, m.Path+" "+m.Version, dirs[m.Path]); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// addLicences adds the licences and notices in a folder, of which there must be
// one.
func addLicences(out *bytes.Buffer, name, dir string) error {
	found := 0
	for _, pattern := range []string{"LICEN[CS]E*", "COPYING*", "NOTICE*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "== %s: %s\n\n%s\n", name, filepath.Base(path),
				cmp.Or(strings.TrimSpace(string(text)), "-"))
			found++
		}
	}
	// A distribution may keep the licence of Go elsewhere than in GOROOT.
	if found == 0 && !strings.HasPrefix(name, "Go ") {
		return fmt.Errorf("%s has no licence in %s", name, dir)
	}
	return nil
}
