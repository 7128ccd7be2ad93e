//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/servers"
)

var deployFolder = filepath.Join("..", "..", "docs", "deploy")

// TestDockerfile: there is no engine here, so each step that needs none is
// checked. The build command's packages compile in other tests.
func TestDockerfile(t *testing.T) {
	text := mustRead(t, "../../Dockerfile")
	for _, path := range []string{"go.mod", "go.sum", "LICENSE", "cmd/ration"} {
		if _, err := os.Stat(filepath.Join("../..", path)); err != nil || !strings.Contains(text, path) {
			t.Errorf("the image needs %s: %v", path, err)
		}
	}
	user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(text)
	if user == nil || user[1] == "0" {
		t.Errorf("the user is %q; want a number that is not root's", user)
	}
	from := regexp.MustCompile(`(?m)^FROM .*`).FindAllString(text, -1)
	wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(mustRead(t, "../../go.mod"))[1]
	if len(from) != 2 || !strings.Contains(from[0], "golang:"+wanted+" ") ||
		!strings.Contains(from[1], "distroless/static") || !strings.HasSuffix(from[1], ":nonroot") {
		t.Errorf("the stages are %q; go.mod wants Go %s", from, wanted)
	}
	build := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*)$`).FindStringSubmatch(text)[1]
	list := exec.Command("sh", "-c", strings.NewReplacer("go build", "go build -n", "-buildvcs=true", "", "/ration ",
		filepath.Join(t.TempDir(), "ration")+" ").Replace(build))
	list.Dir = "../.."
	if out, err := list.CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", build, err, out)
	}
	command := regexp.MustCompile(`(?m)^CMD \["serve", "--listen", "none"\]$`).FindString(text)
	if command == "" {
		t.Error("the image does not serve by default")
	}
	if ignored := mustRead(t, "../../.dockerignore"); regexp.MustCompile(`(?m)^/?\.git$`).MatchString(ignored) ||
		!strings.Contains(ignored, "*.db") {
		t.Errorf("the build needs .git for the revision, and no ledgers")
	}
}

// TestComposeRedisNeedsItsPassword runs Redis as docker-compose.yml does.
func TestComposeRedisNeedsItsPassword(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Image, User string
			Command     []string
			Secrets     []string
			Volumes     []string
			Environment map[string]string
		}
		Secrets map[string]struct{ File string }
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(mustRead(t, filepath.Join(deployFolder, "compose", "docker-compose.yml"))),
		&file); err != nil {
		t.Fatal(err)
	}
	for name, service := range file.Services {
		for _, secret := range service.Secrets {
			if file.Secrets[secret].File == "" {
				t.Errorf("%s needs the secret %s, which has no file", name, secret)
			}
		}
	}
	ration := file.Services["ration"]
	root := newApp().root()
	if _, flags, err := root.Find(ration.Command); err != nil || len(flags) == 0 {
		t.Errorf("ration %v: %v", ration.Command, err)
	}
	if ration.Environment["RATION_REDIS_PASSWORD_FILE"] != "/run/secrets/redis-password" || ration.User == "" {
		t.Errorf("ration's environment is %v, its user %q", ration.Environment, ration.User)
	}
	servers.RedisBinary(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "redis-password"), []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "redis.sock")
	script := strings.NewReplacer("$$", "$", "/run/secrets", dir, "--dir /data",
		"--dir "+dir+" --port 0 --unixsocket "+socket).Replace(file.Services["redis"].Command[2])
	cmd := exec.Command("sh", "-c", script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Password: "s3cret", MaxRetries: 50})
	defer client.Close()
	t.Cleanup(func() { _ = cmd.Wait() })
	defer shutDown(socket)
	for setting, want := range map[string]string{"appendonly": "yes", "appendfsync": "everysec",
		"maxmemory-policy": "noeviction", "requirepass": "s3cret"} {
		if got, err := client.ConfigGet(t.Context(), setting).Result(); err != nil || got[setting] != want {
			t.Errorf("%s is %v, %v; want %s", setting, got, err, want)
		}
	}
	open := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer open.Close()
	if err := open.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without the password: %v", err)
	}
}

// TestAirflowOperator reads retry_at as ration prints it, and pokes as
// Airflow does.
func TestAirflowOperator(t *testing.T) {
	python := tool(t, "python3", "python3")
	const check = `
