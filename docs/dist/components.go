package main

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// components are the modules that a binary was linked from, as it says itself.
type components struct{ info *debug.BuildInfo }

// bill returns the components as CycloneDX 1.5. A module's hash is the one of
// go.sum, in hexadecimal.
func (c *components) bill(version string) ([]byte, error) {
	main := library(c.info.Main.Path, version)
	main.Type = cyclonedx.ComponentTypeApplication
	parts := []cyclonedx.Component{library("std", strings.TrimPrefix(c.info.GoVersion, "go"))}
	for _, m := range c.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		part := library(m.Path, m.Version)
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
			part.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		parts = append(parts, part)
	}
	refs := make([]string, len(parts))
	for i := range parts {
		refs[i] = parts[i].BOMRef
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_5)
	return out.Bytes(), err
}

func library(path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, BOMRef: url, Name: path, Version: version, PackageURL: url,
	}
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
