package setup_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// stand is a Setup in a folder of its own, and what it conceals.
type stand struct {
	*setup.Setup
	dir       string
	env       map[string]string
	concealed []string
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{dir: t.TempDir(), env: map[string]string{}}
	s.env["RATION_JOURNAL"] = filepath.Join(s.dir, "replica")
	s.Setup = &setup.Setup{Folder: s.dir, State: filepath.Join(s.dir, "state"), Now: time.Now,
		Getenv:  func(name string) string { return s.env[name] },
		Conceal: func(secret string) { s.concealed = append(s.concealed, secret) }, ConcealProxies: func() {},
		Redact: func(text string) string { return text }, Clean: func(text string) string { return text },
		Report: func(_ quota.Call, err error) { t.Errorf("reported: %v", err) }}
	return s
}

// file writes a file into the stand's folder and returns its path.
func (s *stand) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// isConfigError reports whether an error is of the configuration and says
// a text.
func isConfigError(err error, text string) bool {
	_, ok := errors.AsType[*client.ConfigError](err)
	return ok && strings.Contains(err.Error(), text)
}

// TestAKeyOfSeveralLinesIsNotSent: what is not one word on one line is not a
// key, and no part of it is in the error.
func TestAKeyOfSeveralLinesIsNotSent(t *testing.T) {
	s := newStand(t)
	for _, text := range []string{"two words", "one\ntwo", "caf\u00e9-key", strings.Repeat("k", 1001)} {
		s.env["YOUTUBE_API_KEY"] = text
		if key, err := s.Key(""); key != "" ||
			!isConfigError(err, "YOUTUBE_API_KEY: it must hold the API key on one line") ||
			strings.Contains(err.Error(), text) {
			t.Errorf("%.20q is the key %q, %v", text, key, err)
		}
		if _, err := s.Key(s.file(t, "key", text)); !isConfigError(err, "it must hold the API key on one line") {
			t.Errorf("%.20q in a file: %v", text, err)
		}
	}
	if _, err := s.Key(s.file(t, "key", "\n")); !isConfigError(err, "it must hold the API key") {
		t.Errorf("an empty file: %v", err)
	}
	_, keyErr := s.Key(s.dir)
	_, tokenErr := s.OpenGateway(&setup.GatewayOptions{Address: "127.0.0.1:0", TokenFile: s.dir})
	for _, err := range []error{keyErr, tokenErr} {
		if !isConfigError(err, " file: ") || strings.Count(err.Error(), "; ") != 1 {
			t.Errorf("a folder: %v; want one thing to do", err)
		}
	}
	if _, err := s.Key(filepath.Join(s.dir, "nowhere")); !isConfigError(err, "key file: ") {
		t.Errorf("no file: %v", err)
	}
	s.concealed = nil
	if key, err := s.Key(s.file(t, "key", " AIzaSECRET\n")); err != nil || key != "AIzaSECRET" ||
		!slices.Contains(s.concealed, key) {
		t.Errorf("%q, %v, concealed %q; want the key of the file, concealed", key, err, s.concealed)
	}
}

