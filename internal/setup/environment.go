package setup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/command"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/quota"
)

// SessionEnvironment returns the environment of a program with a session of its
// own: Environment, the gateway, and to whom ration spend attributes its calls.
func (s *Setup) SessionEnvironment(d *GatewayServer, session *gateway.Session) ([]string, error) {
	env, err := s.Environment()
	env = append(env, command.CallerVariables(session.Caller(quota.Caller{}))...)
	if key := session.Key(); key != "" {
		env = append(env, "RATION_KEY="+key)
	}
	return append(env, d.Environment(session)...), err
}

// Environment returns the environment of programs: that of ration, in which
// ration spend finds the same files and ledger although they run in another
// folder.
func (s *Setup) Environment() ([]string, error) {
	config, err := s.File("costs.yaml")
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	whole := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(here, path)
	}
	ledger := s.env(s.Ledger, "RATION_LEDGER")
	if file, ok := strings.CutPrefix(ledger, "sqlite:"); ok {
		ledger = "sqlite:" + whole(file)
	}
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool { // what systemd tells serve alone
		return strings.HasPrefix(variable, "NOTIFY_SOCKET=") || strings.HasPrefix(variable, "WATCHDOG_")
	})
	for _, variable := range [][2]string{
		{"RATION_CONFIG", whole(filepath.Dir(config))},
		{"RATION_STATE", whole(s.env(s.State, "RATION_STATE"))},
		{"RATION_JOURNAL", whole(client.ReplicaFolder(s.Options()))},
		{"RATION_LEDGER", ledger},
		{"RATION_REDIS_PASSWORD_FILE", whole(s.Getenv("RATION_REDIS_PASSWORD_FILE"))},
		{"RATION_REDIS_SENTINEL_PASSWORD_FILE", whole(s.Getenv("RATION_REDIS_SENTINEL_PASSWORD_FILE"))},
		{"RATION_ENDPOINT", s.UpstreamEndpoint()},
	} {
		if name, value := variable[0], variable[1]; value != "" {
			env = append(env, name+"="+value)
		}
	}
	return command.WithoutProxy(env), nil
}
