package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestClientPackagesInstall installs the package of each client with its
// language's own tool, which reads no registry, and uses it. That of PHP is
// only unpacked.
func TestClientPackagesInstall(t *testing.T) {
	for _, c := range []struct{ suffix, install, use string }{
		{".whl", "python3 -m pip install -q --no-index --no-deps --target lib PACKAGE",
			`PYTHONPATH=lib python3 -c 'import importlib.metadata, ration.urllib; ` +
				`print(importlib.metadata.version("ration"), ration.EXIT_STOPPED)'`},
		{".tgz", "npm install --silent --offline PACKAGE",
			`node --input-type=module -e 'import { EXIT_STOPPED } from "ration"; import { adapter } from ` +
				`"ration/axios"; console.log(adapter.length, EXIT_STOPPED)'`},
		{".zip", "python3 -m zipfile -e PACKAGE lib",
			`php -r '$package = json_decode(file_get_contents("lib/composer.json")); require "lib/" . ` +
				`$package->autoload->files[0]; echo $package->version, " ", Ration\EXIT_STOPPED, "\n";'`},
	} {
		t.Run(c.suffix, func(t *testing.T) {
			packed := find(t, packages(t), c.suffix)
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, packed.name), packed.content, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, line := range []string{strings.Replace(c.install, "PACKAGE", "./"+packed.name, 1), c.use} {
				cmd := exec.Command("sh", "-c", line)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "HOME="+dir, "PATH=/usr/bin:/bin:/usr/local/bin")
				out, err := cmd.CombinedOutput()
				if err != nil || line == c.use && !strings.Contains(string(out), " 75\n") {
					t.Fatalf("%s: %v\n%s", line, err, out)
				}
			}
		})
	}
}

// TestPipReadsEachVersion: pip refuses a package whose version it cannot read.
func TestPipReadsEachVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3":                             "1.2.3",
		"v1.2.3+dirty":                       "1.2.3+dirty",
		"v0.0.0-20261128120000-0123456789ab": "0.0.0.dev20261128120000+0123456789ab",
		"v1.2.4-0.20261128120000-0123456789ab+dirty": "1.2.4.dev20261128120000+0123456789ab.dirty",
		"v1.2.3-rc.1": "1.2.3-rc.1",
	} {
		if s := (&source{version: version}); s.pythonVersion() != want {
			t.Errorf("%s is %s; want %s", version, s.pythonVersion(), want)
		}
	}
}
