package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawnRecord is a record at a place of a log; position 0 is one that carries
// its own time.
type drawnRecord struct {
	Record
	position uint64
}

const drawnClient = 7

// drawRecords draws a log: records in the order of their positions.
func drawRecords(t *rapid.T) []drawnRecord {
	count := rapid.IntRange(1, 40).Draw(t, "count")
	// Several settles of one grant that a clock record moves to one time have no
	// defined order; the larger one of those that arrive later counts.
	kinds := []Kind{KindGrant, KindGrant, KindGrant, KindSettle, KindSettle, KindVoid, KindNote, KindCooldown,
		KindClaim, KindLimit}
	if rapid.Bool().Draw(t, "clocks") {
		kinds = []Kind{KindGrant, KindGrant, KindGrant, KindClock, KindVoid, KindNote, KindCooldown, KindClaim,
			KindLimit}
	}
	at := int64(1000)
	var all []drawnRecord
	id := func(label string) ID { return ID{drawnClient, uint64(rapid.IntRange(1, count).Draw(t, label))} }
	for i := range count {
		at += rapid.Int64Range(1, 50).Draw(t, "pause")
		r := drawnRecord{Record{ID: ID{drawnClient, uint64(i + 1)}, At: at}, uint64(i + 1)}
		r.Kind = rapid.SampledFrom(kinds).Draw(t, "kind")
		r.Labels = Labels{Method: rapid.SampledFrom([]string{"list", "search"}).Draw(t, "method"),
			Region: rapid.SampledFrom([]string{"", "US", "IN"}).Draw(t, "region"),
			Key:    rapid.SampledFrom([]string{"", "acme", "zeta"}).Draw(t, "key")}
		r.Amounts = Amounts{Units: rapid.Int64Range(0, 9).Draw(t, "units"), Calls: r.Kind.defaultCalls()}
		if rapid.Bool().Draw(t, "more") {
			r.Amounts.More = []Amount{{"tokens", rapid.Int64Range(1, 99).Draw(t, "tokens")}}
		}
		switch r.Kind {
		case KindSettle, KindVoid:
			r.Ref = id("ref")
			r.Labels = Labels{}
		case KindCooldown, KindClaim, KindLimit:
			r.Name = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name")
			r.Until = at + rapid.Int64Range(-10, 500).Draw(t, "until")
		case KindClock:
			r.Value = at - rapid.Int64Range(0, 300).Draw(t, "above")
			r.Until, r.Labels, r.Amounts = r.Value, Labels{}, Amounts{}
			at = r.Value // the clock went back
		case KindGrant:
			if rapid.Bool().Draw(t, "lease") {
				r.Until = at + rapid.Int64Range(1, 400).Draw(t, "length")
			}
		}
		if (r.Kind == KindGrant || r.Kind == KindNote || r.Kind == KindVoid) &&
			rapid.IntRange(0, 4).Draw(t, "kept") == 0 {
			r.Kept, r.position = true, 0
		}
		all = append(all, r)
	}
	return all
}

// shuffled repeats some records and changes their order, but for clock records:
// what is before one in the log stays before it.
func shuffled(t *rapid.T, records []drawnRecord) []drawnRecord {
	var result, part []drawnRecord
	flush := func() {
		result = append(result, rapid.Permutation(part).Draw(t, "order")...)
		if len(result) > 0 && rapid.Bool().Draw(t, "repeat") {
			result = append(result, rapid.SampledFrom(result).Draw(t, "repeated"))
		}
		part = nil
	}
	for _, r := range records {
		if r.Kind == KindClock {
			flush()
			result = append(result, r)
			continue
		}
		part = append(part, r)
	}
	flush()
	return result
}

func foldOf(records []drawnRecord, isEarly bool, budgets []*Budget) *fold {
	f := newFold()
	if isEarly { // the series exist before the records arrive
		for _, b := range budgets {
			f.held(b, "acme", 0)
		}
	}
	for _, r := range records {
		record := r.Record
		f.record(&record, f.labelsOf(r.Labels.append(nil)), r.position)
	}
	return f
}

// reference recomputes what a window holds from the sorted set of records.
type reference struct{ records []drawnRecord }

func newReference(records []drawnRecord) *reference {
	byID := map[ID]drawnRecord{}
	for _, r := range records {
		byID[r.ID] = r
	}
	all := slices.SortedFunc(maps.Values(byID), func(a, b drawnRecord) int { return cmp.Compare(a.ID.Seq, b.ID.Seq) })
	for _, clock := range all {
		if clock.Kind != KindClock {
			continue
		}
		for i := range all {
			r := &all[i]
			if r.position != 0 && r.position < clock.position && r.At > clock.Value {
				if r.Until > r.At {
					r.Until -= r.At - clock.Until
				}
				r.At = clock.Until
			}
		}
	}
	return &reference{all}
}

