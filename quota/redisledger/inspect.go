package redisledger

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
)

// Severity says how much a Finding matters.
type Severity uint8

const (
	// Note is worth knowing, or could not be checked.
	Note Severity = iota
	// Warning means that a fault may make the ledger forget spends.
	Warning
	// Problem means that the ledger cannot be relied on as it stands.
	Problem
)

// String returns the word: note, warning, problem.
func (s Severity) String() string {
	switch s {
	case Note:
		return "note"
	case Warning:
		return "warning"
	}
	return "problem"
}

// Finding is a setting or state of a server that endangers the ledger on it.
type Finding struct {
	Severity Severity
	What     string // what is wrong, with the server's address
	Do       string // what to do about it
}

// Inspect checks how the ledger's server, or each master of a cluster, is set
// up and returns what endangers the ledger. It writes nothing and takes at most
// three seconds. It sends INFO, TIME and CONFIG GET, which spending does not
// all need; a command that the user is not allowed is a Note. It returns the
// error of the first server that cannot be reached, with the findings so far.
func (l *Ledger) Inspect(ctx context.Context) ([]Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	var found []Finding
	if l.address != nil {
		found = l.address.inspect()
	}
	nodes, err := l.nodes(ctx)
	if err != nil {
		return found, l.ended(ctx, err, classify(err), false)
	}
	for _, node := range nodes {
		client, ok := node.(*redis.Client)
		if !ok {
			return found,
				fmt.Errorf("%w: a client of type %T cannot be looked into; give New a Client, a ClusterClient or a "+
					"Ring",
					quota.ErrLedgerConfig, node)
		}
		i := inspection{name: client.Options().Addr, client: client, host: time.Now}
		if len(nodes) == 1 {
			i.name = l.where
		}
		if err := i.run(ctx); err != nil {
			return found, l.ended(ctx, err, classify(err), false)
		}
		found = append(found, i.found...)
	}
	return found, nil
}

// inspect checks the connection to the servers.
func (a *address) inspect() []Finding {
	if a.kind == socket {
		return nil
	}
	if a.trustAny {
		return []Finding{{Problem, "insecure_skip_verify trusts any server that answers as " + a.String(),
			"name the CA instead, with ca=FILE"}}
	}
	for _, host := range a.Addrs {
		name, _, _ := net.SplitHostPort(host)
		ip := net.ParseIP(name)
		isLoopback := name == "localhost" || ip != nil && ip.IsLoopback()
		if !a.secure && !isLoopback {
			return []Finding{{Warning, host + " is asked without TLS, so the password and the ledger pass in the clear",
				"write rediss in place of redis, or be sure of the network"}}
		}
	}
	return nil
}

// inspection checks one server.
type inspection struct {
	name   string
	client *redis.Client
	host   func() time.Time
	info   map[string]string // from INFO, nil if the user may not send it
	found  []Finding
}

func (i *inspection) add(severity Severity, do, what string, args ...any) {
	i.found = append(i.found, Finding{severity, "redis at " + i.name + " " + fmt.Sprintf(what, args...), do})
}

// run collects findings. It returns errors of the connection; missing rights
// are findings.
func (i *inspection) run(ctx context.Context) error {
	if err := i.clock(ctx); err != nil {
		return err
	}
	text, err := i.client.Info(ctx).Result()
	switch {
	case forbidden(err):
		i.add(Note, "allow +info to this user, or check by hand: version, persistence, replication, maxmemory-policy",
			"does not let this user ask INFO, so its settings were not looked at")
		return nil
	case err != nil:
		return err
	}
	i.info = map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			i.info[name] = value
		}
	}
	i.version()
	i.memory()
	if i.info["role"] == "slave" {
		i.add(Problem, "name its master, or its sentinels", "is a replica of %q and takes no spends",
			i.info["master_host"]+":"+i.info["master_port"])
	}
	return i.configuration(ctx)
}

func forbidden(err error) bool {
	begins := func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) }
	return err != nil && slices.ContainsFunc([]string{"NOPERM", "unknown command", "unknown subcommand"}, begins)
}

func (i *inspection) clock(ctx context.Context) error {
	before := i.host()
	at, err := i.client.Time(ctx).Result()
	after := i.host()
	switch {
	case forbidden(err):
		i.add(Problem, "allow +time to this user", "does not let this user ask TIME, which every decision needs")
		return nil
	case err != nil:
		return err
	}
	skew := at.Sub(before)
	if skew > 0 {
		skew = max(0, at.Sub(after))
	}
	if skew.Abs() > quota.MaxClockSkew {
		i.add(Warning, "set both clocks by NTP; the ledger goes by the server's",
			"has a clock that is %s off from this host's", skew.Abs().Round(time.Second))
	}
	return nil
}

