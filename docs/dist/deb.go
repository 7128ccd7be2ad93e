package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
)

// debian returns a Debian package of a binary for Linux, as debian/nfpm.yaml
// describes it.
func (s *source) debian(arch string, program, licences []byte) (file, error) {
	work, err := os.MkdirTemp("", "ration-deb-")
	if err != nil {
		return file{}, err
	}
	defer os.RemoveAll(work)
	version := strings.ReplaceAll(s.plainVersion(), "-", "~") // sorts a pre-release before its release
	if err := s.writeParts(work, version, program, licences); err != nil {
		return file{}, err
	}
	settings := map[string]string{"WORK": work, "ARCH": arch, "VERSION": version}
	config, err := nfpm.ParseFileWithEnvMapping("debian/nfpm.yaml", func(name string) string { return settings[name] })
	if err != nil {
		return file{}, err
	}
	config.MTime = s.date
	for _, content := range config.Contents {
		if content.FileInfo == nil { // whatever the umask is
			content.FileInfo = &files.ContentFileInfo{Mode: 0o644}
		}
	}
	info, err := config.Get("deb")
	if err != nil {
		return file{}, err
	}
	packager, err := nfpm.Get("deb")
	if err != nil {
		return file{}, err
	}
	var out bytes.Buffer
	err = packager.Package(nfpm.WithDefaults(info), &out)
	return file{fmt.Sprintf("ration_%s_%s.deb", version, arch), 0o644, out.Bytes()}, err
}

// writeParts writes what the package has besides files of the repository.
func (s *source) writeParts(work, version string, program, licences []byte) error {
	changes, err := s.read("CHANGELOG.md")
	if err != nil {
		return err
	}
	changelog := fmt.Sprintf("ration (%s) unstable; urgency=medium\n\n"+
		"  * CHANGELOG.md.gz in this folder lists the changes.\n\n"+
		" -- The ration authors <security@ration.invalid>  %s\n", version,
		s.date.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	parts := append([]file{
		{"ration", 0o755, program},
		{"doc/changelog.gz", 0o644, []byte(changelog)},
		{"doc/CHANGELOG.md.gz", 0o644, changes},
		{"doc/THIRD_PARTY_LICENSES.gz", 0o644, licences},
	}, s.texts...)
	for _, f := range parts {
		if strings.HasPrefix(f.name, "man/") {
			f.name += ".gz"
		}
		if strings.HasSuffix(f.name, ".gz") {
			f.content = packed(f.content)
		}
		to := filepath.Join(work, f.name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, f.content, f.mode)); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.root, name))
}

// packed returns gzip without a name and a time.
func packed(text []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // memory does not fail
	}
	return out.Bytes()
}
