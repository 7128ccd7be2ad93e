package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// clients returns the packages of docs/clients.
func (s *source) clients() ([]file, error) {
	var files []file
	for _, pack := range []func() (file, error){s.wheel, s.npm, s.composer} {
		f, err := pack()
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// readClient returns the files of docs/clients that match patterns, with names
// below its folder, and the licence.
func (s *source) readClient(folder string, patterns ...string) ([]file, error) {
	root := filepath.Join(s.root, "docs", "clients", folder)
	var files []file
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(names) == 0 {
			return nil, fmt.Errorf("docs/clients/%s has no %s: %w", folder, pattern, err)
		}
		for _, name := range names {
			below, err := filepath.Rel(root, name)
			if err != nil {
				return nil, err
			}
			below = filepath.ToSlash(below)
			text, err := s.read("docs/clients/" + folder + "/" + below)
			if err != nil {
				return nil, err
			}
			files = append(files, file{below, 0o644, text})
		}
	}
	licence, err := s.read("LICENSE")
	return append(files, file{"LICENSE", 0o644, licence}), err
}

// pseudo matches the version of a revision without a tag, and dirty trees.
var pseudo = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(-(?:0\.)?(\d{14})-([0-9a-f]{12}))?(\+dirty)?$`)

// pythonVersion returns a version as Python writes it: 1.2.3, or
// 0.0.0.dev20261128120000+0123456789ab.
func (s *source) pythonVersion() string {
	parts := pseudo.FindStringSubmatch(s.version)
	if parts == nil {
		return strings.TrimPrefix(s.version, "v")
	}
	version := parts[1]
	if parts[3] != "" {
		version += ".dev" + parts[3] + "+" + parts[4]
	}
	if parts[5] == "" {
		return version
	}
	return version + map[bool]string{true: ".", false: "+"}[parts[3] != ""] + "dirty"
}

// wheel returns the package of the Python client, as pip installs it.
func (s *source) wheel() (file, error) {
	files, err := s.readClient("python", "pyproject.toml", "ration/*.py")
	if err != nil {
		return file{}, err
	}
	licence := &files[len(files)-1]
	project := string(files[0].content)
	setting := func(name string) string {
		_, rest, _ := strings.Cut(project, "\n"+name+` = "`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	name := "ration-" + s.pythonVersion()
	info := name + ".dist-info/"
	licence.name = info + licence.name
	files = append(files[1:], // without pyproject.toml
		file{info + "METADATA", 0o644,
			fmt.Appendf(nil,
				"Metadata-Version: 2.1\nName: ration\nVersion: %s\nSummary: %s\nRequires-Python: %s\nLicense: "+
					"MIT\nLicense-File: LICENSE\n",
				s.pythonVersion(), setting("description"), setting("requires-python"))},
		file{info + "WHEEL", 0o644,
			[]byte("Wheel-Version: 1.0\nGenerator: ration\nRoot-Is-Purelib: true\nTag: py3-none-any\n")})
	slices.SortFunc(files, byName)
	var record strings.Builder
	for _, f := range files {
		sum := sha256.Sum256(f.content)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.content))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	content, err := s.zip("", append(files, file{info + "RECORD", 0o644, []byte(record.String())}))
	return file{name + "-py3-none-any.whl", 0o644, content}, err
}

// npm returns the package of the Node client, as npm installs it.
func (s *source) npm() (file, error) {
	files, err := s.readVersioned(s.plainVersion(), "node", "package.json", "ration.mjs", "axios.mjs")
	if err != nil {
		return file{}, err
	}
	content, err := s.tar("package", files)
	return file{"ration-" + s.plainVersion() + ".tgz", 0o644, content}, err
}

// composer returns the package of the PHP client, as composer installs it from
// a repository of the type artifact.
func (s *source) composer() (file, error) {
	version := s.plainVersion()
	if parts := pseudo.FindStringSubmatch(s.version); parts != nil && parts[2] != "" {
		version = parts[1] + "-dev" // composer cannot read the rest
	}
	files, err := s.readVersioned(version, "php", "composer.json", "ration.php")
	if err != nil {
		return file{}, err
	}
	content, err := s.zip("", files)
	return file{"ration-php-" + s.plainVersion() + ".zip", 0o644, content}, err
}

// plainVersion returns the version without its v.
func (s *source) plainVersion() string { return strings.TrimPrefix(s.version, "v") }

// readVersioned is readClient, sorted by name, with a version in the first
// file, which describes the package.
func (s *source) readVersioned(version, folder string, patterns ...string) ([]file, error) {
	files, err := s.readClient(folder, patterns...)
	if err != nil {
		return nil, err
	}
	files[0].content = bytes.Replace(files[0].content, []byte(`"0.0.0"`), []byte(strconv.Quote(version)), 1)
	slices.SortFunc(files, byName)
	return files, nil
}