// version checks for 6.2, the first version with all that the scripts use.
// Valkey's first is 7.2.
func (i *inspection) version() {
	version := i.info["redis_version"]
	var major, minor int
	if n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor); n < 2 {
		i.add(Note, "see that it is Redis 6.2 or later, or Valkey", "does not tell its version")
	} else if major < 6 || major == 6 && minor < 2 {
		i.add(Problem, "update it to Redis 6.2 or later, or Valkey", "is version %q, too old for the ledger", version)
	}
}

func (i *inspection) memory() {
	policy, limit := i.info["maxmemory_policy"], i.info["maxmemory"]
	switch {
	case policy == "" || policy == "noeviction":
	case limit == "0":
		i.add(Warning, "set maxmemory-policy noeviction",
			"would drop the ledger once maxmemory is set: maxmemory-policy is %q", policy)
	default: // volatile policies too: the ledger's keys expire
		i.add(Problem, "set maxmemory-policy noeviction",
			"may drop the ledger when memory is short: maxmemory-policy is %q", policy)
	}
}

// settings are read with CONFIG GET, since INFO lacks them.
var settings = [...]string{"save", "stop-writes-on-bgsave-error", "appendfsync", "min-replicas-to-write",
	"min-replicas-max-lag", "cluster-require-full-coverage"}

func (i *inspection) configuration(ctx context.Context) error {
	config := map[string]string{}
	for _, name := range settings {
		values, err := i.client.ConfigGet(ctx, name).Result()
		if forbidden(err) {
			i.add(Note, "allow +config|get to this user, or ask the provider",
				"does not let this user ask CONFIG GET, so %s were not looked at", strings.Join(settings[:], ", "))
			break
		}
		if err != nil {
			return err
		}
		config[name] = values[name]
	}
	if i.info["role"] != "slave" {
		i.writes(config)
	}
	save, known := config["save"]
	switch {
	case i.info["aof_enabled"] != "0":
		if config["appendfsync"] == "no" {
			i.add(Warning, "set appendfsync everysec",
				"leaves syncing its AOF to the system: a power cut forgets half a minute of spends")
		}
	case !known:
		i.add(Warning, "set appendonly yes",
			"keeps no AOF: a crash forgets spends, since the last snapshot if it makes any")
	case save == "":
		i.add(Warning, "set appendonly yes", "keeps nothing on disk: a restart forgets all spends")
	default:
		i.add(Warning, "set appendonly yes",
			"keeps snapshots only (save %q): a crash forgets the spends since the last one", save)
	}
	// either 0 turns it off
	needsReplica := config["min-replicas-to-write"] != "0" && config["min-replicas-max-lag"] != "0"
	if replicas, _ := strconv.Atoi(i.info["connected_slaves"]); replicas > 0 && !needsReplica {
		i.add(Problem, "set min-replicas-to-write 1 and min-replicas-max-lag 10 on it",
			"takes spends that no replica may have: a master cut off from its replicas goes on, and a failover "+
				"forgets what it took")
	}
	if i.info["cluster_enabled"] == "1" && config["cluster-require-full-coverage"] == "yes" {
		i.add(Note, "set cluster-require-full-coverage no",
			"refuses all accounts while any shard of the cluster is down")
	}
	return nil
}

// writes finds why a server that answers takes no spends.
func (i *inspection) writes(config map[string]string) {
	number := func(text string) int {
		n, _ := strconv.Atoi(text)
		return n
	}
	used, limit := number(i.info["used_memory"])-number(i.info["mem_not_counted_for_evict"]),
		number(i.info["maxmemory"])
	if limit > 0 && used > limit && i.info["maxmemory_policy"] == "noeviction" {
		i.add(Problem, "raise its maxmemory, or remove what else it holds",
			"takes no spends: its memory is full, %d bytes of %d", used, limit)
	}
	snapshots := config["save"] != "" && config["stop-writes-on-bgsave-error"] == "yes"
	if i.info["aof_last_write_status"] == "err" || snapshots && i.info["rdb_last_bgsave_status"] == "err" {
		i.add(Problem, "free some space on its disk, its log says why", "takes no spends: it cannot save its data")
	}
	good, limited := i.info["min_slaves_good_slaves"]
	if needed := config["min-replicas-to-write"]; limited && number(good) < number(needed) {
		i.add(Problem, "see that its replicas are up",
			"takes no spends: %s of its replicas are connected and up to date, and min-replicas-to-write is %s", good,
			needed)
	}
}
