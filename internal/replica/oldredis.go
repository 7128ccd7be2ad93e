package replica

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/engine"
)

// NewOldRedis returns what an earlier release keeps in Redis under a prefix;
// empty is "ration". Close leaves the client open. Without such keys it has no
// accounts. Its keys are other ones than those of this release, and expire some
// weeks after their last use.
func NewOldRedis(client redis.UniversalClient, prefix string) *Old {
	return newOld(&oldRedis{client, cmp.Or(prefix, "ration")})
}

// oldRedis is a ledger in Redis. The keys of an account begin with
// PREFIX:{ACCOUNT}:
//
//	meta    a hash; head: 8 random bytes, 3 of a version, and 1 that is 1 if there
//	        may be cooldowns; version; l<number>: a label; from: records with
//	        earlier timestamps have numbers of labels that are lost
//	cool    a hash: a budget, or nothing for the account -> the end, 7 bytes, and
//	        the reason; behind a NUL byte there are lengths
//	log     a list of records, see parseRecord
//	k:KEY   the log of a key
//	h:HASH  the log of a long key, which h:HASH:name says
type oldRedis struct {
	client redis.UniversalClient
	prefix string
}

func (f *oldRedis) base(account string) string {
	escaped := strings.NewReplacer("+", "%20", "~", "%7E").Replace(url.QueryEscape(account))
	return f.prefix + ":{" + escaped + "}:"
}

func (f *oldRedis) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redis ledger of an earlier release: %w: %w", engine.ErrLedgerDown, err)
}

// scan returns the names of Redis keys on all servers, each once.
func (f *oldRedis) scan(ctx context.Context, pattern string) ([]string, error) {
	var mu sync.Mutex
	names := map[string]bool{}
	scan := func(ctx context.Context, node redis.Cmdable) error {
		all := node.Scan(ctx, 0, pattern, 1000).Iterator()
		for all.Next(ctx) {
			mu.Lock()
			names[all.Val()] = true
			mu.Unlock()
		}
		return all.Err()
	}
	ofNode := func(ctx context.Context, node *redis.Client) error { return scan(ctx, node) }
	var err error
	switch c := f.client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, ofNode)
	case *redis.Ring:
		err = c.ForEachShard(ctx, ofNode)
	default:
		err = scan(ctx, c)
	}
	return slices.Sorted(maps.Keys(names)), f.failed(err)
}

func (f *oldRedis) accounts(ctx context.Context) (accounts []string, err error) {
	names, err := f.scan(ctx, f.prefix+":{*}:????")
	for _, name := range names {
		escaped, of, _ := strings.Cut(strings.TrimPrefix(name, f.prefix+":{"), "}:")
		account, bad := url.PathUnescape(escaped)
		if isOne := of == "meta" || of == "cool"; isOne && bad == nil && !slices.Contains(accounts, account) {
			accounts = append(accounts, account)
		}
	}
	return accounts, err
}

// logs returns the keys of an account's logs, by what callers call them.
func (f *oldRedis) logs(ctx context.Context, account string) (map[string]string, error) {
	base := f.base(account)
	logs := map[string]string{"": base + "log"}
	names, err := f.scan(ctx, base+"[kh]:*")
	for _, name := range names {
		kind, rest, _ := strings.Cut(strings.TrimPrefix(name, base), ":")
		if strings.Contains(rest, ":") {
			continue
		}
		key, bad := url.PathUnescape(rest)
		if kind == "h" { // without a name, it is not known: the first release has not noted it
			if long, err := f.client.Get(ctx, name+":name").Result(); err == nil {
				key = long
			}
		}
		if bad == nil {
			logs[key] = name
		}
	}
	return logs, err
}

func (f *oldRedis) entries(ctx context.Context, account string, yield func(*oldEntry)) error {
	meta, err := f.client.HGetAll(ctx, f.base(account)+"meta").Result()
	if err != nil {
		return f.failed(err)
	}
	logs, err := f.logs(ctx, account)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(logs)) {
		if err := f.entriesOf(ctx, key, logs[key], meta, yield); err != nil {
			return err
		}
	}
	return nil
}

