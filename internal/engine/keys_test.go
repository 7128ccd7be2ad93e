package engine

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestKeysOfALimitAreReadAsWritten packs drawn limits of keys and unpacks them.
func TestKeysOfALimitAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &Budget{Keys: rapid.MapOf(rapid.String(), rapid.Int64Min(1)).Draw(t, "keys")}
		if unpacked := unpackKeys(b.packKeys()); !maps.Equal(unpacked, b.Keys) {
			t.Fatalf("%q reads %v; want %v", b.packKeys(), unpacked, b.Keys)
		}
	})
	if keys := unpackKeys(`"acme"5 and more`); keys != nil {
		t.Errorf("a text of another kind reads %v", keys)
	}
}

// TestAFoldForgetsTheKeysThatHaveLeft: labels and keys of trimmed entries do
// not stay, and those of the others are as before.
func TestAFoldForgetsTheKeysThatHaveLeft(t *testing.T) {
	const gone, kept = 5000, 100
	f, b := newFold(), &Budget{Name: "each", Coverage: Coverage{ByKey: true}, Limit: 10,
		Window: Window{Kind: Sliding, Length: 1_000_000}}
	add := func(n int, key string) {
		l := &Labels{Method: "list", Key: key}
		r := &Record{Kind: KindGrant, ID: ID{1, uint64(n + 1)}, At: int64(n+1) * 1000, Labels: *l,
			Amounts: Amounts{Units: 2, Calls: 1}}
		f.entry(r, f.numberOf(l), 1)
	}
	for n := range gone {
		add(n, fmt.Sprint("old ", n))
	}
	for n := range kept {
		add(gone+n, fmt.Sprint("new ", n))
	}
	now := int64(gone+kept) * 1000
	before := f.held(b, "new 7", now)
	f.trim(gone * 1000)
	f.trim(gone*1000 + 1)
	if len(f.labels) > kept+1 || len(f.labelIDs) != len(f.labels) || len(f.byKey) > kept+1 {
		t.Errorf("%d labels and %d keys are left; want %d", len(f.labels), len(f.byKey), kept)
	}
	if after := f.held(b, "new 7", now); after != before || after.Used != 2 {
		t.Errorf("it holds %+v; before, %+v", after, before)
	}
	add(gone+kept, "new 7")
	if held := f.held(b, "new 7", now+1000); held.Used != 4 {
		t.Errorf("it holds %+v after another call", held)
	}
}

// TestMetersOfKeysAreForgottenAlone: with more keys than meters, each decision
// is as with one key, and the meters of all calls stay.
func TestMetersOfKeysAreForgottenAlone(t *testing.T) {
	f := newFold()
	each := &Budget{Name: "each", Coverage: Coverage{ByKey: true}, Limit: 10,
		Window: Window{Kind: Sliding, Length: 1_000_000_000}}
	all := &Budget{Name: "all", Limit: 1_000_000, Window: each.Window}
	shared := f.meter(all, "")
	const keys = 3 * maxMeters
	for round := range 2 {
		for n := range keys {
			l := &Labels{Method: "list", Key: fmt.Sprint(n)}
			at := int64(round*keys + n + 1)
			f.entry(&Record{Kind: KindGrant, ID: ID{1, uint64(at)}, At: at, Labels: *l,
				Amounts: Amounts{Units: 1, Calls: 1}}, f.numberOf(l), 1)
			if held := f.held(each, l.Key, at); held.Used != int64(round+1) {
				t.Fatalf("key %d has %+v in round %d", n, held, round)
			}
		}
	}
	if f.meter(all, "") != shared || f.held(all, "", 2*keys).Used != 2*keys {
		t.Errorf("the meter of all calls was forgotten, or holds %+v", f.held(all, "", 2*keys))
	}
	if len(f.meters) > maxMeters {
		t.Errorf("%d meters", len(f.meters))
	}
}

// TestABucketIsFullForANewKey: a key whose first call comes long after the log
// was trimmed has what its bucket holds, less that call.
func TestABucketIsFullForANewKey(t *testing.T) {
	f := newFold()
	f.first, f.marks = 5, []batchMark{{5, 1_000_000}}
	b := &Budget{Name: "each", Coverage: Coverage{ByKey: true}, Limit: 20,
		Window: Window{Kind: Bucket, Restore: 1, Every: 1_000_000}}
	l := &Labels{Method: "list", Key: "new"}
	at := int64(500_000_000)
	f.entry(&Record{Kind: KindGrant, ID: ID{1, 1}, At: at, Labels: *l, Amounts: Amounts{Units: 1, Calls: 1}},
		f.numberOf(l), 6)
	if held := f.held(b, "new", at); held.Used != 1 {
		t.Errorf("its bucket lacks %d of 20; want 1", held.Used)
	}
}