// TestANewKeyTakesNoRestart: the key in a file was read at the start and on a
// reload only. Each request has that of the file, which is concealed by then.
func TestANewKeyTakesNoRestart(t *testing.T) {
	s := newStand(t)
	path := s.file(t, "key", "AIzaFIRST")
	read, err := s.FetchKey(path, s.regions(t, "[trending]"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"AIzaFIRST", "AIzaSECOND"} {
		s.file(t, "key", want)
		if key, err := read(); key != want || err != nil || !slices.Contains(s.concealed, want) {
			t.Errorf("%q, %v, concealed %q; want %s", key, err, s.concealed, want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if key, err := read(); key != "" || !isConfigError(err, "key file: ") {
		t.Errorf("%q, %v; want the missing file", key, err)
	}
}

// TestYouTubesStepsNeedAKeyOrAnEndpoint: YouTube's steps need a key unless
// their calls go to another server, whose address says where it comes from if
// it is malformed.
func TestYouTubesStepsNeedAKeyOrAnEndpoint(t *testing.T) {
	s := newStand(t)
	regions := s.regions(t, "[trending]")
	if _, err := s.FetchKey("", regions); !isConfigError(err, "no API key; put it into YOUTUBE_API_KEY") {
		t.Errorf("%v; want the missing key", err)
	}
	s.env["RATION_ENDPOINT"] = "http://127.0.0.1:1"
	if _, err := s.FetchKey("", regions); err != nil {
		t.Errorf("with an endpoint: %v", err)
	}
	s.env["RATION_ENDPOINT"] = "localhost"
	if _, err := s.Prices(); !isConfigError(err, "RATION_ENDPOINT: write scheme, host and port only") {
		t.Errorf("a malformed endpoint: %v", err)
	}
	delete(s.env, "RATION_ENDPOINT")
	if _, err := s.FetchKey("", s.regions(t, "[{command: ./x, job: x, calls: {videos.list: 1}}]")); err != nil {
		t.Errorf("for a program: %v", err)
	}
}

// regions returns the regions of a regions.yaml with steps.
func (s *stand) regions(t *testing.T, fetch string) []jobs.Region {
	t.Helper()
	s.file(t, "costs.yaml",
		"version: 1\nupstream: youtube\naccount: p\nledger: sqlite:ration.db\napi: youtube/v3\nhosts: "+
			"[youtube.googleapis.com]\ncosts: {videos.list: 1}\nbudgets: [{name: all, limit: 100, window: 24h}]\n")
	s.file(t, "regions.yaml", "version: 1\nschedule: '@monthly'\nfetch: "+fetch+"\nregions: {US: {}}\n")
	_, config, err := s.PricesAndRegions()
	if err != nil {
		t.Fatal(err)
	}
	return config.Regions
}

// TestAMistypedCallerIsRefused: an unknown lane or country is refused,
// and a region is written as the budgets write it.
func TestAMistypedCallerIsRefused(t *testing.T) {
	parse := func(api, more string) *costs.Table {
		table, err := costs.Parse("costs.yaml",
			[]byte("version: 1\naccount: p\n"+api+
				"costs: {videos.list: 1}\nbudgets:\n- {name: all, limit: 100, window: 24h"+more+
				"}\n- {name: backfill, limit: 50, window: 24h, lanes: [backfill]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	countries, free := parse("api: youtube/v3\nhosts: [youtube.googleapis.com]\n", ", floor: {IN: 10}"),
		parse("", ", floor: {emea: 10}")
	for _, c := range []struct {
		table  *costs.Table
		caller quota.Caller
		region string // what it is written as
		failed string // what the error says
	}{
		{countries, quota.Caller{Region: "in", Lane: "backfill"}, "IN", ""},
		{countries, quota.Caller{Region: "gb"}, "GB", ""},
		{countries, quota.Caller{Region: "UK"}, "UK", "write GB"},
		{countries, quota.Caller{Lane: "backfil"}, "", `lane "backfil": write backfill`},
		{countries, quota.Caller{Region: "north-america"}, "north-america", ""},
		{countries, quota.Caller{Region: "a\nb"}, "a\nb", "region: "},
		{free, quota.Caller{Region: "EMEA"}, "emea", ""},
		{free, quota.Caller{Region: "uk"}, "uk", ""},
	} {
		got, err := setup.CheckCaller(c.table, c.caller)
		if got.Region != c.region || (err == nil) != (c.failed == "") || err != nil &&
			!strings.Contains(err.Error(), c.failed) {
			t.Errorf("%+v: %+v, %v; want region %q, error %q", c.caller, got, err, c.region, c.failed)
		}
	}
}

// TestARegionThatWouldBeRespelledIsAMistake: a program's region of two letters
// passed all checks; each of its calls was refused, or charged to another
// spelling, which run did not find.
func TestARegionThatWouldBeRespelledIsAMistake(t *testing.T) {
	const countries, free = "preset: youtube/2026-06\n",
		"upstream: u\nhosts: [u.example]\nroutes: {GET /x: x}\ncosts: {x: 1}\nbudgets: [{name: b, limit: 9, window: " +
			"1h, floor: {emea: 1}}]\n"
	for _, c := range []struct{ prices, region, failed string }{
		{countries, "US", ""},
		{countries, "north", ""},
		{countries, "us", "regions.yaml: region us: its calls would be charged to US: write US"},
		{countries, "eu",
			`regions.yaml: region: unknown region "eu": it is not one country; write the code of each that is meant,` +
				` such as DE and FR, or a name of more letters`},
		{countries, "zz",
			`regions.yaml: region: unknown region "zz": write its two capital letters as in ISO 3166-1, such as US, ` +
				`or a name of more letters`},
		{free, "eu", ""},
		{free, "emea", ""},
		{free, "EMEA", "regions.yaml: region EMEA: its calls would be charged to emea: write emea"},
	} {
		s := newStand(t)
		s.file(t, "costs.yaml", "version: 1\naccount: a\n"+c.prices)
		s.file(t, "regions.yaml", "version: 1\nschedule: '@daily'\nfetch: [{command: /bin/true}]\nregions: {"+c.region+
			": {}}\n")
		_, _, err := s.PricesAndRegions()
		if c.failed == "" && err != nil || c.failed != "" && !isConfigError(err, c.failed) {
			t.Errorf("%s: %v; want %q", c.region, err, c.failed)
		}
	}
}

// TestTheTargetOfACopyHasItsOwnPassword: the ledger that another one is copied
// to has passwords of its own, from a variable or a file, and else the same.
func TestTheTargetOfACopyHasItsOwnPassword(t *testing.T) {
	s := newStand(t)
	s.env["RATION_REDIS_PASSWORD"], s.env["RATION_REDIS_PASSWORD_FILE"], s.env["HOME"] = "old", "old-file", "/home/x"
	got := func() [3]string {
		return [3]string{s.GetenvOfTarget("RATION_REDIS_PASSWORD"), s.GetenvOfTarget("RATION_REDIS_PASSWORD_FILE"),
			s.GetenvOfTarget("HOME")}
	}
	if want := [3]string{"old", "old-file", "/home/x"}; got() != want {
		t.Errorf("%q; want the same: %q", got(), want)
	}
	s.env["RATION_TO_REDIS_PASSWORD_FILE"] = "new-file"
	if want := [3]string{"", "new-file", "/home/x"}; got() != want {
		t.Errorf("%q; want the file of the new one alone: %q", got(), want)
	}
	delete(s.env, "RATION_TO_REDIS_PASSWORD_FILE")
	s.env["RATION_TO_REDIS_PASSWORD"] = "new"
	if want := [3]string{"new", "", "/home/x"}; got() != want {
		t.Errorf("%q; want the password of the new one alone: %q", got(), want)
	}
}

// TestAGatewayForOtherHostsNeedsAToken: beyond this host a gateway needs a
// token, which is long enough and is concealed.
func TestAGatewayForOtherHostsNeedsAToken(t *testing.T) {
	s := newStand(t)
	if _, err := s.OpenGateway(&setup.GatewayOptions{Address: "0.0.0.0:0"}); !isConfigError(err,
		"programs of other hosts could spend; require a token") {
		t.Errorf("without a token: %v", err)
	}
	for _, token := range []string{"short", "0123456789abcde", "0123456789abcdef with words"} {
		s.env["RATION_TOKEN"] = token
		if _, err := s.OpenGateway(&setup.GatewayOptions{Address: "127.0.0.1:0"}); !isConfigError(err,
			"RATION_TOKEN: it must hold a token of 16 characters") || strings.Contains(err.Error(), token) {
			t.Errorf("%q is a token: %v", token, err)
		}
	}
	delete(s.env, "RATION_TOKEN")
	if _, err := s.OpenGateway(&setup.GatewayOptions{Address: "127.0.0.1:0",
		TokenFile: s.file(t, "token", "\n")}); !isConfigError(err, "token file ") {
		t.Errorf("an empty token file: %v", err)
	}
	s.concealed = nil
	server, err := s.OpenGateway(&setup.GatewayOptions{Address: "0.0.0.0:0",
		TokenFile: s.file(t, "token", "0123456789abcdef\n")})
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	if !slices.Contains(s.concealed, "0123456789abcdef") {
		t.Error("the token is not concealed")
	}
}

// TestAProgramFindsTheSameLedger: a program that runs in another folder finds
// the same files and ledger, and not what systemd tells serve alone.
func TestAProgramFindsTheSameLedger(t *testing.T) {
	s := newStand(t)
	s.regions(t, "[trending]")
	t.Chdir(filepath.Dir(s.dir))
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Base(s.dir)
	s.Folder, s.State, s.env["RATION_LEDGER"] = base, filepath.Join(base, "state"), "sqlite:x.db"
	s.env["RATION_REDIS_PASSWORD_FILE"], s.env["RATION_REDIS_SENTINEL_PASSWORD_FILE"] = "password",
		filepath.Join(here, "other")
	t.Setenv("NOTIFY_SOCKET", "/run/systemd/notify")
	t.Setenv("WATCHDOG_USEC", "1000000")
	env, err := s.Environment()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"RATION_CONFIG=" + filepath.Join(here, base),
		"RATION_STATE=" + filepath.Join(here, base, "state"), "RATION_LEDGER=sqlite:" + filepath.Join(here, "x.db"),
		"RATION_REDIS_PASSWORD_FILE=" + filepath.Join(here, "password"),
		"RATION_REDIS_SENTINEL_PASSWORD_FILE=" + filepath.Join(here, "other")} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	for _, variable := range env {
		if strings.HasPrefix(variable, "NOTIFY_SOCKET=") || strings.HasPrefix(variable, "WATCHDOG_") {
			t.Errorf("the program gets %s", variable)
		}
	}
}

// TestStatusMakesNoLedger: what only reads makes no ledger, and its address is
// known all the same.
func TestStatusMakesNoLedger(t *testing.T) {
	s := newStand(t)
	s.regions(t, "[trending]")
	table, err := s.Prices()
	if err != nil {
		t.Fatal(err)
	}
	if c, err := s.Open(table, false); !errors.Is(err, setup.ErrNoLedger) || c != nil {
		t.Errorf("%v, %v; want no ledger yet", c, err)
	}
	file := filepath.Join(s.dir, "ration.db")
	if _, err := os.Stat(file); err == nil || s.LedgerName() != "sqlite:"+file {
		t.Errorf("%s was made, or the ledger is %s", file, s.LedgerName())
	}
	c, err := s.Open(table, true)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