// used adds up what counts in a budget at a time.
func (ref *reference) used(b *Budget, key string, now int64) (sum int64) {
	for _, r := range ref.records {
		isVoid := slices.ContainsFunc(ref.records,
			func(v drawnRecord) bool { return v.Kind == KindVoid && v.Ref == r.ID })
		if r.Kind != KindGrant && r.Kind != KindNote || isVoid || !b.Coverage.covers(&r.Labels) {
			continue
		}
		if b.Coverage.ByKey && r.Labels.Key != key {
			continue
		}
		amounts, settled := r.Amounts, int64(0)
		for _, s := range ref.records {
			if s.Kind == KindSettle && s.Ref == r.ID && (settled == 0 || s.At > settled ||
				s.At == settled) { // the ids rise
				amounts, settled = s.Amounts, s.At
			}
		}
		amount := amounts.Of(b.Coverage.Measure)
		switch b.Window.Kind {
		case InFlight:
			if r.Until > r.At && r.Until > now && settled == 0 {
				sum += amount
			}
		case Sliding:
			if r.At > now-b.Window.Length {
				sum += amount
			}
		}
	}
	return sum
}

func (ref *reference) latest(kind Kind, name, key string) (latest drawnRecord) {
	for _, r := range ref.records {
		isNamed := r.Kind == kind && r.Name == name && (kind != KindCooldown || r.Labels.Key == key)
		if isNamed && (latest.Kind == 0 || r.At > latest.At || r.At == latest.At && latest.ID.before(r.ID)) {
			latest = r
		}
	}
	return latest
}

// TestAFoldIsAFunctionOfItsRecords draws logs, changes the order of their
// records and repeats some, and compares what budgets hold with a reference
// that recomputes it from the sorted set.
func TestAFoldIsAFunctionOfItsRecords(t *testing.T) {
	budgets := []*Budget{
		{Name: "all", Limit: 100, Window: Window{Kind: Sliding, Length: 300}},
		{Name: "short", Limit: 100, Window: Window{Kind: Sliding, Length: 60},
			Coverage: Coverage{Methods: []string{"search"}}},
		{Name: "calls", Limit: 100, Window: Window{Kind: Sliding, Length: 200},
			Coverage: Coverage{Measure: MeasureCalls}},
		{Name: "tokens", Limit: 100, Window: Window{Kind: Sliding, Length: 200},
			Coverage: Coverage{Measure: "tokens", Except: []string{"list"}}},
		{Name: "key", Limit: 100, Window: Window{Kind: Sliding, Length: 500}, Coverage: Coverage{ByKey: true}},
		{Name: "flight", Limit: 100, Window: Window{Kind: InFlight, Length: 500},
			Coverage: Coverage{Measure: MeasureCalls}},
	}
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		ref := newReference(records)
		arrived := shuffled(t, records)
		for _, isEarly := range []bool{true, false} {
			f := foldOf(arrived, isEarly, budgets)
			for range 4 {
				now := rapid.Int64Range(900, 4000).Draw(t, "now")
				for _, b := range budgets {
					if got, want := f.held(b, "acme", now).Used, ref.used(b, "acme", now); got != want {
						t.Fatalf("%s holds %d at %d; want %d (early %v)\n%s", b.Name, got, now, want, isEarly,
							dump(arrived))
					}
				}
			}
			for _, name := range []string{"", "a", "b"} {
				if got, want := f.control.cooldowns[cooldownID{name, "acme"}],
					ref.latest(KindCooldown, name, "acme"); got.ID != want.ID || got.Until != want.Until {
					t.Fatalf("cooldown %q is %v; want %v", name, got, want)
				}
				records, want := f.control.claims[name], ref.latest(KindClaim, name, "")
				if len(records) > 0 && records[len(records)-1].ID != want.ID || len(records) == 0 && want.ID != (ID{}) {
					t.Fatalf("claim %q is %v; want %v", name, records, want)
				}
				if got, want := f.control.limits[limitID{name, ""}],
					ref.latest(KindLimit, name, ""); got.ID != want.ID {
					t.Fatalf("limit %q is %v; want %v", name, got, want)
				}
			}
		}
	})
}

func dump(records []drawnRecord) (text string) {
	for _, r := range records {
		text += fmt.Sprintf("%d %+v\n", r.position, r.Record)
	}
	return text
}

// TestRecordsSurvivePacking packs drawn records and reads them back.
func TestRecordsSurvivePacking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []*Record
		first := ID{drawnClient, 1}
		for _, r := range drawRecords(t) {
			kept := r.Record
			records = append(records, &kept)
		}
		got, err := Unpack(&Batch{Position: 1, At: 5000, Data: Pack(first, records)})
		if err != nil || len(got) != len(records) {
			t.Fatalf("%d records, %v; want %d", len(got), err, len(records))
		}
		stamp := int64(5000)
		for i := range got {
			want := *records[i]
			isEntry := want.Kind == KindGrant || want.Kind == KindNote
			if !want.Kept {
				want.At = max(5000, stamp-1)
			}
			if isEntry && !want.Kept {
				want.At = stamp
			}
			if isEntry {
				stamp++
			}
			if fmt.Sprintf("%+v", got[i]) != fmt.Sprintf("%+v", want) {
				t.Fatalf("read %+v; want %+v", got[i], want)
			}
		}
	})
}

// FuzzUnpack reads any bytes without panicking.
func FuzzUnpack(f *testing.F) {
	f.Add(Pack(ID{drawnClient, 1},
		[]*Record{{Kind: KindGrant, Labels: Labels{Method: "list"}, Amounts: Amounts{Units: 1, Calls: 1}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if records, err := Unpack(&Batch{Data: data}); err != nil && records != nil {
			t.Fatalf("%d records beside %v", len(records), err)
		}
	})
}
