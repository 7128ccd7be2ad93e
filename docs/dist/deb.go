package main

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// debian returns a Debian package of a binary for Linux, or nothing if this
// machine has no dpkg-deb.
func (s *source) debian(arch string, program, licences []byte) ([]file, error) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		log.Printf("no Debian package for %s: %v", arch, err)
		return nil, nil
	}
	files, err := s.debianFiles(program, licences)
	if err != nil {
		return nil, err
	}
	version := s.debianVersion()
	size := 0
	for _, f := range files {
		size += (len(f.content) + 1023) >> 10
	}
	control, err := s.read("docs/dist/debian/control")
	if err != nil {
		return nil, err
	}
	sums := s.md5(files)
	files = append(files, file{"DEBIAN/control", 0o644, fmt.Appendf(nil, string(control), version, arch, size)}, sums)
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		text, err := s.read("docs/dist/debian/" + script)
		if err != nil {
			return nil, err
		}
		files = append(files, file{"DEBIAN/" + script, 0o755, text})
	}
	name := fmt.Sprintf("ration_%s_%s.deb", version, arch)
	content, err := s.dpkg(files)
	return []file{{name, 0o644, content}}, err
}

// debianVersion sorts a pre-release before its release.
func (s *source) debianVersion() string {
	return strings.ReplaceAll(strings.TrimPrefix(s.version, "v"), "-", "~")
}

// debianFiles are the files that the package installs.
func (s *source) debianFiles(program, licences []byte) ([]file, error) {
	const doc = "usr/share/doc/ration/"
	changelog := fmt.Sprintf("ration (%s) unstable; urgency=medium\n\n  * CHANGELOG.md.gz in this folder lists the "+
		"changes.\n\n -- The ration authors <security@ration.invalid>  %s\n",
		s.debianVersion(), s.date.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	files := []file{
		{"usr/bin/ration", 0o755, program},
		{doc + "changelog.gz", 0o644, packed([]byte(changelog))},
		{doc + "THIRD_PARTY_LICENSES.gz", 0o644, packed(licences)},
	}
	for _, f := range s.texts {
		base := path.Base(f.name)
		switch {
		case strings.HasPrefix(f.name, "man/"):
			files = append(files, file{"usr/share/man/man1/" + base + ".gz", 0o644, packed(f.content)})
		case base == "ration.bash":
			files = append(files, file{"usr/share/bash-completion/completions/ration", 0o644, f.content})
		case base == "_ration":
			files = append(files, file{"usr/share/zsh/vendor-completions/_ration", 0o644, f.content})
		case base == "ration.fish":
			files = append(files, file{"usr/share/fish/vendor_completions.d/ration.fish", 0o644, f.content})
		}
	}
	for from, to := range map[string]string{
		"docs/deploy/systemd/ration.service":     "lib/systemd/system/ration.service",
		"docs/deploy/systemd/ration-run.service": "lib/systemd/system/ration-run.service",
		"docs/deploy/systemd/ration-run.timer":   "lib/systemd/system/ration-run.timer",
		"docs/deploy/systemd/sysusers.conf":      "usr/lib/sysusers.d/ration.conf",
		"docs/deploy/systemd/tmpfiles.conf":      "usr/lib/tmpfiles.d/ration.conf",
		"docs/dist/debian/copyright":             doc + "copyright",
		"docs/dist/debian/lintian-overrides":     "usr/share/lintian/overrides/ration",
		"CHANGELOG.md":                           doc + "CHANGELOG.md.gz",
	} {
		text, err := s.read(from)
		if err != nil {
			return nil, err
		}
		if strings.HasSuffix(to, ".gz") {
			text = packed(text)
		}
		files = append(files, file{to, 0o644, text})
	}
	return files, nil
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

// dpkg packs the files, and the empty folder for the configuration. dpkg-deb
// sorts them, and sets later times to the one of the revision.
func (s *source) dpkg(files []file) ([]byte, error) {
	dir, err := os.MkdirTemp("", "ration-deb-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(filepath.Join(tree, "etc/ration"), 0o755); err != nil {
		return nil, err
	}
	for _, f := range files {
		to := filepath.Join(tree, f.name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, f.content, f.mode),
			os.Chmod(to, f.mode)); err != nil {
			return nil, err
		}
	}
	err = filepath.Walk(tree, func(name string, info os.FileInfo, err error) error {
		if err == nil && info.IsDir() {
			err = os.Chmod(name, 0o755) // whatever the umask is
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	to := filepath.Join(dir, "ration.deb")
	cmd := exec.Command("dpkg-deb", "--root-owner-group", "-Zxz", "--threads-max=1", "--build", tree, to)
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", s.date.Unix()))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(to)
}

// md5 returns the list by which debsums finds damaged files.
func (s *source) md5(files []file) file {
	files = slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&out, "%x  %s\n", md5.Sum(f.content), f.name)
	}
	return file{"DEBIAN/md5sums", 0o644, out.Bytes()}
}