import datetime as d, sys
sys.dont_write_bytecode = True
import ration_operator as r
now = d.datetime(2026, 11, 22, 12, 0, tzinfo=d.timezone.utc)
def at(text): return r.retry_at(text, now).isoformat()
assert at('{"outcome":"stopped","retry_at":"2026-11-22T18:30:05.123456Z"}\n') == "2026-11-22T18:30:06+00:00"
assert at('{"retry_at":"2026-11-22T18:30:05Z"}') == "2026-11-22T18:30:06+00:00"
assert at('{"retry_at":"2026-11-22T11:00:00Z"}') == "2026-11-22T12:01:00+00:00"
assert at('{"retry_at":null}') == at('') == "2026-11-22T12:30:00+00:00"
code, out = r.run(sys.argv[1:])
assert code == r.STOPPED, code
print(r.retry_at(out).isoformat())
sensor = r.RationRun.__new__(r.RationRun)
sensor.command = sys.argv[1:]
assert sensor.poke(None) is False and 0 < sensor.poke_interval <= 24 * 3600 + 1, sensor.poke_interval
sensor.command = [sys.argv[1], "version", "--json"]
assert "version" in sensor.poke(None)["xcom_value"]
sensor.command = [sys.argv[1], "run", "--nope"]
try: sensor.poke(None)
except RuntimeError as e: assert "ended with 64" in str(e), e
else: assert False, "a usage error did not fail the task"
`
	s := newStand(t, nil, "{name: all, limit: 1, window: 24h, methods: [videos.list]}", "[{trending: {pages: 4}}]",
		"US")
	ration := s.command("run", "--json")
	cmd := exec.Command(python, "-c", check, ration.Path, "run", "--json")
	cmd.Dir, cmd.Env = filepath.Join(deployFolder, "airflow"), ration.Env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || !regexp.MustCompile(`^20\d\d-\d\d-\d\dT`).Match(out) {
		t.Errorf("%v: %s\n%s", err, out, &stderr)
	}
}

// TestFolderThatKubernetesPreparesIsAccepted: the volume belongs to root and
// the pod's group, which may write to it, and each start gives the group what
// is in it. The group may read what is mounted of the ConfigMap and the Secret.
func TestFolderThatKubernetesPreparesIsAccepted(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes one after the other, a second")
	}
	s := newSharing(t)
	state := filepath.Join(s.dir, "state")
	if err := errors.Join(os.Mkdir(state, 0o700), os.Chown(state, 0, sharers),
		os.Chmod(state, 0o775|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	mounts := filepath.Join(s.dir, "mounts")
	config := []string{filepath.Join(mounts, "costs.yaml"), filepath.Join(mounts, "regions.yaml"),
		filepath.Join(mounts, "key")}
	if err := errors.Join(os.Mkdir(mounts, 0o755), os.Chmod(mounts, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, path := range config {
		text, mode := []byte("key\n"), os.FileMode(0o440)
		if filepath.Base(path) != "key" {
			text, mode = []byte(mustRead(t, filepath.Join(s.dir, filepath.Base(path)))), 0o444
		}
		if err := errors.Join(os.WriteFile(path, text, mode), os.Chmod(path, mode),
			os.Chown(path, 0, sharers)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		cmd := s.as(alice, true, "run", "--config", mounts, "--key-file", config[2], "--state", state, "--ledger",
			"sqlite:"+filepath.Join(state, "ration.db"), "--again")
		cmd.Env = append(cmd.Env, "RATION_JOURNAL=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		const asKubelet = `chgrp -R "$1" "$2" && chmod -R g+rwX "$2"`
		if out, err := exec.Command("sh", "-c", asKubelet, "sh", strconv.Itoa(sharers),
			state).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
	}
	if files, err := filepath.Glob(filepath.Join(state, "replica", "*.log")); err != nil || len(files) == 0 {
		t.Errorf("the replica has no file in its volume: %v", err)
	}
}

// shutDown shuts a server down, once: the answer to a shutdown is that the
// connection ends.
func shutDown(socket string) {
	last := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Password: "s3cret", MaxRetries: -1})
	last.ShutdownNoSave(context.Background())
	last.Close()
}
