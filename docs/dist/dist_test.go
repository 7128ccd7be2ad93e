package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// built is the program as go build makes it by default, whose packages other
// checks have compiled already. make dist-twice compares whole builds.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ration-test-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "ration")
	cmd := exec.Command("go", "build", "-buildvcs=true", "-ldflags=-s -w", "-o", binary, "./cmd/ration")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	return binary, cmd.Run()
})

func TestMain(m *testing.M) {
	code := m.Run()
	if binary, _ := built(); binary != "" {
		os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}

var packedFiles []file

// packages returns the files of the release for Linux on this machine's
// processor, packedFiles once.
func packages(t *testing.T) []file {
	t.Helper()
	if packedFiles == nil {
		packedFiles = pack(t)
	}
	return packedFiles
}

func pack(t *testing.T) []file {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return packBinary(t, binary)
}

func packBinary(t *testing.T, binary string) []file {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	from, err := readSource(root, binary)
	if err != nil {
		t.Fatal(err)
	}
	files, err := from.pack(binary, "linux", runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := from.clients()
	if err != nil {
		t.Fatal(err)
	}
	return append(files, clients...)
}

func find(t *testing.T, files []file, suffix string) file {
	t.Helper()
	i := slices.IndexFunc(files, func(f file) bool { return strings.HasSuffix(f.name, suffix) })
	if i < 0 {
		t.Fatalf("no %s is packedFiles", suffix)
	}
	return files[i]
}

// TestPackingIsTheSameOnEachMachine packs one binary twice, with another umask
// and another folder for temporary files.
func TestPackingIsTheSameOnEachMachine(t *testing.T) {
	first := packages(t)
	t.Setenv("TMPDIR", t.TempDir())
	defer syscall.Umask(syscall.Umask(0o077))
	for i, f := range pack(t) {
		if first[i].name != f.name || !bytes.Equal(first[i].content, f.content) {
			t.Errorf("%s and then %s: their bytes differ", first[i].name, f.name)
		}
	}
}

// TestTheArchiveHasWhatItsReadmePromises: what the README promises is in the
// archive, and nothing of this machine.
func TestTheArchiveHasWhatItsReadmePromises(t *testing.T) {
	archive := find(t, packages(t), ".tar.gz")
	plain, err := gzip.NewReader(bytes.NewReader(archive.content))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	folder := strings.TrimSuffix(archive.name, ".tar.gz") + "/"
	for r := tar.NewReader(plain); ; {
		head, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil || head.Uid != 0 || head.Uname != "root" {
			t.Fatalf("%s: owner %d %s, %v", head.Name, head.Uid, head.Uname, err)
		}
		found[strings.TrimPrefix(head.Name, folder)] = string(text)
	}
	for name, want := range map[string]string{
		"ration": "ELF", "LICENSE": "MIT License", "README.md": "ration", "CHANGELOG.md": "# Changelog",
		"THIRD_PARTY_LICENSES": "== modernc.org/sqlite ", "man/ration.1": ".TH", "man/ration-ledger-info.1": ".SH NAME",
		"completions/ration.bash": "bash completion", "completions/_ration": "#compdef",
		"completions/ration.fish": "complete", "completions/ration.ps1": "PowerShell",
		"systemd/ration.service": "Type=notify", "systemd/ration-run.timer": "[Timer]",
		"systemd/sysusers.conf": "u ration ",
	} {
		if !strings.Contains(found[name], want) {
			t.Errorf("%s does not have %q", name, want)
		}
	}
}

// TestTheBillListsTheBinarysModules compares the list of components with the
// binary's own.
func TestTheBillListsTheBinarysModules(t *testing.T) {
	var out struct {
		BomFormat, SpecVersion string
		Metadata               struct{ Component struct{ Version string } }
		Components             []struct {
			Name, Version, Purl string
			Hashes              []struct{ Alg, Content string }
		}
	}
	if err := json.Unmarshal(find(t, packages(t), ".cdx.json").content, &out); err != nil {
		t.Fatal(err)
	}
	if out.BomFormat != "CycloneDX" || out.SpecVersion != "1.5" || out.Metadata.Component.Version == "" {
		t.Errorf("it is %q %q of version %q", out.BomFormat, out.SpecVersion, out.Metadata.Component.Version)
	}
	listed := map[string]string{}
	for _, c := range out.Components {
		listed[c.Name] = c.Version
		if c.Name != "std" && (len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64) {
			t.Errorf("%s has the hashes %v", c.Name, c.Hashes)
		}
	}
	binary, _ := built()
	text, err := exec.Command("go", "version", "-m", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "dep" {
			n++
			if listed[fields[1]] != fields[2] {
				t.Errorf("%s is %s in the binary, %q in the list", fields[1], fields[2], listed[fields[1]])
			}
		}
	}
	if n < 10 || len(listed) != n+1 {
		t.Errorf("%d components for %d modules and Go", len(listed), n)
	}
}