// entriesOf reads one log.
func (f *oldRedis) entriesOf(ctx context.Context, key, list string, meta map[string]string,
	yield func(*oldEntry)) error {
	const page = 1000
	from, _ := strconv.ParseInt(meta["from"], 10, 64)
	for first := int64(0); ; first += page {
		records, err := f.client.LRange(ctx, list, first, first+page-1).Result()
		if err != nil {
			return f.failed(err)
		}
		for _, record := range records {
			e, label, ok := parseRecord(record)
			if !ok {
				return f.failed(fmt.Errorf("malformed record in %s", list))
			}
			if label == 0 { // it only has the newest timestamp of a log without entries
				continue
			}
			words := meta["l"+strconv.Itoa(int(label))]
			if e.stamp < from {
				words = ""
			}
			e.labels = parseLabel(words)
			e.labels.Key = key
			yield(e)
		}
		if len(records) < page {
			return nil
		}
	}
}

// parseRecord reads a record of a log: its timestamp, 7 bytes; a total, 6;
// units, 4, with the top bit set if it is not a plain call; the number of its
// label, 2; the client, 6; the sequence number, 4; and of a note or correction
// the calls, 4, and the kind, 1. Numbers are big-endian.
func parseRecord(packed string) (e *oldEntry, label uint16, ok bool) {
	const plain, adjustment = 29, 34 // bytes
	if len(packed) != plain && len(packed) != adjustment {
		return nil, 0, false
	}
	b := []byte(packed)
	amount := binary.BigEndian.Uint32(b[13:])
	e = &oldEntry{
		stamp: int64(binary.BigEndian.Uint64(b) >> 8),
		units: int64(amount & (1<<31 - 1)),
	}
	e.id = engine.ID{Client: binary.BigEndian.Uint64(b[17:]) & (1<<48 - 1),
		Seq: uint64(binary.BigEndian.Uint32(b[25:]))}
	switch {
	case amount < 1<<31:
		e.calls = 1
	case len(packed) == adjustment:
		e.kind, e.calls = oldKind(b[33]), int64(binary.BigEndian.Uint32(b[29:]))
	case e.units == 0:
		e.kind = oldRefunded
	default:
		e.kind = oldAddition
	}
	return e, binary.BigEndian.Uint16(b[17:]), true
}

// otherMethod is the method of an entry whose label is lost.
const otherMethod = "other"

// parseLabel reads a method, lane, job and region, each after a byte with its
// length.
func parseLabel(packed string) (l engine.Labels) {
	if packed == "" {
		l.Method = otherMethod
	}
	for _, word := range []*string{&l.Method, &l.Lane, &l.Job, &l.Region} {
		if packed == "" {
			break
		}
		end := min(int(packed[0])+1, len(packed))
		*word, packed = packed[1:end], packed[end:]
	}
	return l
}

// untilBytes is the size of the end of a cooldown.
const untilBytes = 7

func (f *oldRedis) cooldowns(ctx context.Context, account string) (all []oldCooldown, err error) {
	fields, err := f.client.HGetAll(ctx, f.base(account)+"cool").Result()
	for _, budget := range slices.Sorted(maps.Keys(fields)) {
		packed := fields[budget]
		if isLength := strings.HasPrefix(budget, "\x00"); isLength || len(packed) < untilBytes {
			continue
		}
		until := int64(binary.BigEndian.Uint64([]byte("\x00" + packed[:untilBytes])))
		all = append(all, oldCooldown{budget, until, packed[untilBytes:]})
	}
	return all, f.failed(err)
}

// closedFor is how long an account stays closed that no earlier release uses.
const closedFor = 90 * 24 * time.Hour

func (f *oldRedis) close(ctx context.Context, account string, move *oldCooldown) error {
	meta, cool := f.base(account)+"meta", f.base(account)+"cool"
	until := binary.BigEndian.AppendUint64(nil, uint64(move.until))[8-untilBytes:]
	// With another head, processes look for cooldowns and decide again.
	closing := func(tx *redis.Tx) error {
		known, err := tx.HMGet(ctx, meta, "head", "version").Result()
		if err != nil {
			return err
		}
		head, _ := known[0].(string)
		text, _ := known[1].(string)
		version, _ := strconv.ParseUint(text, 10, 64)
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, cool, "", string(until)+move.reason)
			p.HDel(ctx, cool, "\x00")
			p.PExpire(ctx, cool, closedFor)
			if len(head) >= 12 {
				number := binary.BigEndian.AppendUint32(nil, uint32(version+1))
				p.HSet(ctx, meta, "version", version+1, "head", head[:8]+string(number[1:])+"\x01")
			}
			return nil
		})
		return err
	}
	for range maxRaces {
		err := f.client.Watch(ctx, closing, meta)
		if !errors.Is(err, redis.TxFailedErr) {
			return f.failed(err)
		}
	}
	return f.failed(redis.TxFailedErr)
}

func (f *oldRedis) release() error { return nil }
