// Command dist writes the release: for each platform an archive and a list of
// its components, Debian packages, the packages of the clients, and the
// checksums of them all. Two runs on
// one revision with one version of Go write the same bytes. make dist runs it.
package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	out := flag.String("out", "../../dist", "`folder` for the release; its files are replaced")
	platforms := flag.String("platforms",
		"linux/amd64 linux/arm64 linux/386 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64",
		"`list` of GOOS/GOARCH")
	flag.Parse()
	if err := release(*out, strings.Fields(*platforms)); err != nil {
		log.Fatal("dist: ", err)
	}
}

// source is the revision that is released, and the texts that its program
// writes.
type source struct {
	root    string // of the repository
	version string // v1.2.3, or a pseudo-version
	date    time.Time
	texts   []file // manual pages and completions
}

// release writes the files of the platforms into a folder.
func release(out string, platforms []string) error {
	root, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "ration-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	host := filepath.Join(work, "host")
	if err := compile(root, host, runtime.GOOS, runtime.GOARCH); err != nil {
		return err
	}
	from, err := readSource(root, host)
	if err != nil {
		return err
	}
	files, err := from.clients()
	if err != nil {
		return err
	}
	for _, platform := range platforms {
		goos, goarch, _ := strings.Cut(platform, "/")
		binary := filepath.Join(work, goos+"-"+goarch)
		if err := compile(root, binary, goos, goarch); err != nil {
			return err
		}
		packed, err := from.pack(binary, goos, goarch)
		if err != nil {
			return err
		}
		files = append(files, packed...)
	}
	var sums bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.content), f.name)
		if err := os.WriteFile(filepath.Join(out, f.name), f.content, 0o644); err != nil {
			return err
		}
		log.Printf("%s: %d kB", f.name, len(f.content)>>10)
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// compile builds a static binary that names its revision and no folder of this
// machine.
func compile(root, binary, goos, goarch string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", binary, "./cmd/ration")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// readSource asks the program itself for its version and its texts.
func readSource(root, program string) (*source, error) {
	var build struct {
		Version string
		Date    time.Time
	}
	answer, err := exec.Command(program, "version", "--json").Output()
	if err == nil {
		err = json.Unmarshal(answer, &build)
	}
	if err != nil {
		return nil, fmt.Errorf("the program does not say its revision: %w; build in a git repository", err)
	}
	s := &source{root: root, version: build.Version, date: build.Date.UTC()}
	if s.texts, err = manual(program); err != nil {
		return nil, err
	}
	for shell, name := range map[string]string{"bash": "ration.bash", "zsh": "_ration", "fish": "ration.fish",
		"powershell": "ration.ps1"} {
		text, err := exec.Command(program, "completion", shell).Output()
		if err != nil {
			return nil, err
		}
		s.texts = append(s.texts, file{"completions/" + name, 0o644, text})
	}
	return s, nil
}

func manual(program string) (pages []file, err error) {
	dir, err := os.MkdirTemp("", "ration-man-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if out, err := exec.Command(program, "man", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.1"))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		pages = append(pages, file{"man/" + filepath.Base(name), 0o644, text})
	}
	return pages, err
}

// pack returns the files of the release for one platform.
func (s *source) pack(binary, goos, goarch string) ([]file, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	parts := &components{info}
	licences, err := parts.licences(s.root)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("ration_%s_%s_%s", s.version, goos, goarch)
	files, err := s.archive(name, goos,
		append([]file{{"THIRD_PARTY_LICENSES", 0o644, licences}, {"ration", 0o755, program}}, s.texts...))
	if err != nil {
		return nil, err
	}
	bill, err := parts.bill(s.version)
	if err != nil {
		return nil, err
	}
	files = append(files, file{name + ".cdx.json", 0o644, bill})
	if goos != "linux" || goarch == "386" { // which is for hosts where a user cannot install a package
		return files, nil
	}
	deb, err := s.debian(goarch, program, licences)
	return append(files, deb), err
}
