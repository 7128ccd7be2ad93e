package main

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// requireDebian skips a test where packages cannot be installed, unless
// RATION_REQUIRE_DEB says that they can.
func requireDebian(t *testing.T) {
	t.Helper()
	why := ""
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		why = err.Error()
	} else if os.Getuid() != 0 {
		why = "only root installs packages"
	} else if exec.Command("dpkg", "-s", "ration").Run() == nil {
		why = "a package ration is installed here already"
	}
	if why == "" {
		return
	}
	if os.Getenv("RATION_REQUIRE_DEB") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// TestTheDebianPackageInstallsAndIsPurged installs the package, runs what it
// installed, installs it again as an upgrade, removes and purges it.
func TestTheDebianPackageInstallsAndIsPurged(t *testing.T) {
	requireDebian(t)
	deb := filepath.Join(t.TempDir(), "ration.deb")
	if err := os.WriteFile(deb, find(t, packages(t), ".deb").content, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := user.Lookup("ration")
	hadUser := err == nil
	_, err = os.Stat("/var/lib/ration")
	hadState := err == nil
	t.Cleanup(func() {
		command(t, "dpkg", "--purge", "ration")
		if !hadState {
			os.RemoveAll("/var/lib/ration")
		}
		if !hadUser {
			command(t, "userdel", "ration")
		}
	})
	command(t, "dpkg", "--install", deb)
	if out := command(t, "/usr/bin/ration", "version"); !strings.HasPrefix(out, "ration v0.") {
		t.Errorf("ration version prints %q", out)
	}
	if out := command(t, "man", "-l", "/usr/share/man/man1/ration-run.1.gz"); !strings.Contains(out, "--key-file") {
		t.Errorf("the manual page is %q", out)
	}
	if out := command(t, "bash", "-c",
		". /usr/share/bash-completion/completions/ration && complete -p ration"); !strings.Contains(out,
		"__start_ration") {
		t.Errorf("bash completes %q", out)
	}
	if out := command(t, "systemd-analyze", "verify", "--man=no", "/lib/systemd/system/ration.service",
		"/lib/systemd/system/ration-run.service", "/lib/systemd/system/ration-run.timer"); out != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	runAsService(t)
	const wanted = "/etc/systemd/system/timers.target.wants/ration-run.timer"
	command(t, "systemctl", "enable", "ration-run.timer")
	command(t, "dpkg", "--install", deb)
	command(t, "dpkg", "--remove", "ration")
	if _, err := os.Stat("/usr/bin/ration"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after it was removed: %v", err)
	}
	if _, err := os.Stat("/var/lib/ration/ration.db"); err != nil {
		t.Errorf("the ledger did not survive: %v", err)
	}
	command(t, "dpkg", "--purge", "ration")
	if _, err := os.Lstat(wanted); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after a purge, systemd still wants the timer: %v", err)
	}
}

// runAsService spends as the package's user, with configuration in /etc/ration.
func runAsService(t *testing.T) {
	t.Helper()
	const costs = "/etc/ration/costs.yaml"
	if _, err := os.Stat(costs); err == nil {
		t.Fatalf("%s exists; remove it", costs)
	}
	text := "version: 1\nupstream: test\naccount: test\nhosts: [api.test]\nroutes: {GET /list: list}\ncosts: {list: " +
		"1}\nbudgets: [{name: all, limit: 10, window: 1h}]\nledger: sqlite:/var/lib/ration/ration.db\n"
	if err := os.WriteFile(costs, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(costs)
	out := command(t, "setpriv", "--reuid=ration", "--regid=ration", "--clear-groups", "env", "-i",
		"RATION_CONFIG=/etc/ration", "RATION_STATE=/var/lib/ration", "HOME=/var/lib/ration",
		"/usr/bin/ration", "spend", "list", "--json")
	if !strings.Contains(out, `"units":1`) {
		t.Errorf("ration spend as user ration prints %s", out)
	}
}

// TestLintian checks the package of the release itself, whose static binary
// takes minutes to compile where nothing is cached. RATION_REQUIRE_LINTIAN asks
// for it.
func TestLintian(t *testing.T) {
	if os.Getenv("RATION_REQUIRE_LINTIAN") == "" {
		t.Skip("RATION_REQUIRE_LINTIAN is not set")
	}
	binary := filepath.Join(t.TempDir(), "ration")
	if err := compile("../..", binary, "linux", runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	deb := find(t, packBinary(t, binary), ".deb")
	path := filepath.Join(t.TempDir(), deb.name)
	if err := os.WriteFile(path, deb.content, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("lintian", "--allow-root", "--fail-on", "warning", "--info", path).CombinedOutput()
	if text := string(out); err != nil || strings.Contains(text, "W: ") || strings.Contains(text, "E: ") ||
		strings.Contains(text, "mismatched-override") {
		t.Errorf("lintian: %v:\n%s", err, text)
	}
}

// command runs a program and returns what it prints.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
