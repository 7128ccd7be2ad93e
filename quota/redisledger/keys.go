package redisledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// escape percent-encodes all but letters, digits, '.', '_', '-' and the bytes
// of more, so that a name cannot be taken for another part of a key.
func escape(s, more string) string {
	plain := func(c byte) bool {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			return true
		}
		return strings.IndexByte(more, c) >= 0
	}
	var b strings.Builder
	for i := range len(s) {
		if plain(s[i]) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

// names are the Redis keys of one log. Those of one account share a hash tag.
type names struct {
	meta, cooldowns string // of the account
	log             string
	named           string // holds the log's key if the names hold only its hash
}

const (
	longestName = 48 // bytes; longer keys are hashed
	nameSuffix  = ":name"
)

func (l *Ledger) names(account, key string) names {
	base := l.prefix + ":{" + escape(account, "") + "}:"
	n := names{meta: base + "meta", cooldowns: base + "cool", log: base + "log"}
	if key != "" {
		n.log = base + "k:" + escape(key, "")
		if len(key) > longestName {
			sum := sha256.Sum256([]byte(key))
			n.log = base + "h:" + hex.EncodeToString(sum[:16])
			n.named = n.log + nameSuffix
		}
	}
	return n
}

func (n names) source(id string) string { return n.log + ":" + id }

// meanwhile returns the key of what is settled while the log is restored.
func (n names) meanwhile() string { return n.log + ":s" }

// slot returns the key of a client's last batch on this log.
func (n names) slot(client uint64) string {
	var b [6]byte
	number(b[:0], int64(client), 6)
	return n.log + ":c" + hex.EncodeToString(b[:])
}

// number appends the low bytes of v, big-endian.
func number(b []byte, v int64, bytes int) []byte {
	for i := bytes - 1; i >= 0; i-- {
		b = append(b, byte(v>>(8*i)))
	}
	return b
}

// value is the reverse of number.
func value(b string) (v int64) {
	for i := range len(b) {
		v = v<<8 | int64(b[i])
	}
	return v
}

// label is what coverages select requests by and what entries show.
type label struct {
	method string
	caller quota.Caller
}

func (l label) pack() string {
	var b []byte
	for _, word := range []string{l.method, l.caller.Lane, l.caller.Job, l.caller.Region} {
		b = append(number(b, int64(len(word)), 1), word...)
	}
	return string(b)
}

// parseLabel unpacks a label. An unknown one is empty: there were too many, or
// the ledger lost them.
func parseLabel(packed string) (l label) {
	words := [4]string{0: quota.OtherMethod}
	for i := 0; i < len(words) && packed != ""; i++ {
		n := min(int(packed[0])+1, len(packed))
		words[i], packed = packed[1:n], packed[n:]
	}
	return label{words[0], quota.Caller{Lane: words[1], Job: words[2], Region: words[3]}}
}

// define packs a coverage, as coverages.lua reads it.
func define(c *quota.Coverage) string {
	b := []byte{byte(c.Measure)}
	for _, list := range [][]string{c.Methods, c.Except, c.Lanes, c.Regions} {
		b = number(b, int64(len(list)), 4)
		for _, word := range list {
			b = append(number(b, int64(len(word)), 4), word...)
		}
	}
	return string(b)
}

// parseDefinition is the reverse of define.
func parseDefinition(def string) (*quota.Coverage, error) {
	take := func(n int64) string {
		n = min(n, int64(len(def)))
		head := def[:n]
		def = def[n:]
		return head
	}
	c := quota.Coverage{Measure: quota.Measure(value(take(1)))}
	for _, list := range []*[]string{&c.Methods, &c.Except, &c.Lanes, &c.Regions} {
		for range min(value(take(4)), int64(len(def))/4) {
			*list = append(*list, take(value(take(4))))
		}
	}
	if def != "" {
		return nil, errMalformed
	}
	return quota.NewCoverage(c), nil
}
